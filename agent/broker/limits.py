"""Limits of last resort (S7): what the broker itself counts, whatever the harness says of itself.

Pure: time comes in as an argument. Each cap has its own stop reason; the first one reached stands.
"""

from __future__ import annotations

from agent.contract.dataclass import dataclass
from agent.contract.outcomes import StopReason

REQUESTS_A_CALL = 60  # most pages that one tool reads, twice over
MAX_EVENT_BYTES = 96 << 20  # of the harness's own events in one transcript


@dataclass(frozen=True)
class Limits:
    """Caps of one run.

    Attributes:
        max_tool_calls: tool calls in all.
        max_turns: model answers in all.
        timeout_s: wall clock from the start of the run, seconds.
        max_tokens: input (cached included) plus output, summed over calls; None is no cap.
        max_cost_usd: None is no cap.
        max_comments: comments, reviews and issues written.
        max_commands_bytes: bytes of command output kept in the results folder.
    """

    max_tool_calls: int
    max_turns: int = 300
    timeout_s: float = 1800.0
    max_tokens: int | None = None
    max_cost_usd: float | None = None
    max_comments: int = 30
    max_commands_bytes: int = 64 << 20


class Meter:
    """Counts against `Limits`; not safe for several threads, the caller locks."""

    def __init__(self, limits: Limits, *, started: float) -> None:
        self.limits = limits
        self.started = started
        self.tool_calls = 0
        self.acts = 0
        self.requests = 0
        self.event_bytes = 0
        self.turns = 0
        self.tokens = 0
        self.read = 0
        self.written = 0
        self.cost_usd = 0.0
        self.priced = True
        self.comments = 0
        self.kept_bytes = 0
        self.reached: StopReason | None = None

    def remaining_s(self, now: float) -> float:
        """Seconds left of the wall clock; negative when over."""
        return self.started + self.limits.timeout_s - now

    def tool_call(self) -> bool:
        """Count one tool call. False when it is over the cap and must not happen."""
        if self.tool_calls >= self.limits.max_tool_calls:
            return self._stop(StopReason.MAX_TOOL_CALLS)
        self.tool_calls += 1
        return True

    def act(self) -> bool:
        """Count one act that the broker itself does for a call: a command, commit, push or write.

        An honest harness reports each call before it acts; one that reports none meets the same cap here.
        """
        if self.acts >= self.limits.max_tool_calls:
            return self._stop(StopReason.MAX_TOOL_CALLS)
        self.acts += 1
        return True

    def request(self) -> bool:
        """Count one request to another connection than the model's; a tool may need several."""
        if self.requests >= REQUESTS_A_CALL * self.limits.max_tool_calls:
            return self._stop(StopReason.MAX_TOOL_CALLS)
        self.requests += 1
        return True

    def event(self, size: int) -> bool:
        """Count the bytes of one event of the harness. False when the transcript has room for no more."""
        if self.event_bytes + size > MAX_EVENT_BYTES:
            return False
        self.event_bytes += size
        return True

    def turn(self) -> bool:
        """Count one request to the model. False when it must not happen."""
        if self.limits.max_tokens is not None and self.tokens >= self.limits.max_tokens:
            return self._stop(StopReason.BUDGET)
        if self.limits.max_cost_usd is not None and self.cost_usd >= self.limits.max_cost_usd:
            return self._stop(StopReason.BUDGET)
        if self.turns >= self.limits.max_turns:
            return self._stop(StopReason.MAX_TURNS)
        self.turns += 1
        return True

    def used(self, read: int, written: int, cost_usd: float | None) -> None:
        """Add the input and output tokens of one answer, as the provider counted them, and their price if known."""
        self.read += max(read, 0)
        self.written += max(written, 0)
        self.tokens = self.read + self.written
        if cost_usd is None:
            self.priced = False
        else:
            self.cost_usd += max(cost_usd, 0.0)

    def comment(self, count: int = 1) -> bool:
        """Count comments, reviews or issues. Over the cap only the call is refused; the run goes on."""
        if self.comments + count > self.limits.max_comments:
            return False
        self.comments += count
        return True

    def _stop(self, reason: StopReason) -> bool:
        if self.reached is None:
            self.reached = reason
        return False
