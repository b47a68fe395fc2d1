"""A harness that is taken over and has used up the machine's threads does not keep a cancel from its effect."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

import agent.launch
from agent.broker.run import Broker
from agent.launch import Launch


@pytest.fixture(autouse=True)
def none_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """No thread can be started."""

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)


@pytest.fixture
def hanging() -> Iterator[subprocess.Popen[bytes]]:
    """A broker that never comes to its report."""
    process = subprocess.Popen(["sleep", "60"])
    before = signal.getsignal(signal.SIGALRM)
    yield process
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)
    process.kill()
    process.wait()


def test_launch_tells_the_broker_and_ends_one_that_hangs(
    hanging: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The grace runs from the first signal: a second one tells again and adds none."""
    monkeypatch.setattr(agent.launch, "CANCEL_GRACE_S", 0.5)
    told, tell = os.pipe()
    launch = Launch.__new__(Launch)
    launch._plan_fd, launch.broker_pid, launch._ended, launch._cancelled = tell, hanging.pid, {}, False

    launch._on_signal(signal.SIGINT, None)
    assert (os.read(told, 9), hanging.poll()) == (b"c", None)
    monkeypatch.setattr(agent.launch, "CANCEL_GRACE_S", 60)
    launch._on_signal(signal.SIGTERM, None)

    assert hanging.wait(10) == -signal.SIGKILL
    assert os.read(told, 9) == b"c"
    os.close(told)
    os.close(tell)


def test_the_broker_ends_harness_and_hook() -> None:
    """In this order: what the harness holds is free then."""
    done: list[str] = []
    broker: Any = Broker.__new__(Broker)
    broker._run = SimpleNamespace(cancelled=False, lifecycle=SimpleNamespace(stop=lambda: done.append("hook")))
    broker._control = SimpleNamespace(call=done.append)
    broker._server = SimpleNamespace(end=lambda: done.append("server"))

    broker.cancel()

    assert (done, broker._run.cancelled, broker._cancelled) == (["harness.stop", "server", "hook"], True, True)
