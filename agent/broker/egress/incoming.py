"""What comes back to the harness holds no secret either (S3): an answer may echo a token, a log may show one.

Texts lose known values and the shapes of credentials. Bytes that are no text pass as they are, less known
values where the whole is there. What a model answers is left alone: it cannot know a secret that was never
sent to it, and a changed byte would break the wire format.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator, Mapping

from agent.broker.redact.redactor import Redactor
from agent.broker.redact.stream import Stream

_TEXTS = ("text/", "application/json", "application/vnd.github")


class IncomingText:
    """Redacts answers bound for the harness."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor

    def whole(self, body: bytes) -> bytes:
        """A whole body; a JSON document stays one."""
        try:
            text = body.decode("utf-8")
        except UnicodeDecodeError:
            return self._redactor.known_bytes(body)
        clean = self._redactor.outside(text)
        return body if clean is text else clean.encode("utf-8", "replace")

    def pieces(self, chunks: Iterator[bytes], headers: Mapping[str, str]) -> Iterator[bytes]:
        """A body as it arrives, redacted as the whole would be; what could be the start of a secret waits."""
        if not headers.get("content-type", "text/plain").startswith(_TEXTS):
            yield from chunks
            return
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        stream = Stream(self._redactor)
        for chunk in chunks:
            if piece := stream.feed(decoder.decode(chunk)):
                yield piece.encode("utf-8", "replace")
        if last := stream.feed(decoder.decode(b"", final=True)) + stream.flush():
            yield last.encode("utf-8", "replace")
