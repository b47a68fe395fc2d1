"""What a confined harness and broker cannot do, tried one by one against a live victim and live listeners."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.kernel import landlock
from agent.kernel.landlock import landlock_abi

ROOT = os.geteuid() == 0
UID, GID = (20001, 20001) if ROOT else (os.getuid(), os.getgid())
REPOSITORY = Path(__file__).resolve().parents[2]

needs_landlock = pytest.mark.skipif(landlock_abi() < 6, reason="Landlock ABI 6 is needed for scope")

VICTIM = """
import os, sys
from agent.kernel import prctl
if os.geteuid() == 0: prctl.drop_to({uid}, {gid})
prctl.libc.prctl(4, 1, 0, 0, 0)  # a change of uid hid it already
if {hidden}: prctl.set_non_dumpable()
print("ready", flush=True)
sys.stdin.read()
"""


class World:
    """A workspace, a canary outside it, a victim of the same uid, and listeners that must hear nothing."""

    def __init__(self, path: Path) -> None:
        self.workspace = path / "ws"
        self.workspace.mkdir()
        (self.workspace / "sub").mkdir()
        (self.workspace / "file").write_text("inside")
        outside = path / "outside"
        outside.mkdir(mode=0o777)
        outside.chmod(0o777)
        self.canary = outside / "canary"
        self.canary.write_text("CANARY")
        self.canary.chmod(0o666)
        (self.workspace / "link").symlink_to(self.canary)
        self.code = path / "code"
        self.code.write_text("code")
        self.code.chmod(0o666)
        for item in (self.workspace, self.workspace / "sub", self.workspace / "file"):
            os.chown(item, UID, GID)
        self.abstract = f"airlock-test-{os.getpid()}"
        self.listeners = [socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX), socket.socket()]
        self.listeners[0].bind(str(path / "engine.sock"))
        (path / "engine.sock").chmod(0o666)
        self.listeners[1].bind("\0" + self.abstract)
        self.listeners[2].bind(("127.0.0.1", 0))
        for listener in self.listeners:
            listener.listen()
            listener.setblocking(False)
        self.path = path
        self.victim: subprocess.Popen[str] | None = None

    def start_victim(self, *, hidden: bool) -> None:
        code = VICTIM.format(uid=UID, gid=GID, hidden=hidden)
        self.victim = subprocess.Popen(
            [sys.executable, "-c", code], cwd=REPOSITORY, env={"CANARY_TOKEN": "secret"},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self.victim.stdout is not None
        assert self.victim.stdout.readline() == "ready\n"

    def run(self, zone: str, *names: str) -> dict[str, str]:
        """Try the named acts in a child under the zone's confinement."""
        assert self.victim is not None
        reader, writer = os.pipe()
        settings: dict[str, Any] = {
            "zone": zone, "uid": UID, "gid": GID, "victim": self.victim.pid, "try": names,
            "workspace": str(self.workspace), "canary": str(self.canary), "readable": str(self.code),
            "unix": str(self.path / "engine.sock"), "abstract": self.abstract,
            "port": self.listeners[2].getsockname()[1], "channel": writer,
        }  # fmt: skip
        done = subprocess.run(
            [sys.executable, "-m", "tests.unit.confine_acts", json.dumps(settings)],
            cwd=REPOSITORY, capture_output=True, text=True, check=False, pass_fds=[writer],
        )  # fmt: skip
        os.close(writer)
        os.close(reader)
        assert done.returncode == 0, done.stderr
        result: dict[str, str] = json.loads(done.stdout)
        assert set(result) == set(names)
        return result

    def heard(self) -> list[int]:
        """Listeners that somebody reached."""
        reached = []
        for index, listener in enumerate(self.listeners):
            try:
                listener.accept()[0].close()
                reached.append(index)
            except BlockingIOError:
                pass
        return reached

    def close(self) -> None:
        for listener in self.listeners:
            listener.close()
        if self.victim is not None:
            self.victim.kill()
            self.victim.wait()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.close()


PERM, ACCES = "refused: EPERM", "refused: EACCES"
LOOK_INTO = ("read environ", "read mem", "list fds", "ptrace", "process_vm_readv", "pidfd_getfd")


@needs_landlock
def test_harness_reaches_no_other_process(world: World) -> None:
    """Looking into, tracing or signalling a process of the same uid is refused, even a dumpable one."""
    world.start_victim(hidden=False)

    result = world.run("harness", *LOOK_INTO, "kill", "kill parent", "kill self")

    assert result == {
        "read environ": ACCES, "read mem": ACCES, "list fds": ACCES, "ptrace": PERM,
        "process_vm_readv": PERM, "pidfd_getfd": PERM, "kill": PERM, "kill parent": PERM, "kill self": "done",
    }  # fmt: skip
    assert world.victim is not None
    assert world.victim.poll() is None


@needs_landlock
def test_harness_has_no_socket_of_any_family(world: World) -> None:
    """Every family is refused, a 0666 engine socket included; socketpair and the channel work."""
    world.start_victim(hidden=True)
    families = ("inet", "inet6", "unix", "vsock", "netlink", "netfilter", "packet", "alg")

    names = [f"socket {f}" for f in families]
    result = world.run("harness", *names, "unix socket 0666", "abstract socket", "tcp")

    assert result == dict.fromkeys([*names, "unix socket 0666", "abstract socket", "tcp"], ACCES)
    assert world.heard() == []
    assert world.run("harness", "socketpair", "inherited channel") == {
        "socketpair": "done",
        "inherited channel": "done",
    }


@needs_landlock
def test_harness_kernel_doors_are_shut(world: World) -> None:
    """Other ways into the kernel, to more rights or to another program are refused."""
    world.start_victim(hidden=True)
    names = (
        "socket 32-bit", "x32 call", "io_uring", "bpf", "keyctl", "unshare user", "clone user", "mount",
        "userfaultfd", "perf", "setuid 0", "setgroups", "exec", "fork", "shared memory",
    )  # fmt: skip

    assert world.run("harness", *names, "clone3") == dict.fromkeys(names, PERM) | {"clone3": "refused: ENOSYS"}
    assert world.run("harness", "thread") == {"thread": "done"}


@needs_landlock
def test_harness_files_are_the_workspace_alone(world: World) -> None:
    """World-writable files outside can be neither read nor changed, also not through a link."""
    world.start_victim(hidden=True)
    outside = (
        "read outside", "write outside", "truncate outside", "create outside", "list outside",
        "read through link", "write code",
    )  # fmt: skip
    inside = ("read workspace", "write workspace", "rename workspace", "read code")

    result = world.run("harness", *outside, "rename out", "mknod", *inside)

    expected = dict.fromkeys(outside, ACCES) | dict.fromkeys(inside, "done")
    node = result.pop("mknod")
    assert node in (PERM, ACCES)
    assert result.pop("rename out") in (ACCES, "refused: EXDEV")
    assert result == expected
    assert world.canary.read_text() == "CANARY"
    assert sorted(p.name for p in world.canary.parent.iterdir()) == ["canary"]
    assert (world.workspace / "sub" / "moved").read_text() == "x"


def test_broker_has_ip_and_no_unix_socket(world: World) -> None:
    """The broker connects by TCP; the 0666 engine socket, abstract sockets, tracing and 32-bit calls are shut."""
    world.start_victim(hidden=True)
    shut = ("unix socket 0666", "abstract socket", "socket unix", "socket vsock", "socket netfilter")
    doors = ("ptrace", "process_vm_readv", "io_uring", "socket 32-bit", "bpf", "unshare user")

    result = world.run("broker", *shut, *doors, "tcp", "exec", "read outside")

    assert result == (
        dict.fromkeys(shut, ACCES) | dict.fromkeys(doors, PERM) | dict.fromkeys(("tcp", "exec", "read outside"), "done")
    )
    assert world.heard() == [2]


def test_hidden_process_is_closed_to_its_own_uid(world: World) -> None:
    """Non-dumpable alone stops looking into; the same acts succeed on a plain victim (so the flag is why)."""
    world.start_victim(hidden=True)
    closed = world.run("same uid", *LOOK_INTO)
    assert world.victim is not None
    world.victim.kill()
    world.victim.wait()
    world.start_victim(hidden=False)
    opened = world.run("same uid", "read environ", "list fds")

    assert opened == {"read environ": "done", "list fds": "done"}
    assert closed == {name: closed[name] for name in LOOK_INTO if closed[name] in (PERM, ACCES)}


CHILD_CHECKS = """
import os, sys
from agent.kernel import prctl, confine, landlock
check = sys.argv[1]
if check == "root":
    try: prctl.drop_to(0, 0)
    except prctl.ConfinementError as exc: print(exc)
if check == "ids":
    prctl.drop_to(20001, 20002)
    print(os.getresuid(), os.getresgid(), os.getgroups())
    try: os.setuid(0)
    except PermissionError: print("stuck")
if check == "threads":
    import threading
    threading.Thread(target=threading.Event().wait, daemon=True).start()
    try: landlock.restrict_files(read=["/"])
    except prctl.ConfinementError as exc: print(exc)
if check == "fds":
    keep, lose = os.pipe()
    prctl.close_other_fds([0, 1, 2, keep])
    print(os.fstat(keep) is not None)
    try: os.fstat(lose)
    except OSError: print("closed")
if check == "caps":
    prctl.keep_capabilities([prctl.CAP_KILL, prctl.CAP_SETUID, prctl.CAP_SETGID])
    for line in open("/proc/self/status"):
        if line.startswith("Cap"): print(line.split()[0], line.split()[1].lstrip("0") or "0")
if check == "core":
    import resource
    prctl.no_core(); print(resource.getrlimit(resource.RLIMIT_CORE))
"""


def child(check: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", CHILD_CHECKS, check],
        cwd=REPOSITORY, capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    return done.stdout.splitlines()


def test_never_confined_to_root() -> None:
    """Dropping to uid 0 is an error, not a no-op."""
    assert child("root") == ["refused to run as uid 0, gid 0: never root"]


@pytest.mark.root
@pytest.mark.skipif(not ROOT, reason="changing the uid needs root")
def test_drop_is_for_good() -> None:
    """All ids change, groups are empty, and there is no way back."""
    assert child("ids") == ["(20001, 20001, 20001) (20002, 20002, 20002) []", "stuck"]


@pytest.mark.skipif(landlock_abi() < 1, reason="no Landlock")
def test_a_threaded_process_is_refused() -> None:
    """Landlock binds one thread: confining a process with more would leave the rest free."""
    assert child("threads") == ["Landlock binds one thread, and this process has more already"]


def test_other_descriptors_are_closed() -> None:
    """Only the named descriptors stay open."""
    assert child("fds") == ["True", "closed"]


@pytest.mark.root
@pytest.mark.skipif(not ROOT, reason="needs capabilities to drop")
def test_capabilities_are_cut_to_the_named() -> None:
    """Permitted, effective and bounding sets hold exactly the kept ones."""
    assert child("caps") == ["CapInh: 0", "CapPrm: e0", "CapEff: e0", "CapBnd: e0", "CapAmb: 0"]


def test_no_core_file() -> None:
    """Core files are off, soft and hard."""
    assert child("core") == ["(0, 0)"]


def test_missing_protections_are_told_in_words() -> None:
    """Each older kernel's lacks are named; the newest lacks nothing."""
    assert [len(landlock.missing(abi)) for abi in range(8)] == [5, 4, 3, 2, 2, 1, 0, 0]
    assert landlock.missing(5) == ("signals and abstract sockets are not confined (Landlock below ABI 6)",)


def test_rules_merge_by_path() -> None:
    """A path that is both writable and executable gets the union of rights."""
    rules = landlock.rules_for(read=["/a"], write=["/b"], execute=["/b"])
    assert rules == (
        landlock.FileRule("/a", landlock.READ),
        landlock.FileRule("/b", landlock.WRITE | landlock.EXECUTE),
    )
