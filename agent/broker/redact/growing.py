"""Known values in a text that grows: requests to a model, each of which begins as the last one did.

Scanning the whole history every turn would cost time quadratic in turns. What was scanned and is unchanged is
not scanned again; a margin before the change is, since a value may lie across it.
"""

from __future__ import annotations

import threading

from agent.broker.redact.known import Span, merge
from agent.broker.redact.redactor import Redactor, replaced


class Growing:
    """One per connection to a model. Safe for several threads; answers as `Redactor.known_bytes` would."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._lock = threading.Lock()
        self._last = b""
        self._spans: list[Span] = []
        self._version = -1

    def known_bytes(self, data: bytes) -> bytes:
        """Data with every known value replaced; the same object if there is none."""
        with self._lock:
            version, known = self._redactor.version_of_known()
            same = shared_start(self._last, data) if version == self._version else 0
            start = max(0, same - known.reach)
            # never from the middle of a secret: what is left of it may be too short to be known again
            start = next((span.start for span in self._spans if span.start < start < span.end), start)
            kept = [span for span in self._spans if span.end <= start]
            fresh = [Span(s.start + start, s.end + start, s.name) for s in known.spans(data[start:])]
            self._last, self._spans, self._version = data, merge([*kept, *fresh]), version
            return replaced(data, self._spans)


def shared_start(one: bytes, two: bytes) -> int:
    """Length of the common start, by halving: a few comparisons of memory instead of a loop over bytes."""
    low, high = 0, min(len(one), len(two))
    if one[:high] == two[:high]:
        return high
    while high - low > 64:
        middle = (low + high) // 2
        if one[low:middle] == two[low:middle]:
            low = middle
        else:
            high = middle
    return low
