"""The seccomp filters, interpreted here for both processors before any kernel sees them."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.kernel import seccomp
from agent.kernel.seccomp import ALWAYS_REFUSED, SHARED_IPC, Family, broker_filter, build, harness_filter, number

PROCESSORS = ("x86_64", "aarch64")
ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
ALLOW, EPERM, EACCES, ENOSYS = 0x7FFF0000, 0x50001, 0x5000D, 0x50026


def interpret(program: bytes, arch: int, nr: int, args: Sequence[int] = ()) -> int:
    """Run a filter on one call. Any jump backwards, out of range or unknown opcode fails the test."""
    data = struct.pack("<IIQ6Q", nr & 0xFFFFFFFF, arch, 0, *(list(args) + [0] * 6)[:6])
    code = [struct.unpack_from("<HBBI", program, at) for at in range(0, len(program), 8)]
    accumulator, at = 0, 0
    while True:
        opcode, true, false, operand = code[at]
        at += 1
        if opcode == 0x20:
            accumulator = struct.unpack_from("<I", data, operand)[0]
        elif opcode in (0x15, 0x35, 0x45):
            holds = {
                0x15: accumulator == operand,
                0x35: accumulator >= operand,
                0x45: bool(accumulator & operand),
            }[opcode]
            at += true if holds else false
        else:
            assert opcode == 0x06
            return int(operand)


def call(program: bytes, processor: str, name: str, *args: int) -> int:
    nr = number(name, processor)
    assert nr is not None
    return interpret(program, ARCH[processor], nr, args)


@pytest.mark.parametrize("processor", PROCESSORS)
@pytest.mark.parametrize("name", ALWAYS_REFUSED)
def test_refused_calls(processor: str, name: str) -> None:
    """Each door of the list is shut in every profile."""
    if number(name, processor) is None:
        return
    profiles = (harness_filter(processor=processor), broker_filter(processor=processor), build(processor=processor))
    assert [call(p, processor, name) for p in profiles] == [EPERM] * 3


@pytest.mark.parametrize("processor", PROCESSORS)
@pytest.mark.parametrize(
    ("families", "allowed"),
    [
        ((), []),
        ((Family.INET, Family.INET6), [2, 10]),
        ((Family.UNIX, Family.INET, Family.INET6, Family.NETLINK_ROUTE), [1, 2, 10, 16]),
    ],
)
def test_socket_families(processor: str, families: tuple[Family, ...], allowed: list[int]) -> None:
    """Exactly the named families of all 256 are let through, whatever the upper half of the register holds."""
    program = build(families=families, processor=processor)
    for upper in (0, 0xDEADBEEF << 32):
        let = [f for f in range(256) if call(program, processor, "socket", upper | f, 1, 0) == ALLOW]
        assert let == allowed
    assert call(program, processor, "socket", 40, 1, 0) == EACCES


@pytest.mark.parametrize("processor", PROCESSORS)
def test_netlink_is_for_routes_alone(processor: str) -> None:
    """Protocol 0 reads one's own interfaces; netfilter, audit and the rest stay shut."""
    program = build(families=[Family.NETLINK_ROUTE], processor=processor)
    assert [p for p in range(32) if call(program, processor, "socket", 16, 3, p) == ALLOW] == [0]


@pytest.mark.parametrize("processor", PROCESSORS)
def test_clone_makes_processes_and_threads_but_no_namespace(processor: str) -> None:
    """fork and pthread_create work; each namespace flag alone is refused; clone3 falls back."""
    program = build(processor=processor)
    namespaces = (0x20000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000)

    assert call(program, processor, "clone", 0x01200011) == ALLOW  # fork
    assert call(program, processor, "clone", 0x003D0F00) == ALLOW  # pthread_create
    assert [call(program, processor, "clone", flag | 17) for flag in namespaces] == [EPERM] * 7
    assert call(program, processor, "clone3", 0, 0) == ENOSYS


@pytest.mark.parametrize("processor", PROCESSORS)
def test_programs_are_started_only_where_allowed(processor: str) -> None:
    """The harness starts nothing; commands and broker do."""
    for name in ("fork", "vfork", "execve", "execveat"):
        if number(name, processor) is None:
            continue
        assert call(harness_filter(processor=processor), processor, name) == EPERM
        assert call(broker_filter(processor=processor), processor, name) == ALLOW
        assert call(build(processor=processor), processor, name) == ALLOW


@pytest.mark.parametrize("processor", PROCESSORS)
def test_harness_makes_threads_and_no_process(processor: str) -> None:
    """clone without CLONE_THREAD is a fork."""
    program = harness_filter(processor=processor)
    assert call(program, processor, "clone", 0x003D0F00) == ALLOW
    assert [call(program, processor, "clone", flags) for flags in (0x01200011, 17, 0x4111)] == [EPERM] * 3


@pytest.mark.parametrize("processor", PROCESSORS)
@pytest.mark.parametrize("name", SHARED_IPC)
def test_shared_memory_by_number_only_in_an_own_namespace(processor: str, name: str) -> None:
    """System V and message queue calls reach every process of the uid, so they are shut elsewhere."""
    shut = (harness_filter(processor=processor), broker_filter(processor=processor), build(processor=processor))
    assert [call(p, processor, name) for p in shut] == [EPERM] * 3
    assert call(build(shared_ipc=True, processor=processor), processor, name) == ALLOW


@pytest.mark.parametrize("processor", PROCESSORS)
def test_typing_into_a_terminal_is_refused(processor: str) -> None:
    """TIOCSTI and TIOCLINUX are shut, other requests pass."""
    program = build(processor=processor)
    assert [call(program, processor, "ioctl", 0, r) for r in (0x5412, 0x541C, 0x5401)] == [EPERM, EPERM, ALLOW]


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.sampled_from(PROCESSORS))
def test_a_foreign_architecture_gets_nothing(arch: int, nr: int, processor: str) -> None:
    """Any other architecture tag is refused before the number is looked at; x32 numbers too."""
    program = build(families=list(Family), processor=processor)
    if arch != ARCH[processor]:
        assert interpret(program, arch, nr) == EPERM
    if processor == "x86_64" and nr >= 0x40000000:
        assert interpret(program, ARCH[processor], nr) == EPERM


@pytest.mark.parametrize("processor", PROCESSORS)
def test_everything_else_passes(processor: str) -> None:
    """The filter is a list of doors that are shut, no list of calls that are known."""
    program = harness_filter(processor=processor)
    named = {number(n, processor) for n in seccomp._NUMBERS}
    others = [n for n in range(480) if n not in named]
    assert {interpret(program, ARCH[processor], n) for n in others} == {ALLOW}
    assert len(program) // 8 < 256
