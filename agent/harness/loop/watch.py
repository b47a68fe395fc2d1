"""Running foreign code (adapters, tools, hooks) so that raising, exiting or hanging harms nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from agent.harness.loop.errors import AuthError
from agent.harness.loop.words import CancelToken

_SLICE_S = 0.05  # how long a cancel may go unnoticed while waiting; a finished job is noticed at once


class Job:
    """One call of foreign code in a thread of its own, which is left behind when it does not come back."""

    def __init__(self, work: Callable[[], Any], clock: Callable[[], float]) -> None:
        self.value: Any = None
        self.error: BaseException | None = None
        self.seconds = 0.0
        self._work, self._clock = work, clock
        self._done = threading.Event()
        self.started = clock()
        threading.Thread(target=self._run, name="loop-job", daemon=True).start()

    def _run(self) -> None:
        try:
            self.value = self._work()
        except BaseException as exc:  # noqa: BLE001 - foreign code: SystemExit of a tool must not end the run
            self.error = exc
        self.seconds = self._clock() - self.started
        self._done.set()

    def wait(self, until: float | None, cancel: CancelToken) -> bool:
        """True when it came back before `until` (clock time) and before a cancel."""
        while not self._done.wait(_SLICE_S):
            if cancel.cancelled or (until is not None and self._clock() >= until):
                return self._done.is_set()
        return True


class Ended(Exception):
    """The clock ran out or the run was cancelled.

    Attributes:
        cancelled: which of the two.
    """

    def __init__(self, *, cancelled: bool) -> None:
        super().__init__("The run was cancelled." if cancelled else "The run's time is up.")
        self.cancelled = cancelled


class Watch:
    """The clock and the cancel token of one run."""

    def __init__(self, clock: Callable[[], float], timeout_s: float | None, cancel: CancelToken) -> None:
        self.clock, self.cancel = clock, cancel
        self.deadline = None if timeout_s is None else clock() + timeout_s

    @property
    def over(self) -> bool:
        """The time is up."""
        return self.deadline is not None and self.clock() >= self.deadline

    def left(self) -> float | None:
        """Seconds left, or None without a limit."""
        return None if self.deadline is None else max(0.0, self.deadline - self.clock())

    def check(self) -> None:
        """Raises Ended when the run must not go on."""
        if self.cancel.cancelled or self.over:
            raise Ended(cancelled=self.cancel.cancelled)

    def foreign(self, work: Callable[[], Any]) -> Job:
        """Run foreign code to its end.

        Raises:
            Ended: it did not come back in time.
        """
        job = Job(work, self.clock)
        if not job.wait(self.deadline, self.cancel):
            raise Ended(cancelled=self.cancel.cancelled)
        return job


class AuthGate:
    """At most one recovery of a credential in a run, shared by calls that fail at the same time (C7)."""

    def __init__(self, recover: Callable[[], bool] | None) -> None:
        self._recover = recover
        self._lock = threading.Lock()
        self._generation = 0

    def call(self, work: Callable[[], Any]) -> Any:
        """Run `work`; after an `AuthError` recover once a run and run it once more."""
        seen = self._generation
        try:
            return work()
        except AuthError:
            if not self._recovered_since(seen):
                raise
            return work()

    def _recovered_since(self, seen: int) -> bool:
        with self._lock:
            if self._generation == seen and self._recover is not None:
                recover, self._recover = self._recover, None
                self._generation += bool(recover())
            return self._generation != seen
