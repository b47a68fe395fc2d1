"""The confinement plan as a value, and the wire format that carries it."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.contract.sandbox import ExecRequest, ExecResult, Purpose, SandboxSpec
from agent.kernel import landlock, seccomp
from agent.kernel.landlock import DEVICE, READ, READ_DIR, RUN, WRITE, FileRule
from agent.kernel.seccomp import Family
from agent.sandbox import protocol
from agent.sandbox.policy import Folders, Level, Machine, Mount, Plan, container_plan_for, families, plan_for

MACHINE = Machine(
    processor="x86_64",
    abi=7,
    uid=1001,
    gid=121,
    user="runner",
    user_tasks=40,
    system=(("/usr", None), ("/bin", "usr/bin"), ("/etc", None)),
    bash=True,
    name_service="/run/resolv.conf",
)
FOLDERS = Folders("/tmp/a/home", "/tmp/a/tmp", "/tmp/a/root", "/tmp/a/passwd")
SPEC = SandboxSpec(Purpose.MAIN, "/home/runner/w", readable=("/tools/bin",), memory_mb=1024, pids=64, file_mb=10)
IP = (Family.INET, Family.INET6, Family.NETLINK_ROUTE)


def level(name: str, *of: Family) -> Level:
    return Level(name, seccomp.build(families=of, shared_ipc=name.startswith("root"), processor="x86_64"))


EXPECTED = Plan(
    root="/home/runner/w",
    at="/home/runner/w",
    stage="/tmp/a/root",
    tmp="/tmp/a/tmp",
    uid=1001,
    gid=121,
    levels=(level("root-none", Family.UNIX, *IP), level("net-none", *IP), level("bare-none")),
    mounts=(
        Mount("ro", "/usr", "/usr"),
        Mount("link", "usr/bin", "/bin"),
        Mount("ro", "/etc", "/etc"),
        Mount("proc", "", "/proc"),
        Mount("tmpfs", "mode=755,size=1m", "/dev"),
        Mount("rw", "/tmp/a/tmp", "/tmp"),
        Mount("ro", "/tools/bin", "/tools/bin"),
        *(Mount("dev", f"/dev/{d}", f"/dev/{d}") for d in ("null", "zero", "full", "random", "urandom", "tty")),
        Mount("link", "/proc/self/fd", "/dev/fd"),
        Mount("link", "fd/0", "/dev/stdin"),
        Mount("link", "fd/1", "/dev/stdout"),
        Mount("link", "fd/2", "/dev/stderr"),
        Mount("tmpfs", f"mode=1777,size={256 << 20}", "/dev/shm"),
        Mount("devpts", "newinstance,ptmxmode=0666,mode=620", "/dev/pts"),
        Mount("link", "pts/ptmx", "/dev/ptmx"),
        Mount("ro", "/sys/devices/system", "/sys/devices/system"),
        Mount("ro", "/sys/fs/cgroup", "/sys/fs/cgroup"),
        Mount("rw", "/tmp/a/home", "/tmp/a/home"),
        Mount("rw", "/tmp/a/tmp", "/tmp/a/tmp"),
        Mount("rw", "/home/runner/w", "/home/runner/w"),
        Mount("ro", "/sys/kernel/mm/transparent_hugepage", "/sys/kernel/mm/transparent_hugepage"),
    ),
    rules=(
        FileRule("/proc", READ),
        FileRule("/sys/devices/system", READ),
        FileRule("/sys/fs/cgroup", READ),
        FileRule("/sys/kernel/mm/transparent_hugepage", READ),
        FileRule("/home/runner/w", WRITE | RUN),
        FileRule("/tmp/a/home", WRITE | RUN),
        FileRule("/tmp/a/tmp", WRITE | RUN),
        FileRule("/usr", RUN),
        FileRule("/etc", RUN),
        FileRule("/tools/bin", RUN),
        *(FileRule(f"/dev/{d}", DEVICE) for d in ("null", "zero", "full", "random", "urandom", "tty")),
    ),
    root_rules=(
        FileRule("/etc/passwd", landlock.READ_FILE),
        FileRule("/dev/shm", WRITE),
        FileRule("/dev/pts", DEVICE | READ_DIR),
    ),
    env=(
        ("PATH", "/tools/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
        ("HOME", "/tmp/a/home"),
        ("LANG", "C.UTF-8"),
        ("LC_ALL", "C.UTF-8"),
        ("TZ", "UTC"),
        ("TMPDIR", "/tmp/a/tmp"),
        ("SHELL", "/bin/bash"),
        ("USER", "runner"),
        ("CI", "true"),
        ("BUN_INSTALL", "/tmp/a/home/.bun"),
        ("XDG_CACHE_HOME", "/tmp/a/home/.cache"),
    ),
    argv=("/bin/bash", "--noprofile", "--norc", "-c"),
    limits=((4, 0), (1, 10 << 20), (2, 1 << 30), (7, 65_536), (6, 104)),
    memory=1 << 30,
    pids=64,
    reserve=256 << 20,
    growth=40 << 20,
)


def test_plan_of_a_sandbox() -> None:
    """The whole plan: what is not in here does not exist for a command."""
    assert plan_for(SPEC, MACHINE, FOLDERS) == EXPECTED


def test_setup_differs_by_its_network_alone() -> None:
    """Setup gets levels without an own network, and the file behind resolv.conf; the rest is the same."""
    plan = plan_for(dataclasses.replace(SPEC, purpose=Purpose.SETUP, network=True), MACHINE, FOLDERS)

    assert plan.levels == (level("root-open", Family.UNIX, *IP), level("bare-open", *IP))
    assert set(plan.rules) - set(EXPECTED.rules) == {FileRule("/run/resolv.conf", READ)}
    assert set(plan.mounts) - set(EXPECTED.mounts) == {Mount("ro", "/run/resolv.conf", "/run/resolv.conf")}
    assert dataclasses.replace(
        plan, levels=EXPECTED.levels, rules=EXPECTED.rules, mounts=EXPECTED.mounts
    ) == EXPECTED  # fmt: skip


@pytest.mark.parametrize(
    ("name", "abi", "expected"),
    [
        ("bare-none", 7, ()),
        ("net-none", 7, IP),
        ("root-none", 1, (Family.UNIX, *IP)),  # abstract names are closed by the own network
        ("root-open", 7, (Family.UNIX, *IP)),  # and here by scope
        ("root-open", 5, IP),  # and here by neither
        ("bare-open", 7, IP),  # a path leads to the engine's socket
    ],
)
def test_unix_sockets_only_where_none_of_ours_can_be_named(name: str, abi: int, expected: tuple[Family, ...]) -> None:
    """The table of families by level and kernel."""
    assert families(name, abi=abi) == expected


def test_without_bash_the_shell_is_sh() -> None:
    """An image without bash runs commands by sh, and says so in SHELL."""
    plan = plan_for(SPEC, dataclasses.replace(MACHINE, bash=False), FOLDERS)

    assert plan.argv == ("/bin/sh", "-c")
    assert ("SHELL", "/bin/sh") in plan.env


def test_a_uid_without_a_name_gets_one_where_a_file_can_be_shown() -> None:
    """A container image knows no uid 1001: its file of users is covered by one with an entry."""
    plan = plan_for(SPEC, dataclasses.replace(MACHINE, named=False), FOLDERS)

    assert set(plan.mounts) - set(EXPECTED.mounts) == {Mount("ro", "/tmp/a/passwd", "/etc/passwd")}
    assert [m.target for m in plan.mounts].index("/etc") < [m.target for m in plan.mounts].index("/etc/passwd")


@pytest.mark.parametrize(("uid", "gid"), [(0, 0), (0, 5), (5, 0), (-1, 5)])
def test_root_is_never_planned(uid: int, gid: int) -> None:
    """Neither uid nor gid may be 0."""
    with pytest.raises(ValueError, match="never run as root"):
        plan_for(SPEC, dataclasses.replace(MACHINE, uid=uid, gid=gid), FOLDERS)


@pytest.mark.parametrize("path", ["", "relative", "/", "/a\0b"])
def test_paths_that_are_no_folder_are_refused(path: str) -> None:
    """An empty, relative or root path would grant more than was meant."""
    with pytest.raises(ValueError, match="absolute"):
        plan_for(dataclasses.replace(SPEC, root=path), MACHINE, FOLDERS)
    with pytest.raises(ValueError, match="absolute"):
        plan_for(dataclasses.replace(SPEC, readable=(path,)), MACHINE, FOLDERS)


def test_no_rule_writes_or_runs_devices_or_all() -> None:
    """Nothing but the root and the fresh folders is writable, and no grant makes device nodes."""
    plan = plan_for(SPEC, MACHINE, FOLDERS)
    writable = {r.path for r in plan.rules if r.rights & (WRITE & ~READ & ~landlock.WRITE_FILE)}

    assert writable == {"/home/runner/w", "/tmp/a/home", "/tmp/a/tmp"}
    assert not [r for r in (*plan.rules, *plan.root_rules) if r.rights & (landlock.MAKE_CHAR | landlock.MAKE_BLOCK)]
    assert not [r for r in plan.rules if r.path == "/"]


def test_plan_of_a_container() -> None:
    """The engine made the mounts and namespaces: one level, the image readable, writes as ever."""
    folders = Folders("/airlock-home", "/tmp", "/airlock", "/etc/passwd")
    plan = container_plan_for(SPEC, dataclasses.replace(MACHINE, system=(), user_tasks=0), folders)
    program = seccomp.build(families=(Family.UNIX, *IP), shared_ipc=True, processor="x86_64")
    devices = ("null", "zero", "full", "random", "urandom", "tty", "pts")

    assert plan == dataclasses.replace(
        EXPECTED,
        stage="/airlock",
        tmp="/tmp",
        levels=(Level("init-none", program),),
        mounts=(),
        rules=(
            FileRule("/home/runner/w", WRITE | RUN),
            FileRule("/airlock-home", WRITE | RUN),
            FileRule("/tmp", WRITE | RUN),
            FileRule("/dev/shm", WRITE),
            FileRule("/", RUN),
            *(FileRule(f"/dev/{d}", DEVICE) for d in devices),
        ),
        root_rules=(),
        env=tuple(
            (k, {"HOME": "/airlock-home", "TMPDIR": "/tmp"}.get(k, v.replace("/tmp/a/home", "/airlock-home")))
            for k, v in EXPECTED.env
        ),
        limits=((4, 0), (1, 10 << 20), (7, 65_536)),
    )


# ---- wire format ----

TEXTS = st.text(alphabet=st.characters(exclude_characters="\0", exclude_categories=()), max_size=40)


@given(st.lists(TEXTS, max_size=6))
def test_strings_survive_the_wire(texts: list[str]) -> None:
    """Any text without a NUL comes back as it was, where it can be encoded at all."""
    try:
        raw = protocol.strings(*texts)
    except UnicodeEncodeError:  # half of a surrogate pair that stands for no byte
        return
    back = protocol.split(raw)
    assert [b.encode("utf-8", "surrogateescape") for b in back] == [t.encode("utf-8", "surrogateescape") for t in texts]


def test_a_nul_is_refused_everywhere() -> None:
    """A NUL would end a string early and shift all that follows."""
    with pytest.raises(ValueError, match="NUL"):
        protocol.encode_exec(ExecRequest("a\0b"))
    with pytest.raises(ValueError, match="NUL"):
        protocol.encode_acts([("read", "/a\0/b")])


@given(
    st.builds(
        ExecResult,
        exit_code=st.integers(0, 255),
        signal=st.none(),
        timed_out=st.booleans(),
        stdout=st.binary(max_size=50),
        stderr=st.binary(max_size=50),
        stdout_dropped=st.integers(0, 2**60),
        stderr_dropped=st.integers(0, 2**60),
        stdout_head=st.integers(0, 2**30),
        stderr_head=st.integers(0, 2**30),
        survivors=st.integers(0, 10**6),
        duration_ms=st.integers(0, 10**7).map(float),
    )
)
def test_results_survive_the_wire(result: ExecResult) -> None:
    """Every field of a result comes back as it was."""
    framed = protocol.encode_done(result, protocol.KILLED_NOT)
    assert protocol.LENGTH.unpack(framed[:4])[0] == len(framed) - 4
    assert protocol.decode_done(framed[5:]) == result


@given(st.binary(max_size=120))
def test_a_broken_result_is_only_a_protocol_error(body: bytes) -> None:
    """Whatever comes instead of a result, nothing else is raised, and no length is believed."""
    try:
        result = protocol.decode_done(body)
    except protocol.ProtocolError:
        return
    assert len(result.stdout) + len(result.stderr) <= len(body) + 120
