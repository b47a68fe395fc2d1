"""Answering one batch of tool calls: every call gets exactly one result, in call order.

Order of decisions, first one answers:
  1. a call to a forbidden name ends the run as `blocked`, and nothing of its batch runs (S5);
  2. a name that is no tool, or arguments that are no object, get an error result that says how to mend it;
  3. a hook's denial cancels the whole batch, the run goes on (C6); a hook that fails denies;
  4. calls over the cap do not run (S7);
  5. the rest runs: neighbours marked parallel side by side, others in order.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent.harness.loop.errors import BlockedError
from agent.harness.loop.ports import HooksPort, PermitAll
from agent.harness.loop.watch import AuthGate, Job, Watch
from agent.harness.loop.words import (
    CallResult,
    Limits,
    LoopTool,
    StopReason,
    ToolCall,
    ToolResult,
)

Halt = tuple[StopReason, str]
NO_OUTPUT = "(no output)"


class Toolbox:
    """Which names may be called. Deny beats allow, and both need no host support (C4)."""

    def __init__(
        self, tools: Iterable[LoopTool], allow: Iterable[str] | None, deny: Iterable[str], forbidden: Iterable[str]
    ) -> None:
        every = tuple(tools)
        names = [tool.name for tool in every]
        if len(set(names)) != len(names):
            raise ValueError("Two tools have the same name.")
        shut = {*deny, *forbidden}
        if allow is not None:
            shut |= set(names) - set(allow)
        self.offered = tuple(tool for tool in every if tool.name not in shut)
        self.by_name = {tool.name: tool for tool in self.offered}
        self.forbidden = frozenset(shut)

    def slip(self, call: ToolCall) -> str | None:
        """What is wrong with the call's form, in words for the model; None when it can run."""
        tool = self.by_name.get(call.name)
        if tool is None:
            return f"There is no tool {call.name[:100]!r}. The tools are: {', '.join(self.by_name) or '(none)'}."
        if call.arguments is None:
            schema = json.dumps(tool.schema, ensure_ascii=False)
            return f"The arguments of {call.name} must be one JSON object: {call.problem}. Its schema: {schema}"
        return None


@dataclass
class Batch:
    """How the batches of one run are answered. `log` gets an event's name and fields."""

    box: Toolbox
    hooks: HooksPort
    gate: AuthGate
    watch: Watch
    limits: Limits
    log: Callable[..., None] = lambda *_, **__: None

    def answer(self, calls: Sequence[ToolCall], room: int | None) -> tuple[tuple[CallResult, ...], Halt | None]:
        """Answer `calls`, of which at most `room` may run; the second value says that the run must end."""
        for call in calls:
            self.log("tool.call", id=call.id, name=call.name, arguments=call.arguments, raw=call.raw)
        results: dict[str, CallResult] = {}
        halt = self._decide(calls, room, results)
        if halt is None or halt[0] is StopReason.MAX_TOOL_CALLS:
            halt = self._run([call for call in calls if call.id not in results], results) or halt
        for call in calls:
            if call.id not in results:
                self._note(results, call, "Not run: the run is being stopped.")
        return tuple(results[call.id] for call in calls), halt

    def _decide(self, calls: Sequence[ToolCall], room: int | None, results: dict[str, CallResult]) -> Halt | None:
        closed = [call for call in calls if call.name in self.box.forbidden]
        for call in closed:
            self._deny(
                results, call, "tool_permission", f"{call.name} is not permitted in this run. The run ends here."
            )
        if closed:
            return StopReason.BLOCKED, f"The model called {closed[0].name}, which is not permitted in this run."
        for call in calls:
            if (slip := self.box.slip(call)) is not None:
                self._note(results, call, slip)
        sound = [call for call in calls if call.id not in results]
        for call, reason in self._denials(sound):
            self._deny(results, call, "hook", reason)
        if room is not None and len(calls) > room:
            for call in calls[room:]:
                if call.id not in results:
                    self._note(results, call, "Not run: the cap on tool calls is reached.")
            return StopReason.MAX_TOOL_CALLS, f"The cap of {self.limits.max_tool_calls} tool calls is reached."
        return None

    def _denials(self, calls: Sequence[ToolCall]) -> Iterator[tuple[ToolCall, str]]:
        if type(self.hooks) is PermitAll:  # not a child of it, which may deny
            return
        job = self.watch.workers.start(lambda: [self.hooks.before_call(call) for call in calls])
        if not job.wait(self.watch.deadline, self.watch.cancel) or job.error is not None:
            reasons: list[str | None] = ["the check before the call failed"] * len(calls)
        else:
            reasons = job.value
        if any(reasons):
            for call, reason in zip(calls, reasons, strict=True):
                yield call, f"Denied: {reason}" if reason else "Not run: another call of this batch was denied."

    def _run(self, calls: Sequence[ToolCall], results: dict[str, CallResult]) -> Halt | None:
        for group in self._groups(calls):
            if self.watch.cancel.cancelled:
                return StopReason.CANCELLED, "The run was cancelled."
            jobs = [(call, self._start(call)) for call in group]
            halts = [self._collect(call, job, results) for call, job in jobs]
            if (halt := next(filter(None, halts), None)) is not None:
                return halt
        return None

    def _groups(self, calls: Sequence[ToolCall]) -> Iterator[list[ToolCall]]:
        group: list[ToolCall] = []
        for call in calls:
            parallel = self.box.by_name[call.name].parallel
            if group and (not parallel or len(group) >= self.limits.max_parallel):
                yield group
                group = []
            group.append(call)
            if not parallel:
                yield group
                group = []
        if group:
            yield group

    def _start(self, call: ToolCall) -> Job:
        run, arguments = self.box.by_name[call.name].run, call.arguments or {}
        return self.watch.workers.start(lambda: self.gate.call(lambda: _called(run, arguments)))

    def _collect(self, call: ToolCall, job: Job, results: dict[str, CallResult]) -> Halt | None:
        cap = self.limits.tool_timeout_s
        ends = [end for end in (self.watch.deadline, cap and job.started + cap) if end is not None]
        halt: Halt | None = None
        if not job.wait(min(ends, default=None), self.watch.cancel):
            if self.watch.cancel.cancelled:
                text, halt = "Cancelled while running.", (StopReason.CANCELLED, "The run was cancelled.")
            elif self.watch.over:
                text, halt = "Stopped: the run's time is up.", (StopReason.TIMEOUT, "The run's time is up.")
            else:
                text = f"{call.name} did not come back within {cap:g} s and was left behind."
            self._note(results, call, text)
        elif isinstance(job.error, BlockedError):
            self._deny(results, call, "tool_permission", str(job.error))
            halt = StopReason.BLOCKED, str(job.error)
        elif job.error is not None:
            # The type alone: a message may quote a file's name or a page, and would stand unframed (S1).
            text = f"{call.name} failed ({type(job.error).__name__})."
            self._note(results, call, text, ms=job.seconds * 1000)
        elif job.value is None:
            self._note(results, call, f"{call.name} gave back something that is no result.", ms=job.seconds * 1000)
        else:
            text = job.value.text if job.value.text.strip() else NO_OUTPUT
            self._note(results, call, text, is_error=job.value.is_error, ms=job.seconds * 1000)
        return halt

    def _deny(self, results: dict[str, CallResult], call: ToolCall, code: str, reason: str) -> None:
        self.log("tool.denied", id=call.id, name=call.name, code=code, reason=reason)
        self._note(results, call, reason)

    def _note(
        self, results: dict[str, CallResult], call: ToolCall, text: str, *, is_error: bool = True, ms: float = 0.0
    ) -> None:
        results[call.id] = CallResult(call.id, call.name, text, is_error)
        self.log("tool.result", id=call.id, name=call.name, text=text, is_error=is_error, ms=round(ms, 3))


def _called(run: Callable[[Mapping[str, Any]], object], arguments: Mapping[str, Any]) -> ToolResult | None:
    """In the tool's thread: a result in plain types, or None for what is none.

    All that is the tool's own is touched here alone, where what it raises, or hangs in, costs this one call: texts and
    flags with methods of their own, an error that cannot be told. And it gets its own copy of the arguments, since
    the history keeps what the model wrote.
    """
    try:
        result = run(copy.deepcopy(dict(arguments)))
    except BlockedError as exc:
        raise BlockedError(str(exc)) from exc
    if not isinstance(result, ToolResult) or not isinstance(text := result.text, str):
        return None
    return ToolResult(str.__str__(text), bool(result.is_error))
