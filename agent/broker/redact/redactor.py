"""What the broker calls to redact. One object a run; it holds the secrets and so never leaves the broker."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Mapping
from typing import Any

from agent.broker.redact import shapes
from agent.broker.redact.forms import ordinary, to_bytes
from agent.broker.redact.known import KnownValues, Span

TOGETHER = 1 << 14  # characters of texts that are looked at in one search: as bytes at most `escapes.SMALL`
SHORT, KEPT = 1000, 256  # characters of such a text that is remembered as clean, and how many are


class Redactor:
    """Redaction with the run's known values.

    Values shorter than eight characters, empty ones and common words are not registered: hiding them would
    hide ordinary text (reports F07). `unregistered` names them, so that a report can say so.
    """

    def __init__(self, secrets: Mapping[str, str]) -> None:
        """Register secrets by name. The name is shown in the marker; the value never is."""
        self._lock = threading.Lock()
        self._secrets: dict[str, set[str]] = {}
        self.unregistered: list[str] = []
        for name, value in secrets.items():
            self._register(name, value)
        self._known: KnownValues | None = None  # built when a text needs it: values come one by one
        self._version = 0
        self._clean: set[str] = set()

    def add(self, name: str, *values: str) -> None:
        """Register further values of one name: a token minted or received during the run."""
        with self._lock:
            for value in values:
                self._register(name, value)
            self._known = None
            self._version += 1
            self._clean = set()

    def _register(self, name: str, value: str) -> None:
        label = re.sub(r"[^A-Za-z0-9_.-]+", "-", name)[:64] or "secret"
        if ordinary(value):
            self.unregistered.append(label)
        else:
            self._secrets.setdefault(label, set()).add(value)

    def version_of_known(self) -> tuple[int, KnownValues]:
        """The values in force, with a number that changes when one is added."""
        with self._lock:
            if self._known is None:
                self._known = KnownValues(self._secrets)
            return self._version, self._known

    def _values(self) -> KnownValues:
        return self.version_of_known()[1]

    @property
    def reach(self) -> int:
        """Bytes within which the longest form of any known value lies."""
        return self._values().reach

    def known(self, text: str) -> str:
        """Text with every form of every known value replaced by `[redacted:NAME]`; the same object if none."""
        return self._whole(text, self._known_in)

    def known_bytes(self, data: bytes) -> bytes:
        """As `known`, for bytes of any kind."""
        return replaced(data, self._values().spans(data))

    def outside(self, text: str) -> str:
        """For what people or other machines read: known values, then the shapes of credentials."""
        return self._whole(text, lambda part: shapes.redact(self._known_in(part)))

    def holds_known(self, data: bytes) -> str | None:
        """Name of a secret that data holds, or None. A tree that holds one is refused, not altered."""
        for span in self._values().spans(data):
            return span.name
        return None

    def value(self, data: Any, *, key: str = "") -> Any:
        """A JSON value with `outside` done to every string in it, keys included, before it is serialised.

        Nearly every value holds nothing, and each search costs the same start: so all strings are searched at once,
        a line each, and one by one only where that found something. The same object comes back if none did.
        """
        lines: list[str] = []
        clean = self._clean  # of the values in force now; `add` puts another set in its place
        if _gather(data, key, lines) and all(part in clean or self._is_clean(part, clean) for part in _joined(lines)):
            return data
        return self._value(data, key)

    def _is_clean(self, text: str, clean: set[str]) -> bool:
        """Whether it holds nothing. Half of a turn's events have the same words as the turn before."""
        if self.outside(text) is not text:
            return False
        if len(text) <= SHORT and len(clean) < KEPT:
            clean.add(text)
        return True

    def _value(self, data: Any, key: str) -> Any:
        if isinstance(data, str):
            return shapes.named(key, self.outside(data)) if key else self.outside(data)
        if isinstance(data, dict):
            return {self.outside(str(k)): self._value(v, str(k)) for k, v in data.items()}
        if isinstance(data, list | tuple):
            return [self._value(v, key) for v in data]
        if isinstance(data, bytes):
            return self._value(data.decode("utf-8", "replace"), key)
        return data

    def _known_in(self, text: str) -> str:
        data = to_bytes(text)
        spans = self._values().spans(data)
        return replaced(data, spans).decode("utf-8", "surrogatepass") if spans else text

    def _whole(self, text: str, redact: Any) -> str:
        """Redact; where that broke a JSON document, redact its values and write it anew (reports F08)."""
        result: str = redact(text)
        if result is text or text.lstrip()[:1] not in ("{", "["):
            return result
        try:
            document = json.loads(text)
        except (ValueError, RecursionError):
            return result
        try:
            json.loads(result)
        except ValueError:
            return json.dumps(self.value(document))
        return result


def _gather(data: Any, key: str, lines: list[str]) -> bool:
    """Add every string of a value as a line of its own, and once more behind its key; False where it is no JSON."""
    if isinstance(data, str):
        lines.append(data)
        if key and shapes.alone(data):
            lines.append(f"{key}={data}")
        return True
    if isinstance(data, dict):
        for name, value in data.items():
            if not isinstance(name, str):
                return False
            lines.append(name)
            if not _gather(value, name, lines):
                return False
        return True
    if isinstance(data, list):
        return all(_gather(value, key, lines) for value in data)
    return data is None or isinstance(data, int | float)


def _joined(lines: list[str]) -> Iterator[str]:
    """The lines in a few texts of bounded length; a longer one stands alone."""
    part: list[str] = []
    size = 0
    for line in lines:
        if size + len(line) > TOGETHER and part:
            yield "\n".join(part)
            part, size = [], 0
        part.append(line)
        size += len(line) + 1
    yield "\n".join(part)


def replaced(data: bytes, spans: list[Span]) -> bytes:
    """Data with each span replaced by its marker; the same object where there is none."""
    if not spans:
        return data
    parts, at = [], 0
    for span in spans:
        parts += [data[at : span.start], f"[redacted:{span.name}]".encode()]
        at = span.end
    return b"".join([*parts, data[at:]])
