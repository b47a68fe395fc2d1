"""The ports of the harness: the loop's, and the one to the broker.

The loop defines its own ports (`agent.harness.loop.ports`), since it imports no product code; this module
is where the rest of the harness gets them from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Protocol

from agent.harness.loop.ports import (
    HooksPort,
    LlmPort,
    LoggerPort,
    OptimizerPort,
    PermitAll,
    SilentLogger,
    Unchanged,
)
from agent.kernel.channel import Frame

__all__ = [
    "BrokerPort",
    "HooksPort",
    "LlmPort",
    "LoggerPort",
    "OptimizerPort",
    "PermitAll",
    "SilentLogger",
    "Unchanged",
]


class BrokerPort(Protocol):
    """The broker as the harness sees it; `agent.kernel.channel.Caller` is one."""

    def call(self, op: str, payload: bytes = b"", **fields: Any) -> Frame:
        """One request, one answer.

        Raises:
            CallFailed: the broker answered with an error.
            ChannelError: the broker is gone.
        """
        ...

    def stream(
        self, op: str, payload: bytes = b"", *, waiting: Callable[[], None] | None = None, **fields: Any
    ) -> Iterator[Frame]:
        """One request, an answer in frames; the last one carries `ok: true`. Raises as `call`.

        Args:
            waiting: called about ten times a second while nothing comes; what it raises ends the wait.
        """
        ...

    def notice(self, op: str, payload: bytes = b"", *, hold: bool = False, **fields: Any) -> None:
        """One message without an answer; with `hold` it goes with the next message."""
        ...
