"""Running foreign code (adapters, tools, hooks) so that raising, exiting or hanging harms nothing."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any

from agent.harness.loop.errors import AuthError
from agent.harness.loop.words import CancelToken

_SLICE_S = 0.05  # how long a cancel may go unnoticed while waiting; a finished job is noticed at once


class Job:
    """One call of foreign code, running in a thread of its own.

    Attributes:
        value, error: what it gave back or raised, once `wait` was True.
        started, seconds: by the clock.
    """

    def __init__(self, work: Callable[[], Any], clock: Callable[[], float]) -> None:
        self.value: Any = None
        self.error: BaseException | None = None
        self.started, self.seconds = clock(), 0.0
        self._work, self._clock = work, clock
        self._done = threading.Lock()  # free once it is done: an Event is made of five such steps
        self._done.acquire()

    def run(self) -> None:
        """For the thread."""
        try:
            self.value = self._work()
        except BaseException as exc:  # noqa: BLE001 - foreign code: SystemExit of a tool must not end the run
            self.error = exc
        self.seconds = self._clock() - self.started

    def finish(self) -> None:
        """For the thread, after `run`."""
        self._done.release()

    def wait(self, until: float | None, cancel: CancelToken) -> bool:
        """True when it came back before `until` (clock time) and before a cancel."""
        while not self.is_done(_SLICE_S):
            if cancel.cancelled or (until is not None and self._clock() >= until):
                return self.is_done()
        return True

    def is_done(self, seconds: float = 0.0) -> bool:
        """True when it has come back, or does so in that time."""
        done = self._done.acquire(timeout=seconds)
        if done:
            self._done.release()
        return done


class Workers:
    """Threads for foreign code, kept for the next job: starting one costs more than a turn of the loop.

    One that does not come back is left behind and a new one is started in its place.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._idle: list[queue.SimpleQueue[Job | None]] = []
        self._closed = False

    def start(self, work: Callable[[], Any]) -> Job:
        """Run `work` at once."""
        job = Job(work, self._clock)
        try:
            inbox = self._idle.pop()
        except IndexError:
            inbox = queue.SimpleQueue()
            threading.Thread(target=self._serve, args=(inbox,), name="loop-worker", daemon=True).start()
        inbox.put(job)
        return job

    def _serve(self, inbox: queue.SimpleQueue[Job | None]) -> None:
        while not self._closed and (job := inbox.get()) is not None:
            job.run()
            self._idle.append(inbox)
            job.finish()  # only now, so that whoever waited finds the thread idle
            del job  # or the last one, and all that it knows, would live as long as the thread

    def close(self) -> None:
        """End the threads; one that is still out ends when it comes back."""
        self._closed = True
        while self._idle:
            self._idle.pop().put(None)


class Ended(Exception):
    """The clock ran out or the run was cancelled.

    Attributes:
        cancelled: which of the two.
    """

    def __init__(self, *, cancelled: bool) -> None:
        super().__init__("The run was cancelled." if cancelled else "The run's time is up.")
        self.cancelled = cancelled


class Watch:
    """Clock, cancel token and threads of one run."""

    def __init__(self, clock: Callable[[], float], timeout_s: float | None, cancel: CancelToken) -> None:
        self.clock, self.cancel = clock, cancel
        self.workers = Workers(clock)
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

    def foreign(self, work: Callable[[], Any], *, linger_s: float = 0.0, here: bool = False) -> Job:
        """Run foreign code to its end.

        Args:
            linger_s: how long it may take to notice that the run has ended, and to count what it cost.
            here: in this thread; see `punctual`.

        Raises:
            Ended: it did not come back in time.
        """
        if here:
            job = Job(work, self.clock)
            job.run()
            if job.error is not None and not isinstance(job.error, Exception):
                raise job.error  # the host's own: Ctrl-C, or what a signal's handler raises to end the process
            return job
        job = self.workers.start(work)
        if not job.wait(self.deadline, self.cancel):
            job.is_done(linger_s)
            raise Ended(cancelled=self.cancel.cancelled)
        return job


def punctual(port: object) -> bool:
    """Whether a port promises to come back by itself when the run ends; see `LlmPort`."""
    return getattr(type(port), "punctual", False) is True


class AuthGate:
    """At most one recovery of a credential in a run, shared by calls that fail at the same time (C7)."""

    def __init__(self, recover: Callable[[], bool] | None) -> None:
        self._recover = recover
        self.recovers = recover is not None
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
