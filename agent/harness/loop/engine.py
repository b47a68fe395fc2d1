"""The loop: ask the model, answer its tool calls, until it is done or something ends the run.

Methods stand in call order. Nothing here knows a provider, a tool, a file or a network; all of that comes
by port. Whatever ends the run, the result carries the whole history, in which every call has a result.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from agent.harness.loop.asking import Asker, Stop
from agent.harness.loop.batch import Batch, Toolbox
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
from agent.harness.loop.watch import AuthGate, Ended, Watch
from agent.harness.loop.words import (
    AssistantMessage,
    CallResult,
    CancelToken,
    Limits,
    LlmReply,
    LoopResult,
    LoopTool,
    Message,
    ReplyStop,
    StopReason,
    StructuredOutput,
    ToolCall,
    ToolMessage,
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
    ids: Callable[[], str] = lambda: f"call_{os.urandom(12).hex()}",
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
        The result, for every way a run can end; a port that fails does not raise.

    Raises:
        ValueError: two tools have the same name.
    """
    limits, hooks, logger = limits or Limits(), hooks or PermitAll(), logger or SilentLogger()
    box, gate = Toolbox(tools, allow, deny, forbidden), AuthGate(recover_auth)
    watch = Watch(clock, limits.timeout_s, cancel or CancelToken())
    asker = Asker(llm, optimizer or Unchanged(), gate, watch, system, box.offered, limits)
    return _Run(asker, Batch(box, hooks, gate, watch, limits), task, structured, logger, ids).run()


class _Unrecorded(Exception):
    """The logger failed: nothing more is done."""


class _Run:
    def __init__(
        self,
        asker: Asker,
        batch: Batch,
        task: str,
        structured: StructuredOutput | None,
        logger: LoggerPort,
        ids: Callable[[], str],
    ) -> None:
        self._asker, self._batch, self._structured, self._logger, self._ids = asker, batch, structured, logger, ids
        asker.log = batch.log = self._log
        self._limits, self._watch, self._hooks = batch.limits, batch.watch, batch.hooks
        self._progress = Progress(self._limits.max_repeats)
        self._messages: list[Message] = [UserMessage(task)]
        self._call_ids: set[str] = set()
        self._calls = self._returns = self._wasted = 0
        self._retries = structured.retries if structured else 0
        self._output, self._value, self._valid = "", None, False

    def run(self) -> LoopResult:
        try:
            return self._end(*self._to_the_end())
        except _Unrecorded as exc:
            return self._unrecorded(str(exc))
        finally:
            self._watch.workers.close()

    def _to_the_end(self) -> tuple[StopReason, str]:
        try:
            while True:
                self._asker.check_limits()
                reply = self._asker.ask(self._messages)
                if reply.stop is ReplyStop.REFUSAL:
                    self._output = reply.text
                    raise Stop(StopReason.ERROR, "The model refused to go on.")
                if reply.stop is ReplyStop.MAX_TOKENS or not (reply.calls or reply.text.strip()):
                    self._mend(reply)
                elif reply.calls:
                    self._act(reply)
                else:
                    self._settle(reply)
        except Stop as stop:
            return stop.stop_reason, stop.reason
        except Ended as ended:
            return (StopReason.CANCELLED if ended.cancelled else StopReason.TIMEOUT), str(ended)

    def _mend(self, reply: LlmReply) -> None:
        # Half a tool call is never run, whether or not what there is of it parses.
        cut = reply.stop is ReplyStop.MAX_TOKENS
        self._wasted += 1
        if reply.text.strip():
            self._output = reply.text
            self._messages.append(AssistantMessage(reply.text))
        if self._wasted > 1:
            what = "was cut off at its output limit" if cut else "said nothing"
            raise Stop(StopReason.ERROR, f"The model {what} twice in a row; the task is incomplete.")
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
            raise Stop(*halt)
        verdict = self._progress.see(calls, results)
        if verdict is Verdict.STOP:
            raise Stop(StopReason.NO_PROGRESS, "The model repeated the same calls without learning anything new.")
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
            job = self._watch.foreign(lambda: validate(reply.text))
            if job.error is not None:
                self._retry_structured(job.error)
                return
            self._value, self._valid = job.value, True
        done = self._result(ending, "The model says that it is done.")
        job = self._watch.foreign(lambda: self._hooks.before_stop(done))
        if job.error is None and job.value is None:
            raise Stop(ending, "The model is done.")
        self._value, self._valid = None, False
        if job.error is not None:
            raise Stop(StopReason.ERROR, f"The check before the end failed: {job.error}")
        self._returns += 1
        if self._returns >= self._limits.max_returns:
            raise Stop(StopReason.NOT_VERIFIED, f"The check before the end failed {self._returns} times in a row.")
        self._tell(job.value)

    def _retry_structured(self, problem: BaseException) -> None:
        if self._retries == 0:
            self._output = str(problem)
            raise Stop(StopReason.STRUCTURED, "The final text did not pass its validation.")
        self._retries -= 1
        self._tell(f"Your answer does not pass validation: {problem}\nAnswer again, with nothing but the answer.")

    def _tell(self, text: str) -> None:
        self._messages.append(UserMessage(text))
        self._log("agent.note", text=text)

    def _end(self, stop_reason: StopReason, reason: str) -> LoopResult:
        self._log("agent.stop", stop_reason=stop_reason.value, reason=reason)
        return self._result(stop_reason, reason)

    def _result(self, stop_reason: StopReason, reason: str) -> LoopResult:
        ok = stop_reason is StopReason.COMPLETED or (stop_reason is StopReason.STRUCTURED and self._valid)
        return LoopResult(
            self._output, ok, stop_reason, reason, self._value if ok else None, self._asker.usage,
            tuple(self._messages), self._asker.turns, self._calls,
        )  # fmt: skip

    def _unrecorded(self, problem: str) -> LoopResult:
        last = self._messages[-1]
        if isinstance(last, AssistantMessage) and last.calls:
            lost = "What it did is not known: the run could not be recorded."
            self._messages.append(ToolMessage(tuple(CallResult(c.id, c.name, lost, is_error=True) for c in last.calls)))
        return self._result(StopReason.ERROR, f"The run could not be recorded: {problem}")

    def _log(self, event: str, /, **fields: Any) -> None:
        try:
            self._logger.event(event, {"turn": self._asker.turns, **fields})
        except Exception as exc:  # the logger is the host's
            raise _Unrecorded(f"{type(exc).__name__}: {exc}") from exc
