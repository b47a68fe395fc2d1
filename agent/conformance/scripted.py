"""A toy adapter: an LlmPort that plays a script. What a host's own factory has to be able to do."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from agent.harness.loop import LlmError, LlmReply, LlmRequest

Step = LlmReply | LlmError
"""One turn of a script: a reply to give, or an error to raise."""


class Scripted:
    """Gives the steps in order, then says `done`."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = list(steps)
        self._lock = threading.Lock()

    def complete(self, _request: LlmRequest, /) -> LlmReply:
        with self._lock:
            step = self._steps.pop(0) if self._steps else LlmReply("done")
        if isinstance(step, LlmError):
            raise step
        return step
