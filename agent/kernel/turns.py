"""Threads that take turns at reading: the one that reads a request leaves the reading to the next and handles it.

Handing each request to a thread of its own would cost a start and a switch of threads, several times in every turn of
the model. While all are busy nobody reads, which is back-pressure.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

T = TypeVar("T")


class Turns(Generic[T]):
    """As many threads as there are requests under way, and one that reads; they are kept for the next request."""

    def __init__(self, read: Callable[[], T | None], handle: Callable[[T], None], *, most: int, name: str) -> None:
        """
        Args:
            read: gives the next request, None at the end; called by one thread at a time.
            handle: does one request; called by several threads at a time. Neither may raise.
            most: threads, and so requests under way.
            name: of the threads.
        """
        self._read, self._handle, self._most, self._name = read, handle, most, name
        self._reading = threading.Lock()  # held by the thread that reads
        self._counting = threading.Lock()
        self._threads = self._free = 0  # free ones read, or wait to

    def start(self) -> None:
        """Start the first thread. All end when `read` gives None.

        Raises:
            RuntimeError: the machine gives no thread.
        """
        self._threads += 1
        self._free += 1
        try:
            threading.Thread(target=self._work, name=self._name, daemon=True).start()
        except RuntimeError:
            self._threads -= 1
            self._free -= 1
            raise

    def _work(self) -> None:
        while (request := self._next()) is not None:
            self._handle(request)
            del request  # or the last one would live as long as the thread waits
            with self._counting:
                self._free += 1

    def _next(self) -> T | None:
        with self._reading:
            request = self._read()
        if request is not None:
            with self._counting:
                self._free -= 1
                if not self._free and self._threads < self._most:
                    with suppress(RuntimeError):  # then nobody reads until a request is done
                        self.start()
        return request
