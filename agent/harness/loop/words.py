"""The words of the loop: messages, calls, replies, limits, results. Data only, standard library only.

`messages` is the history of one run. It only ever grows at its end, so that each request to a model is a
prefix of the next (prompt caches, encode-once), and every tool call in it has exactly one result.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class StopReason(StrEnum):
    """Why a loop ended. Callers branch on this and on `LoopResult.ok`, never on texts (C5)."""

    COMPLETED = "completed"
    STRUCTURED = "structured"
    MAX_TOOL_CALLS = "max_tool_calls"
    MAX_TURNS = "max_turns"
    TIMEOUT = "timeout"
    BUDGET = "budget"
    BLOCKED = "blocked"
    CANCELLED = "cancelled"
    ERROR = "error"
    NOT_VERIFIED = "not_verified"
    NO_PROGRESS = "no_progress"


class ReplyStop(StrEnum):
    """How a model's turn ended, whatever the provider calls it."""

    END = "end"
    TOOL_CALLS = "tool_calls"
    MAX_TOKENS = "max_tokens"
    REFUSAL = "refusal"


@dataclass(frozen=True)
class Usage:
    """Tokens and money of one reply, or their sum.

    Attributes:
        input_tokens: all input tokens, cached ones included.
        cached_tokens: the part of the input read from a cache.
        cache_write_tokens: the part of the input written to a cache.
        output_tokens: all output tokens, reasoning included.
        reasoning_tokens: the part of the output that was reasoning.
        cost: US dollars, or None when the price of any part is unknown.
    """

    input_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    cost: float | None = 0.0

    @property
    def total_tokens(self) -> int:
        """Input plus output: what a token budget counts (S7)."""
        return self.input_tokens + self.output_tokens

    def __add__(self, other: Usage) -> Usage:
        cost = None if self.cost is None or other.cost is None else self.cost + other.cost
        return Usage(
            self.input_tokens + other.input_tokens,
            self.cached_tokens + other.cached_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.output_tokens + other.output_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
            cost,
        )


@dataclass(frozen=True)
class ToolCall:
    """One call the model made.

    Attributes:
        id: as the provider gave it; the loop replaces an empty or repeated one.
        name: as the model wrote it; may name no tool.
        arguments: the decoded JSON object, or None when what the model wrote is none.
        raw: the arguments' text as written, for replay and for the transcript.
        problem: why `arguments` is None, in words for the model.
    """

    id: str
    name: str
    arguments: Mapping[str, Any] | None
    raw: str = ""
    problem: str = ""


@dataclass(frozen=True)
class ToolResult:
    """What a tool gives back. An empty text becomes `(no output)`: providers refuse empty blocks."""

    text: str
    is_error: bool = False


@dataclass(frozen=True)
class CallResult:
    """A tool result in the history, bound to its call."""

    call_id: str
    name: str
    text: str
    is_error: bool = False


@dataclass(frozen=True)
class UserMessage:
    """Words of ours to the model: the task, feedback, notes."""

    text: str


@dataclass(frozen=True)
class AssistantMessage:
    """A turn of the model.

    Attributes:
        text: what it said; may be empty when it made calls.
        calls: in order, with ids that are unique in the history.
        blocks: opaque provider content to be replayed as it is (reasoning, signatures), to the model alone that
            made them.
        wire: the adapter's own word for who made `blocks`.
    """

    text: str
    calls: tuple[ToolCall, ...] = ()
    blocks: tuple[Any, ...] = ()
    wire: str = ""


@dataclass(frozen=True)
class ToolMessage:
    """The results of one batch, in the order of its calls."""

    results: tuple[CallResult, ...]


Message = UserMessage | AssistantMessage | ToolMessage


@dataclass(frozen=True)
class LoopTool:
    """One tool as the loop knows it.

    Attributes:
        name: what the model calls it.
        description: for the model.
        schema: JSON Schema of an object, for the model; the loop does not validate against it.
        run: gets the decoded arguments. What it raises is told to the model by its type alone, since a
            message may hold third-party text; words for the model are returned as an error result.
            `BlockedError` ends the run, `AuthError` is retried once after recovery.
        parallel: may run beside other such calls of the same batch.
    """

    name: str
    description: str
    schema: Mapping[str, Any]
    run: Callable[[Mapping[str, Any]], ToolResult]
    parallel: bool = False


class CancelToken:
    """Set once, from any thread or a signal handler; looked at before and during every step."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def cancel(self) -> None:
        self._event.set()

    @property
    def cancelled(self) -> bool:
        return self._event.is_set()

    def wait(self, seconds: float) -> bool:
        """Sleep that a cancel ends early; True when cancelled."""
        return self._event.wait(seconds)


@dataclass(frozen=True)
class LlmRequest:
    """One request to a model.

    Attributes:
        system: our instructions.
        messages: what is sent: the history, or what the optimizer made of it.
        tools: the tools on offer, the same in every request of a run.
        timeout_s: seconds left of the run's clock, or None.
        tokens_left, cost_left: what is left of the budgets, or None; an adapter caps the output with it and
            raises `BudgetError` when the request alone would overrun.
        cancel: an adapter that waits looks at it.
    """

    system: str
    messages: tuple[Message, ...]
    tools: tuple[LoopTool, ...]
    timeout_s: float | None = None
    tokens_left: int | None = None
    cost_left: float | None = None
    cancel: CancelToken = field(default_factory=CancelToken)


@dataclass(frozen=True)
class LlmReply:
    """One finished turn of a model. A turn whose stream was cut is none; the adapter raises `LlmError`."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    stop: ReplyStop = ReplyStop.END
    usage: Usage = Usage()
    blocks: tuple[Any, ...] = ()
    wire: str = ""
    model: str = ""


@dataclass(frozen=True)
class Limits:
    """Caps of one run (S7). None is no cap.

    Attributes:
        max_tool_calls: calls answered, slips included.
        max_turns: requests to the model.
        timeout_s: wall clock.
        max_tokens: input (cached included) plus output, summed over the turns.
        max_cost: US dollars.
        tool_timeout_s: wall clock of one tool call.
        max_repeats: the same failing call this often in a row is told to the model, once more ends the run; a
            call that succeeds and tells nothing new may go on longer (see `progress`). 0 is no cap.
        max_returns: so many times in a row the model may say that it is done, without a tool call between,
            while `before_stop` disagrees.
        max_parallel: calls running side by side.
    """

    max_tool_calls: int | None = None
    max_turns: int | None = None
    timeout_s: float | None = None
    max_tokens: int | None = None
    max_cost: float | None = None
    tool_timeout_s: float | None = None
    max_repeats: int = 3
    max_returns: int = 3
    max_parallel: int = 8


@dataclass(frozen=True)
class StructuredOutput:
    """How a structured ending is checked: an injected validator, never a schema (C5).

    Attributes:
        validate: gets the final text, returns the value, raises ValueError with words for the model.
        retries: how often the model may try again.
    """

    validate: Callable[[str], Any]
    retries: int = 2


@dataclass(frozen=True)
class LoopResult:
    """How a run ended; complete also when it was cut short.

    Attributes:
        output: the model's last text; for a structured ending whose retries ran out, the validation error.
        ok: completed, or structured with a value. Nothing else is success.
        stop_reason: why it ended.
        reason: one sentence for a person.
        structured: the validated value, or None; read it, not the stop reason, to know whether there is one.
        usage: sums over the run.
        messages: the whole history; every call in it has a result.
        turns: requests made to the model.
        tool_calls: calls answered.
    """

    output: str
    ok: bool
    stop_reason: StopReason
    reason: str
    structured: Any = None
    usage: Usage = Usage()
    messages: tuple[Message, ...] = ()
    turns: int = 0
    tool_calls: int = 0
