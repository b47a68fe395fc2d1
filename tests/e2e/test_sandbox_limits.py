"""`docker inspect` of a sandbox of a real run, and what a command sees of it from inside."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import docker
from tests.e2e.job import composite
from tests.support.model_server import ModelServer
from tests.support.model_turns import Call, Turn
from tests.support.scenario import CONFIG, RUN_ID, World

LOOPBACK = (
    "import socket\n"
    "for name in ('::1', '127.0.0.1', 'localhost', 'sandbox'):\n"
    "    family = socket.AF_INET6 if name == '::1' else socket.AF_INET\n"
    "    server = socket.create_server((name, 0), family=family)\n"
    "    socket.create_connection(server.getsockname()[:2]).close()\n"
    "    print('loopback', name)\n"
)
INSIDE = (
    "id -u; id -G; grep -c :$(id -u): /etc/passwd; echo user=$USER home=$HOME; ls /sys/class/net; hostname; "
    "grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status; python3 -c \"$LOOPBACK\"; cat \"$SHOWN/note\"; "
    "touch \"$SHOWN/new\" /etc/new /usr/new; tr '\\0' '\\n' < /proc/1/environ"
)  # fmt: skip


def config(shown: Path) -> str:
    """A configuration that shows one folder of the runner to commands."""
    sandbox = {
        "mounts": [str(shown)],
        "memory": "768m",
        "pids": 300,
        "env": {"LOOPBACK": LOOPBACK, "SHOWN": str(shown)},
    }
    return CONFIG.replace("  agent:\n", f"  agent:\n    sandbox: {json.dumps(sandbox)}\n")


@pytest.fixture
def shown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of the runner, such as an SDK that its image brings; it lies apart from the job's own folders."""
    folder = tmp_path_factory.mktemp("sdk")
    (folder / "note").write_text("from the runner\n")
    os.chmod(folder, 0o777)  # only the mount may be what keeps it from being written
    return folder


def test_a_sandbox_of_a_run_holds_its_limits(make: Callable[..., World], image: str, gateway: str, shown: Path) -> None:
    """The engine's own account of the container, whole; then identity, capabilities and loopback as a command sees."""
    world = make(config=config(shown))
    work = str(world.workspace)
    event = world.github.event("workflow_run", world.repository, run=RUN_ID)
    seen: list[dict[str, Any]] = []

    def look(_: object) -> Turn:
        if not seen:
            numbers = docker("ps", "--quiet", "--filter", "label=airlock.run").split()
            seen.extend(
                about
                for about in json.loads(docker("inspect", *numbers))
                if about["Config"]["Hostname"] == "sandbox" and work in {m["Destination"] for m in about["Mounts"]}
            )
            return Turn(calls=[Call("run_command", {"command": INSIDE})])
        return Turn(text="Looked.")

    with ModelServer(look, host=gateway) as model:
        result = composite(world, "workflow_run", event, model, sandbox="container").run()

    (container,) = seen or [pytest.fail(result.log)]
    host = container["HostConfig"]
    host["CapAdd"] = sorted(name.removeprefix("CAP_") for name in host["CapAdd"])
    wanted = {
        "NetworkMode": "none",
        "ReadonlyRootfs": True,
        "Privileged": False,
        "CapAdd": ["KILL", "SETGID", "SETUID"],
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges"],
        "PidsLimit": 308,
        "Memory": 768 << 20,
        "MemorySwap": 768 << 20,
        "CpuShares": 512,
        "IpcMode": "private",
        "PidMode": "",
        "UTSMode": "",
        "UsernsMode": "",
        "PortBindings": {},
        "Devices": [],
        "GroupAdd": None,
        "Tmpfs": dict.fromkeys(("/tmp", "/airlock-home"), "exec,mode=0700,uid=1001,gid=1001,size=1024m"),
        "Sysctls": {"net.ipv6.conf.all.disable_ipv6": "0"},
    }
    assert {name: host.get(name) or type(value)() if value in ({}, [], "") else host.get(name)
            for name, value in wanted.items()} == wanted  # fmt: skip
    assert container["Config"]["User"] == "0:0", "the helper's; commands get the owner's"
    assert container["Args"] == []
    assert [v for v in container["Config"]["Env"] if not v.startswith("PATH=")] == []
    assert [s for s in (world.token, world.api_key, "docker.sock") if s in json.dumps(container)] == []
    places = {(m["Destination"], m["RW"]) for m in container["Mounts"] if not m["Destination"].startswith(f"{work}/")}
    assert places == {(work, True), ("/airlock-git/objects", False), ("/airlock", True), (str(shown), False)}

    said = result.events("tool.result")[0]["text"].splitlines()
    none = "0" * 16
    for line in (
        "1001",
        "0",
        "user=airlock home=/airlock-home",
        "lo",
        "sandbox",
        *(f"Cap{name}:\t{none}" for name in ("Inh", "Prm", "Eff", "Amb")),
        "CapBnd:\t00000000000000e0",  # the helper's own three, out of reach by NoNewPrivs
        "NoNewPrivs:\t1",
        "Seccomp:\t2",
        *(f"loopback {name}" for name in ("::1", "127.0.0.1", "localhost", "sandbox")),
        "from the runner",
    ):
        assert line in said, result.log
    assert sum("Read-only file system" in line or "Permission denied" in line for line in said) == 4
    assert sorted(path.name for path in shown.iterdir()) == ["note"]


@pytest.mark.parametrize(
    ("sandbox", "folder", "status", "sentence"),
    [
        ("container", "/var/run", 1, "`ai.agent.sandbox.mounts` names /var/run, which is closed to commands."),
        ("container", "/opt/no-such-sdk", 4, "bind source path does not exist: /opt/no-such-sdk"),
        ("process", "/opt/no-such-sdk", 4, "the mount /opt/no-such-sdk is no folder here"),
    ],
)
def test_a_mount_that_may_not_be_or_is_not_there_ends_the_run_in_words(
    make: Callable[..., World], image: str, gateway: str, sandbox: str, folder: str, status: int, sentence: str
) -> None:
    """No command runs and no model is asked; a folder that is missing is not made on the runner."""
    world = make(config=config(Path(folder)))
    event = world.github.event("workflow_run", world.repository, run=RUN_ID)
    with ModelServer([Turn(text="never")], host=gateway) as model:
        result = composite(world, "workflow_run", event, model, sandbox=sandbox).run()
        requests = model.requests

    assert (result.exit_status, requests) == (status, []), result.log
    assert sentence in result.log
    assert sentence in result.summary
    assert not Path("/opt/no-such-sdk").exists()
