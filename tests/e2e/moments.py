"""Moments of a run at which tests cancel or kill it, each made to last."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.support.model_turns import Call, Turn
from tests.support.scenario import RUN_ID, World, fixing_turns

BRANCH = f"airlock/fix-{RUN_ID}"


@dataclass(frozen=True)
class Moment:
    """A part of a run that lasts.

    Attributes:
        turns: what the model says, so that the run gets there.
        come: whether it is there.
    """

    turns: Any
    come: Callable[[], bool]

    def wait(self) -> None:
        """Return once it is there."""
        while not self.come():
            time.sleep(0.05)


def model_call(_: World) -> Moment:
    """A provider that does not answer."""
    asked = threading.Event()

    def hang(_: object) -> Turn:
        asked.set()
        time.sleep(30)
        return Turn(text="late")

    return Moment(hang, asked.is_set)


def command(world: World) -> Moment:
    """A command that sleeps."""
    turns = [Turn(calls=[Call("run_command", {"command": "echo started > started; sleep 60"})])]
    return Moment(turns, (world.workspace / "started").exists)


def publishing(world: World) -> Moment:
    """The branch is pushed, and GitHub takes long to open the pull request."""
    fault = world.github.fault("POST", ".*/pulls", delay=30)
    return Moment(fixing_turns(BRANCH), lambda: fault.used > 0)


MOMENTS: dict[str, Callable[[World], Moment]] = {
    "model call": model_call,
    "command": command,
    "publishing": publishing,
}
