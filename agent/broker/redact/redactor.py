"""What the broker calls to redact. One object a run; it holds the secrets and so never leaves the broker."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Mapping
from typing import Any

from agent.broker.redact import shapes
from agent.broker.redact.forms import ordinary, to_bytes
from agent.broker.redact.known import KnownValues, Span

SHORT, KEPT = 100, 10_000  # characters of a name and its text that are remembered as clean, and how many such pairs


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
        self._clean: set[tuple[str, str]] = set()

    def add(self, name: str, value: str) -> None:
        """Register one more value: a token minted or received during the run."""
        with self._lock:
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
        """A JSON value with `outside` done to every string in it, keys included, before it is serialised."""
        if isinstance(data, str):
            return self._text(key, data) if data else data
        if isinstance(data, dict):
            return {self._text("", str(k)): self.value(v, key=str(k)) for k, v in data.items()}
        if isinstance(data, list | tuple):
            return [self.value(v, key=key) for v in data]
        if isinstance(data, bytes):
            return self.value(data.decode("utf-8", "replace"), key=key)
        return data

    def _text(self, key: str, text: str) -> str:
        """One string of a value. Field names, tools and paths come with every event: what held nothing is kept."""
        clean = self._clean  # of the values in force now; `add` puts another set in its place
        if (key, text) in clean:
            return text
        result = shapes.named(key, self.outside(text)) if key else self.outside(text)
        if result == text and len(key) + len(text) <= SHORT and len(clean) < KEPT:
            clean.add((key, text))
        return result

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


def replaced(data: bytes, spans: list[Span]) -> bytes:
    """Data with each span replaced by its marker; the same object where there is none."""
    if not spans:
        return data
    parts, at = [], 0
    for span in spans:
        parts += [data[at : span.start], f"[redacted:{span.name}]".encode()]
        at = span.end
    return b"".join([*parts, data[at:]])
