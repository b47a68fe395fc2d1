"""What every tool is handed: the run's facts, the broker, the workspace. Nothing else is in a tool's reach."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from agent.contract.facts import RunFacts
from agent.contract.framing import escape
from agent.contract.tool import ToolOutput

if TYPE_CHECKING:
    from agent.kernel.beneath import Beneath


class Answer(Protocol):
    """One answer of the broker; `agent.kernel.channel.Frame` is one."""

    @property
    def header(self) -> dict[str, Any]: ...

    @property
    def payload(self) -> bytes: ...


class BrokerPort(Protocol):
    """The broker as a tool sees it; `agent.kernel.channel.Caller` is one.

    Raises:
        CallFailed: the broker refused or failed; the belt tells the model.
        ChannelError: the broker is gone; ends the run.
    """

    def call(self, op: str, payload: bytes = b"", **fields: Any) -> Answer: ...

    def stream(self, op: str, payload: bytes = b"", **fields: Any) -> Iterator[Answer]: ...

    def notice(self, op: str, payload: bytes = b"", **fields: Any) -> None: ...


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
        note: exit status, counts, how to go on. Never third-party text: it stands outside the frame (S1).
    """

    note: str = ""


def own_words(text: str, *, is_error: bool = False) -> ToolOutput:
    """An output in words of ours, which may quote what the model itself wrote: stands outside any frame."""
    return ToolOutput(escape(text), is_error=is_error, untrusted=False)
