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
