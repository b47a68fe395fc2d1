"""How runs end that do not finish: caps, cancels, crashes; always a report, nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.broker.transcript import verify
from tests.support.action import interrupt
from tests.support.model_server import ModelServer
from tests.support.model_turns import Call, Turn
from tests.support.scenario import RUN_ID, World


def leftovers(world: World) -> list[str]:
    """Processes that still mention the world's folder, and private folders beside the workspace."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                arguments = Path(f"/proc/{name}/cmdline").read_bytes()
                folder = os.readlink(f"/proc/{name}/cwd")
            except OSError:
                continue
            if b"/github/git/" in arguments:
                continue  # the simulator's own git
            if (str(world.folder).encode() in arguments or folder.startswith(str(world.workspace))) and int(
                name
            ) != os.getpid():
                found.append(arguments.decode("utf-8", "replace"))
    return found + [str(p) for p in world.workspace.parent.glob(".airlock-*")]


ASKED = threading.Event()


def hang(_: object) -> Turn:
    ASKED.set()  # the server lists a request only when it has answered it
    time.sleep(30)
    return Turn(text="late")


@pytest.mark.parametrize(
    ("name", "turns"),
    [
        ("model call", hang),
        ("command", [Turn(calls=[Call("run_command", {"command": "sleep 60"})])]),
    ],
)
def test_a_cancel_leaves_a_partial_report_in_time(
    world: World, name: str, turns: Callable[[object], Turn] | list[Turn]
) -> None:
    """SIGINT during a model call and during a command: report, exit status, workspace put back, nobody left."""
    config = (world.workspace / ".git/config").read_bytes()
    event = world.github.event("workflow_run", world.repository, run=RUN_ID)

    def when_busy(process: subprocess.Popen[str]) -> None:
        while not (model.requests or ASKED.is_set()):
            time.sleep(0.05)
        interrupt(1.5)(process)

    ASKED.clear()
    with ModelServer(turns) as model:
        result = world.run("workflow_run", event, model, interrupt_after=when_busy)

    assert (result.outputs["stop-reason"], result.outputs["outcome"], result.exit_status) == (
        "cancelled",
        "cancelled",
        6,
    )
    assert verify(result.results / "transcript.jsonl") == []
    assert result.events("run.end")[0]["stop_reason"] == "cancelled"
    assert "cancelled" in result.summary.lower()
    assert (world.workspace / ".git/config").read_bytes() == config
    assert leftovers(world) == []


def test_a_cancelled_run_whose_report_comes_too_late_is_cancelled_all_the_same(world: World) -> None:
    """GitHub holds the broker longer than the runner waits: launch ends it, and says what the user did."""
    fault = world.github.fault(".*", "", delay=30.0)
    event = world.github.event("workflow_run", world.repository, run=RUN_ID)

    def when_held(process: subprocess.Popen[str]) -> None:
        while not fault.used and process.poll() is None:
            time.sleep(0.05)
        interrupt(0.1)(process)

    with ModelServer([Turn(text="never")]) as model:
        result = world.run("workflow_run", event, model, interrupt_after=when_held)
    assert (result.outputs, result.exit_status) == ({"outcome": "cancelled", "stop-reason": "cancelled"}, 6)
    assert "::error::The run was cancelled, and no time was left for its report." in result.log
    assert (model.requests, leftovers(world)) == ([], [])


@pytest.mark.root
@pytest.mark.parametrize("victim", ["--broker", "--harness"])
def test_a_killed_zone_ends_the_run_as_error_and_the_workspace_is_put_back(world: World, victim: str) -> None:
    """kill -9 of the broker or the harness: never green, transcript valid up to there, nothing left."""
    config = (world.workspace / ".git/config").read_bytes()
    event = world.github.event("workflow_run", world.repository, run=RUN_ID)

    def kill(process: subprocess.Popen[str]) -> None:
        while not (model.requests or ASKED.is_set()):
            time.sleep(0.05)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        for pid in children:
            if victim.encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
                os.kill(int(pid), signal.SIGKILL)

    ASKED.clear()
    with ModelServer(hang) as model:
        result = world.run("workflow_run", event, model, interrupt_after=kill)

    assert result.exit_status == 1
    assert result.outputs["outcome"] == "error"
    assert [p for p in verify(result.results / "transcript.jsonl") if "run.end" not in p] == []
    assert (world.workspace / ".git/config").read_bytes() == config
    assert leftovers(world) == []
