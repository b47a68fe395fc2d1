"""Noticing a model that goes in circles. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import Enum

from agent.harness.loop.words import CallResult, ToolCall

PATIENCE = 20  # turns between two reminders to a model whose calls succeed and tell it nothing new


class Verdict(Enum):
    """What to do about a turn."""

    GO_ON = "go on"
    TELL = "tell"
    STOP = "stop"


class Progress:
    """Counts turns in a row that brought nothing new.

    A call that fails is known by its name and arguments alone, since error texts may carry times; one that
    succeeds by its result too, so that reading a file again after an edit is new.
    """

    def __init__(self, max_repeats: int) -> None:
        self._cap = max_repeats
        self._known: set[tuple[str, str, int]] = set()
        self._stale = 0

    def see(self, calls: Sequence[ToolCall], results: Sequence[CallResult]) -> Verdict:
        """Take in one turn.

        A turn that fails as before is told at the `max_repeats`-th time in a row and stopped at the next. One
        that succeeds but tells nothing new may be polling, so it is told again every `PATIENCE` turns and
        stopped when it was told `max_repeats` times.
        """
        outcomes = {
            (call.name, _canonical(call), 0 if result.is_error else hash(result.text))
            for call, result in zip(calls, results, strict=True)
        }
        self._stale = self._stale + 1 if outcomes <= self._known else 0
        self._known |= outcomes
        over = self._stale - (self._cap - 1)
        if not self._cap or over < 0:
            return Verdict.GO_ON
        step = 1 if any(result.is_error for result in results) else PATIENCE
        if over >= step * (1 if step == 1 else self._cap):
            return Verdict.STOP
        return Verdict.TELL if over % step == 0 else Verdict.GO_ON


def _canonical(call: ToolCall) -> str:
    if call.arguments is None:
        return call.raw
    return json.dumps(call.arguments, sort_keys=True, default=str)
