"""How the stages of entrypoint.py are started."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agent.contract.inputs import blob
from agent.contract.outcomes import OUTCOMES, StopReason
from agent.kernel.channel import Channel
from agent.launch import Launch
from agent.launch_stages import command, environment, memory, spawn

ROOT = Path(__file__).resolve().parents[2]


def test_a_broker_that_gets_no_plan_ends_without_a_word() -> None:
    """It is started before launch can clean up; where launch dies first, nothing was done and nothing is said."""
    plan, plan_to = os.pipe()
    brokers, control = socket.socketpair()
    harnesss, _ = socket.socketpair()
    fds = [brokers.fileno(), harnesss.fileno(), plan, memory(blob({"api-key": "k"})), memory(b"{}")]
    for fd in fds:
        os.set_inheritable(fd, True)
    broker = subprocess.Popen(
        command("--broker", fds), env=environment(), pass_fds=fds, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    brokers.close()
    os.close(plan_to)
    assert broker.communicate(timeout=60) == (b"", None)
    assert broker.returncode == 1
    assert control.recv(1) == b"", "it asked launch for nothing"


def test_a_stage_has_only_the_descriptors_it_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is open here, and one that another stage gets, do not reach it; those given are closed here."""
    told = tmp_path / "told"
    script = tmp_path / "stage.py"
    script.write_text(f"import os\nopen({str(told)!r}, 'w').write(' '.join(os.listdir('/proc/self/fd')))\n")
    monkeypatch.setattr("agent.launch_stages.ENTRYPOINT", str(script))
    others, given = memory(b"secret"), memory(b"plan")
    assert os.waitpid(spawn("--x", [given], silent=True), 0)[1] == 0
    seen = {int(fd) for fd in told.read_text().split()}
    assert given in seen, "control: what is given arrives"
    assert others not in seen
    os.close(others)
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(given)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_cancel_before_the_run_is_a_sentence_and_no_traceback(number: signal.Signals) -> None:
    """A runner's cancel may come while the first stage still reads what it is given."""
    first = subprocess.Popen(
        [sys.executable, "-I", "-B", str(ROOT / "entrypoint.py"), "--stdin"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert first.stdin is not None
    wait_until_caught(first, signal.SIGHUP)
    first.send_signal(number)
    assert first.communicate(timeout=60)[0] == b"airlock: cancelled before the run began.\n"
    assert first.returncode == OUTCOMES[StopReason.CANCELLED].exit_status


def wait_until_caught(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Until it has its handlers, of which this is the last."""
    deadline = time.monotonic() + 60
    while True:
        status = Path(f"/proc/{process.pid}/status").read_text()
        caught = int(next(line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:")), 16)
        if caught >> (number - 1) & 1:
            return
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_the_first_stage_does_not_run_on_what_it_started(tmp_path: Path) -> None:
    """Ended while launch starts, it leaves no process behind."""
    variables = {"GITHUB_WORKSPACE": str(tmp_path), "GITHUB_EVENT_NAME": "push", "RUNNER_TEMP": str(tmp_path)}
    first = subprocess.Popen(
        [sys.executable, "-I", "-B", str(ROOT / "entrypoint.py"), "--stdin"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    assert first.stdin is not None
    assert first.stdout is not None
    first.stdin.write(blob(variables) + b"{}")
    first.stdin.close()
    children = Path(f"/proc/{first.pid}/task/{first.pid}/children")
    while not (broker := children.read_text().split()):
        assert first.poll() is None
    first.send_signal(signal.SIGKILL)
    assert first.wait() == -signal.SIGKILL
    assert first.stdout.read() == b"", "read to its end: nobody holds the other end any more"
    assert not Path(f"/proc/{broker[0]}/fd/0").exists()


@pytest.mark.parametrize("umask", [0o077, 0o022, 0o000])
def test_a_sandbox_may_pass_through_our_folder_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    """The commands' user must reach its own folder below, and nobody may list ours."""
    control, _peer = socket.socketpair()
    before = os.umask(umask)
    try:
        launch = Launch({"GITHUB_WORKSPACE": str(tmp_path), "RUNNER_TEMP": str(tmp_path)}, Channel(control), 0)
    finally:
        os.umask(before)
    mode = launch.state.stat().st_mode & 0o777
    launch.state.rmdir()
    control.close()
    assert mode == 0o711
