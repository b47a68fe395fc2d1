"""The tool contract as hosts and users see it (B10)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from agent.contract.modes import Tier


@dataclass(frozen=True)
class ToolOutput:
    """What one tool call gives back.

    Attributes:
        text: what the model reads; never empty (the belt says `(no output)` where it is).
        is_error: the model is told that the call failed and may mend it.
        untrusted: the text holds words of third parties and is framed before the model sees it (S1).
    """

    text: str
    is_error: bool = False
    untrusted: bool = True


@dataclass(frozen=True)
class AgentTool:
    """One tool.

    Attributes:
        name: `[a-z][a-z0-9_]{0,63}`; a custom tool may neither shadow nor imitate a built-in name.
        tier: what it may do at most; a mode that lacks the tier never shows it (S5).
        description: for the model.
        schema: JSON Schema of an object, checked before `run` is called.
        run: gets the validated arguments and the run's `ToolContext`; raises `ToolInputError` for what the
            model can mend.
        parallel: may run beside other calls of one batch; true for the read tier alone.
    """

    name: str
    tier: Tier
    description: str
    schema: Mapping[str, Any]
    run: Callable[[Mapping[str, Any], Any], ToolOutput]
    parallel: bool = False
