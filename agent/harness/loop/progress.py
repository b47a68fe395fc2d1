"""Noticing a model that goes in circles. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import Enum

from agent.harness.loop.words import CallResult, ToolCall


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
        """Take in one turn. TELL at the `max_repeats`-th same turn in a row, STOP at the next."""
        outcomes = {
            (call.name, _canonical(call), 0 if result.is_error else hash(result.text))
            for call, result in zip(calls, results, strict=True)
        }
        self._stale = self._stale + 1 if outcomes <= self._known else 0
        self._known |= outcomes
        if not self._cap or self._stale < self._cap - 1:
            return Verdict.GO_ON
        return Verdict.TELL if self._stale == self._cap - 1 else Verdict.STOP


def _canonical(call: ToolCall) -> str:
    if call.arguments is None:
        return call.raw
    return json.dumps(call.arguments, sort_keys=True, default=str)
