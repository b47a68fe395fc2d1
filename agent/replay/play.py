"""Drives the real loop with the recorded model.

The loop, its limits, the file tools and their framing are the real ones, on a copy of the workspace; nothing
leaves the machine and nothing is started. What needs the broker (commands, git, GitHub) is answered from the
record. The two streams of events are then compared, and the first difference is told: the loop changed, a tool
changed, or the workspace is not the one that was recorded.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

from agent.broker.transcript import read, verify
from agent.contract.errors import UserError
from agent.contract.modes import MODES, TOOL_TIERS, Tier
from agent.contract.recorded import RecordedTurn, recorded_turns
from agent.harness.clients import Compactor
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
    StructuredOutput,
    ToolResult,
    run_loop,
)
from agent.harness.tools import BUILTIN
from agent.harness.tools.belt import make_belt
from agent.harness.tools.context import ToolContext
from agent.kernel.beneath import Beneath
from agent.kernel.channel import Frame
from agent.replay.compare import Replay, compare
from agent.replay.record import INVALID, STOP_HOOK, answers, facts_of, key, notes, reply

REAL = frozenset({"read_file", "list_dir", "glob", "grep", "write_file", "edit_file", "delete_file"})
"""Tools that are run again: they need nothing but files."""

_ENDS = {"timeout": DeadlineError, "budget": BudgetError, "cancelled": CancelledError}


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
        self._answers = answers(events)
        self._notes = notes(events)
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
        compared, divergence = compare(self._events, self._seen, cut=self._stop is None)
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
        return reply(turn)

    def event(self, name: str, fields: Mapping[str, Any]) -> None:
        data = {k: asdict(v) if is_dataclass(v) and not isinstance(v, type) else v for k, v in fields.items()}
        self._seen.append({"type": name, **json.loads(json.dumps(data, default=str))})

    def before_stop(self) -> str | None:
        """What the stop script said then."""
        note = self._notes.get(self._asked, "")
        return note if note.startswith(STOP_HOOK) else None

    # -- its parts

    def _tools(self, files: Beneath) -> tuple[list[LoopTool], list[str]]:
        shown = list(dict.fromkeys(name for turn in self._turns for name in turn.tools))
        mode = MODES.get(str(self._start.get("mode")))
        tiers = mode.tiers if mode else frozenset(Tier)
        facts = facts_of(self._start, tuple(shown), str(self._folder))
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
            waiting = self._answers.get(key(name, arguments))
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
            if note.startswith(INVALID):
                raise ValueError(note.removeprefix(INVALID).rpartition("\n")[0])
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
