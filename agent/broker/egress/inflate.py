"""Undoing `content-encoding: gzip` in bounded steps: a small answer cannot become a large allocation."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from agent.contract.errors import UpstreamError

STEP = 65536


def inflate(chunks: Iterator[bytes], step: str) -> Iterator[bytes]:
    """Decompressed pieces of at most 64 KB.

    Raises:
        UpstreamError: not gzip, or cut off.
    """
    decoder = zlib.decompressobj(wbits=31)
    for chunk in chunks:
        data = chunk
        while data and not decoder.eof:
            try:
                piece = decoder.decompress(data, STEP)
            except zlib.error as exc:
                raise UpstreamError(step, "the answer says it is gzip and is not") from exc
            if piece:
                yield piece
            data = decoder.unconsumed_tail
    if not decoder.eof:
        raise UpstreamError(step, "the answer was cut off")
