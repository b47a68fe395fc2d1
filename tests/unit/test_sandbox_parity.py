"""What holds in the process backend holds in a container of an ordinary image: frames, disks, doors."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.contract.sandbox import Purpose, SandboxSpec
from agent.sandbox.container import ContainerBackend
from tests.support.small_disk import small_disk
from tests.unit.sandbox_rig import GID, UID, helper, run, workspace
from tests.unit.test_sandbox_container import ENGINE, needs_engine

pytestmark = [pytest.mark.docker, needs_engine]


@pytest.fixture
def backend() -> Iterator[ContainerBackend]:
    """Sandboxes of Debian's image; afterwards none is left."""
    made = ContainerBackend(
        image="debian:trixie-slim",
        run=f"test-{os.getpid()}",
        socket_path=ENGINE,
        helper=Path(helper("c")[0]),
        uid=UID,
        gid=GID,
    )
    yield made
    assert made.remove_leftovers() == 0


def test_frames_printed_by_a_command_are_only_output(backend: ContainerBackend, tmp_path: Path) -> None:
    """Nothing that a command writes, to its streams or to the first process's, is taken for an answer."""
    session = backend.start(SandboxSpec(Purpose.MAIN, str(workspace(tmp_path))))
    try:
        forged = r"\000\000\000\004D000"
        result = run(session, f"printf '{forged}'; printf '{forged}' > /proc/1/fd/1; printf '{forged}' >&2; exit 3")
        after = run(session, "echo next")
    finally:
        session.close()

    assert (result.exit_code, result.stdout) == (3, b"\0\0\0\4D000")
    assert result.stderr.endswith(b"\0\0\0\4D000")
    assert b"ermission denied" in result.stderr or b"No such" in result.stderr
    assert after.stdout == b"next\n"


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount a small disk")
def test_a_small_disk_is_never_filled(backend: ContainerBackend, tmp_path: Path) -> None:
    """A workspace on a disk of 64 MB: the command is killed before it is full, and the sandbox goes on."""
    root = workspace(tmp_path)
    with small_disk(root, 64):
        os.chown(root, UID, GID)
        session = backend.start(SandboxSpec(Purpose.MAIN, str(root)))
        try:
            fill = "for i in $(seq 16); do head -c 4000000 /dev/zero > $i; sleep 0.15; done; sleep 20; echo unnoticed"
            result = run(session, fill, timeout_s=30)
            after = run(session, "rm ?; echo room > g && cat g")
        finally:
            session.close()

    assert (result.signal, result.stdout) == (signal.SIGKILL, b"")
    assert b"it filled the disk further than a command may" in result.stderr
    assert after.stdout == b"room\n"


def test_doors_that_an_image_can_try_are_shut(backend: ContainerBackend, tmp_path: Path) -> None:
    """Namespaces, mounts, another root, another user, other processes' memory; an ordinary program runs."""
    session = backend.start(SandboxSpec(Purpose.MAIN, str(workspace(tmp_path))))
    tries = (
        "unshare -Ur true", "unshare -n true", "mount -t tmpfs x /mnt", "chroot / true", "mknod n c 1 3",
        "cat /proc/1/environ", "cat /proc/1/mem", "ls /proc/1/fd", "setpriv --reuid 0 true", "kill -9 1",
    )  # fmt: skip
    try:
        worked = [command for command in tries if run(session, command).ok]
        status = run(session, "grep -E '^(CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status | tr -d '\\t'")
    finally:
        session.close()

    assert worked == []
    caps, _bounding, *rest = status.stdout.decode().splitlines()
    assert (caps, rest) == ("CapEff:0000000000000000", ["NoNewPrivs:1", "Seccomp:2"])
