"""The loop: ask the model, answer its tool calls, until it is done or something ends the run.

Methods stand in call order. Nothing here knows a provider, a tool, a file or a network; all of that comes
by port. Whatever ends the run, the result carries the whole history, in which every call has a result.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from agent.harness.loop.batch import Batch, Toolbox
from agent.harness.loop.errors import (
    BudgetError,
    CancelledError,
    ContextError,
    DeadlineError,
    LlmError,
)
from agent.harness.loop.ports import (
    HooksPort,
    LlmPort,
    LoggerPort,
    OptimizerPort,
    PermitAll,
    SilentLogger,
    Unchanged,
)
from agent.harness.loop.progress import Progress, Verdict
from agent.harness.loop.watch import AuthGate, Job
from agent.harness.loop.words import (
    AssistantMessage,
    CancelToken,
    Limits,
    LlmReply,
    LlmRequest,
    LoopResult,
    LoopTool,
    Message,
    ReplyStop,
    StopReason,
    StructuredOutput,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)


def run_loop(
    llm: LlmPort,
    *,
    system: str,
    task: str,
    tools: Iterable[LoopTool] = (),
    allow: Iterable[str] | None = None,
    deny: Iterable[str] = (),
    forbidden: Iterable[str] = (),
    hooks: HooksPort | None = None,
    logger: LoggerPort | None = None,
    optimizer: OptimizerPort | None = None,
    structured: StructuredOutput | None = None,
    limits: Limits | None = None,
    cancel: CancelToken | None = None,
    recover_auth: Callable[[], bool] | None = None,
    clock: Callable[[], float] = time.monotonic,
    ids: Callable[[], str] = lambda: f"call_{uuid.uuid4().hex[:24]}",
) -> LoopResult:
    """Run one task to its end.

    Args:
        llm: the model.
        system: our instructions; never third-party text (S1).
        task: the first user message; never third-party text (S1).
        tools: what the model may call. Fixed for the run.
        allow: names on offer, or None for all. `deny` beats it (C4).
        deny: names never offered; calling one ends the run as `blocked`.
        forbidden: further names that exist but are out of reach; as `deny`, for tools not handed in.
        hooks, logger, optimizer: ports; defaults permit everything, record nothing, change nothing.
        structured: how the final text is validated, or None.
        limits: caps; none by default except on going in circles.
        cancel: ends the run at any step when set.
        recover_auth: called at most once when a credential is refused; True when it is worth a retry (C7).
        clock: seconds, monotonic.
        ids: makes ids for calls that came with an empty or repeated one.

    Returns:
        The result, for every way a run can end; a failing adapter does not raise.

    Raises:
        ValueError: two tools have the same name.
    """
    limits, cancel = limits or Limits(), cancel or CancelToken()
    return _Run(
        llm, system, task, Toolbox(tools, allow, deny, forbidden), hooks or PermitAll(), logger or SilentLogger(),
        optimizer or Unchanged(), structured, limits, cancel, AuthGate(recover_auth), clock, ids,
    ).run()  # fmt: skip


_STOPS = {
    BudgetError: StopReason.BUDGET,
    DeadlineError: StopReason.TIMEOUT,
    CancelledError: StopReason.CANCELLED,
}


class _Stop(Exception):
    def __init__(self, stop_reason: StopReason, reason: str) -> None:
        self.stop_reason, self.reason = stop_reason, reason


class _Run:
    def __init__(
        self, llm: LlmPort, system: str, task: str, box: Toolbox, hooks: HooksPort, logger: LoggerPort,
        optimizer: OptimizerPort, structured: StructuredOutput | None, limits: Limits, cancel: CancelToken,
        gate: AuthGate, clock: Callable[[], float], ids: Callable[[], str],
    ) -> None:  # fmt: skip
        self._llm, self._system, self._box, self._hooks, self._logger = llm, system, box, hooks, logger
        self._optimizer, self._structured, self._limits, self._cancel = optimizer, structured, limits, cancel
        self._gate, self._clock, self._ids = gate, clock, ids
        self._deadline = None if limits.timeout_s is None else clock() + limits.timeout_s
        self._batch = Batch(box, hooks, gate, limits, clock, self._deadline, cancel, self._log)
        self._progress = Progress(limits.max_repeats)
        self._messages: list[Message] = [UserMessage(task)]
        self._sent: tuple[Message, ...] = ()  # what the optimizer made of the first `_seen` messages
        self._seen = self._context = self._turns = self._calls = self._returns = self._wasted = 0
        self._retries = structured.retries if structured else 0
        self._usage, self._output, self._value, self._valid = Usage(), "", None, False
        self._call_ids: set[str] = set()

    def run(self) -> LoopResult:
        try:
            while True:
                self._check_limits()
                reply = self._ask()
                if reply.stop is ReplyStop.REFUSAL:
                    self._output = reply.text
                    raise _Stop(StopReason.ERROR, "The model refused to go on.")
                if reply.stop is ReplyStop.MAX_TOKENS or not (reply.calls or reply.text.strip()):
                    self._mend(reply)
                elif reply.calls:
                    self._act(reply)
                else:
                    self._settle(reply)
        except _Stop as stop:
            self._log("agent.stop", stop_reason=stop.stop_reason.value, reason=stop.reason)
            return self._result(stop.stop_reason, stop.reason)

    def _check_limits(self) -> None:
        limits, usage = self._limits, self._usage
        if self._cancel.cancelled:
            raise _Stop(StopReason.CANCELLED, "The run was cancelled.")
        if self._deadline is not None and self._clock() >= self._deadline:
            raise _Stop(StopReason.TIMEOUT, f"The time limit of {limits.timeout_s:g} s is reached.")
        if limits.max_turns is not None and self._turns >= limits.max_turns:
            raise _Stop(StopReason.MAX_TURNS, f"The cap of {limits.max_turns} turns is reached.")
        # History only grows, so the next request costs at least what the last turn held.
        if limits.max_tokens is not None and usage.total_tokens + self._context >= limits.max_tokens:
            raise _Stop(StopReason.BUDGET, f"The budget of {limits.max_tokens} tokens does not allow another turn.")
        if limits.max_cost is not None and usage.cost is not None and usage.cost >= limits.max_cost:
            raise _Stop(StopReason.BUDGET, f"The budget of {limits.max_cost:g} USD is spent.")

    def _ask(self) -> LlmReply:
        self._turns += 1
        self._log("agent.rendered", tools=list(self._box.by_name))
        try:
            try:
                reply = self._complete(self._view(overflow=False))
            except ContextError as exc:
                self._usage += exc.usage
                before = self._sent
                view = self._view(overflow=True)
                if view == before:
                    raise
                reply = self._complete(view)
        except LlmError as exc:
            self._usage += exc.usage
            raise _Stop(_STOPS.get(type(exc), StopReason.ERROR), str(exc) or type(exc).__name__) from exc
        self._usage += reply.usage
        self._context = reply.usage.total_tokens
        return reply

    def _view(self, *, overflow: bool) -> tuple[Message, ...]:
        grown = self._sent + tuple(self._messages[self._seen :])
        view = self._optimizer.optimize(grown, self._context, overflow=overflow)
        if view is not grown:
            self._context = 0  # the next turn is no longer bounded from below by the last one
            self._log("agent.compacted", before=len(grown), after=len(view), overflow=overflow)
        self._sent, self._seen = view, len(self._messages)
        return view

    def _complete(self, view: tuple[Message, ...]) -> LlmReply:
        limits, usage = self._limits, self._usage
        request = LlmRequest(
            self._system,
            view,
            self._box.offered,
            None if self._deadline is None else max(0.0, self._deadline - self._clock()),
            None if limits.max_tokens is None else limits.max_tokens - usage.total_tokens,
            None if limits.max_cost is None or usage.cost is None else limits.max_cost - usage.cost,
            self._cancel,
        )
        self._log("model.request", messages=len(view))
        job = self._foreign(lambda: self._gate.call(lambda: self._llm.complete(request)))
        if isinstance(job.error, LlmError):
            raise job.error
        if job.error is not None or not isinstance(job.value, LlmReply):
            raise LlmError(f"The model's adapter failed: {type(job.error or job.value).__name__}: {job.error}")
        reply: LlmReply = job.value
        self._log(
            "model.response", text=reply.text, calls=[[call.id, call.name] for call in reply.calls],
            stop=reply.stop.value, usage=reply.usage, model=reply.model, ms=round(job.seconds * 1000, 3),
        )  # fmt: skip
        return reply

    def _mend(self, reply: LlmReply) -> None:
        # Half a tool call is never run, whether or not what there is of it parses.
        cut = reply.stop is ReplyStop.MAX_TOKENS
        self._wasted += 1
        if reply.text.strip():
            self._output = reply.text
            self._messages.append(AssistantMessage(reply.text))
        if self._wasted > 1:
            what = "was cut off at its output limit" if cut else "said nothing"
            raise _Stop(StopReason.ERROR, f"The model {what} twice in a row; the task is incomplete.")
        if cut:
            tokens = reply.usage.output_tokens
            self._tell(f"Your turn was cut off after {tokens} output tokens; no tool was run. Work in smaller parts.")
        else:
            self._tell("Your turn was empty. Go on with the task, or say that it is done and with what result.")

    def _act(self, reply: LlmReply) -> None:
        self._wasted = self._returns = 0
        calls = tuple(self._with_new_id(call) for call in reply.calls)
        self._output = reply.text if reply.text.strip() else self._output
        self._messages.append(AssistantMessage(reply.text, calls, reply.blocks, reply.wire))
        cap = self._limits.max_tool_calls
        room = None if cap is None else cap - self._calls
        results, halt = self._batch.answer(calls, room)
        self._calls += len(calls) if room is None else min(len(calls), room)
        self._messages.append(ToolMessage(results))
        if halt is not None:
            raise _Stop(*halt)
        verdict = self._progress.see(calls, results)
        if verdict is Verdict.STOP:
            raise _Stop(StopReason.NO_PROGRESS, "The model repeated the same calls without learning anything new.")
        if verdict is Verdict.TELL:
            self._tell("You have repeated the same calls with the same outcome. Change your approach or finish.")

    def _with_new_id(self, call: ToolCall) -> ToolCall:
        if not call.id or call.id in self._call_ids:
            call = replace(call, id=self._ids())
        self._call_ids.add(call.id)
        return call

    def _settle(self, reply: LlmReply) -> None:
        self._wasted, self._output = 0, reply.text
        self._messages.append(AssistantMessage(reply.text, (), reply.blocks, reply.wire))
        ending = StopReason.COMPLETED
        if self._structured is not None:
            ending = StopReason.STRUCTURED
            validate = self._structured.validate
            job = self._foreign(lambda: validate(reply.text))
            if job.error is not None:
                self._retry_structured(job.error)
                return
            self._value, self._valid = job.value, True
        done = self._result(ending, "The model says that it is done.")
        job = self._foreign(lambda: self._hooks.before_stop(done))
        if job.error is None and job.value is None:
            raise _Stop(ending, "The model is done.")
        self._value, self._valid = None, False
        if job.error is not None:
            raise _Stop(StopReason.ERROR, f"The check before the end failed: {job.error}")
        self._returns += 1
        if self._returns >= self._limits.max_returns:
            raise _Stop(StopReason.NOT_VERIFIED, f"The check before the end failed {self._returns} times in a row.")
        self._tell(job.value)

    def _retry_structured(self, problem: BaseException) -> None:
        if self._retries == 0:
            self._output = str(problem)
            raise _Stop(StopReason.STRUCTURED, "The final text did not pass its validation.")
        self._retries -= 1
        self._tell(f"Your answer does not pass validation: {problem}\nAnswer again, with nothing but the answer.")

    def _foreign(self, work: Callable[[], Any]) -> Job:
        job = Job(work, self._clock)
        if not job.wait(self._deadline, self._cancel):
            if self._cancel.cancelled:
                raise _Stop(StopReason.CANCELLED, "The run was cancelled.")
            raise _Stop(StopReason.TIMEOUT, f"The time limit of {self._limits.timeout_s:g} s is reached.")
        return job

    def _tell(self, text: str) -> None:
        self._messages.append(UserMessage(text))
        self._log("agent.note", text=text)

    def _log(self, event: str, /, **fields: Any) -> None:
        self._logger.event(event, {"turn": self._turns, **fields})

    def _result(self, stop_reason: StopReason, reason: str) -> LoopResult:
        ok = stop_reason is StopReason.COMPLETED or (stop_reason is StopReason.STRUCTURED and self._valid)
        value = self._value if ok else None
        return LoopResult(
            self._output, ok, stop_reason, reason, value, self._usage, tuple(self._messages), self._turns, self._calls
        )  # fmt: skip
