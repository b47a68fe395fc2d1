"""What every tool is handed: the run's facts, the broker, the workspace. Nothing else is in a tool's reach."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agent.contract.facts import RunFacts
from agent.contract.framing import escape
from agent.contract.tool import ToolOutput

if TYPE_CHECKING:
    from agent.harness.ports import BrokerPort
    from agent.kernel.beneath import Beneath


@dataclass(frozen=True)
class ToolContext:
    """The run as a tool sees it.

    Attributes:
        facts: numbers, shas and settings; no words of third parties.
        broker: the only way out of the harness.
        files: opens paths beneath the workspace, and nothing else.
        memo: what tools remember within this run (for example the extract of a log already fetched), by tool
            name; never sent anywhere.
    """

    facts: RunFacts
    broker: BrokerPort
    files: Beneath
    memo: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class NotedOutput(ToolOutput):
    """A tool output with words of our own after the frame.

    Attributes:
        note: exit status, counts, how to go on, a maintainer's guidance. Never third-party text: it stands
            outside the frame (S1).
    """

    note: str = ""


def own_words(text: str, *, is_error: bool = False) -> ToolOutput:
    """An output in words of ours, which may quote what the model itself wrote: stands outside any frame."""
    return ToolOutput(escape(text), is_error=is_error, untrusted=False)
