"""seccomp: system calls that a process of a zone never needs and an attacker does.

Landlock says which files; this says which kernel doors. The network is closed here and not by Landlock,
whose rules know TCP ports alone. A filter is plain data, built for a named processor and interpreted by
tests before any kernel sees it. Refused calls fail with EPERM; `clone3` fails with ENOSYS, so that the C
library falls back to `clone`, whose flags a filter can see.
"""

from __future__ import annotations

import ctypes
import errno
import struct
from collections.abc import Iterable
from enum import IntEnum

from agent.kernel.prctl import failed, libc, machine, no_new_privs

_AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_SECCOMP = {"x86_64": 317, "aarch64": 277}
_SET_MODE_FILTER, _TSYNC = 1, 1
_X32_BIT = 0x40000000

# name: (x86_64, aarch64); None where the processor has no such call.
_NUMBERS: dict[str, tuple[int | None, int | None]] = {
    "ioctl": (16, 29),
    "socket": (41, 198),
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "semget": (64, 190),
    "semop": (65, 193),
    "semtimedop": (220, 192),
    "msgget": (68, 186),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "mq_open": (240, 180),
    "clone": (56, 220),
    "fork": (57, None),
    "vfork": (58, None),
    "execve": (59, 221),
    "ptrace": (101, 117),
    "syslog": (103, 116),
    "vhangup": (153, 58),
    "modify_ldt": (154, None),
    "pivot_root": (155, 41),
    "adjtimex": (159, 171),
    "chroot": (161, 51),
    "acct": (163, 89),
    "settimeofday": (164, 170),
    "mount": (165, 40),
    "umount2": (166, 39),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "reboot": (169, 142),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "iopl": (172, None),
    "ioperm": (173, None),
    "init_module": (175, 105),
    "delete_module": (176, 106),
    "quotactl": (179, 60),
    "lookup_dcookie": (212, 18),
    "clock_settime": (227, 112),
    "kexec_load": (246, 104),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "unshare": (272, 97),
    "perf_event_open": (298, 241),
    "fanotify_init": (300, 262),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "clock_adjtime": (305, 266),
    "setns": (308, 268),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kcmp": (312, 272),
    "finit_module": (313, 273),
    "kexec_file_load": (320, 294),
    "bpf": (321, 280),
    "execveat": (322, 281),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "clone3": (435, 435),
    "pidfd_getfd": (438, 438),
    "process_madvise": (440, 440),
    "mount_setattr": (442, 442),
    "quotactl_fd": (443, 443),
    "open_tree_attr": (467, 467),
}
_SPECIAL = frozenset({"ioctl", "socket", "clone", "clone3"})
STARTING = ("fork", "vfork", "execve", "execveat")
# Memory, queues and semaphores by number: without an ipc namespace, those of every process of the uid.
SHARED_IPC = (
    "shmget", "shmat", "shmctl", "semget", "semop", "semtimedop", "msgget", "msgsnd", "msgrcv", "mq_open",
)  # fmt: skip
ALWAYS_REFUSED = tuple(name for name in _NUMBERS if name not in {*_SPECIAL, *STARTING, *SHARED_IPC})

# clone's namespace flags: mnt, cgroup, uts, ipc, user, pid, net (time cannot be asked for by clone).
_NAMESPACE_FLAGS = 0x7E020000
_CLONE_THREAD = 0x10000
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C  # type into, or paste from, the terminal of whoever started us


class Family(IntEnum):
    """Socket families that a filter can let through."""

    UNIX = 1
    INET = 2
    INET6 = 10
    NETLINK_ROUTE = 16  # protocol 0 alone: reading one's own interfaces


# Classic BPF: opcode, jump if true, jump if false, operand.
_LOAD, _JUMP_EQUAL, _JUMP_GE, _JUMP_SET, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NR, _ARCH, _ARG0, _ARG1, _ARG2 = 0, 4, 16, 24, 32  # offsets in struct seccomp_data, little endian
_ALLOW = 0x7FFF0000
_ERRNO = 0x00050000


def number(name: str, processor: str) -> int | None:
    """The call's number on this processor, or None."""
    return _NUMBERS[name][0 if processor == "x86_64" else 1]


def _instruction(code: int, operand: int, true: int = 0, false: int = 0) -> bytes:
    return struct.pack("<HBBI", code, true, false, operand)


def _refuse(error: int = errno.EPERM) -> bytes:
    return _instruction(_RETURN, _ERRNO | error)


def build(
    *,
    families: Iterable[Family] = (),
    processes: bool = True,
    shared_ipc: bool = False,
    processor: str | None = None,
) -> bytes:
    """Assemble a filter.

    Args:
        families: socket families that may be created; every other one is refused. `socketpair` and
            inherited descriptors always work.
        processes: False refuses starting programs and forking; threads can still be made.
        shared_ipc: True lets System V and POSIX message objects through; for an own ipc namespace.
        processor: `x86_64` or `aarch64`; this machine's by default.

    Returns:
        The BPF program, 8 bytes an instruction.
    """
    processor = processor or machine()
    program = [
        _instruction(_LOAD, _ARCH),
        _instruction(_JUMP_EQUAL, _AUDIT_ARCH[processor], 1, 0),
        _refuse(),  # 32-bit calls have other numbers, and socketcall hides the family
        _instruction(_LOAD, _NR),
    ]
    if processor == "x86_64":
        program += [_instruction(_JUMP_GE, _X32_BIT, 0, 1), _refuse()]
    plain = (*ALWAYS_REFUSED, *(() if processes else STARTING), *(() if shared_ipc else SHARED_IPC))
    for name in plain:
        if (nr := number(name, processor)) is not None:
            program += [_instruction(_JUMP_EQUAL, nr, 0, 1), _refuse()]

    def block(name: str, body: list[bytes]) -> None:
        nr = number(name, processor)
        if nr is not None:
            program.extend([_instruction(_JUMP_EQUAL, nr, 0, len(body)), *body])

    allow = _instruction(_RETURN, _ALLOW)
    block("clone3", [_refuse(errno.ENOSYS)])
    clone = [_instruction(_LOAD, _ARG0), _instruction(_JUMP_SET, _NAMESPACE_FLAGS, 0, 1), _refuse()]
    if not processes:
        clone += [_instruction(_JUMP_SET, _CLONE_THREAD, 1, 0), _refuse()]
    block("clone", [*clone, allow])
    terminal = [_instruction(_LOAD, _ARG1)]
    for request in (_TIOCSTI, _TIOCLINUX):
        terminal += [_instruction(_JUMP_EQUAL, request, 0, 1), _refuse()]
    block("ioctl", [*terminal, allow])
    sockets = [_instruction(_LOAD, _ARG0)]
    for family in sorted(set(families)):
        if family is Family.NETLINK_ROUTE:
            inner = [_instruction(_LOAD, _ARG2), _instruction(_JUMP_EQUAL, 0, 0, 1), allow, _refuse(errno.EACCES)]
            sockets += [_instruction(_JUMP_EQUAL, family, 0, len(inner)), *inner]
        else:
            sockets += [_instruction(_JUMP_EQUAL, family, 0, 1), allow]
    block("socket", [*sockets, _refuse(errno.EACCES)])
    program.append(allow)
    return b"".join(program)


def harness_filter(*, processor: str | None = None) -> bytes:
    """No socket of any family, no other process: the harness speaks over its inherited channel alone."""
    return build(processes=False, processor=processor)


def broker_filter(*, processor: str | None = None) -> bytes:
    """IP for egress; no unix socket, so that a taken broker cannot reach the Docker engine."""
    families = (Family.INET, Family.INET6, Family.NETLINK_ROUTE)
    return build(families=families, processor=processor)


def install(program: bytes) -> None:
    """Put every thread of this process, and all it starts, under the filter. It cannot be taken off.

    Raises:
        ConfinementError: the kernel refused.
    """
    no_new_privs()
    code = ctypes.create_string_buffer(program, len(program))

    class _Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))

    described = _Program(len(program) // 8, ctypes.addressof(code))
    arguments = (ctypes.c_uint(_SET_MODE_FILTER), ctypes.c_uint(_TSYNC), ctypes.byref(described))
    if libc.syscall(_SECCOMP[machine()], *arguments) != 0:
        raise failed("install seccomp filter")
