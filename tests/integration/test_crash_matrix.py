"""The fault matrix: signals at random points, killed zones, GitHub and the model failing at each request.

After every fault the same must hold: the transcript is valid up to it, no process is left, the workspace is as
it was, and nothing is half published. `AIRLOCK_FAULTS=all` takes 50 signal points and every request (15 minutes);
without it a sample fits into CI. The terminal summary prints the table.
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent.broker.transcript import verify
from tests.integration.test_ending import leftovers
from tests.support.action import Result
from tests.support.artifacts import PROPERTY
from tests.support.model_server import ModelServer
from tests.support.model_turns import Call, Cut, Recorded, Status, Turn
from tests.support.scenario import RUN_ID, World, fixing_turns
from tests.support.seed import run_seed

BRANCH = f"airlock/fix-{RUN_ID}"
ALL = os.environ.get("AIRLOCK_FAULTS") == "all"
LASTS_S = 3.8  # nearly as long as an undisturbed run, which writes a second apart: a later signal meets nobody
REQUESTS = 21  # that an undisturbed run sends to GitHub; a fault after the last one would never come
TURNS = 9
OBJECT = re.compile(r"/git/(blobs|trees|commits)$")

POINTS = [
    (random.Random(run_seed() + n).uniform(0.05, LASTS_S), (signal.SIGINT, signal.SIGTERM)[n % 2])
    for n in range(50 if ALL else 4)
]
KILLS = [("--harness", 2), ("--harness", 7), ("--broker", 1), ("--broker", 5), ("--broker", 8)]
GITHUB = [
    (n, kind)
    for n in (range(REQUESTS) if ALL else (0, 3, 8, 13, 15, 18, 20))
    for kind in (("500", "drop", "for good") if ALL else (("500", "drop", "for good")[n % 3],))
]
MODEL = [
    (n, kind)
    for n in (range(TURNS) if ALL else (0, 4, 8))
    for kind in (("500", "cut", "401") if ALL else (("500", "cut", "401")[n % 3],))
]


@dataclass
class Rig:
    """One world and what it was before."""

    world: World
    record: Callable[[str, object], None]

    def __post_init__(self) -> None:
        self.git = {name: (self.world.workspace / ".git" / name).read_bytes() for name in ("config", "HEAD", "index")}
        self.refs = self.world.repository.refs()

    def play(
        self, model: ModelServer, disturb: Callable[[subprocess.Popen[str]], None] | None = None
    ) -> tuple[Result, float]:
        event = self.world.github.event("workflow_run", self.world.repository, run=RUN_ID)
        started = time.monotonic()
        return self.world.run("workflow_run", event, model, interrupt_after=disturb), time.monotonic() - started

    def judge(
        self, fault: str, where: str, result: Result, seconds: float, extra: frozenset[str] | set[str] = frozenset()
    ) -> None:
        """What must hold after any fault."""
        world, repository = self.world, self.world.repository
        assert [p for p in verify(result.results / "transcript.jsonl") if not p.endswith("cut off")] == []
        assert leftovers(world) == []
        assert {name: (world.workspace / ".git" / name).read_bytes() for name in self.git} == self.git
        assert {p.stat().st_uid for p in world.workspace.rglob("*")} == {world.workspace.stat().st_uid}
        heads = {k: v for k, v in repository.refs().items() if not k.startswith("refs/pull/")}
        assert {k: v for k, v in heads.items() if k != f"refs/heads/{BRANCH}"} == self.refs
        tip = repository.branch(BRANCH)
        if tip is not None:  # then it is the whole fix, and it passed its gate
            assert repository.git.run("diff", "--name-only", world.head, tip).decode().split() == sorted(
                {"prices/cart.py", *extra}
            )
            assert b"// 100" in (repository.read(BRANCH, "prices/cart.py") or b"")
        pulls = repository.pulls()
        assert len(pulls) <= (tip is not None)
        assert "Traceback" not in result.log + result.stderr
        ended = result.outputs.get("stop-reason", "")
        assert ended
        assert (result.exit_status == 0) == (ended == "completed")
        assert pulls or ended != "completed", "green means done"
        published = "pull request" if pulls else "branch" if tip else "nothing"
        self.tell(fault, where, f"{ended} ({result.exit_status})", published, seconds)

    def tell(self, fault: str, where: str, ended: str, published: str, seconds: float) -> None:
        """One line of the table in the terminal summary."""
        line = f"{fault:<20} {where:<22} {ended:<22} {published:<14} {seconds:>6.1f} s"
        self.record(PROPERTY, ("fault matrix: fault, where, ended as, published, time", line))


@pytest.fixture
def rig(world: World, record_property: Callable[[str, object], None]) -> Rig:
    return Rig(world, record_property)


@pytest.mark.root
@pytest.mark.parametrize(
    ("after_s", "number"), POINTS, ids=lambda v: v.name if isinstance(v, signal.Signals) else f"{v:.2f}s"
)
def test_a_signal_at_any_moment_leaves_everything_in_order(rig: Rig, after_s: float, number: signal.Signals) -> None:
    """Before the first line, in the middle of a push, while the report is written: the same promises."""

    def disturb(process: subprocess.Popen[str]) -> None:
        time.sleep(after_s)
        if process.poll() is None:
            process.send_signal(number)

    with ModelServer(fixing_turns(BRANCH)) as model:
        result, seconds = rig.play(model, disturb)
    if not (result.results / "transcript.jsonl").exists():
        # the signal came before there was a run: nothing may have happened
        assert leftovers(rig.world) == []
        assert (rig.world.repository.branch(BRANCH), result.exit_status != 0) == (None, True)
        rig.tell(number.name, f"after {after_s:.2f} s", f"no run ({result.exit_status})", "nothing", seconds)
        return
    rig.judge(number.name, f"after {after_s:.2f} s", result, seconds)


@pytest.mark.root
@pytest.mark.parametrize(("victim", "turn"), KILLS)
def test_a_killed_zone_leaves_everything_in_order(rig: Rig, victim: str, turn: int) -> None:
    """kill -9 while the model is asked for the n-th time."""
    asked = 0
    script = fixing_turns(BRANCH)
    found: list[subprocess.Popen[str]] = []

    def answer(_: Recorded) -> Turn:
        nonlocal asked
        asked += 1
        if asked == turn:
            kill(found[0].pid, victim)
        return script[min(asked, len(script)) - 1]

    with ModelServer(answer) as model:
        result, seconds = rig.play(model, found.append)
    rig.judge(f"kill -9 {victim[2:]}", f"turn {turn}", result, seconds)
    assert result.exit_status == 1


@pytest.mark.root
def test_a_killed_sandbox_fails_its_command_and_leaves_everything_in_order(rig: Rig) -> None:
    """kill -9 of the process that runs the commands, in the middle of one: an error, never a hang or a false green."""
    world = rig.world

    def disturb(process: subprocess.Popen[str]) -> None:
        mark = world.workspace / "begun"
        while not mark.exists() and process.poll() is None:
            time.sleep(0.01)
        for pid in descendants(process.pid):
            if not any(stage in arguments(pid) for stage in ("--broker", "--harness")):
                os.kill(pid, signal.SIGKILL)

    script = [Turn(calls=[Call("run_command", {"command": "touch begun; sleep 100"})]), *fixing_turns(BRANCH)[1:]]
    with ModelServer(script) as model:
        result, seconds = rig.play(model, disturb)
    assert seconds < 90
    assert result.events("tool.result")[0]["is_error"]
    rig.judge("kill -9 sandbox", "in a command", result, seconds, extra={"begun"})


def descendants(pid: int) -> list[int]:
    """Processes below one, children first."""
    children = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):  # each thread has its own
        with suppress(OSError):
            children += [int(child) for child in task.read_text().split()]
    return children + [below for child in children for below in descendants(child)]


def arguments(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace").split("\0")
    except OSError:
        return []


@pytest.mark.root
def test_a_broker_killed_in_the_middle_of_a_push_publishes_nothing(rig: Rig) -> None:
    """Loose objects at GitHub that nothing refers to are all that is left of it."""
    seen: list[subprocess.Popen[str]] = []

    def disturb(process: subprocess.Popen[str]) -> None:
        seen.append(process)
        while process.poll() is None:
            if any(r.method == "POST" and "/git/" in r.raw_path for r in list(rig.world.github.requests)):
                kill(process.pid, "--broker")
                return
            time.sleep(0.002)

    with ModelServer(fixing_turns(BRANCH)) as model:
        result, seconds = rig.play(model, disturb)
    rig.judge("kill -9 broker", "while publishing", result, seconds)
    assert rig.world.repository.branch(BRANCH) is None


def kill(pid: int, victim: str) -> None:
    """kill -9 of one child of launch, by its stage."""
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        if victim.encode() in Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0"):
            os.kill(int(child), signal.SIGKILL)


@pytest.mark.root
@pytest.mark.parametrize(("number", "kind"), GITHUB)
def test_github_failing_at_any_request_leaves_everything_in_order(rig: Rig, number: int, kind: str) -> None:
    """An error or a dropped connection, once or for good."""
    times = None if kind == "for good" else 1
    fault = rig.world.github.fault(".*", "", status=500, drop=kind == "drop", times=times, skip=number)
    with ModelServer(fixing_turns(BRANCH)) as model:
        result, seconds = rig.play(model)
    assert fault.used, "a fault that never came proves nothing"
    rig.judge(f"GitHub {kind}", f"request {number}", result, seconds)
    struck = next(r for r in rig.world.github.requests if r.injected)
    if kind != "for good" and (struck.method == "GET" or OBJECT.search(struck.raw_path)):
        assert result.exit_status == 0, f"{struck.method} {struck.raw_path} can be sent again"


@pytest.mark.root
@pytest.mark.parametrize(("number", "kind"), MODEL)
def test_the_model_failing_at_any_request_leaves_everything_in_order(rig: Rig, number: int, kind: str) -> None:
    """A server error and a cut stream are tried again; a refused key ends the run."""
    fault = {"500": Status(500), "cut": Cut(2), "401": Status(401)}[kind]
    script = fixing_turns(BRANCH)
    script.insert(number, Turn(text="x", fault=fault))
    with ModelServer(script) as model:
        result, seconds = rig.play(model)
    rig.judge(f"model {kind}", f"turn {number + 1}", result, seconds)
    assert (result.exit_status == 0) == (kind != "401")
