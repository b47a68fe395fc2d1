"""The transcript writer (B9, D7): one redacted JSON line an event, chained, in the file before `write` returns.

A crash loses at most the line being written: each event is one `write`, and a line that could not be written
whole is cut off again. What is about to be done (a request, a push, a hook) is on disk (`fdatasync`) before `write`
returns, and with it all that came before; what came of it, and what the harness reports, waits in the kernel for the
next of these. Only a machine that fails in between loses that. Values are redacted before they are
serialised, so that a marker never breaks the JSON (reports F08); everything outside ASCII is written as a JSON
escape, so that nothing in the file is invisible.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from agent.broker.redact import Redactor
from agent.contract.errors import UpstreamError, UserError
from agent.contract.totals import Totals
from agent.contract.transcript import EVENTS, FIRST

FIELD_CAP = 200_000  # characters of one text; what is over lies whole in the results folder's `commands`
DEPTH_CAP = 40


class Transcript:
    """Writes one run's `transcript.jsonl`. Safe for several threads."""

    def __init__(self, path: Path, redactor: Redactor, clock: Callable[[], float]) -> None:
        """Create the file.

        Args:
            path: must not exist: a transcript is never written over.
            redactor: the run's.
            clock: seconds since 1970, such as `time.time`.

        Raises:
            UserError: the file exists or cannot be made.
        """
        self.path = path
        self.totals = Totals()
        self.fault: str | None = None
        self._redactor = redactor
        self._clock = clock
        self._lock = threading.Lock()
        self._seq = 0
        self._prev = FIRST
        self._size = 0
        self._last = 0.0
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        try:
            self._fd = os.open(path, flags, 0o644)
        except OSError as exc:
            raise UserError(f"The transcript {path} cannot be made: {exc.strerror}.") from exc

    def write(self, kind: str, /, **data: Any) -> int:
        """Record one event; in the file when this returns, and on disk where `EventType.durable` says so.

        Args:
            kind: a type of `agent.contract.transcript.EVENTS`.
            **data: its fields: JSON values; bytes are read as UTF-8, other things by `str`.

        Returns:
            The event's `seq`.

        Raises:
            ValueError: no such type: a mistake of the caller.
            UpstreamError: the disk refused; the file ends with the last whole event, `fault` says why.
        """
        if kind not in EVENTS:
            raise ValueError(f"no such transcript event: {kind!r}")
        shown = {k: v for k, v in self._redactor.value(_plain(data)).items() if k not in _OWN}
        with self._lock:
            if self.fault is not None:
                raise UpstreamError("transcript", self.fault)
            self.totals.add(kind, shown)
            self._last = max(self._last, self._clock())  # a clock set back does not turn the order around
            record = {"seq": self._seq, "ts": round(self._last, 6), "type": kind, **shown, "prev": self._prev}
            line = _ENCODE(record).encode()
            self._append(line + b"\n", durable=EVENTS[kind].durable)
            self._prev = hashlib.sha256(line).hexdigest()
            self._seq += 1
            return self._seq - 1

    def _append(self, line: bytes, *, durable: bool) -> None:
        rest = memoryview(line)
        try:
            while rest:
                rest = rest[os.write(self._fd, rest) :]
            if durable:
                os.fdatasync(self._fd)
        except OSError as exc:
            self.fault = f"cannot be written: {exc.strerror}"
            try:
                os.ftruncate(self._fd, self._size)
            except OSError:
                pass  # the half line stays; readers stop before it
            raise UpstreamError("transcript", self.fault) from exc
        self._size += len(line)

    @property
    def digest(self) -> str:
        """SHA-256 of the last line: names the whole chain."""
        return self._prev

    def resume(self) -> bool:
        """Write again after the disk refused, now that there is room; True where events were lost meanwhile."""
        with self._lock:
            if self.fault is None:
                return False
            try:
                os.ftruncate(self._fd, self._size)  # a half line that could not be cut off then
            except OSError:
                return False
            self.fault = None
            return True

    def close(self) -> None:
        """Close the file; further writes fail."""
        with self._lock:
            self.fault = self.fault or "is closed"
            fd, self._fd = self._fd, -1
            if fd >= 0:
                os.close(fd)


_OWN = frozenset({"seq", "ts", "type", "prev"})
_ENCODE = json.JSONEncoder(ensure_ascii=True, separators=(",", ":")).encode


def _plain(value: Any, depth: int = 0) -> Any:
    """A JSON value of bounded depth and text length, whatever came in."""
    if isinstance(value, str):
        return cap(value)
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if depth >= DEPTH_CAP:
        return "[nested too deeply]"
    if isinstance(value, Mapping):
        return {str(k): _plain(v, depth + 1) for k, v in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(v, depth + 1) for v in value]
    if isinstance(value, bytes):
        return cap(value.decode("utf-8", "replace"))
    return cap(str(value))


def cap(text: str, limit: int = FIELD_CAP) -> str:
    """Head and tail of a text that is over the limit, with a note of what lies between."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n[{len(text) - 2 * half} characters left out]\n{text[-half:]}"


def read(path: Path) -> Iterator[dict[str, Any]]:
    """Events of a transcript file, up to a line that a crash cut off.

    Raises:
        UserError: the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            for line in file:
                try:
                    event = json.loads(line) if line.endswith(b"\n") else None
                except (ValueError, RecursionError):
                    event = None
                if not isinstance(event, dict):
                    return
                yield event
    except OSError as exc:
        raise UserError(f"The transcript {path} cannot be read: {exc.strerror}.") from exc


def verify(path: Path) -> list[str]:
    """What is wrong with a transcript: chain, order, schema. Empty when nothing is.

    A line without its newline at the very end is what a crash leaves, and is told as such.

    Raises:
        UserError: the file cannot be read.
    """
    import jsonschema  # 100 ms that only this check pays

    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    validator = jsonschema.Draft202012Validator(schema)
    faults: list[str] = []
    prev = FIRST
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as exc:
        raise UserError(f"The transcript {path} cannot be read: {exc.strerror}.") from exc
    if lines[-1]:
        faults.append(f"line {len(lines)}: cut off")
    for number, line in enumerate(lines[:-1]):
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            faults.append(f"line {number + 1}: not JSON")
            event = None
        if isinstance(event, dict):
            if event.get("prev") != prev:
                faults.append(f"line {number + 1}: `prev` is not the hash of the line before")
            if event.get("seq") != number:
                faults.append(f"line {number + 1}: `seq` is {event.get('seq')!r}, not {number}")
            faults += [f"line {number + 1}: {error.message[:200]}" for error in validator.iter_errors(event)]
        prev = hashlib.sha256(line).hexdigest()
    return faults


SCHEMA = Path(__file__).with_name("transcript.schema.json")
