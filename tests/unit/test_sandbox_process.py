"""What a command can and cannot do in the process backend, on a real kernel, under both helpers and all levels."""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.contract.errors import Refusal, ToolInputError, UpstreamError
from agent.contract.sandbox import Purpose, SandboxSpec
from agent.kernel.landlock import landlock_abi
from agent.sandbox.probe import ProbeTargets, probe
from agent.sandbox.process import ProcessBackend
from tests.support.small_disk import small_disk
from tests.unit.sandbox_rig import GID, HELPERS, LEVELS, ROOT, UID, Rig, alive, run, tree_of

pytestmark = pytest.mark.skipif(landlock_abi() < 6, reason="needs Landlock ABI 6")


@pytest.fixture(params=[(kind, level) for kind in HELPERS for level in LEVELS], ids=lambda p: "-".join(p))
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Rig]:
    """Every combination of helper and level."""
    kind, level = request.param
    rig = Rig(tmp_path, kind, level)
    yield rig
    rig.close()


@pytest.fixture(params=HELPERS)
def strongest(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Rig]:
    """Both helpers at level `root`."""
    rig = Rig(tmp_path, request.param, "root")
    yield rig
    rig.close()


def token() -> str:
    """Seconds to sleep that nobody else sleeps, so that a process can be found again."""
    return str(10_000_000 + uuid.uuid4().int % 10_000_000)


# ---- results ----


def test_result_is_what_wait_said(rig: Rig) -> None:
    """Exit status, signal and both streams are told exactly; bytes are untouched; standard input is empty."""
    session = rig.start()

    first = run(session, r"cat; printf 'a\0b\377\r\033[31m'; printf err >&2; exit 7")
    second = run(session, "kill -SEGV $$")
    third = run(session, "true")

    assert (first.exit_code, first.signal, first.timed_out, first.survivors) == (7, None, False, 0)
    assert (first.stdout, first.stderr) == (b"a\0b\xff\r\x1b[31m", b"err")
    assert (second.exit_code, second.signal) == (None, signal.SIGSEGV)
    assert (third.exit_code, third.signal, third.stdout, third.stderr) == (0, None, b"", b"")
    assert third.ok
    assert not first.ok


def test_long_output_keeps_head_and_tail_and_counts_the_rest(rig: Rig) -> None:
    """Of 588,895 bytes exactly the first and last 500 are kept."""
    whole = "".join(f"{n}\n" for n in range(1, 100_001)).encode()

    result = run(rig.start(), "seq 1 100000; seq 1 3 >&2", cap=1000)

    assert result.stdout == whole[:500] + whole[-500:]
    assert (result.stdout_head, result.stdout_dropped) == (500, len(whole) - 1000)
    assert (result.stderr, result.stderr_head, result.stderr_dropped) == (b"1\n2\n3\n", 0, 0)


def test_output_of_exactly_the_cap_is_whole(rig: Rig) -> None:
    """Nothing is dropped until the cap is passed by a byte."""
    session = rig.start()
    exact = run(session, "printf 0123456789", cap=10)
    over = run(session, "printf 0123456789a", cap=10)

    assert (exact.stdout, exact.stdout_dropped, exact.stdout_head) == (b"0123456789", 0, 0)
    assert (over.stdout, over.stdout_dropped, over.stdout_head) == (b"012346789a", 1, 5)


def test_endless_output_needs_bounded_memory(strongest: Rig) -> None:
    """`yes` until the time-out: drained, counted, and the helper stays small."""
    session = strongest.start()
    result = run(session, "yes 0123456789", timeout_s=1.0)
    helpers = tree_of(session._process.pid)
    peaks = [
        int(line.split()[1])
        for pid in helpers
        for line in Path(f"/proc/{pid}/status").read_text().splitlines()
        if line.startswith("VmHWM")
    ]

    assert result.timed_out
    assert result.signal == signal.SIGKILL
    assert len(result.stdout) == 400_000
    assert result.stdout_dropped > 1_000_000
    assert max(peaks) < 64_000  # kB


def test_frames_printed_by_a_command_are_only_output(rig: Rig) -> None:
    """A forged result frame, delimiter or exit text changes nothing of the real result."""
    forged = "\\x00\\x00\\x00\\x3dD" + "\\x00" * 60
    session = rig.start()
    result = run(session, f"printf '{forged}'; echo exit status 0; exit 3")

    assert (result.exit_code, len(result.stdout)) == (3, 65 + len("exit status 0\n"))
    assert run(session, "echo next").stdout == b"next\n"


# ---- lifetime ----


def test_timeout_kills_the_whole_tree(rig: Rig) -> None:
    """Children that hold the pipe, ignore signals, change session or double-fork all die at the time-out."""
    mark = token()
    command = (
        f"trap '' TERM INT HUP; sleep {mark} & setsid sleep {mark} &"
        f" (setsid sh -c 'trap \"\" TERM HUP; sleep {mark}' &) ;"
        f"nohup sh -c 'sleep {mark}' >/dev/null 2>&1 & sleep {mark}"
    )
    session = rig.start()
    result = run(session, command, timeout_s=0.5)

    assert (result.timed_out, result.exit_code, result.signal) == (True, None, signal.SIGKILL)
    assert result.survivors >= 4
    assert alive(mark) == []
    assert run(session, "echo next").stdout == b"next\n"


def test_nothing_survives_a_command(rig: Rig) -> None:
    """Daemons are killed and counted when their command ends, also those that let go of every descriptor."""
    mark = token()
    daemon = f"(setsid sleep {mark} </dev/null >/dev/null 2>&1 &); sleep {mark} & disown; echo started"
    result = run(rig.start(), daemon)

    assert (result.stdout, result.exit_code, result.survivors) == (b"started\n", 0, 2)
    assert alive(mark) == []


def test_command_cannot_reach_its_helper(rig: Rig) -> None:
    """Signals, memory, descriptors and tracing of the helper are refused, and it goes on serving."""
    session = rig.start()
    result = run(
        session,
        "for p in $PPID 1; do kill -9 $p; kill -STOP $p; cat /proc/$p/environ; cat /proc/$p/mem; ls /proc/$p/fd;"
        " echo x > /proc/$p/fd/1; done; kill -9 -1; echo still here",
    )
    look = run(session, f"python3 -c {shlex.quote(TRACE)}" if os.path.exists("/usr/bin/python3") else "echo refused")

    assert result.stdout in (b"still here\n", b"")  # `kill -9 -1` may take the shell itself
    assert result.stderr.count(b"ermitted") >= 4
    assert look.stdout == b"refused\n"
    assert run(session, "echo next").stdout == b"next\n"


TRACE = """
import ctypes, os
libc = ctypes.CDLL(None)
print("refused" if libc.ptrace(16, os.getppid(), 0, 0) == -1 else "traced")
"""


def test_closing_the_channel_ends_a_running_command(rig: Rig) -> None:
    """A dead trusted side means a dead sandbox, in the middle of a command too."""
    mark = token()
    session = rig.start()
    failures: list[Exception] = []

    def wait() -> None:
        try:
            run(session, f"sleep {mark}")
        except UpstreamError as exc:
            failures.append(exc)

    thread = threading.Thread(target=wait)
    thread.start()
    while not alive(mark):
        assert thread.is_alive()
        time.sleep(0.01)
    session.close()
    thread.join(10)

    assert [type(f) for f in failures] == [UpstreamError]
    assert alive(mark) == []
    with pytest.raises(UpstreamError):
        run(session, "true")


def test_killed_trusted_side_leaves_nothing(strongest: Rig) -> None:
    """SIGKILL of the process that started the sandbox ends helper and command."""
    mark = token()
    root, command = str(strongest.root), strongest.backend._helper
    code = (
        "import sys; from agent.sandbox.process import ProcessBackend; from agent.contract.sandbox import *;"
        f"b = ProcessBackend(helper={command!r}, base={str(strongest.root.parent)!r});"
        f"s = b.start(SandboxSpec(Purpose.MAIN, {root!r}));"
        f"s.exec(ExecRequest('sleep {mark}'))"
    )
    starter = subprocess.Popen([sys.executable, "-c", code], cwd=Path(__file__).resolve().parents[2])
    while len(found := alive(f"sleep {mark}".replace(" ", "\0"))) < 1:
        assert starter.poll() is None
        time.sleep(0.01)
    starter.kill()
    starter.wait()
    deadline = time.monotonic() + 10
    while alive(mark) and time.monotonic() < deadline:
        time.sleep(0.01)

    assert found
    assert alive(mark) == []


# ---- resources ----


def test_fork_bomb_is_bounded_and_swept(rig: Rig) -> None:
    """A bomb meets the process limit, dies with its command, and the next command runs."""
    session = rig.start(pids=64)
    result = run(session, "b() { b | b & }; b; sleep 1; echo survived", timeout_s=8)

    assert result.survivors < 400
    assert run(session, "echo next").stdout == b"next\n"
    assert [p for p in tree_of(session._process.pid) if p != session._process.pid][1:] == []


def test_one_file_cannot_grow_past_its_limit(rig: Rig) -> None:
    """dd of 10 GB and fallocate of 20 GB stop at the file limit."""
    session = rig.start(file_mb=4)
    written = run(session, "dd if=/dev/zero of=big bs=1M count=10240 2>/dev/null")
    allocated = run(session, "fallocate -l 20G big2")

    assert written.signal == signal.SIGXFSZ or written.exit_code == 128 + signal.SIGXFSZ
    assert (rig.root / "big").stat().st_size <= 4 << 20
    assert not allocated.ok
    assert sum(p.stat().st_size for p in rig.root.iterdir()) <= 8 << 20
    assert run(session, "echo small > ok && cat ok").stdout == b"small\n"


def test_many_files_cannot_fill_the_disk(rig: Rig) -> None:
    """A command that fills the disk file by file is killed, and told why."""
    session = rig.start(file_mb=8)
    command = "i=0; while :; do head -c 4000000 /dev/urandom > f$i; i=$((i+1)); done"
    result = run(session, command, timeout_s=60)

    assert (result.signal, result.timed_out) == (signal.SIGKILL, False)
    assert b"it filled the disk further than a command may" in result.stderr


def test_memory_of_all_processes_together_is_bounded(rig: Rig) -> None:
    """Four processes that each stay below the limit are killed for their sum; one alone may go on."""
    session = rig.start(memory_mb=200)
    hold = "x=$(head -c 60000000 /dev/zero | tr '\\0' x); sleep 30"
    result = run(session, f"for i in 1 2 3 4 5 6; do bash -c {shlex.quote(hold)} & done; wait", timeout_s=25)

    assert (result.signal, result.timed_out) == (signal.SIGKILL, False)
    assert b"its processes used more memory than a command may" in result.stderr
    assert run(session, "echo next").stdout == b"next\n"


UNMAPPED = {
    "a file in memory": "fd = os.memfd_create('x'); [os.write(fd, bytes(1 << 20)) for _ in range(600)]",
    "a shared mapping": "m = mmap.mmap(-1, 600 << 20); [m.write(bytes(1 << 20)) for _ in range(600)]",
}


@pytest.mark.parametrize("what", UNMAPPED)
def test_memory_that_counts_for_no_process_is_bounded_too(strongest: Rig, what: str) -> None:
    """Shared memory is in no process's own; a command took all of the runner's by it, whatever its limit."""
    session = strongest.start(memory_mb=200)
    script = f"import mmap, os, time; {UNMAPPED[what]}; time.sleep(20); print('went past')"
    result = run(session, f"python3 -c {shlex.quote(script)}", timeout_s=25)

    assert (result.signal, result.timed_out, result.stdout) == (signal.SIGKILL, False, b"")
    assert b"its processes used more memory than a command may" in result.stderr
    assert run(session, 'python3 -c "import mmap; mmap.mmap(-1, 9 << 20).write(bytes(9 << 20))"').ok, "control"


@pytest.mark.root
@pytest.mark.skipif(not ROOT, reason="needs root to mount a small disk")
@pytest.mark.parametrize("kind", HELPERS)
def test_many_empty_files_cannot_use_up_the_disk(tmp_path: Path, kind: str) -> None:
    """Running out of file numbers counts as filling the disk, on the disk of TMPDIR too."""
    small = tmp_path / "base"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m,nr_inodes=400,mode=755", "small", str(small)], check=True)
    try:
        rig = Rig(tmp_path, kind, "bare", base=str(small))
        result = run(rig.start(), "cd $TMPDIR; for i in $(seq 390); do : > $i || break; done; sleep 20", timeout_s=30)
        rig.close()
    finally:
        subprocess.run(["umount", "-l", str(small)], check=True)

    assert (result.signal, result.timed_out) == (signal.SIGKILL, False)
    assert b"it filled the disk further than a command may" in result.stderr


def test_one_process_cannot_pass_the_memory_limit(strongest: Rig) -> None:
    """An allocation over the limit fails inside the process."""
    session = strongest.start(memory_mb=100)
    result = run(session, "python3 -c 'bytearray(300 << 20)'")

    assert result.exit_code == 1
    assert b"MemoryError" in result.stderr
    assert run(session, "python3 -c 'bytearray(20 << 20)'").ok


@pytest.mark.root
@pytest.mark.skipif(not ROOT, reason="needs root to mount a small disk")
@pytest.mark.parametrize("place", ["workspace", "tmp"])
@pytest.mark.parametrize("kind", HELPERS)
def test_a_small_disk_is_never_filled(tmp_path: Path, kind: str, place: str) -> None:
    """On a disk of 64 MB the command is killed, whichever writable folder lies on it, and the sandbox goes on."""
    base = tmp_path / "base"
    base.mkdir()
    rig = Rig(tmp_path, kind, "root", base=str(base))
    with small_disk(rig.root if place == "workspace" else base, 64):
        os.chown(rig.root, UID, GID)
        session = rig.start()
        folder = {"workspace": ".", "tmp": "$TMPDIR"}[place]
        fill = "for i in $(seq 16); do head -c 4000000 /dev/zero > $i; sleep 0.15; done; sleep 20; echo unnoticed"
        result = run(session, f"cd {folder}; {fill}", timeout_s=30)
        after = run(session, f"cd {folder}; rm ?; echo room > g && cat g")
        rig.close()

    assert (result.signal, result.stdout) == (signal.SIGKILL, b"")
    assert b"it filled the disk further than a command may" in result.stderr
    assert after.stdout == b"room\n"


# ---- identity ----


def test_command_holds_no_privilege(rig: Rig) -> None:
    """Own uid, no group, no capability, no new privileges, filtered, no core file, own session."""
    result = run(
        rig.start(),
        "id -u; id -G; grep -E '^(CapInh|CapPrm|CapEff|CapAmb|NoNewPrivs|Seccomp):' /proc/self/status; ulimit -c",
    )

    lines = result.stdout.decode().replace("\t", " ").splitlines()
    assert lines[0] == str(UID)
    if ROOT:
        assert lines[1] == str(GID)
    assert lines[2:] == [
        *(f"Cap{n}: 0000000000000000" for n in ("Inh", "Prm", "Eff", "Amb")),
        "NoNewPrivs: 1",
        "Seccomp: 2",
        "0",
    ]


@pytest.mark.root
@pytest.mark.skipif(not ROOT, reason="needs a root-owned workspace")
def test_root_owned_workspace_is_refused(tmp_path: Path) -> None:
    """Commands never run as root: the workspace must belong to somebody else first."""
    with pytest.raises(Refusal) as caught:
        ProcessBackend().start(SandboxSpec(Purpose.MAIN, str(tmp_path)))

    assert caught.value.code == "sandbox_uid"


# ---- files ----


def test_files_outside_are_out_of_reach(rig: Rig, tmp_path: Path) -> None:
    """World-writable files outside can be neither read, changed, linked nor listed, also not through links."""
    outside = tmp_path / "outside"
    outside.mkdir()
    outside.chmod(0o777)
    canary = outside / "canary"
    canary.write_text("CANARY")
    canary.chmod(0o666)
    (rig.root / "link").symlink_to(canary)
    session = rig.start()
    attempts = (
        f"cat {canary}", "cat link", "echo x >> link", f"echo x > {canary}", f": > {outside}/new",
        f"ln {canary} hard && cat hard", f"ls {outside}", f"mv {outside} moved", f"rm -f {canary}; test ! -e {canary}",
        "ls /root", "ls /home", "cat /etc/shadow", "ls /var/lib",
    )  # fmt: skip
    results = {a: run(session, a) for a in attempts}
    hidden = rig.level == "root"  # what has no name there is gone already, and `rm` has nothing to do

    worked = [a for a, r in results.items() if r.ok]
    assert worked == ([attempts[8]] if hidden else [])
    assert b"CANARY" not in b"".join(r.stdout for r in results.values())
    assert canary.read_text() == "CANARY"
    assert sorted(p.name for p in outside.iterdir()) == ["canary"]
    assert run(session, "mkdir a && echo in > a/f && mv a/f g && ln g h && cat h").stdout == b"in\n"


def test_home_and_tmp_are_fresh_and_removed(rig: Rig, tmp_path: Path) -> None:
    """Two sandboxes share neither HOME nor TMPDIR, and both vanish at the end, hostile modes included."""
    one, two = rig.start(), rig.start()
    run(one, "echo one > $HOME/f; echo one > $TMPDIR/f; mkdir -p $HOME/d/e; chmod 0 $HOME/d")
    seen = run(two, "cat $HOME/f $TMPDIR/f")
    folders = run(one, "echo $HOME; echo $TMPDIR").stdout.decode().split()
    foreign = run(two, f"cat {folders[0]}/f {folders[1]}/f")
    rig.close()

    assert (seen.exit_code, seen.stdout) == (1, b"")
    assert (foreign.exit_code, foreign.stdout) == (1, b"")
    assert [os.path.exists(os.path.dirname(f)) for f in folders] == [False, False]


def test_readable_folders_can_be_read_and_run_but_not_written(rig: Rig, tmp_path: Path) -> None:
    """A tool cache given by trusted configuration is on PATH, and stays as it was."""
    tools = tmp_path / "tools" / "bin"
    tools.mkdir(parents=True)
    (tools / "greet").write_text("#!/bin/sh\necho greetings\n")
    for item in (tools, tools / "greet"):
        item.chmod(0o777)
    session = rig.start(readable=(str(tools),))
    result = run(session, f"greet; echo x >> {tools}/greet; : > {tools}/new; echo done")

    assert result.stdout == b"greetings\ndone\n"
    assert [p.name for p in tools.iterdir()] == ["greet"]
    assert (tools / "greet").read_text().endswith("greetings\n")


@pytest.mark.parametrize("cwd", ["/", "/etc", "..", "a/../..", "a/../../etc"])
def test_folder_outside_is_refused(strongest: Rig, cwd: str) -> None:
    """A command's folder cannot leave the root by name."""
    with pytest.raises(ToolInputError):
        run(strongest.start(), "pwd", cwd=cwd)


def test_folder_inside_is_entered_and_a_missing_one_is_told(strongest: Rig) -> None:
    """The folder becomes PWD; one that is missing is an error that the model can mend."""
    session = strongest.start()
    run(session, "mkdir -p 'a b/c'")

    assert (
        run(session, "pwd; echo $PWD", cwd="a b/c").stdout.decode().split("\n")[:2] == [f"{strongest.root}/a b/c"] * 2
    )
    with pytest.raises(ToolInputError, match="No such file or directory"):
        run(session, "pwd", cwd="missing")
    assert run(session, "echo next").stdout == b"next\n"


def test_command_that_cannot_be_started_is_told(strongest: Rig) -> None:
    """A NUL or an over-long text is the model's error, not a broken sandbox."""
    session = strongest.start()
    with pytest.raises(ToolInputError, match="NUL"):
        run(session, "echo a\0b")
    with pytest.raises(ToolInputError, match="script file"):
        run(session, "x" * 200_000)
    assert run(session, "echo next").stdout == b"next\n"


# ---- network ----


def test_network_none_reaches_no_listener(rig: Rig, tmp_path: Path) -> None:
    """TCP, UDP, a 0666 unix socket and an abstract socket of the host hear nothing."""
    report = probe(rig.start(), str(rig.root), ProbeTargets(pids=(os.getpid(), os.getppid())))

    assert [i for i in report.items if not i.held] == []
    assert report.ok
    assert report.loopback == (rig.level != "bare")


def test_network_open_reaches_a_listener_and_no_socket_file(strongest: Rig, tmp_path: Path) -> None:
    """The setup sandbox has the network (the control of the test above) and still no engine socket."""
    session = strongest.start(network=True)
    strict = probe(session, str(strongest.root), ProbeTargets())
    meant = probe(session, str(strongest.root), ProbeTargets(network=True))

    assert [i.name for i in strict.items if not i.held] == ["connect out by TCP", "send by UDP"]
    assert not strict.ok
    assert meant.ok


SOCKETS = """
import socket
for name, family, args in [
    ("inet", socket.AF_INET, (socket.SOCK_STREAM,)), ("inet6", socket.AF_INET6, (socket.SOCK_STREAM,)),
    ("unix", socket.AF_UNIX, (socket.SOCK_STREAM,)), ("raw", socket.AF_INET, (socket.SOCK_RAW, 1)),
    ("ping", socket.AF_INET, (socket.SOCK_DGRAM, 1)), ("packet", socket.AF_PACKET, (socket.SOCK_RAW,)),
    ("vsock", socket.AF_VSOCK, (socket.SOCK_STREAM,)), ("alg", socket.AF_ALG, (socket.SOCK_SEQPACKET,)),
    ("netfilter", socket.AF_NETLINK, (socket.SOCK_RAW, 12)), ("bluetooth", 31, (socket.SOCK_RAW,)),
]:
    try:
        socket.socket(family, *args)
        print(name)
    except OSError:
        pass
a, b = socket.socketpair(); a.send(b"pair"); print(b.recv(9).decode())
"""


def test_socket_families(rig: Rig) -> None:
    """Only the families of the level exist: none at `bare`, no unix socket below `root`."""
    (rig.root / "s.py").write_text(SOCKETS)
    result = run(rig.start(), "python3 s.py")
    expected = {"root": ["inet", "inet6", "unix"], "net": ["inet", "inet6"], "bare": []}[rig.level]

    assert result.stdout.decode().split() == [*expected, "pair"], result.stderr


LOOPBACK = """
import socket, sys
for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"), (socket.AF_UNIX, None)):
    server = socket.socket(family); server.bind((host, 0) if host else "own.sock"); server.listen()
    client = socket.socket(family); client.connect(server.getsockname()); peer, _ = server.accept()
    client.sendall(b"hi"); print(family.name, peer.recv(9).decode())
for address in (("169.254.169.254", 80), ("10.0.0.1", 80), ("1.1.1.1", 53)):
    try: socket.create_connection(address, 1); print("out")
    except OSError as exc: print(exc.strerror or exc)
"""


def test_own_servers_work_and_the_world_is_unreachable(strongest: Rig) -> None:
    """A test suite's servers on 127.0.0.1, ::1 and a socket file work; metadata and public addresses do not."""
    (strongest.root / "l.py").write_text(LOOPBACK)
    result = run(strongest.start(), "python3 l.py")

    assert result.stdout.decode().splitlines() == [
        "AF_INET hi", "AF_INET6 hi", "AF_UNIX hi", *["Network is unreachable"] * 3,
    ]  # fmt: skip


# ---- shell ----


def test_no_startup_file_is_read(rig: Rig) -> None:
    """Profile and rc files that an earlier command planted, in HOME and in the workspace, never run."""
    session = rig.start()
    plant = "; ".join(
        f"echo 'echo PLANTED' > {place}/{name}"
        for place in ("$HOME", ".")
        for name in (".bashrc", ".profile", ".bash_profile", ".bash_login", ".zshenv", ".bash_logout", ".env")
    )
    run(session, plant)
    run(session, "export BASH_ENV=$HOME/.bashrc ENV=$HOME/.bashrc; ls() { echo PLANTED; }; export -f ls 2>/dev/null")

    assert run(session, "ls >/dev/null; echo clean").stdout == b"clean\n"


def test_streams_can_be_opened_anew(rig: Rig) -> None:
    """Scripts that write to /dev/stdout, /dev/stderr or /dev/fd/1 work, each into its own stream."""
    result = run(rig.start(), "echo a > /dev/stdout; echo b > /dev/stderr; echo c >> /dev/fd/1; cat <(echo d)")

    assert (result.stdout, result.stderr) == (b"a\nc\nd\n", b"b\n")


TOOLS = """
import multiprocessing, os, pty
print(multiprocessing.Pool(2).map(abs, [-1, -2]))
pid, fd = pty.fork()
if pid == 0: os.execlp("echo", "echo", "terminal")
print(os.read(fd, 99).decode().strip())
os.makedirs("/tmp/plain", exist_ok=True); open("/tmp/plain/f", "w").write("x"); print("tmp")
import pwd; print(pwd.getpwuid(os.getuid()).pw_name == os.environ["USER"])
"""


def test_what_test_suites_need_works(strongest: Rig) -> None:
    """Shared memory, pseudo-terminals, plain /tmp and a user's name are there, all of this sandbox alone."""
    (strongest.root / "t.py").write_text(TOOLS)
    result = run(strongest.start(), "python3 t.py; whoami >/dev/null && echo named")

    assert result.stdout.decode().splitlines() == ["[1, 2]", "terminal", "tmp", "True", "named"], result.stderr
    assert not os.path.exists("/tmp/plain")


# ---- probe ----


def test_probe_finds_what_is_open(strongest: Rig, tmp_path: Path) -> None:
    """A path that the sandbox can read or write after all is reported as not held, and spoils the verdict."""
    opened = tmp_path / "opened"
    opened.mkdir()
    (opened / "f").write_text("x")
    session = strongest.start(readable=(str(opened),))
    report = probe(session, str(strongest.root), ProbeTargets((f"{opened}/f",), (str(strongest.root),)))

    assert [(i.name, i.detail) for i in report.items if not i.held] == [
        (f"read {opened}/f", "it worked"),
        (f"write {strongest.root}", "it arrived"),
    ]
    assert not report.ok
    assert sorted(p.name for p in strongest.root.iterdir()) == []


def test_probe_of_a_sandbox_that_cannot_start_is_not_ok(tmp_path: Path) -> None:
    """No helper, no sandbox: the report says so instead of raising."""
    os.chown(tmp_path, UID, GID)
    report = ProcessBackend(helper=["/nonexistent"]).probe(SandboxSpec(Purpose.MAIN, str(tmp_path)), ProbeTargets())

    assert not report.ok
    assert [(i.name, i.detail) for i in report.items] == [
        ("start a sandbox", "start sandbox: /nonexistent: No such file or directory")
    ]


def test_engine_socket_is_tried_and_refused(rig: Rig, tmp_path: Path) -> None:
    """A world-writable socket at an engine's path is among the acts, and hears nothing."""
    path = str(tmp_path / "docker.sock")
    with socket.socket(socket.AF_UNIX) as engine:
        engine.bind(path)
        os.chmod(path, 0o666)
        engine.listen()
        engine.setblocking(False)
        report = probe(rig.start(), str(rig.root), ProbeTargets(docker_sockets=(path,)))
        with pytest.raises(BlockingIOError):
            engine.accept()

    assert [i.held for i in report.items if i.name == f"reach {path}"] == [True]
    assert report.ok
