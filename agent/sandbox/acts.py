"""The probe's acts for the Python stand-in: each returns an errno, 0 where the act worked."""

from __future__ import annotations

import ctypes
import errno
import os
import select
import socket
from contextlib import suppress

from agent.kernel.prctl import libc

_PTRACE_SEIZE = 0x4206


def _connect(family: int, address: tuple[str, int] | str, kind: int) -> int:
    with socket.socket(family, kind) as sock:
        sock.setblocking(False)
        if kind == socket.SOCK_DGRAM:
            sock.sendto(b"x", address)
            return 0
        code = sock.connect_ex(address)
        if code != errno.EINPROGRESS:
            return code
        poll = select.poll()
        poll.register(sock, select.POLLOUT)
        return sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) if poll.poll(200) else errno.ETIMEDOUT


def _open(argument: str, flags: int) -> int:
    """`DEV:INODE:PATH`: opens the path; in an own root folder another file may bear the name."""
    device, inode, path = argument.split(":", 2)
    fd = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        if flags & os.O_ACCMODE == os.O_RDONLY:
            with suppress(IsADirectoryError):
                os.read(fd, 1)
        about = os.fstat(fd)
    finally:
        os.close(fd)
    same = inode == "0" or (str(about.st_dev), str(about.st_ino)) == (device, inode)
    return 0 if same else errno.ENOENT


def _process(act: str, pid: int) -> int:
    if pid <= 0 or pid == os.getpid():
        return errno.ESRCH  # in a pid namespace the number may be our own
    if act == "signal":
        os.kill(pid, 0)
        return 0
    if act == "trace":
        zero = ctypes.c_void_p(0)
        failed = libc.ptrace(ctypes.c_long(_PTRACE_SEIZE), ctypes.c_int(pid), zero, zero)
        return ctypes.get_errno() if failed else 0
    return _open(f"0:0:/proc/{pid}/{act}", os.O_RDONLY)


def _loopback(family: int, host: str) -> int:
    with socket.socket(family) as sock:
        sock.bind((host, 0))
        sock.listen(1)
        return _connect(family, sock.getsockname(), socket.SOCK_STREAM)


def _try(act: str, argument: str) -> int:
    match act:
        case "read":
            return _open(argument, os.O_RDONLY)
        case "write":
            return _open(argument, os.O_WRONLY | os.O_APPEND)
        case "create":  # left there: whether it arrived is looked up from outside
            os.close(os.open(argument, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            return 0
        case "tcp":
            return _connect(socket.AF_INET, ("127.0.0.1", int(argument)), socket.SOCK_STREAM)
        case "udp":
            return _connect(socket.AF_INET, ("127.0.0.1", int(argument)), socket.SOCK_DGRAM)
        case "unix":
            return _connect(socket.AF_UNIX, argument, socket.SOCK_STREAM)
        case "abstract":
            return _connect(socket.AF_UNIX, "\0" + argument, socket.SOCK_STREAM)
        case "environ" | "mem" | "signal" | "trace":
            return _process(act, int(argument))
        case "root":
            os.setuid(0)
            return 0
        case "loopback":
            six = argument == "6"
            return _loopback(socket.AF_INET6 if six else socket.AF_INET, "::1" if six else "127.0.0.1")
        case _:
            return errno.ENOTSUP


def attempt(pairs: list[str]) -> bytes:
    """Try pairs of act and argument; one errno a line."""
    lines = []
    for act, argument in zip(pairs[::2], pairs[1::2], strict=True):
        try:
            code = _try(act, argument)
        except OSError as exc:
            code = exc.errno or errno.EIO
        lines.append(f"{code}\n")
    return "".join(lines).encode()
