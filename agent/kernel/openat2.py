"""The system call openat2 (Linux 5.6): the kernel itself keeps a path's resolution beneath a folder."""

from __future__ import annotations

import ctypes
import errno
import os

RESOLVE_NO_MAGICLINKS = 0x02  # /proc/self/fd/N and the like
RESOLVE_NO_SYMLINKS = 0x04
RESOLVE_BENEATH = 0x08

_NUMBER = 437  # the same on every architecture
_libc = ctypes.CDLL(None, use_errno=True)


class _How(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def openat2(dir_fd: int, path: str, flags: int, resolve: int) -> int:
    """Open `path` relative to a folder.

    Returns:
        a descriptor that is closed on exec.

    Raises:
        OSError: EXDEV when the path leads out; EAGAIN when a rename raced with a `..`; ENOSYS where the kernel
            or a seccomp filter lacks the call.
    """
    how = _How(flags | os.O_CLOEXEC, 0, resolve)
    fd = _libc.syscall(_NUMBER, dir_fd, os.fsencode(path), ctypes.byref(how), ctypes.sizeof(how))
    if fd < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), path)
    return int(fd)


def available(dir_fd: int) -> bool:
    """The call works here on this folder."""
    try:
        fd = openat2(dir_fd, ".", os.O_PATH | os.O_DIRECTORY, RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS)
    except OSError as exc:
        if exc.errno in (errno.ENOSYS, errno.EPERM, errno.EINVAL, errno.E2BIG):
            return False
        raise
    os.close(fd)
    return True
