"""What a replay takes from the record: the model's turns, answers of tools, words of the stop script. Pure."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agent.contract.facts import RunFacts
from agent.contract.recorded import RecordedTurn
from agent.harness.clients.wire import parse_arguments
from agent.harness.loop import LlmReply, ReplyStop, ToolCall, Usage

STOP_HOOK = "The stop script did not pass."
INVALID = "Your answer does not pass validation: "


@dataclass
class Answer:
    """A recorded result; `denied` is the reason where a rule ended the run at this call."""

    text: str
    is_error: bool
    denied: str | None = None


def answers(events: list[dict[str, Any]]) -> dict[str, deque[Answer]]:
    """Recorded results by call; the results of equal calls in their order."""
    calls: dict[str, str] = {}
    denied: dict[str, str] = {}
    answers: dict[str, deque[Answer]] = {}
    for event in events:
        number = str(event.get("id"))
        if event["type"] == "tool.call":
            calls[number] = key(str(event["name"]), event.get("arguments") or {})
        elif event["type"] == "tool.denied" and event.get("code") == "tool_permission":
            denied[number] = str(event.get("reason"))
        elif event["type"] == "tool.result" and number in calls:
            answer = Answer(str(event.get("text")), bool(event.get("is_error")), denied.get(number))
            answers.setdefault(calls[number], deque()).append(answer)
    return answers


def notes(events: list[dict[str, Any]]) -> dict[int, str]:
    """Our words in the history, by turn."""
    return {int(e["turn"]): str(e.get("text")) for e in events if e["type"] == "agent.note"}


def key(name: str, arguments: Mapping[str, Any]) -> str:
    """What makes two calls equal."""
    return f"{name} {json.dumps(arguments, sort_keys=True, default=str)}"


def reply(turn: RecordedTurn) -> LlmReply:
    """A recorded turn as the loop's model gives it."""
    calls = []
    for call in turn.calls:
        arguments, problem = call.get("arguments"), ""
        if arguments is None:
            arguments, problem = parse_arguments(call.get("raw", ""))
        calls.append(ToolCall(call["id"], call["name"], arguments, str(call.get("raw", "")), problem))
    names = Usage.__dataclass_fields__
    usage = Usage(**{k: v for k, v in turn.usage.items() if k in names})
    stop = ReplyStop(turn.stop) if turn.stop in {s.value for s in ReplyStop} else ReplyStop.END
    return LlmReply(turn.text, tuple(calls), stop, usage, model=turn.model)


def facts_of(start: Mapping[str, Any], tools: tuple[str, ...], folder: str) -> RunFacts:
    """What the file tools must know of the run."""
    return RunFacts(
        mode=str(start.get("mode", "")), event="replay", repository=str(start.get("repository", "")),
        workspace=folder, base_sha=start.get("base_sha"), head_sha=str(start.get("head_sha") or ""),
        number=start.get("number"), is_pull_request=False, run_id=start.get("run_id"), tools=tools, task="",
        playbook="", playbook_is_text=True, max_tool_calls=0, max_turns=0, timeout_s=0, max_tokens=None, models=(),
        branch_prefix="", options=dict(start.get("file_rules") or {}),
    )  # fmt: skip
