"""Process attributes that keep one process out of another's reach. Linux, by ctypes, no dependency.

Every function either does what its name says or raises `ConfinementError`: a protection that silently did
not take place is worse than none, because the next layer counts on it.
"""

from __future__ import annotations

import ctypes
import os
import resource
from collections.abc import Iterable

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_CAPBSET_DROP = 24
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_CLEAR_ALL = 4
_CAPABILITY_VERSION_3 = 0x20080522

CAP_KILL, CAP_SETGID, CAP_SETUID = 5, 6, 7

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long


class ConfinementError(Exception):
    """A protection could not be put in place. The text names it and gives the kernel's own words."""


def failed(what: str) -> ConfinementError:
    """The error for a C call that just set errno."""
    return ConfinementError(f"{what}: {os.strerror(ctypes.get_errno())}")


def machine() -> str:
    """`x86_64` or `aarch64`.

    Raises:
        ConfinementError: another processor; its system call numbers are not known here.
    """
    name = os.uname().machine
    if name not in ("x86_64", "aarch64"):
        raise ConfinementError(f"no system call table for {name}")
    return name


def _prctl(what: str, option: int, a: int = 0, b: int = 0) -> None:
    args = (ctypes.c_ulong(a), ctypes.c_ulong(b), ctypes.c_ulong(0), ctypes.c_ulong(0))
    if libc.prctl(ctypes.c_int(option), *args) != 0:
        raise failed(what)


def set_non_dumpable() -> None:
    """Close `/proc/self/{environ,mem,fd}`, ptrace and core dumps to others of the same uid.

    The flag comes back to 1 on every exec, so this is the first statement of each program of ours.
    """
    _prctl("set non-dumpable", _PR_SET_DUMPABLE, 0)


def no_core() -> None:
    """No core file: it would put the memory, secrets included, on disk."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def no_new_privs() -> None:
    """Setuid and file-capability programs gain nothing from here on; needed for seccomp and Landlock."""
    _prctl("no new privileges", _PR_SET_NO_NEW_PRIVS, 1)


def become_subreaper() -> None:
    """Orphans among the descendants become this process's children, so that none gets away."""
    _prctl("become subreaper", _PR_SET_CHILD_SUBREAPER, 1)


def die_with_parent() -> None:
    """Be killed when the parent thread ends. A change of uid clears it: call it after `drop_to`."""
    _prctl("die with parent", _PR_SET_PDEATHSIG, 9)


def drop_to(uid: int, gid: int) -> None:
    """Become this user for good: no groups, real, effective and saved ids alike.

    Raises:
        ConfinementError: uid or gid is 0, or the ids are not what was asked for afterwards.
    """
    if uid <= 0 or gid <= 0:
        raise ConfinementError(f"refused to run as uid {uid}, gid {gid}: never root")
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    if os.getresuid() != (uid,) * 3 or os.getresgid() != (gid,) * 3:
        raise ConfinementError(f"could not become uid {uid}: still {os.getresuid()}, {os.getresgid()}")


def keep_capabilities(kept: Iterable[int]) -> None:
    """Drop every capability but these, from all sets and from the bounding set of what is started later.

    Raises:
        ConfinementError: the kernel refused. A bounding set that may not be changed (no CAP_SETPCAP) is
            left: `no_new_privs` makes it moot.
    """
    keep = frozenset(kept)
    _prctl("clear ambient capabilities", _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)
    for capability in range(64):
        if capability in keep:
            continue
        zero = ctypes.c_ulong(0)
        if libc.prctl(ctypes.c_int(_PR_CAPBSET_DROP), ctypes.c_ulong(capability), zero, zero, zero) != 0:
            break  # past the last one, or not permitted
    mask = sum(1 << c for c in keep)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    data = (ctypes.c_uint32 * 6)(mask & 0xFFFFFFFF, mask & 0xFFFFFFFF, 0, mask >> 32, mask >> 32, 0)
    if libc.capset(header, data) != 0:
        raise failed("drop capabilities")


def close_other_fds(keep: Iterable[int]) -> None:
    """Close every descriptor but these: an inherited one is a door past all later rules."""
    low = 0
    for fd in [*sorted(set(keep)), max(os.sysconf("SC_OPEN_MAX"), 1024)]:
        if fd > low:  # an empty range would be read as "up to the last one" and close all
            os.closerange(low, fd)
        low = fd + 1
