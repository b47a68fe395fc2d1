"""The model's turns as a transcript recorded them: what `replay` feeds the loop instead of a model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from agent.contract.dataclass import dataclass, field


@dataclass(frozen=True)
class RecordedTurn:
    """One answer of the model as recorded, with what the run did about it: what `replay` feeds the loop.

    Attributes:
        turn: number, from the transcript.
        text: the answer's words.
        calls: tool calls as objects with `id`, `name`, `arguments`, `raw`; without the last two where the run
            ended before the call was begun.
        stop: the model's stop word.
        usage: tokens and cost.
        model: model name.
        tools: names of the tools that the model was shown.
        results: results of the calls in the order recorded: `{id, name, text, is_error}`.
    """

    turn: int
    text: str
    calls: tuple[Mapping[str, Any], ...]
    stop: str | None
    usage: Mapping[str, Any]
    model: str
    tools: tuple[str, ...]
    results: tuple[Mapping[str, Any], ...]


def recorded_turns(events: Iterable[Mapping[str, Any]]) -> Iterator[RecordedTurn]:
    """The model's turns of a transcript, in order, each complete with its calls and results."""
    tools: tuple[str, ...] = ()
    turn: _Open | None = None
    for event in events:
        kind = event.get("type")
        if kind == "agent.rendered":
            tools = tuple(str(t) for t in event.get("tools", ()))
        elif kind == "model.response":
            if turn is not None:
                yield turn.close()
            turn = _Open(event, tools)
        elif kind == "tool.call" and turn is not None:
            turn.calls.append(event)
        elif kind == "tool.result" and turn is not None:
            turn.results.append(event)
    if turn is not None:
        yield turn.close()


@dataclass
class _Open:
    """A turn whose calls and results are still being read."""

    response: Mapping[str, Any]
    tools: tuple[str, ...]
    calls: list[Mapping[str, Any]] = field(default_factory=list)
    results: list[Mapping[str, Any]] = field(default_factory=list)

    def close(self) -> RecordedTurn:
        named = [_named(call) for call in self.response.get("calls") or ()]
        begun = {str(call.get("id")): call for call in self.calls}
        # the loop gives a new id to a call that came without one or with a used one: then order tells
        in_order = [call.get("name") for call in self.calls] == [call["name"] for call in named]
        calls = self.calls if in_order else [begun.get(str(call["id"]), call) for call in named]
        return RecordedTurn(
            turn=int(self.response.get("turn", 0)),
            text=str(self.response.get("text") or ""),
            calls=tuple(_only(call, ("id", "name", "arguments", "raw")) for call in calls),
            stop=self.response.get("stop"),
            usage=self.response.get("usage") or {},
            model=str(self.response.get("model") or ""),
            tools=self.tools,
            results=tuple(_only(r, ("id", "name", "text", "is_error")) for r in self.results),
        )


def _named(call: Any) -> dict[str, Any]:
    """One call of an answer, whether it was recorded as an object or as a pair."""
    if isinstance(call, list | tuple) and len(call) >= 2:
        return {"id": str(call[0]), "name": str(call[1])}
    call = call if isinstance(call, Mapping) else {}
    return {**call, "id": str(call.get("id", "")), "name": str(call.get("name", ""))}


def _only(event: Mapping[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    return {key: event[key] for key in keys if key in event}
