"""Starting and reaping the stages of entrypoint.py, by posix_spawn: never a fork of a process with threads."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

ENTRYPOINT = str(Path(__file__).resolve().parent.parent / "entrypoint.py")


def memory(data: bytes) -> int:
    """A descriptor to read `data` from."""
    fd = os.memfd_create("airlock", 0)
    os.write(fd, data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def spawn(stage: str, fds: list[int], *, silent: bool = False) -> int:
    """Start a stage of entrypoint.py with these descriptors and no environment to speak of.

    Args:
        silent: its standard streams lead nowhere: what the harness prints, the runner would obey (R15).
    """
    for fd in fds:
        os.set_inheritable(fd, True)
    arguments = [sys.executable, "-I", "-B", ENTRYPOINT, stage, *map(str, fds)]
    environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}
    streams = (0, 1, 2) if silent else (0,)
    nowhere = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in streams]
    pid = os.posix_spawn(sys.executable, arguments, environment, file_actions=nowhere, setsid=True)
    for fd in fds:
        os.set_inheritable(fd, False)
    return pid


def reap_for(seconds: float) -> None:
    """Wait for children that were just killed, so that none is left when we exit."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            time.sleep(0.005)
