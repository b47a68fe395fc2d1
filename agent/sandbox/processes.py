"""Watching and ending the process tree below the stand-in helper. The C helper does the same."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from agent.sandbox.protocol import KILLED_DISK, KILLED_MEMORY, KILLED_NOT, KILLED_PIDS

_PAGE = os.sysconf("SC_PAGE_SIZE")


def _read(path: str) -> bytes:
    """A file of /proc. No text mode: its codec would be imported from files that are out of sight."""
    fd = os.open(path, os.O_RDONLY)
    try:
        return os.read(fd, 1 << 16)
    finally:
        os.close(fd)


def descendants(pid: int, depth: int = 0) -> Iterator[int]:
    """Every descendant of a process; the kernel lists children per thread."""
    with suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task") if depth < 256 else ():
            for child in map(int, _read(f"/proc/{pid}/task/{task}/children").split()):
                yield child
                yield from descendants(child, depth + 1)


def _strike(pids: list[int], number: signal.Signals) -> int:
    struck = 0
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
            struck += 1
    return struck


def sweep(*, own_processes: bool) -> int:
    """Kill whatever is left below this process and reap it; returns how many were still alive.

    Args:
        own_processes: this is PID 1 of a namespace, so one signal reaches all at once.
    """
    killed = 0
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass  # ended by themselves: not survivors
    except ChildProcessError:
        return 0  # no child at all, so no descendant
    give_up = time.monotonic() + 5
    while time.monotonic() < give_up:
        if own_processes:
            with suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)
        else:
            # Stopping first: a bomb at its process limit gets no free slot to fork into.
            before = -1
            for _round in range(20):
                stopped = _strike(list(descendants(os.getpid())), signal.SIGSTOP)
                if stopped == before:
                    break
                before = stopped
            _strike(list(descendants(os.getpid())), signal.SIGKILL)
        try:
            for _spin in range(200):
                pid, status = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    time.sleep(0.0002)
                elif os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
                    killed += 1
        except ChildProcessError:
            return killed
    return killed  # stuck in the kernel: it stays ours and is tried again


def room(fd: int, reserve: int) -> tuple[bool, int, int]:
    """Whether a folder's disk is short, and the bytes and files free on it.

    Args:
        reserve: bytes to keep free, or a twentieth of the disk where that is less.
    """
    disk = os.fstatvfs(fd)
    left = disk.f_bavail * disk.f_frsize
    short = left < min(reserve, disk.f_blocks * disk.f_frsize // 20)
    return short or bool(disk.f_files and disk.f_favail < disk.f_files // 20), left, disk.f_favail


def memory() -> tuple[int, int, int]:
    """The machine's memory: in all, available, and shared, in bytes.

    Shared memory belongs to no process (files in memory, segments by number), so what a command takes of it shows
    here alone.
    """
    fields = dict(line.split(b":", 1) for line in _read("/proc/meminfo").splitlines() if b":" in line)
    total, available, shared = (int(fields[name].split()[0]) << 10 for name in (b"MemTotal", b"MemAvailable", b"Shmem"))
    return total, available, shared


class Before(NamedTuple):
    """How the machine was when a command began: what was short then is not its fault, unless it takes still more.

    Attributes:
        disks: `room` of each.
        memory: as `memory` has it.
    """

    disks: tuple[tuple[bool, int, int], ...]
    memory: tuple[int, int, int]

    @classmethod
    def now(cls, disks: tuple[int, ...], reserve: int) -> Before:
        return cls(tuple(room(fd, reserve) for fd in disks), memory())


def watch(caps: dict[str, int], disks: tuple[int, ...], before: Before) -> int:
    """Why the running command must be killed, or `KILLED_NOT`.

    Args:
        caps: memory, pids, reserve and growth as in the plan; 0 is no cap.
        disks: descriptors of the writable root and of TMPDIR.
    """
    total, available, shared = memory()
    processes, resident = 0, max(0, shared - before.memory[2])
    for pid in descendants(os.getpid()):
        processes += 1
        with suppress(OSError, ValueError):
            fields = _read(f"/proc/{pid}/statm").split()
            resident += (int(fields[1]) - int(fields[2])) * _PAGE
    if caps["memory"] and resident > caps["memory"]:
        return KILLED_MEMORY
    # what earlier commands left in memory stays, so the machine's last twentieth is kept free as a disk's is
    if caps["memory"] and available < total // 20 and available < before.memory[1]:
        return KILLED_MEMORY
    if caps["pids"] and processes > caps["pids"]:
        return KILLED_PIDS
    for fd, (_short, bytes_before, files_before) in zip(disks, before.disks, strict=True):
        short, left, files = room(fd, caps["reserve"])
        if short and (left < bytes_before or files < files_before):
            return KILLED_DISK
        if caps["growth"] and bytes_before - left > caps["growth"]:
            return KILLED_DISK
    return KILLED_NOT
