"""Where two streams of events differ. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent.broker.redact import Redactor
from agent.broker.transcript import cap
from agent.contract.regex import regex

COMPARED: Mapping[str, tuple[str, ...]] = {
    "agent.rendered": ("turn", "tools"),
    "tool.call": ("turn", "id", "name", "arguments"),
    "tool.denied": ("turn", "id", "name", "code"),
    "tool.result": ("turn", "id", "name", "is_error", "text"),
    "agent.note": ("turn", "text"),
    "agent.stop": ("turn", "stop_reason"),
}
"""Events of the harness in which two runs of one record must agree, and the fields that count."""

_MARKER = regex(r"\[redacted:[^\]\n]{0,80}\]|\[\d+ characters left out\]")
_SHAPES = Redactor({})


@dataclass(frozen=True)
class Divergence:
    """The first place where the replay is not the record.

    Attributes:
        turn: of the recorded event, or of the replayed one where the record has ended.
        recorded, replayed: the events, cut down to the fields that count; None where one side has ended.
    """

    turn: int
    recorded: Mapping[str, Any] | None
    replayed: Mapping[str, Any] | None


@dataclass(frozen=True)
class Replay:
    """What a replay came to.

    Attributes:
        turns: replayed.
        compared: events that agreed.
        divergence: the first that did not, or None.
        from_record: tool calls that were answered from the record, by tool.
        faults: what is wrong with the transcript itself (chain, schema).
    """

    turns: int
    compared: int
    divergence: Divergence | None
    from_record: Mapping[str, int]
    faults: Sequence[str] = ()


def compare(
    events: Sequence[Mapping[str, Any]], seen: Sequence[Mapping[str, Any]], *, cut: bool
) -> tuple[int, Divergence | None]:
    """How many events agree, and the first that does not.

    Args:
        events: the record. seen: what the replay said.
        cut: a crash cut the record off: what it holds is compared, and no more.
    """
    recorded = [_core(e) for e in events if e["type"] in COMPARED and "turn" in e]
    replayed = [_core(e) for e in seen if e["type"] in COMPARED]
    if cut:
        replayed = replayed[: len(recorded)]
    for number, (then, now) in enumerate(zip(recorded, replayed, strict=False)):
        if not _agree(then, now):
            return number, Divergence(int(then.get("turn", 0)), then, now)
    count = min(len(recorded), len(replayed))
    if len(recorded) != len(replayed):
        first = recorded[count] if len(recorded) > count else None
        second = replayed[count] if len(replayed) > count else None
        return count, Divergence(int((first or second or {}).get("turn", 0)), first, second)
    return count, None


def _core(event: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that count, redacted as the writer of the record redacted them."""
    kept = {"type": event["type"], **{k: event.get(k) for k in COMPARED[event["type"]]}}
    return {k: cap(v) if isinstance(v, str) else v for k, v in _SHAPES.value(kept).items()}


def _agree(then: Any, now: Any) -> bool:
    """Whether two values are equal, where a redacted or cut part of the record may have been anything."""
    if isinstance(then, str) and isinstance(now, str):
        if then == now:
            return True
        parts = _MARKER.split(then)
        return len(parts) > 1 and re.fullmatch(".*?".join(map(re.escape, parts)), now, re.S) is not None
    if isinstance(then, Mapping) and isinstance(now, Mapping):
        return then.keys() == now.keys() and all(_agree(then[k], now[k]) for k in then)
    if isinstance(then, list) and isinstance(now, list):
        return len(then) == len(now) and all(map(_agree, then, now))
    return bool(then == now)
