"""What adapters and tools raise to tell the loop something. Typed, so that nothing matches substrings (C7)."""

from __future__ import annotations

from agent.harness.loop.words import Usage


class LlmError(Exception):
    """The model could not be asked or did not finish a turn: ends the run as `error`.

    Attributes:
        usage: what the failed attempts cost; added to the run's sum.
    """

    def __init__(self, message: str, usage: Usage | None = None) -> None:
        super().__init__(message)
        self.usage = usage or Usage()


class AuthError(LlmError):
    """The provider (or a tool's service) did not accept the credential: recovered at most once a run (C7)."""


class ContextError(LlmError):
    """The history does not fit into the model's window: compacted once, then an honest stop."""


class BudgetError(LlmError):
    """The request alone would overrun a budget; nothing was sent: ends the run as `budget` (S7)."""


class DeadlineError(LlmError):
    """The run's clock ran out while waiting for the model: ends the run as `timeout`."""


class CancelledError(LlmError):
    """The run was cancelled while waiting for the model."""


class BlockedError(Exception):
    """A tool call that a rule forbids for good: ends the run as `blocked` (S5)."""
