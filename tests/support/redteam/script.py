"""The compromised model: makes exactly the calls of a plan, and remembers what it was told."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.support.model_turns import Call, Raw, Recorded, Status, Turn

UNREACHED, OK, FAILED, ENDED = "unreached", "ok", "failed", "ended"


@dataclass
class Step:
    """One call to make.

    Attributes:
        index: number that the oracle knows it by; None for `prepare` and `control` calls.
        kind: prepare, call or control.
        raw: the call as the case writes it, still with placeholders.
        outcome: unreached, ok, failed (an error result), ended (the run ended on it).
        offered: the tool stood in the list that the model was shown when it made the call.
    """

    index: int | None
    kind: str
    raw: Mapping[str, Any]
    count: int = 0
    outcome: str = UNREACHED
    result: str = ""
    offered: bool = False

    @property
    def tool(self) -> str:
        return str(self.raw["tool"])


@dataclass
class ModelScript:
    """Give an instance to `ModelServer` as its script.

    Args:
        steps: the calls in order; `batch` puts all that are no control into one turn.
        expand: fills placeholders, late: the product is running then.
        adapt: (tool, args) as the case names them to the product's own.
    """

    steps: list[Step]
    final: str
    expand: Callable[[Any, int], Any]
    adapt: Callable[[str, Mapping[str, Any]], tuple[str, Mapping[str, Any]]]
    batch: bool = False
    per_turn: int = 1
    stream: list[str] | None = None
    text_before: str = ""
    usage_reports: list[Mapping[str, int]] = field(default_factory=list)
    before: list[Turn] = field(default_factory=list)
    requests: int = 0
    first_tools: list[str] | None = None
    all_tools: set[str] = field(default_factory=set)
    emitted: list[str] = field(default_factory=list)
    error: Exception | None = None

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._next = 0
        self._waiting: dict[str, Step] = {}
        self._turns = 0

    def __call__(self, request: Recorded) -> Turn:
        try:
            return self._turn(request)
        except Exception as exc:  # noqa: BLE001 - a fault of the case or of the runner: the server would swallow it
            self.error = self.error or exc
            return Turn("The script failed.")

    def _turn(self, request: Recorded) -> Turn:
        with self._lock:
            self.requests += 1
            tools = request.tool_names
            self.all_tools.update(tools)
            if self.first_tools is None:
                self.first_tools = tools
            if self.before:
                return self.before.pop(0)
            self._collect(request)
            return self._say(tools)

    def _collect(self, request: Recorded) -> None:
        for call_id, text, failed in results_of(request.json):
            step = self._waiting.pop(call_id, None)
            if step is not None:
                step.result, step.outcome = text, FAILED if failed else OK

    def _say(self, tools: list[str]) -> Turn:
        usage = self.usage_reports[min(self._turns, len(self.usage_reports) - 1)] if self.usage_reports else None
        self._turns += 1
        rest = self.steps[self._next :]
        if not rest:
            if self.stream is not None:
                return Turn(fault=Raw(streamed([self.expand(p, 0) for p in self.stream])))
            return Turn(str(self.expand(self.final, 0)), usage=usage)
        take = [rest[0]]
        if self.batch and rest[0].kind != "control":
            take = [s for s in rest if s.kind == rest[0].kind]
        elif self.per_turn > 1:
            take = [s for s in rest[: self.per_turn] if s.kind == rest[0].kind]
        calls = []
        for step in take:
            place = self._next
            self._next += 1
            call_id = f"toolu_redteam_{place:05d}"
            tool, args = self.adapt(step.tool, self.expand(step.raw.get("args") or {}, step.count))
            step.offered = tool in tools
            step.outcome = ENDED
            self._waiting[call_id] = step
            self.emitted.append(call_id)
            calls.append(Call(tool, args, call_id))
        text = str(self.expand(self.text_before, 0)) if self.text_before and take[0] is self.steps[0] else ""
        return Turn(text, calls=calls, usage=usage)


def results_of(body: Mapping[str, Any]) -> list[tuple[str, str, bool]]:
    """(call id, text, is an error) of every tool result in a request (Anthropic's form), oldest first."""
    out = []
    for message in body.get("messages") or []:
        content = message.get("content")
        if message.get("role") != "user" or not isinstance(content, list):
            continue
        for block in content:
            if block.get("type") == "tool_result":
                inner = block.get("content", "")
                text = inner if isinstance(inner, str) else "".join(b.get("text", "") for b in inner)
                out.append((block.get("tool_use_id", ""), text, bool(block.get("is_error"))))
    return out


def steps_of(model: Mapping[str, Any], control: list[Mapping[str, Any]]) -> list[Step]:
    """The steps that a case's `model` describes, control calls last."""
    steps = [Step(None, "prepare", raw) for raw in model.get("prepare") or []]
    rows = model.get("batch") or model.get("calls") or []
    rounds = int(model.get("repeat") or 1)
    repeats = int(model.get("batch_repeat") or 1)
    index = 0
    for turn in range(rounds * repeats):
        for raw in rows:
            for _ in range(int(raw.get("each") or 1)):
                steps.append(Step(index, "call", raw, count=turn))
            index += 1
    return steps + [Step(None, "control", raw) for raw in control]


def provider_faults(rows: list[Mapping[str, Any]], variant: str) -> list[Turn]:
    """The failing answers that a case wants before the scripted turns."""
    turns = []
    for row in rows:
        if row.get("variant_only") in (None, variant):
            body = row.get("body")
            data = json.dumps(body).encode() if not isinstance(body, str) else body.encode()
            turns.append(Turn(fault=Status(int(row["status"]), data, row.get("headers") or {})))
    return turns


def streamed(pieces: list[str]) -> bytes:
    """A Messages stream whose text comes in exactly these deltas."""
    usage = {"input_tokens": 10, "output_tokens": 1}
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "scripted", "content": []}
    events: list[tuple[str, Any]] = [
        ("message_start", {"message": {**head, "stop_reason": None, "stop_sequence": None, "usage": usage}}),
        ("content_block_start", {"index": 0, "content_block": {"type": "text", "text": ""}}),
    ]
    events += [("content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": p}}) for p in pieces]
    events += [
        ("content_block_stop", {"index": 0}),
        (
            "message_delta",
            {"delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": {"output_tokens": 20}},
        ),
        ("message_stop", {}),
    ]
    return "".join(f"event: {n}\ndata: {json.dumps({'type': n, **d})}\n\n" for n, d in events).encode()
