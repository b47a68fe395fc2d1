"""Error roots by fault. The root alone decides who is told.

* `ToolInputError` - the model's input was wrong: told to the model as a tool result, the run goes on.
* `Refusal` - the policy said no: told to the model and recorded; a `ToolPermissionError` ends the run.
* `UpstreamError` - GitHub, the provider or git failed: told to whoever asked, may end the run as `error`.
* `UserError` - configuration, input or event is wrong: told to the person, before anything runs.
Anything else is our bug, and only `launch` catches it.
"""

from __future__ import annotations


class AirlockError(Exception):
    """Root of every error raised on purpose. The text is one or more whole sentences for a reader."""


class ToolInputError(AirlockError):
    """The model's arguments or path are wrong in a way that it can mend."""


class Refusal(AirlockError):
    """A policy decision against an act.

    Attributes:
        code: stable machine-readable name, such as `egress_path_blocked`.
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class ToolPermissionError(Refusal):
    """A tool outside the mode's tiers was called: ends the run as `blocked` (S5)."""

    def __init__(self, message: str) -> None:
        super().__init__("tool_permission", message)


class UpstreamError(AirlockError):
    """A service or program outside Airlock failed.

    Attributes:
        step: what was being done, such as `create tree`.
        status: HTTP status, or None.
    """

    def __init__(self, step: str, message: str, status: int | None = None) -> None:
        super().__init__(f"{step}: {message}")
        self.step = step
        self.status = status


class UserError(AirlockError):
    """Configuration, input or event is wrong. The text says what, where, and what to do."""


class UnknownModeError(UserError):
    """A mode name that is not exactly one of the known names (B4)."""
