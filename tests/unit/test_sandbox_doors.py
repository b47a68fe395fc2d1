"""Doors of the kernel tried from inside a command, and kernels that can confine less, or not at all."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.contract.errors import Refusal, UpstreamError
from agent.contract.sandbox import Purpose, SandboxSpec
from agent.kernel.landlock import landlock_abi
from agent.sandbox.probe import ProbeTargets
from agent.sandbox.process import ProcessBackend
from tests.support.user_python import reachable
from tests.unit.sandbox_rig import HELPERS, LEVELS, Rig, helper, run, workspace

REPOSITORY = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.skipif(landlock_abi() < 6, reason="needs Landlock ABI 6")


@pytest.fixture(params=[(kind, level) for kind in HELPERS for level in LEVELS], ids=lambda p: "-".join(p))
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Rig]:
    """Every combination of helper and level."""
    kind, level = request.param
    rig = Rig(tmp_path, kind, level)
    yield rig
    rig.close()


SHUT = (
    "ptrace", "process_vm_readv", "socket vsock", "socket packet", "socket alg", "socket netfilter", "socket 32-bit",
    "x32 call", "io_uring", "bpf", "keyctl", "unshare user", "clone user", "mount", "userfaultfd", "perf", "setuid 0",
    "setgroups", "mknod",
)  # fmt: skip
OPEN = ("socketpair", "exec", "fork", "thread", "read workspace", "write workspace")


@pytest.mark.skipif(not reachable(REPOSITORY / "x"), reason="this checkout lies where another user cannot go")
def test_doors_of_the_kernel_are_shut_to_commands(rig: Rig) -> None:
    """Foreign architectures, vsock, io_uring, bpf, keyrings, namespaces: refused; ordinary work is not."""
    (rig.root / "file").write_text("x")
    settings = {
        "zone": "command", "victim": os.getpid(), "workspace": str(rig.root), "canary": "/root/canary", "unix": "",
        "abstract": "", "port": 1, "readable": "", "channel": 0, "try": [*SHUT, *OPEN],
    }  # fmt: skip
    script = f"import sys; sys.path.insert(0, {str(REPOSITORY)!r}); from tests.unit.confine_acts import main; main()"
    session = rig.start(readable=(str(REPOSITORY),))
    result = run(session, f"/usr/bin/python3 -B -c {shlex.quote(script)} {shlex.quote(json.dumps(settings))}")

    assert result.ok, result.stderr
    told = json.loads(result.stdout)
    assert {name: told[name] for name in OPEN} == dict.fromkeys(OPEN, "done")
    assert {name for name in SHUT if not told[name].startswith("refused")} == set()
    only_filter = ("socket 32-bit", "x32 call", "io_uring", "bpf", "keyctl", "unshare user", "clone user", "ptrace")
    assert {told[name] for name in only_filter} == {"refused: EPERM"}


WITHOUT = """
import ctypes, os, struct, sys
libc = ctypes.CDLL(None)
rows = [(0x20, 0, 0, 0), (0x15, 0, 1, 444), (0x06, 0, 0, 0x50026), (0x06, 0, 0, 0x7FFF0000)]  # 444: ENOSYS
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *row) for row in rows))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(rows), ctypes.addressof(code)))
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program, 0, 0) == 0
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.mark.parametrize("kind", HELPERS)
def test_without_landlock_no_command_runs(tmp_path: Path, kind: str) -> None:
    """A kernel that knows no Landlock: the helper refuses to start, and the probe is not ok."""
    root = workspace(tmp_path)
    spec = SandboxSpec(Purpose.MAIN, str(root))
    backend = ProcessBackend(helper=[sys.executable, "-I", "-c", WITHOUT, *helper(kind)])

    with pytest.raises(UpstreamError, match="Landlock"):
        backend.start(spec)
    report = backend.probe(spec, ProbeTargets())
    assert (report.ok, [item.held for item in report.items]) == (False, [False])
    assert "Landlock" in report.items[0].detail
    ProcessBackend(helper=helper(kind)).start(spec).close()  # the same where the kernel has it


def test_a_sandbox_ends_where_python_cannot_watch_a_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Python that was built on old headers has no `os.pidfd_open`, whatever the kernel knows."""
    backend = ProcessBackend(helper=helper("c"), base=str(tmp_path))
    session = backend.start(SandboxSpec(Purpose.MAIN, str(workspace(tmp_path))))
    assert [*tmp_path.glob("airlock-*")], "control"
    monkeypatch.delattr(os, "pidfd_open")

    session.close()

    with pytest.raises(UpstreamError):
        run(session, "true")
    assert not Path(f"/proc/{session._process.pid}").exists()
    assert [*tmp_path.glob("airlock-*")] == []


def test_a_machine_below_abi_1_is_refused_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Decided before any helper is started."""
    monkeypatch.setattr("agent.sandbox.facts.landlock_abi", lambda: 0)

    with pytest.raises(Refusal, match="no Landlock") as caught:
        ProcessBackend(helper=["/nonexistent"]).start(SandboxSpec(Purpose.MAIN, str(workspace(tmp_path))))
    assert caught.value.code == "sandbox_missing"


DEGRADED = """
import os, sys
sys.path.insert(0, sys.argv[1])
from agent.kernel import landlock, prctl
abi, inside, outside = int(sys.argv[2]), sys.argv[3], sys.argv[4]
rules = landlock.rules_for(read=["/proc"], write=[inside])
ruleset = landlock.make_ruleset(rules, scope=True, abi=abi)
prctl.libc.prctl(38, 1, 0, 0, 0)
landlock.enforce(ruleset)
def told(act):
    try:
        act()
        return "done"
    except OSError as exc:
        return exc.strerror
print(told(lambda: open(outside).read()), told(lambda: open(outside, "a")), told(lambda: open(outside + ".new", "w")),
      told(lambda: os.unlink(outside)), told(lambda: open(inside + "/made", "w")),
      told(lambda: os.truncate(outside, 0)), sep="|")
"""


@pytest.mark.parametrize("abi", [1, 2, 3, 4, 5, 6])
def test_an_older_kernel_confines_what_it_can(tmp_path: Path, abi: int) -> None:
    """Reading, writing, making and removing outside are refused from ABI 1 on; truncating from ABI 3, as is told."""
    (tmp_path / "inside").mkdir()
    outside = tmp_path / "outside"
    outside.write_text("as it was")
    command = [sys.executable, "-I", "-c", DEGRADED, str(REPOSITORY), str(abi), str(tmp_path / "inside"), str(outside)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)

    refused = "Permission denied"
    last = "done" if abi < 3 else refused
    assert done.stdout.strip().split("|") == [refused, refused, refused, refused, "done", last]
    assert outside.read_text() == ("" if abi < 3 else "as it was")
    assert not outside.with_name("outside.new").exists()
