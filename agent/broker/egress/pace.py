"""How fast this run may ask GitHub (github-contract section 2): two caps, one clock.

* Requests that people see or that GitHub counts as content (comments, issues, reviews, labels, refs, pull
  requests) are a second apart: GitHub asks for that, and for at most 80 a minute.
* Every request costs points, five for a write and one for a read, of which GitHub gives 900 in any minute. Blobs,
  trees and commits are writes that notify nobody, so they go as fast as their points allow: a bucket that holds
  `BURST` and gains `RATE` a second lets no more than `BURST + 60 * RATE` = 850 pass in any minute.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from agent.contract.regex import regex

BURST = 250.0  # points at once: fifty objects of one push
RATE = 10.0  # points a second
READ, WRITE = 1.0, 5.0

_OBJECT = regex(r"/git/(?:blobs|trees|commits)\Z")


class Pace:
    """Keeps one run's pace. Safe for several threads; whoever comes first is served first."""

    def __init__(
        self, content_pause_s: float, *, monotonic: Callable[[], float], sleep: Callable[[float], None]
    ) -> None:
        """
        Args:
            content_pause_s: seconds between two requests that are content; 0 turns pacing off.
        """
        self._pause_s = content_pause_s
        self._monotonic = monotonic
        self._sleep = sleep
        self._lock = threading.Lock()
        self._points = BURST
        self._filled_at: float | None = None
        self._content_at: float | None = None

    def wait(self, method: str, url: str) -> None:
        """Wait until this request may be sent.

        Args:
            url: without query.
        """
        if self._pause_s <= 0:
            return
        content = method != "GET" and not (method == "POST" and _OBJECT.search(url))
        with self._lock:
            now = self._monotonic()
            pause = self._take(READ if method == "GET" else WRITE, now)
            if content:
                if self._content_at is not None:
                    pause = max(pause, self._content_at + self._pause_s - now)
                self._content_at = now + pause
        if pause > 0:  # with the lock let go, so that a read does not wait behind a comment
            self._sleep(pause)

    def _take(self, cost: float, now: float) -> float:
        """Take points and return how long they are still missing."""
        if self._filled_at is not None:
            self._points = min(BURST, self._points + (now - self._filled_at) * RATE)
        self._filled_at = now
        self._points -= cost
        return max(0.0, -self._points / RATE)
