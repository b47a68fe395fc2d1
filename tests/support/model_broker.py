"""A BrokerPort that forwards `egress` to a server on loopback by http.client, as the broker does for real."""

from __future__ import annotations

import http.client
import json
import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import urlencode, urlsplit

from agent.kernel.channel import CallFailed, Frame


class LoopbackBroker:
    """Streams bodies in frames; attaches the key; refuses connections that it does not know.

    Args:
        origins: connection id to `http://host:port`.
        key: attached as `x-api-key` and bearer.
    """

    def __init__(self, origins: Mapping[str, str] | str, *, key: str = "", piece: int = 4096) -> None:
        self.origins = {"model": origins} if isinstance(origins, str) else dict(origins)
        self.key, self.piece = key, piece
        self.sent: list[tuple[str, dict[str, Any], bytes]] = []
        self._open: dict[str, http.client.HTTPConnection] = {}

    def call(self, op: str, payload: bytes = b"", **fields: Any) -> Frame:
        frames = list(self.stream(op, payload, **fields))
        return Frame(frames[0].header, b"".join(frame.payload for frame in frames))

    def notice(self, op: str, payload: bytes = b"", *, hold: bool = False, **fields: Any) -> None:
        self.sent.append((op, fields, payload))

    def stream(
        self, op: str, payload: bytes = b"", *, waiting: Callable[[], None] | None = None, **fields: Any
    ) -> Iterator[Frame]:
        self.sent.append((op, fields, payload))
        yield from patient(self._frames(payload, fields), waiting or (lambda: None))

    def _frames(self, payload: bytes, fields: Mapping[str, Any]) -> Iterator[Frame]:
        connection = fields["connection"]
        if connection not in self.origins:
            error = {"code": "egress_connection_unknown", "message": "no such connection"}
            header = {"status": 403, "headers": {}, "refused": True, "ok": True}
            yield Frame(header, json.dumps({"status": 403, "error": error}).encode())
            return
        headers = {**fields["headers"], "x-api-key": self.key, "authorization": f"Bearer {self.key}"}
        path = fields["path"] + ("?" + urlencode(fields["query"]) if fields.get("query") else "")
        try:
            link, answer = self._send(connection, fields["method"], path, payload, headers)
        except (OSError, http.client.HTTPException) as exc:
            raise CallFailed("upstream", f"cannot reach the provider: {exc}", {}) from exc
        yield Frame({"status": answer.status, "headers": dict(answer.getheaders()), "more": True})
        while True:
            try:
                chunk = answer.read1(self.piece)
            except (OSError, http.client.HTTPException) as exc:
                link.close()
                raise CallFailed("upstream", f"the answer was cut off: {exc}", {}) from exc
            if not chunk:
                answer.read()  # `read1` alone leaves an answer of known length open
                break
            yield Frame({"more": True}, chunk)
        self._open[connection] = link  # free for the next request only now
        yield Frame({"ok": True})

    def _send(
        self, connection: str, method: str, path: str, body: bytes, headers: Mapping[str, str]
    ) -> tuple[Any, Any]:
        """Over the kept connection; anew, once, when the server has closed that."""
        for fresh in (False, True):
            link = None if fresh else self._open.pop(connection, None)
            if link is None:
                url = urlsplit(self.origins[connection])
                link, fresh = http.client.HTTPConnection(url.hostname or "", url.port, timeout=30), True
            try:
                link.request(method, path, body, dict(headers))
                answer = link.getresponse()
            except (OSError, http.client.HTTPException):
                link.close()
                if fresh:
                    raise
                continue
            return link, answer
        raise AssertionError("unreachable")


def patient(frames: Iterator[Frame], waiting: Callable[[], None]) -> Iterator[Frame]:
    """Frames that a thread of its own reads, so that somebody else can lose patience meanwhile."""
    arrived: queue.SimpleQueue[Frame | Exception | None] = queue.SimpleQueue()

    def pump() -> None:
        try:
            for frame in frames:
                arrived.put(frame)
            arrived.put(None)
        except Exception as exc:  # noqa: BLE001 - handed on to the reader
            arrived.put(exc)

    threading.Thread(target=pump, daemon=True).start()
    while True:
        try:
            item = arrived.get(timeout=0.05)
        except queue.Empty:
            waiting()
            continue
        if item is None:
            return
        if isinstance(item, Exception):
            raise item
        yield item
