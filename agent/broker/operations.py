"""The operations a harness may ask for, but for egress: here the start, the verify loop, events and the end.

Each handler first re-checks tier and tool (S5), then its arguments, then acts. See `server.Call`: every field
is hostile.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from agent.broker.event_fault import event_fault
from agent.broker.operations_commands import CommandOperations
from agent.broker.operations_git import GitOperations
from agent.broker.redact import Redactor
from agent.broker.server import Call, Handler, Reply
from agent.broker.state import Ending, RunState
from agent.contract.errors import Refusal, ToolInputError
from agent.contract.outcomes import StopReason
from agent.contract.sandbox import Purpose
from agent.contract.transcript import HARNESS_TYPES

EVENT_CAP = 2 << 20  # bytes of one harness event, and of the loop's result: JSON takes 30 times its size in memory
MAX_STOP_TRIES = 10  # failing stop scripts before a run counts as not verified, whatever else is left
MAX_IDLE_RETURNS = 3  # times the model may say it is done without a tool call in between


class Operations:
    """Handlers over one run's state."""

    def __init__(self, run: RunState, redactor: Redactor, results: Path) -> None:
        """Over one run; full output of commands is kept below `results`."""
        self._run = run
        self._redactor = redactor
        self._families = (CommandOperations(run, redactor, results / "commands"), GitOperations(run, redactor))

    def handlers(self) -> Mapping[str, Handler]:
        """By operation, for the server."""
        handlers: dict[str, Handler] = {
            "hello": self.hello,
            "verify": self.verify,
            "event": self.event,
            "finish": self.finish,
        }
        for family in self._families:
            handlers |= family.handlers()
        return handlers

    def hello(self, _: Call) -> Reply:
        return {"facts": self._run.facts.to_json()}, b""

    def verify(self, _: Call) -> Reply:
        """The model says that it is done: run the stop script on what the workspace holds now."""
        run = self._run
        lifecycle = run.lifecycle
        if lifecycle is None or run.worktree is None or not lifecycle.has(Purpose.STOP):
            return {"resume": False}, b""
        with run.lock:
            if run.verifications >= run.meter.limits.max_turns:  # an honest harness asks once a turn at most
                raise Refusal("limit", "The stop script was asked for more often than there may be turns.")
            run.verifications += 1
            now = run.worktree.snapshot()
            verdict = run.judge(Purpose.STOP, now.tree)
            if verdict.passed and not now.over:  # a verdict on a part of the workspace says nothing of the rest
                run.stop_tries = 0
                return {"resume": False}, b""
            run.stop_tries += 1
            idle = run.meter.tool_calls == run.calls_at_last_stop
            run.idle_returns = run.idle_returns + 1 if idle else 1
            run.calls_at_last_stop = run.meter.tool_calls
            resume = run.stop_tries < MAX_STOP_TRIES and run.idle_returns < MAX_IDLE_RETURNS and run.remaining_s() > 0
        text = f"[{verdict.ended}]\n{verdict.output}{now.over}"
        return {"resume": resume, "tries": run.stop_tries}, self._redactor.known(text).encode()

    def event(self, call: Call) -> Reply:
        """A transcript event of the harness; it can say only what a harness may say."""
        if len(call.payload) > EVENT_CAP:
            raise ToolInputError(f"An event is over {EVENT_CAP} bytes.")
        try:
            data = json.loads(call.payload.decode())
        except (ValueError, RecursionError) as exc:
            raise ToolInputError("An event is not JSON.") from exc
        if not isinstance(data, dict) or data.get("type") not in HARNESS_TYPES:
            raise ToolInputError("An event needs a type that a harness may write.")
        kind = str(data.pop("type"))
        fields = {str(k): v for k, v in data.items() if str(k) not in ("seq", "ts", "prev", "type")}
        fault = event_fault(kind, fields)
        if fault is not None:
            raise ToolInputError(f"An event of type {kind} is not as the transcript's schema says: {fault}.")
        with self._run.event_lock:
            if not self._run.meter.event(len(call.payload)):
                raise Refusal("limit", "The harness has filled its part of the transcript.")
            if kind == "tool.call":
                self._run.meter.tool_call()
        self._run.record(kind, **fields)
        return {}, b""

    def finish(self, call: Call) -> Reply:
        """The loop has ended; what the harness says of it counts only where it is no better than the truth."""
        if len(call.payload) > EVENT_CAP:
            raise ToolInputError(f"A result is over {EVENT_CAP} bytes.")
        try:
            data = json.loads(call.payload)
            reason = StopReason(data["stop_reason"])
            json.dumps(data.get("structured"), allow_nan=False)  # a following step reads it, and JSON has no NaN
        except (ValueError, KeyError, TypeError, RecursionError) as exc:
            raise ToolInputError("`finish` needs a stop_reason, and a result that is JSON.") from exc
        if reason is StopReason.SKIPPED:
            raise ToolInputError("A run that was started is not skipped.")
        usage = data.get("usage")
        with self._run.lock:
            if self._run.ending is None:
                self._run.ending = Ending(
                    stop_reason=reason,
                    reason=_plain(data.get("reason", ""))[:2000],
                    output=_plain(data.get("output", ""))[:200_000],
                    structured=data.get("structured"),
                    usage=usage if isinstance(usage, dict) else {},
                    turns=_count(data.get("turns")),
                    tool_calls=_count(data.get("tool_calls")),
                )
        return {}, b""


def _plain(value: object) -> str:
    """A text that every report can write: half of a surrogate pair is no character."""
    return str(value).encode("utf-8", "replace").decode("utf-8")


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**9 else 0
