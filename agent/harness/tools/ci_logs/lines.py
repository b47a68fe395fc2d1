"""Lines of a job log: blocks on line ends from any chunks, and one line without what the runner and terminals add."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from agent.contract.regex import regex

BLOCK = 1 << 20
LINE_CAP = 16_384  # bytes kept of one line; a minified bundle in an error message is not worth more
READ_CAP = 1_000  # characters of one line that readers look at; what matters stands at its beginning or end
SHOWN_CAP = 400  # characters of one line in an extract

_STAMP = regex(rb"(?:\xef\xbb\xbf)*(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.\d{1,9})?Z ?(?:\xef\xbb\xbf)*")
_ANSI = regex(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][0-9A-Za-z]|[@-Z\\^_=>78])|\x9b[0-?]*[@-~]"
)
_CONTROL = regex(r"[\x00-\x08\x0b-\x1f\x7f]")


def blocks(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Join and split chunks so that each block ends at a line's end and is about `BLOCK` bytes long.

    A line longer than a block loses its middle: only its beginning is kept, so memory stays bounded whatever
    the log holds.
    """
    pending: list[bytes] = []
    size = 0
    skipping = False  # inside a giant line whose beginning was given out
    for data in _sliced(chunks):
        if skipping:
            end = data.find(b"\n")
            if end < 0:
                continue
            skipping, data = False, data[end:]  # its line end closes the beginning given out before
        pending.append(data)
        size += len(data)
        if size < BLOCK:
            continue
        joined = b"".join(pending)
        end = joined.rfind(b"\n") + 1
        if end:
            yield joined[:end]
        rest = joined[end:]
        if len(rest) >= BLOCK:
            pending, size, skipping = [rest[:LINE_CAP]], LINE_CAP, True
        else:
            pending, size = [rest], len(rest)
    if size:
        yield b"".join(pending)


def _sliced(chunks: Iterable[bytes]) -> Iterator[bytes]:
    for chunk in chunks:
        for at in range(0, len(chunk), BLOCK):
            yield chunk if len(chunk) <= BLOCK else chunk[at : at + BLOCK]


def stamp_of(raw: bytes) -> str | None:
    """Time of a line up to the second, `2026-01-01T00:00:00`, or None for a line without one."""
    found = _STAMP.match(raw)
    return found[1].decode() if found else None


def body_of(raw: bytes) -> bytes:
    """A raw line without time stamp and byte-order marks."""
    found = _STAMP.match(raw)
    return raw[found.end() :] if found else raw.lstrip(b"\xef\xbb\xbf") if raw[:1] == b"\xef" else raw


def clean(raw: bytes) -> str:
    """One line as a person would read it: no stamp, colours, controls, or blanks at the end.

    Of a line that a progress bar wrote over with carriage returns, the last state is kept.
    """
    text = body_of(raw[:LINE_CAP]).decode("utf-8", "replace").rstrip("\r\n")
    if "\r" in text:
        text = next((p for p in reversed(text.split("\r")) if p.strip()), "")
    if "\x1b" in text or "\x9b" in text:
        text = _ANSI.sub("", text)
    text = _CONTROL.sub("", text).replace("\ufeff", "").rstrip()
    return text if len(text) <= READ_CAP else f"{text[: READ_CAP - 100]} … {text[-90:]}"


def shorten(text: str) -> str:
    """A line for the extract."""
    if len(text) <= SHOWN_CAP:
        return text
    return f"{text[: SHOWN_CAP - 80]} [… {len(text) - SHOWN_CAP + 20} characters …] {text[-60:]}"
