"""The container backend: its request as a value, and a real container where an engine answers."""

from __future__ import annotations

import io
import os
import re
import signal
import socket
import subprocess
import tarfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.contract.errors import UpstreamError
from agent.contract.sandbox import Purpose, SandboxSpec
from agent.sandbox.container import ContainerBackend, container_options
from agent.sandbox.probe import ProbeTargets, probe
from tests.unit.sandbox_rig import GID, UID, alive, helper, run, workspace

ENGINE = os.environ.get("AIRLOCK_TEST_DOCKER_SOCKET", "/var/run/docker.sock")
IMAGE = "airlock-test:tools"
PROGRAMS = "sh cat id env sleep setsid head tail tr seq ls touch grep yes dd rm ln mkdir".split()

needs_engine = pytest.mark.skipif(not os.path.exists(ENGINE), reason="no Docker engine")


def test_request_for_a_container() -> None:
    """The whole request: nothing of the host but the root and the readable folders, no network, no capability."""
    spec = SandboxSpec(Purpose.MAIN, "/w", readable=("/tools",), mounts=("/opt/sdk",), memory_mb=512, pids=100)
    own = "exec,mode=0700,uid=1001,gid=121,size=1024m"

    assert container_options(spec, image="node:22", uid=1001, gid=121, run="7-1-x") == {
        "Image": "node:22",
        "Entrypoint": ["/airlock/helper"],
        "Cmd": [],
        "User": "0:0",
        "Env": [],
        "WorkingDir": "/",
        "Hostname": "sandbox",
        "Labels": {"airlock.run": "7-1-x"},
        "AttachStdin": True,
        "AttachStdout": True,
        "AttachStderr": False,
        "OpenStdin": True,
        "StdinOnce": True,
        "Tty": False,
        "HostConfig": {
            "NetworkMode": "none",
            "Binds": ["/w:/w:rw", "/tools:/tools:ro"],
            "Mounts": [
                {"Type": "volume", "Target": "/airlock", "VolumeOptions": {"Labels": {"airlock.run": "7-1-x"}}},
                {"Type": "bind", "Source": "/opt/sdk", "Target": "/opt/sdk", "ReadOnly": True},
            ],
            "ReadonlyRootfs": True,
            "Tmpfs": {"/tmp": own, "/airlock-home": own},
            "CapDrop": ["ALL"],
            "CapAdd": ["SETUID", "SETGID", "KILL"],
            "SecurityOpt": ["no-new-privileges"],
            "PidsLimit": 108,
            "Memory": 512 << 20,
            "MemorySwap": 512 << 20,
            "CpuShares": 512,
            "ShmSize": 128 << 20,
            "IpcMode": "private",
            "Sysctls": {"net.ipv6.conf.all.disable_ipv6": "0"},
            "ExtraHosts": ["sandbox:127.0.0.1"],
            "LogConfig": {"Type": "none", "Config": {}},
            "RestartPolicy": {"Name": "no"},
            "AutoRemove": False,
        },
    }


def test_setup_container_differs_by_its_network_alone() -> None:
    """Setup is bridged; the rest of the request is the same."""
    specs = [SandboxSpec(Purpose.SETUP, "/w", network=network) for network in (True, False)]
    open_, shut = (container_options(s, image="i", uid=1, gid=1, run="r") for s in specs)
    host_open, host_shut = open_.pop("HostConfig"), shut.pop("HostConfig")

    assert open_ == shut
    assert {k for k in host_open if host_open[k] != host_shut[k]} == {"NetworkMode", "Sysctls"}


def test_no_engine_is_told_and_never_replaced(tmp_path: Path) -> None:
    """Without an engine the start fails in words."""
    backend = ContainerBackend(image="x", run="r", socket_path=str(tmp_path / "none.sock"), uid=UID, gid=GID)
    spec = SandboxSpec(Purpose.MAIN, str(workspace(tmp_path)))

    with pytest.raises(UpstreamError, match="start the sandbox's container"):
        backend.start(spec)


def _image() -> bytes:
    """A root file system of a few programs of this machine and the libraries they need."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        libraries: set[str] = set()
        for name in PROGRAMS:
            path = os.path.realpath(subprocess.check_output(["which", name], text=True).strip())
            libraries |= set(re.findall(r"(/\S+) \(", subprocess.check_output(["ldd", path], text=True)))
            archive.add(path, f"bin/{name}", recursive=False)
        for path in libraries:
            archive.add(os.path.realpath(path), path.lstrip("/"), recursive=False)
        for name in ("tmp", "etc", "proc", "dev"):
            folder = tarfile.TarInfo(name)
            folder.type, folder.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(folder)
    return packed.getvalue()


@pytest.fixture(scope="module")
def engine() -> Any:
    """A client of the engine that has the test's image."""
    import docker

    client = docker.APIClient(base_url=f"unix://{ENGINE}", version="auto")
    client.import_image_from_data(_image(), repository="airlock-test", tag="tools")
    return client


@pytest.fixture
def backend(engine: Any) -> Iterator[ContainerBackend]:
    """A backend of its own run; afterwards no container of it is left."""
    backend = ContainerBackend(
        image=IMAGE, run=f"test-{os.getpid()}", socket_path=ENGINE, helper=Path(helper("c")[0]), uid=UID, gid=GID
    )
    yield backend
    left = backend.remove_leftovers()
    assert left == 0


@pytest.mark.docker
@needs_engine
def test_commands_in_a_container(backend: ContainerBackend, tmp_path: Path) -> None:
    """Results, identity, lifetime and files are as in the process backend, with the image's own programs."""
    root = workspace(tmp_path)
    outside = tmp_path / "outside"
    outside.write_text("CANARY")
    session = backend.start(SandboxSpec(Purpose.MAIN, str(root), pids=64, file_mb=4))
    try:
        who = run(session, "id -u; echo err > /dev/stderr; echo made > f; exit 5")
        env = run(session, "env")
        files = run(
            session, f"cat {outside}; echo x > /etc/x; echo x > /bin/x; ls /airlock-home; touch ~/x /tmp/x && echo own"
        )
        mark = str(20_000_000 + os.getpid())
        daemon = run(session, f"sleep {mark} & setsid sleep {mark} & echo started")
        late = run(session, f"sleep {mark}", timeout_s=0.3)
        bomb = run(session, "b() { b | b & }; b; sleep 1; echo bombed", timeout_s=8)
        kill = run(session, "kill -9 $PPID; kill -9 1; kill -9 -1; echo x")
        big = run(session, "dd if=/dev/zero of=big bs=1M count=100 2>/dev/null")
        after = run(session, "echo next")
    finally:
        session.close()

    assert (who.stdout, who.stderr, who.exit_code) == (f"{UID}\n".encode(), b"err\n", 5)
    assert {line.split("=")[0] for line in env.stdout.decode().split()} == {
        "PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "SHELL", "USER", "PWD", "CI", "BUN_INSTALL", "XDG_CACHE_HOME",
    }  # fmt: skip
    assert (root / "f").read_text() == "made\n"
    assert files.stdout == b"own\n"
    assert (daemon.stdout, daemon.survivors) == (b"started\n", 2)
    assert (late.timed_out, late.signal) == (True, signal.SIGKILL)
    assert alive(mark) == []
    assert bomb.survivors < 200
    assert b"ermitted" in kill.stderr
    assert (root / "big").stat().st_size <= 4 << 20
    assert not big.ok
    assert after.stdout == b"next\n"


@pytest.mark.docker
@needs_engine
def test_a_gate_in_a_container_stands_where_the_workspace_stands(backend: ContainerBackend, tmp_path: Path) -> None:
    """The gate's folder is mounted at the workspace's path, its protected paths with it; the workspace is not there."""
    gates = tmp_path / "gates"
    gates.mkdir()
    root, gate = workspace(tmp_path), workspace(gates)
    for folder, words in ((root, "of the model"), (gate, "of the change")):
        (folder / "f").write_text(f"{words}\n")
    (gate / "Makefile").write_text("as it was\n")
    spec = SandboxSpec(Purpose.STOP, str(gate), protected=("Makefile",)).shown_at(str(root))
    session = backend.start(spec)
    try:
        seen = run(session, f"pwd; echo $PWD; cat {root}/f; echo x > made; echo x > Makefile; ls {gate}")
    finally:
        session.close()

    assert seen.stdout == f"{root}\n{root}\nof the change\n".encode()
    assert b"Read-only file system" in seen.stderr
    assert (gate / "made").exists()
    assert not (root / "made").exists()
    assert (gate / "Makefile").read_text() == "as it was\n"


@pytest.mark.docker
@needs_engine
def test_probe_of_a_container(backend: ContainerBackend, tmp_path: Path) -> None:
    """Listeners, files and processes of the host are out of reach; loopback works."""
    path = str(tmp_path / "docker.sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        os.chmod(path, 0o666)
        root = workspace(tmp_path)
        session = backend.start(SandboxSpec(Purpose.MAIN, str(root)))
        targets = ProbeTargets((str(tmp_path), "/root"), (str(tmp_path),), (os.getpid(), 1), (path, ENGINE))
        report = probe(session, str(root), targets, backend="container")
        session.close()

    assert [i for i in report.items if not i.held] == []
    assert (report.ok, report.loopback, report.backend) == (True, True, "container")


@pytest.mark.docker
@needs_engine
def test_closing_ends_the_container_during_a_command(backend: ContainerBackend, engine: Any, tmp_path: Path) -> None:
    """When the trusted side goes, the helper goes, and with it the container and all in it."""
    mark = str(30_000_000 + os.getpid())
    session = backend.start(SandboxSpec(Purpose.MAIN, str(workspace(tmp_path))))
    failures: list[Exception] = []

    def wait() -> None:
        try:
            run(session, f"sleep {mark}")
        except UpstreamError as exc:
            failures.append(exc)

    thread = threading.Thread(target=wait)
    thread.start()
    while not alive(mark):
        assert thread.is_alive()
        time.sleep(0.01)
    session.close()
    thread.join(10)

    assert [type(f) for f in failures] == [UpstreamError]
    assert alive(mark) == []
