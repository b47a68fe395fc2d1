"""The log and archive store: another host, signed links of one minute, and no foreign Authorization header."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs, quote

from .routing import Reply
from .server import Listener, Received

DENIED = (
    '<?xml version="1.0" encoding="utf-8"?><Error><Code>{code}</Code><Message>Server failed to authenticate the '
    "request. "
    "Make sure the value of Authorization header is formed correctly including the signature.</Message></Error>"
)


class Storage:
    """Serves what was published, by its signature alone."""

    def __init__(self, record: Callable[[Received], None], clock: Callable[[], float], host: str) -> None:
        self._record, self._clock = record, clock
        self._blobs: dict[str, tuple[str, bytes | Path, str, float]] = {}
        self.lifetime = 60.0
        self.listener = Listener("storage", self.answer, host)

    def publish(self, data: bytes | Path, name: str, content_type: str) -> str:
        """A signed URL of the data, good for `lifetime` seconds."""
        signature = secrets.token_urlsafe(32)
        expires = self._clock() + self.lifetime
        self._blobs[signature] = ("/" + name, data, content_type, expires)
        return f"{self.listener.url}/{quote(name)}?sv=2025-11-05&se={int(expires)}&sr=b&sp=r&sig={signature}"

    def answer(self, received: Received) -> Reply:
        path, _, query = received.raw_path.partition("?")
        received.path, received.query = path, query
        reply = self._decide(received, path, parse_qs(query).get("sig", [""])[0])
        received.status = reply.status
        self._record(received)
        return reply

    def _decide(self, received: Received, path: str, signature: str) -> Reply:
        if received.header("Authorization"):
            return Reply(403, DENIED.format(code="AuthenticationFailed"), content_type="application/xml")
        found = self._blobs.get(signature)
        if found is None or quote(found[0]) != path or received.method not in ("GET", "HEAD"):
            return Reply(403, DENIED.format(code="AuthenticationFailed"), content_type="application/xml")
        if self._clock() > found[3]:
            return Reply(403, DENIED.format(code="AuthenticationFailed"), content_type="application/xml")
        return Reply(200, found[1], content_type=found[2])
