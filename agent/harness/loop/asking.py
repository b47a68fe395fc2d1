"""Asking the model once more: limits before the request, history into what is sent, faults into stop reasons."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agent.harness.loop.errors import BudgetError, CancelledError, ContextError, DeadlineError, LlmError
from agent.harness.loop.ports import LlmPort, OptimizerPort, Unchanged
from agent.harness.loop.watch import AuthGate, Watch, punctual
from agent.harness.loop.words import (
    Limits,
    LlmReply,
    LlmRequest,
    LoopTool,
    Message,
    ReplyStop,
    StopReason,
    ToolCall,
    Usage,
)

_LINGER_S = 0.5  # for an adapter to notice a cancel and say what its half answer cost
_STOPS = {
    BudgetError: StopReason.BUDGET,
    DeadlineError: StopReason.TIMEOUT,
    CancelledError: StopReason.CANCELLED,
}


class Stop(Exception):
    """The run ends here.

    Attributes:
        stop_reason: which end it is.
        reason: one sentence for a person.
    """

    def __init__(self, stop_reason: StopReason, reason: str) -> None:
        super().__init__(reason)
        self.stop_reason, self.reason = stop_reason, reason


@dataclass
class Asker:
    """The model's side of one run. `log` gets an event's name and fields.

    Attributes:
        usage: sum over all turns, failed and late ones included.
        turns: requests made.
    """

    llm: LlmPort
    optimizer: OptimizerPort
    gate: AuthGate
    watch: Watch
    system: str
    tools: tuple[LoopTool, ...]
    limits: Limits
    log: Callable[..., None] = lambda *_, **__: None
    usage: Usage = field(default_factory=Usage)
    turns: int = 0
    _sent: tuple[Message, ...] = ()  # what the optimizer made of the first `_seen` messages
    _seen: int = 0
    _context: int = 0

    def check_limits(self) -> None:
        """Raises Stop when another request must not be made (S7)."""
        limits, usage = self.limits, self.usage
        self.watch.check()
        if limits.max_turns is not None and self.turns >= limits.max_turns:
            raise Stop(StopReason.MAX_TURNS, f"The cap of {limits.max_turns} turns is reached.")
        # History only grows, so the next request costs at least what the last turn held.
        if limits.max_tokens is not None and usage.total_tokens + self._context >= limits.max_tokens:
            raise Stop(StopReason.BUDGET, f"The budget of {limits.max_tokens} tokens does not allow another turn.")
        if limits.max_cost is not None and usage.cost is not None and usage.cost >= limits.max_cost:
            raise Stop(StopReason.BUDGET, f"The budget of {limits.max_cost:g} USD is spent.")

    def ask(self, history: list[Message]) -> LlmReply:
        """One finished turn of the model.

        Raises:
            Stop: the model could not be asked, whatever the cause.
        """
        self.turns += 1
        self.log("agent.rendered", tools=[tool.name for tool in self.tools])
        try:
            try:
                reply = self._complete(self._view(history, overflow=False))
            except ContextError as exc:
                before = self._sent
                if (view := self._view(history, overflow=True)) == before:
                    raise LlmError(f"The history does not fit and cannot be made shorter. {exc}") from exc
                reply = self._complete(view)
        except LlmError as exc:
            raise Stop(_STOPS.get(type(exc), StopReason.ERROR), str(exc) or type(exc).__name__) from exc
        self._context = reply.usage.total_tokens
        return reply

    def _view(self, history: list[Message], *, overflow: bool) -> tuple[Message, ...]:
        grown = self._sent + tuple(history[self._seen :])
        view = self._optimized(grown, overflow=overflow)
        if view is not grown:
            self._context = 0  # what the last turn held is not what is sent now
            self.log("agent.compacted", before=len(grown), after=len(view), overflow=overflow)
        self._sent, self._seen = view, len(history)
        return view

    def _optimized(self, grown: tuple[Message, ...], *, overflow: bool) -> tuple[Message, ...]:
        if type(self.optimizer) is Unchanged:  # no thread for what does nothing
            return grown
        job = self.watch.foreign(
            lambda: tuple(self.optimizer.optimize(grown, self._context, overflow=overflow)),
            here=punctual(self.optimizer),
        )
        if job.error is not None:
            raise LlmError(f"The history could not be made to fit: {type(job.error).__name__}: {job.error}")
        view: tuple[Message, ...] = job.value
        return view

    def _complete(self, view: tuple[Message, ...]) -> LlmReply:
        limits, usage = self.limits, self.usage
        request = LlmRequest(
            self.system,
            view,
            self.tools,
            self.watch.left(),
            None if limits.max_tokens is None else limits.max_tokens - usage.total_tokens,
            None if limits.max_cost is None or usage.cost is None else limits.max_cost - usage.cost,
            self.watch.cancel,
        )
        self.log("model.request", messages=len(view))
        job = self.watch.foreign(
            lambda: self.gate.call(lambda: self._paid(request)),
            linger_s=_LINGER_S,
            here=punctual(self.llm) and not self.gate.recovers,  # a recovery is the host's, and may hang
        )
        if isinstance(job.error, LlmError):
            raise job.error
        if job.error is not None:
            raise LlmError(f"The model's adapter failed: {type(job.error).__name__}: {job.error}")
        reply: LlmReply = job.value
        self._log_reply(reply, job.seconds)
        return reply

    def _paid(self, request: LlmRequest) -> LlmReply:
        """Ask, and count what it cost.

        Counted here, in the adapter's thread, so that nothing is lost where a credential is recovered in between
        or the run has ended before the answer came.
        """
        try:
            reply = _checked(self.llm.complete(request))
        except LlmError as exc:
            self.usage += exc.usage
            raise
        self.usage += reply.usage
        return reply

    def _log_reply(self, reply: LlmReply, seconds: float) -> None:
        calls: list[Any] = [{"id": call.id, "name": call.name} for call in reply.calls]
        self.log(
            "model.response", text=reply.text, calls=calls, stop=reply.stop.value, usage=reply.usage,
            model=reply.model, ms=round(seconds * 1000, 3),
        )  # fmt: skip


_REPLY: Mapping[str, type | tuple[type, ...]] = {
    "text": str, "calls": (tuple, list), "stop": ReplyStop, "usage": Usage, "blocks": (tuple, list), "wire": str,
    "model": str,
}  # fmt: skip
_CALL: Mapping[str, type | tuple[type, ...]] = {
    "id": str, "name": str, "arguments": (type(None), Mapping), "raw": str, "problem": str,
}  # fmt: skip


def _checked(reply: object) -> LlmReply:
    """The reply when each field of it is of its type.

    Raises:
        TypeError: it is none, or a field is not; an adapter that passes a provider's null on is found here, and
            not by whatever reads the history later.
    """
    if not isinstance(reply, LlmReply):
        raise TypeError(f"it gave back {type(reply).__name__}, which is no LlmReply")
    _check_fields(reply, _REPLY)
    for call in reply.calls:
        if not isinstance(call, ToolCall):
            raise TypeError(f"one of the calls is {type(call).__name__}, which is no ToolCall")
        _check_fields(call, _CALL)
    return reply


def _check_fields(value: LlmReply | ToolCall, kinds: Mapping[str, type | tuple[type, ...]]) -> None:
    for name, kind in kinds.items():
        if not isinstance(part := getattr(value, name), kind):
            raise TypeError(f"`{name}` of a {type(value).__name__} may not be {type(part).__name__}")
