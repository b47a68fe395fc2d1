"""Landlock: which files this process and all it starts may touch, whatever their uid allows.

House rules: every right the kernel knows is handled, so what is not granted is refused; rights it does
not know are left out and named in words by `missing`; a path that does not exist is skipped, because
granting nothing is safe. TCP rules are not used: they bind ports, not addresses, and leave UDP open.
"""

from __future__ import annotations

import ctypes
import os
import stat
import threading
from collections.abc import Iterable

from agent.contract.dataclass import dataclass
from agent.kernel.prctl import ConfinementError, failed, libc, no_new_privs

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on x86_64 and aarch64
_RULE_PATH_BENEATH = 1
_VERSION = 1

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REMOVE_DIR, REMOVE_FILE = 1 << 4, 1 << 5
MAKE_CHAR, MAKE_DIR, MAKE_REG, MAKE_SOCK, MAKE_FIFO, MAKE_BLOCK, MAKE_SYM = (1 << n for n in range(6, 13))
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
SCOPE_ABSTRACT_UNIX, SCOPE_SIGNAL = 1, 2

READ = READ_FILE | READ_DIR
RUN = READ | EXECUTE
# Device nodes are never made: everything else that a build does below its own root is.
WRITE = (READ | WRITE_FILE | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG | MAKE_SOCK | MAKE_FIFO | MAKE_SYM) | (
    REFER | TRUNCATE
)
DEVICE = READ_FILE | WRITE_FILE | IOCTL_DEV
_ON_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV

_LACKS = (
    (1, "file access is not confined (Landlock is missing)"),
    (2, "files cannot be renamed or linked between folders (Landlock ABI 1)"),
    (3, "truncating a file outside is not stopped (Landlock below ABI 3)"),
    (5, "ioctl on devices is not confined (Landlock below ABI 5)"),
    (6, "signals and abstract sockets are not confined (Landlock below ABI 6)"),
)


def landlock_abi() -> int:
    """Version of the running kernel's Landlock, 0 where there is none."""
    version = libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint(_VERSION))
    return max(int(version), 0)


def missing(abi: int) -> tuple[str, ...]:
    """What a kernel of this ABI cannot do, in words."""
    return tuple(words for needed, words in _LACKS if abi < needed)


def handled(abi: int) -> int:
    """Every file right a kernel of this ABI can refuse."""
    last = 12 if abi < 2 else 13 if abi < 3 else 14 if abi < 5 else 15
    return (1 << (last + 1)) - 1


@dataclass(frozen=True)
class FileRule:
    """Rights (an OR of this module's constants) for a path and everything below it."""

    path: str
    rights: int


def rules_for(
    *, read: Iterable[str] = (), write: Iterable[str] = (), execute: Iterable[str] = ()
) -> tuple[FileRule, ...]:
    """Rules in the words of the callers: `execute` includes reading, `write` includes reading."""
    merged: dict[str, int] = {}
    for paths, rights in ((read, READ), (write, WRITE), (execute, RUN)):
        for path in paths:
            merged[path] = merged.get(path, 0) | rights
    return tuple(FileRule(path, rights) for path, rights in merged.items())


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32))


def make_ruleset(rules: Iterable[FileRule], *, scope: bool, abi: int | None = None) -> int:
    """Build a ruleset and return its descriptor; nothing is enforced yet.

    Args:
        rules: what to grant; paths that do not exist are skipped, symbolic links are followed.
        scope: also confine signals and abstract unix sockets to the domain (ABI 6).
        abi: tests give a lower one to see the degraded forms.

    Raises:
        ConfinementError: no Landlock, or the kernel refused.
    """
    abi = landlock_abi() if abi is None else min(abi, landlock_abi())
    if abi < 1:
        raise ConfinementError("Landlock is not available: files cannot be confined")
    scoped = SCOPE_ABSTRACT_UNIX | SCOPE_SIGNAL if scope and abi >= 6 else 0
    attr = (ctypes.c_uint64 * 3)(handled(abi), 0, scoped)
    size = 24 if abi >= 6 else 16 if abi >= 4 else 8
    ruleset = libc.syscall(_CREATE_RULESET, ctypes.byref(attr), ctypes.c_size_t(size), ctypes.c_uint(0))
    if ruleset < 0:
        raise failed("create Landlock ruleset")
    for rule in rules:
        try:
            fd = os.open(rule.path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue  # absent or out of reach: not granting it is the safe side
        try:
            rights = rule.rights & handled(abi)
            if not stat.S_ISDIR(os.fstat(fd).st_mode):
                rights &= _ON_FILES
            attribute = _PathBeneath(rights, fd)
            arguments = (ctypes.c_int(ruleset), ctypes.c_int(_RULE_PATH_BENEATH), ctypes.byref(attribute))
            if rights and libc.syscall(_ADD_RULE, *arguments, ctypes.c_uint(0)) != 0:
                raise failed(f"Landlock rule for {rule.path}")
        finally:
            os.close(fd)
    return int(ruleset)


def enforce(ruleset: int) -> None:
    """Put the calling thread, and all it starts, under the ruleset. It cannot be taken off.

    Raises:
        ConfinementError: the kernel refused.
    """
    if libc.syscall(_RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint(0)) != 0:
        raise failed("enforce Landlock")


def _threads() -> int:
    """Threads of this process; where an earlier layer hides /proc, those that Python knows of."""
    try:
        return len(os.listdir("/proc/self/task"))
    except PermissionError:
        return threading.active_count()


def restrict_files(
    *,
    read: Iterable[str] = (),
    write: Iterable[str] = (),
    execute: Iterable[str] = (),
    devices: Iterable[str] = (),
    scope: bool = True,
) -> tuple[str, ...]:
    """Confine this process to these paths and return, in words, what this kernel could not do.

    Raises:
        ConfinementError: no Landlock at all, the kernel refused, or the process already has threads
            (the others would stay free).
    """
    if _threads() > 1:
        raise ConfinementError("Landlock binds one thread, and this process has more already")
    rules = rules_for(read=read, write=write, execute=execute)
    rules += tuple(FileRule(path, DEVICE) for path in devices)
    no_new_privs()
    ruleset = make_ruleset(rules, scope=scope)
    try:
        enforce(ruleset)
    finally:
        os.close(ruleset)
    return missing(landlock_abi())
