"""Namespaces and the new root, for the Python stand-in of the helper. The C helper does the same.

Everything here runs once, before any command exists, in a process that has imported all it will need: after
`enter_root` the interpreter's own files are out of sight.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import socket
import struct

from agent.kernel.prctl import failed, libc
from agent.kernel.seccomp import number

_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 1, 2, 4, 8
_MS_BIND, _MS_REC, _MS_PRIVATE = 0x1000, 0x4000, 0x40000
_MNT_DETACH = 2
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_NEWNS, _NEWIPC, _NEWUSER, _NEWPID, _NEWNET = 0x20000, 0x8000000, 0x10000000, 0x20000000, 0x40000000
_SIOCSIFFLAGS, _IFF_UP_RUNNING = 0x8914, 0x41

# Keeps the interpreter's lock over the call: the child of a bare clone has this one thread and nothing else.
_locked = ctypes.PyDLL(None, use_errno=True)
_locked.syscall.restype = ctypes.c_long


def clone_like_fork(level: str, processor: str) -> int:
    """Fork into the new namespaces of a level; returns 0 in the child, as fork does.

    Raises:
        ConfinementError: the kernel refused.
    """
    form, network = level.split("-")
    flags = int(signal.SIGCHLD)
    if form == "root":
        flags |= _NEWNS | _NEWPID | _NEWIPC
    if form != "bare" and network == "none":
        flags |= _NEWNET
    if form != "bare" and os.geteuid() != 0:
        flags |= _NEWUSER
    clone = number("clone", processor)
    zero = ctypes.c_long(0)
    pid = _locked.syscall(ctypes.c_long(clone or 0), ctypes.c_long(flags), zero, zero, zero, zero)
    if pid < 0:
        raise failed("make namespaces")
    return int(pid)


def map_user(uid: int, gid: int) -> None:
    """In a new user namespace: keep the same ids, alone. The process is dumpable while it does this."""
    libc.prctl(4, 1, 0, 0, 0)  # the maps belong to root while hidden; no command exists yet
    try:
        for name, text in (("setgroups", "deny"), ("gid_map", f"{gid} {gid} 1"), ("uid_map", f"{uid} {uid} 1")):
            fd = os.open(f"/proc/self/{name}", os.O_WRONLY)
            try:
                os.write(fd, text.encode())
            finally:
                os.close(fd)
    finally:
        libc.prctl(4, 0, 0, 0, 0)


def loopback_up() -> None:
    """Bring up `lo` of a new network namespace: 127.0.0.1 and ::1."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        fcntl.ioctl(sock, _SIOCSIFFLAGS, struct.pack("16sH22x", b"lo", _IFF_UP_RUNNING))


def _mount(source: str | None, target: str, kind: str | None, flags: int, options: str | None = None) -> None:
    encoded = [None if t is None else os.fsencode(t) for t in (source, target, kind)]
    data = None if options is None else os.fsencode(options)
    if libc.mount(*encoded, ctypes.c_ulong(flags), data) != 0:
        raise failed(f"mount on {target}")


def _protect(target: str, flags: int, at_flags: int = _AT_RECURSIVE) -> None:
    attributes = (ctypes.c_uint64 * 4)(flags, 0, 0, 0)
    arguments = (ctypes.c_int(_AT_FDCWD), os.fsencode(target), ctypes.c_uint(at_flags))
    call = ctypes.c_long(442)  # mount_setattr, the same on both processors
    if libc.syscall(call, *arguments, ctypes.byref(attributes), ctypes.c_size_t(32)) != 0:
        raise failed(f"protect {target}")


def _add(stage: str, kind: str, source: str, inside: str) -> None:
    target = stage + inside
    os.makedirs(os.path.dirname(target), mode=0o755, exist_ok=True)
    if kind == "link":
        os.symlink(source, target)
        return
    bind = kind in ("ro", "rw", "dev")
    if bind and not os.path.exists(source):
        return  # absent: not shown
    if bind and not os.path.isdir(source):
        if not os.path.exists(target):  # else it goes over a file of a mount that is there already
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
    else:
        os.makedirs(target, mode=0o755, exist_ok=True)
    if bind:
        _mount(source, target, None, _MS_BIND | _MS_REC)
        rights = {"ro": _MS_RDONLY | _MS_NOSUID, "rw": _MS_NOSUID | _MS_NODEV, "dev": _MS_NOSUID}
        _protect(target, rights[kind])
    elif kind == "proc":
        _mount("proc", target, "proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)
    elif kind == "tmpfs":
        _mount("tmpfs", target, "tmpfs", _MS_NOSUID | _MS_NODEV, source)
    elif kind == "devpts":
        _mount("devpts", target, "devpts", _MS_NOSUID | _MS_NOEXEC, source)


def enter_root(stage: str, mounts: list[tuple[str, str, str]]) -> None:
    """Make the plan's mounts the whole file tree of this process.

    Raises:
        ConfinementError, OSError: the kernel refused; the process must end, its tree is half made.
    """
    _mount(None, "/", None, _MS_REC | _MS_PRIVATE)
    _mount("tmpfs", stage, "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=755")
    for kind, source, target in mounts:
        _add(stage, kind, source, target)
    os.chdir(stage)
    pivot = ctypes.c_long(number("pivot_root", os.uname().machine) or 0)
    if libc.syscall(pivot, b".", b".") != 0:  # the old root lies on top of the new one
        raise failed("pivot root")
    if libc.umount2(b".", _MNT_DETACH) != 0:
        raise failed("leave old root")
    os.chdir("/")
    _protect("/", _MS_RDONLY, 0)
