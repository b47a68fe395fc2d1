"""Server-sent events from bytes that arrive in any pieces. Pure."""

from __future__ import annotations

from agent.harness.clients.faults import Fault, FaultKind, ProviderError

_CAP = 32 << 20  # one event; a turn's whole text is below 1 MB


class SseParser:
    """Feed bytes, get `(event, data)` pairs. An event that has not ended by its blank line is not given out."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []  # the line that has not ended; joined once, so that a long one is not quadratic
        self._event = ""
        self._data: list[str] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[tuple[str, str]]:
        """Events completed by this chunk.

        Raises:
            ProviderError: a single event is over 32 MiB.
        """
        self._size += len(chunk)
        lines: list[bytes] = []
        self._rest.append(chunk)
        if b"\n" in chunk:
            lines = b"".join(self._rest).split(b"\n")
            self._rest = [lines.pop()]
        if self._size > _CAP:
            raise ProviderError(Fault(FaultKind.PERMANENT, "The model's provider sent an event that is too large."))
        events = []
        for line in lines:
            line = line.removesuffix(b"\r")
            if line:
                self._field(line)
                continue
            if self._data:
                events.append((self._event, "\n".join(self._data)))
            self._event, self._data, self._size = "", [], len(self._rest[0])
        return events

    def _field(self, line: bytes) -> None:
        name, _, value = line.removeprefix(b"\xef\xbb\xbf").partition(b":")
        text = value.removeprefix(b" ").decode("utf-8", "replace")
        if name == b"data":
            self._data.append(text)
        elif name == b"event":
            self._event = text
