"""`python -m agent replay TRANSCRIPT --workspace DIR`: run the loop again with the recorded model, offline.

The loop, its limits, the file tools and their framing are the real ones, on a copy of the workspace; nothing
leaves the machine and nothing is started. What needs the broker (commands, git, GitHub) is answered from the
record. The two streams of events are then compared, and the first difference is told: the loop changed, a tool
changed, or the workspace is not the one that was recorded.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import tempfile
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from pathlib import Path
from typing import Any

from agent.broker.redact import Redactor
from agent.broker.transcript import cap, read, verify
from agent.contract.errors import UserError
from agent.contract.facts import RunFacts
from agent.contract.modes import MODES, TOOL_TIERS, Tier
from agent.contract.recorded import RecordedTurn, recorded_turns
from agent.harness.clients import Compactor
from agent.harness.clients.wire import parse_arguments
from agent.harness.loop import (
    BlockedError,
    BudgetError,
    CancelledError,
    DeadlineError,
    Limits,
    LlmError,
    LlmReply,
    LlmRequest,
    LoopResult,
    LoopTool,
    PermitAll,
    ReplyStop,
    StructuredOutput,
    ToolCall,
    ToolResult,
    Usage,
    run_loop,
)
from agent.harness.tools import BUILTIN
from agent.harness.tools.belt import make_belt
from agent.harness.tools.context import ToolContext
from agent.kernel.beneath import Beneath
from agent.kernel.channel import Frame

REAL = frozenset({"read_file", "list_dir", "glob", "grep", "write_file", "edit_file", "delete_file"})
"""Tools that are run again: they need nothing but files."""

COMPARED: Mapping[str, tuple[str, ...]] = {
    "agent.rendered": ("turn", "tools"),
    "tool.call": ("turn", "id", "name", "arguments"),
    "tool.denied": ("turn", "id", "name", "code"),
    "tool.result": ("turn", "id", "name", "is_error", "text"),
    "agent.note": ("turn", "text"),
    "agent.stop": ("turn", "stop_reason"),
}
"""Events of the harness in which two runs of one record must agree, and the fields that count."""

_MARKER = re.compile(r"\[redacted:[^\]\n]{0,80}\]|\[\d+ characters left out\]")
_STOP_HOOK = "The stop script did not pass."
_INVALID = "Your answer does not pass validation: "
_ENDS = {"timeout": DeadlineError, "budget": BudgetError, "cancelled": CancelledError}


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


def replay(transcript: Path, workspace: Path) -> Replay:
    """Replay one transcript on a copy of `workspace`, which must hold the files that the run started with.

    Raises:
        UserError: the transcript cannot be read or holds no turn, or the workspace is no folder.
    """
    events = list(read(transcript))
    turns = list(recorded_turns(events))
    if not turns:
        raise UserError(f"{transcript} holds no turn of a model: there is nothing to replay.")
    if not workspace.is_dir():
        raise UserError(f"{workspace} is no folder.")
    with tempfile.TemporaryDirectory(prefix="airlock-replay-") as folder:
        copy = Path(folder, "workspace")
        shutil.copytree(workspace, copy, symlinks=True, ignore=shutil.ignore_patterns(".git"), dirs_exist_ok=True)
        return _Replayer(events, turns, copy, verify(transcript)).run()


class _Replayer:
    """One replay: the model, the recorded tools, the hook and the logger of the loop in one place."""

    def __init__(self, events: list[dict[str, Any]], turns: list[RecordedTurn], folder: Path, faults: list[str]):
        self._events, self._turns, self._folder, self._faults = events, turns, folder, faults
        self._start = next((e for e in events if e["type"] == "run.start"), {})
        self._stop = next((e for e in events if e["type"] == "agent.stop"), None)
        self._seen: list[dict[str, Any]] = []
        self._asked = 0
        self._answers = _answers(events)
        self._notes = _notes(events)
        self._used: dict[str, int] = {}

    def run(self) -> Replay:
        with Beneath(str(self._folder)) as files:
            tools, forbidden = self._tools(files)
            run_loop(
                self,
                system="",
                task="",
                tools=tools,
                forbidden=forbidden,
                hooks=_Hook(self),
                logger=self,
                optimizer=Compactor.for_models([{"model": m} for m in self._start.get("models", ())]),
                structured=self._structured(),
                limits=self._limits(),
            )
        compared, divergence = self._compare()
        return Replay(self._asked, compared, divergence, self._used, self._faults)

    # -- the loop's ports

    def complete(self, request: LlmRequest) -> LlmReply:
        """The recorded turn; where there is none left, what ended the record."""
        del request
        if self._asked >= len(self._turns):
            kind = _ENDS.get(str((self._stop or {}).get("stop_reason")), LlmError)
            raise kind("The record ends here.")
        turn = self._turns[self._asked]
        self._asked += 1
        return _reply(turn)

    def event(self, name: str, fields: Mapping[str, Any]) -> None:
        data = {k: asdict(v) if is_dataclass(v) and not isinstance(v, type) else v for k, v in fields.items()}
        self._seen.append({"type": name, **json.loads(json.dumps(data, default=str))})

    def before_stop(self) -> str | None:
        """What the stop script said then."""
        note = self._notes.get(self._asked, "")
        return note if note.startswith(_STOP_HOOK) else None

    # -- its parts

    def _tools(self, files: Beneath) -> tuple[list[LoopTool], list[str]]:
        shown = list(dict.fromkeys(name for turn in self._turns for name in turn.tools))
        mode = MODES.get(str(self._start.get("mode")))
        tiers = mode.tiers if mode else frozenset(Tier)
        facts = _facts(self._start, tuple(shown), str(self._folder))
        belt = make_belt(ToolContext(facts=facts, broker=_NoBroker(), files=files), BUILTIN, tiers=tiers)
        known = {tool.name: tool for tool in belt.tools}
        tools = [
            known[name] if name in REAL and name in known else self._recorded(name, known.get(name)) for name in shown
        ]
        # the user's own tools that were not offered are known by the calls that ended on them
        denied = {
            str(e["name"]) for e in self._events if e["type"] == "tool.denied" and e.get("code") == "tool_permission"
        }
        return tools, sorted({*TOOL_TIERS, *belt.forbidden, *denied} - set(shown))

    def _recorded(self, name: str, tool: LoopTool | None) -> LoopTool:
        def run(arguments: Mapping[str, Any]) -> ToolResult:
            self._used[name] = self._used.get(name, 0) + 1
            waiting = self._answers.get(_key(name, arguments))
            if not waiting:
                return ToolResult("[the record has no answer to this call]", is_error=True)
            answer = waiting.popleft()
            if answer.denied is not None:
                raise BlockedError(answer.denied)
            return ToolResult(answer.text, answer.is_error)

        if tool is None:
            return LoopTool(name, "", {"type": "object"}, run)
        return LoopTool(name, tool.description, tool.schema, run, tool.parallel)

    def _structured(self) -> StructuredOutput | None:
        if (self._stop or {}).get("stop_reason") != "structured":
            return None

        def validate(text: str) -> str:
            note = self._notes.get(self._asked, "")
            if note.startswith(_INVALID):
                raise ValueError(note.removeprefix(_INVALID).rpartition("\n")[0])
            return text

        return StructuredOutput(validate)

    def _limits(self) -> Limits:
        given = self._start.get("limits") or {}
        return Limits(
            max_tool_calls=given.get("max_tool_calls"),
            max_turns=given.get("max_turns"),
            max_tokens=given.get("max_tokens"),
            max_cost=given.get("max_cost_usd"),
        )

    # -- the comparison

    def _compare(self) -> tuple[int, Divergence | None]:
        recorded = [_core(e) for e in self._events if e["type"] in COMPARED and "turn" in e]
        replayed = [_core(e) for e in self._seen if e["type"] in COMPARED]
        if self._stop is None:  # a record that a crash cut off: what it holds is compared
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


class _Hook(PermitAll):
    """Answers the loop's question whether it may end from the record."""

    def __init__(self, replayer: _Replayer) -> None:
        self._replayer = replayer

    def before_stop(self, result: LoopResult) -> str | None:
        del result
        return self._replayer.before_stop()


class _NoBroker:
    """There is none: a tool that asks all the same fails, and the difference is told."""

    def call(self, op: str, payload: bytes = b"", **fields: Any) -> Frame:
        raise UserError(f"{op} cannot be asked in a replay ({len(payload)} bytes, {len(fields)} fields).")

    def stream(self, op: str, payload: bytes = b"", **fields: Any) -> Iterator[Frame]:
        yield self.call(op, payload, **fields)

    def notice(self, op: str, payload: bytes = b"", **fields: Any) -> None:
        """Nobody listens."""


@dataclass
class _Answer:
    text: str
    is_error: bool
    denied: str | None = None


def _answers(events: list[dict[str, Any]]) -> dict[str, deque[_Answer]]:
    """Recorded results by call; the results of equal calls in their order."""
    calls: dict[str, str] = {}
    denied: dict[str, str] = {}
    answers: dict[str, deque[_Answer]] = {}
    for event in events:
        number = str(event.get("id"))
        if event["type"] == "tool.call":
            calls[number] = _key(str(event["name"]), event.get("arguments") or {})
        elif event["type"] == "tool.denied" and event.get("code") == "tool_permission":
            denied[number] = str(event.get("reason"))
        elif event["type"] == "tool.result" and number in calls:
            answer = _Answer(str(event.get("text")), bool(event.get("is_error")), denied.get(number))
            answers.setdefault(calls[number], deque()).append(answer)
    return answers


def _notes(events: list[dict[str, Any]]) -> dict[int, str]:
    return {int(e["turn"]): str(e.get("text")) for e in events if e["type"] == "agent.note"}


def _key(name: str, arguments: Mapping[str, Any]) -> str:
    return f"{name} {json.dumps(arguments, sort_keys=True, default=str)}"


def _reply(turn: RecordedTurn) -> LlmReply:
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


def _facts(start: Mapping[str, Any], tools: tuple[str, ...], folder: str) -> RunFacts:
    return RunFacts(
        mode=str(start.get("mode", "")), event="replay", repository=str(start.get("repository", "")),
        workspace=folder, base_sha=start.get("base_sha"), head_sha=str(start.get("head_sha") or ""),
        number=start.get("number"), is_pull_request=False, run_id=start.get("run_id"), tools=tools, task="",
        playbook="", playbook_is_text=True, max_tool_calls=0, max_turns=0, timeout_s=0, max_tokens=None, models=(),
        branch_prefix="", options=dict(start.get("file_rules") or {}),
    )  # fmt: skip


def _core(event: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that count, redacted as the writer of the record redacted them."""
    kept = {"type": event["type"], **{k: event.get(k) for k in COMPARED[event["type"]]}}
    return {k: cap(v) if isinstance(v, str) else v for k, v in _SHAPES.value(kept).items()}


_SHAPES = Redactor({})


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


def main(argv: list[str]) -> int:
    """Replay and say what came of it: 0 no divergence, 1 a divergence, 2 it could not be replayed."""
    parser = argparse.ArgumentParser(prog="python -m agent replay", description="Run a recorded loop again, offline.")
    parser.add_argument("transcript", type=Path, help="transcript.jsonl")
    parser.add_argument("--workspace", type=Path, required=True, help="the files that the run started with")
    options = parser.parse_args(argv)
    try:
        done = replay(options.transcript, options.workspace)
    except UserError as exc:
        print(f"airlock: {exc}", file=sys.stderr)
        return 2
    for fault in done.faults:
        print(f"transcript: {fault}")
    recorded = ", ".join(f"{count} {name}" for name, count in sorted(done.from_record.items())) or "none"
    print(f"{done.turns} turns, {done.compared} events agree; answered from the record: {recorded}.")
    if done.divergence is None:
        print("No divergence.")
        return 0
    print(f"Divergence in turn {done.divergence.turn}:")
    print(f"  recorded: {_shown(done.divergence.recorded)}")
    print(f"  replayed: {_shown(done.divergence.replayed)}")
    if done.from_record.get("run_command"):
        print("  Commands were not run again: a file that one of them changed is as it was before.")
    return 1


def _shown(event: Mapping[str, Any] | None) -> str:
    return "(nothing)" if event is None else json.dumps(event, ensure_ascii=True)[:2000]
