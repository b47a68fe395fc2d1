"""What the loop needs from its host. `LlmPort` is required; the others have defaults.

The default hooks permit everything: they are no safety net, tools must be safe by themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from agent.harness.loop.words import LlmReply, LlmRequest, LoopResult, Message, ToolCall


class LlmPort(Protocol):
    """A model.

    The loop calls an adapter in a thread of its own, so that one that hangs can be left behind. An adapter whose
    class says `punctual = True` promises that `complete` comes back by itself a moment after `request.cancel` is set or
    `request.timeout_s` is over; it is called in the loop's thread, which saves two switches of threads in a turn. The
    same goes for an `OptimizerPort` that only computes.
    """

    def complete(self, request: LlmRequest, /) -> LlmReply:
        """Answer one request with a finished turn.

        Raises:
            LlmError: or one of its children, `agent.harness.loop.errors`.
        """
        ...


class LoggerPort(Protocol):
    """Where events of the run go, in order.

    All carry `turn`. Events and their further fields: `agent.rendered` tools · `model.request` messages ·
    `model.response` text calls stop usage model ms · `tool.call` id name arguments raw · `tool.denied` id name
    code reason · `tool.result` id name text is_error ms · `agent.note` text · `agent.compacted` before after
    overflow · `agent.stop` stop_reason reason. The loop calls from one thread; what
    raises here ends the run as error, since what cannot be recorded must not go on. An adapter may add its own
    events, such as `model.retry`, from the thread that it runs in while the loop waits for it.
    """

    def event(self, name: str, fields: Mapping[str, Any], /) -> None: ...


class HooksPort(Protocol):
    """Permission before acts, verification before the end."""

    def before_call(self, call: ToolCall, /) -> str | None:
        """Reason to deny this call, or None. A denial cancels the whole batch; the run goes on (C6)."""
        ...

    def before_stop(self, result: LoopResult, /) -> str | None:
        """Feedback that resumes the run, or None to let it end. Third-party text in it must be framed."""
        ...


class OptimizerPort(Protocol):
    """Makes the history fit. Keeps each call with its result."""

    def optimize(self, messages: tuple[Message, ...], context_tokens: int, /, *, overflow: bool) -> tuple[Message, ...]:
        """Return what to send; the same object means no change, and keeps provider caches warm.

        Args:
            messages: what was sent last time, and what came since.
            context_tokens: input plus output of the last turn, 0 before the first.
            overflow: the provider has just refused this history as too long.
        """
        ...


class SilentLogger:
    """Records nothing."""

    def event(self, _name: str, _fields: Mapping[str, Any], /) -> None:
        return None


class PermitAll:
    """Permits every call and every end. No safety net."""

    def before_call(self, _call: ToolCall, /) -> str | None:
        return None

    def before_stop(self, _result: LoopResult, /) -> str | None:
        return None


class Unchanged:
    """Sends the history as it is."""

    def optimize(
        self, messages: tuple[Message, ...], _context_tokens: int, /, *, overflow: bool
    ) -> tuple[Message, ...]:
        del overflow  # nothing can be done about it here
        return messages
