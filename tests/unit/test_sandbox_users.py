"""The process backend as others start it: a normal user (laptop, Kubernetes), and root without CAP_SYS_ADMIN."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.contract.sandbox import UNPRIVILEGED, unprivileged
from agent.kernel.landlock import landlock_abi
from tests.unit.sandbox_rig import GID, ROOT, UID, helper, workspace

pytestmark = pytest.mark.skipif(landlock_abi() < 6, reason="needs Landlock ABI 6")

REPOSITORY = Path(__file__).resolve().parents[2]
STANDIN = f"import sys; sys.path.insert(0, {str(REPOSITORY)!r}); from agent.sandbox.helper import main; main()"
CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_KILL, CAP_SETGID, CAP_SETUID = 0, 1, 5, 6, 7
COMMANDS = [
    "id -u; id -g",
    "cat /root/.bashrc; ls /home; ls /root",
    "echo made > f && cat f && ln f g && mkdir d && mv g d/ && ls d",
    "grep -E '^(CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status | tr -d '\\t'",
    "unshare -Ur true; unshare -n true; mount -t tmpfs x /tmp; chroot / true; su -c id; echo tried",
    "(setsid sleep 987654 &) ; kill -9 $PPID; kill -9 -1; echo over",
    "b() { b | b & }; b; sleep 0.5; echo bombed",
    "echo next",
]


def started_by(
    path: Path, kind: str, level: str | None, plant: Callable[[Path], None] | None = None, **more: Any
) -> dict[str, Any]:
    """Run the child and return what it saw; `plant` puts files into the workspace before."""
    root = workspace(path)
    if plant is not None:
        plant(root)
    if kind == "c":
        own = path / "helper"  # the cached one lies where another uid cannot go
        shutil.copy(helper("c")[0], own)
        own.chmod(0o755)
        argv = [str(own)]
    else:
        python = "/usr/bin/python3" if ROOT else sys.executable
        argv = [python, "-I", "-S", "-c", STANDIN]
    outside = path / "state"  # of the same user, below the same parent as the workspace
    outside.mkdir()
    (outside / "file").write_text("state")
    for item in (outside, outside / "file"):
        os.chown(item, UID, GID)
    settings = {
        "outside": str(outside),
        "uid": UID, "gid": GID, "helper": argv, "levels": [level] if level else None,
        "root": str(root), "commands": COMMANDS, "pids": 64, **more,
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "tests.unit.sandbox_child", json.dumps(settings)],
        cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert [p.name for p in outside.iterdir()] == ["file"]
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def check(told: dict[str, Any]) -> None:
    """What holds for every user, helper and level."""
    user, read, files, status, escalate, kill, bomb, after = told["results"]
    assert user[1] == f"{UID}\n{GID}\n"
    assert (read[0], read[1]) == (2, "")
    assert (files[0], files[1]) == (0, "made\ng\n")
    assert status[1].splitlines()[0] == "CapEff:0000000000000000"
    assert status[1].splitlines()[2:] == ["NoNewPrivs:1", "Seccomp:2"]
    assert (escalate[0], escalate[1]) == (0, "tried\n")
    assert kill[0] in (0, None)
    assert bomb[1] in ("bombed\n", "")
    assert after == [0, "next\n", ""]
    assert [i for i in told["report"]["items"] if not i["held"]] == []
    assert told["report"]["ok"]


@pytest.mark.parametrize("kind", ["c", "python"])
@pytest.mark.parametrize("level", ["root", "net", "bare"])
def test_normal_user(tmp_path: Path, kind: str, level: str) -> None:
    """Started without root, commands have the starter's uid, and still reach neither it nor anything outside."""
    told = started_by(tmp_path, kind, level)

    assert told["as"] == [UID, GID]
    assert told["level"] == f"{level}-none"
    check(told)
    assert told["report"]["loopback"] == (level != "bare")


@pytest.mark.parametrize("level", ["root", "bare"])
def test_what_proc_shows(tmp_path: Path, level: str) -> None:
    """Where a process namespace can be made the names of other processes are out of sight; else they are in sight."""
    line = f"for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline; echo; done 2>/dev/null | grep -c {os.getpid()}-seen"
    with subprocess.Popen(["sh", "-c", f"read x; : {os.getpid()}-seen"], stdin=subprocess.PIPE) as other:
        told = started_by(tmp_path, "c", level, commands=[line.replace("-seen", "[-]seen")])
        other.kill()

    assert told["level"] == f"{level}-none"
    assert told["results"][0][1] == ("0\n" if level == "root" else "1\n")


@pytest.mark.root
@pytest.mark.skipif(not ROOT, reason="needs root to give capabilities up")
@pytest.mark.parametrize("kind", ["c", "python"])
def test_root_in_a_default_container(tmp_path: Path, kind: str) -> None:
    """Without CAP_SYS_ADMIN no namespace can be made: the level is `bare`, said in words, and all holds."""
    kept = [CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_KILL, CAP_SETGID, CAP_SETUID]
    told = started_by(tmp_path, kind, None, capabilities=kept)

    assert told["as"] == [0, 0]
    assert told["level"] == "bare-none"
    assert [level for level, _reason in told["notes"]] == ["root-none", "net-none"]
    assert told["report"]["missing"] == [
        "no own root folder, process, network and ipc namespaces (make namespaces: Operation not permitted)",
        "no own network namespace (make namespaces: Operation not permitted)",
        "protected paths can be written by commands (commit and push refuse the change)",
        "gates run at a path of their own, where scripts that name the workspace's are not found",
        "no loopback: every socket family is refused",
    ]
    check(told)
    assert os.stat(tmp_path / "ws" / "f").st_uid == UID


@pytest.mark.parametrize(
    ("owner", "who"),
    [
        ((1001, 121), (1001, 121)),
        ((1001, 0), (1001, 1001)),  # root's group reads what root keeps from others
        ((0, 0), (UNPRIVILEGED, UNPRIVILEGED)),
        ((0, 1001), (UNPRIVILEGED, UNPRIVILEGED)),
    ],
)
def test_commands_run_as_the_workspaces_owner_and_never_as_user_or_group_root(
    owner: tuple[int, int], who: tuple[int, int]
) -> None:
    """Where the runner is root."""
    assert unprivileged(*owner) == who
