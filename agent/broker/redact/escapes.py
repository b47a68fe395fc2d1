"""Letters written as escapes here and there: `k%37Qz&#88;w\\x31…`.

A value escaped throughout is one of its forms, and one with only its symbols escaped as well. What is left is a
mixture, so where a letter or digit is escaped the stretch around it is decoded and searched again. Ordinary text
does not get here: `%2F`, `\\n`, `&amp;` and other scripts' `\\u4e2d` stand for no letter or digit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

BEFORE, AFTER, OVERLAP = 1024, 8192, 2048  # bytes of a stretch around the first escape, and shared by two

SMALL, SAMPLE = 1 << 16, 1 << 13

_HEX = r"(?:3[0-9]|[46][1-9A-Fa-f]|[57][0-9Aa])"
_DEC = r"(?:4[89]|5[0-7]|6[5-9]|[78][0-9]|90|9[7-9]|1[01][0-9]|12[0-2])"
_OCT = r"(?:06[0-7]|07[01]|1[0-7][0-7])"
_SIGNS = (b"%", b"\\", b"&#")  # at least one is in most texts, and found early


def _escape(hexadecimal: str, decimal: str, octal: str) -> str:
    return (
        rf"(?:%{hexadecimal}|\\x{hexadecimal}|\\u00{hexadecimal}|\\u\{{0{{0,4}}{hexadecimal}\}}|\\U000000{hexadecimal}"
        rf"|\\{octal}|&#0{{0,3}}{decimal};|&#[xX]0{{0,3}}{hexadecimal};)"
    )


_EACH = re.compile(_escape("[2-7][0-9A-Fa-f]", "[0-9]{2,3}", "[01][0-7]{2}").encode())


def normal(data: bytes) -> bytes:
    """Data of the same length in which the letters of `\\n`, `\\r` and `\\t` are none.

    In serialised text a line break is written with a letter, which would stand between those of a value.
    """
    if b"\\" in data:
        for escape in (b"\\n", b"\\r", b"\\t"):
            data = data.replace(escape, b"\\ ")
    return data


def serialised(data: bytes) -> bool:
    """Whether data may be serialised text, in which a line break is `\\n`: it has hardly any of its own.

    Asked of long data alone: taking `normal` of everything would cost half the speed of the search.
    """
    return len(data) <= SMALL or data.count(b"\n", 0, SAMPLE) * 256 < SAMPLE


@cache
def _finder() -> Any:
    import re2

    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.never_capture = True
    return re2.compile(_escape(_HEX, _DEC, _OCT).encode(), options)


class Decoded:
    """A stretch with its escapes decoded, and where each of its bytes came from."""

    def __init__(self, data: bytes, start: int, end: int) -> None:
        out = bytearray()
        self._from: list[int] = []
        self._to: list[int] = []
        at = start
        for match in _EACH.finditer(data, start, end):
            self._copy(data, at, match.start(), out)
            out.append(_letter(match[0]))
            self._from.append(match.start())
            self._to.append(match.end())
            at = match.end()
        self._copy(data, at, end, out)
        self.data = bytes(out)

    def _copy(self, data: bytes, start: int, end: int, out: bytearray) -> None:
        out += data[start:end]
        self._from += range(start, end)
        self._to += range(start + 1, end + 1)

    def raw(self, start: int, end: int) -> tuple[int, int]:
        """The range of the original that became this range."""
        return self._from[start], self._to[end - 1]


def stretches(data: bytes) -> Iterator[Decoded]:
    """Stretches of data in which a letter or digit is escaped, decoded; together linear in data."""
    if not any(sign in data for sign in _SIGNS):
        return
    finder, at = _finder(), 0
    while (match := finder.search(data, at)) is not None:
        end = min(len(data), match.start() + AFTER)
        yield Decoded(data, max(0, match.start() - BEFORE), end)
        if end == len(data):
            return
        at = max(match.end(), end - OVERLAP)


def _letter(escape: bytes) -> int:
    digits = re.sub(rb"[^0-9A-Fa-f]", b"", escape[2:] if escape[:2] in (b"\\x", b"\\u", b"\\U") else escape[1:])
    if escape.startswith(b"&#"):
        return int(digits, 16 if escape[2:3] in b"xX" else 10) & 127
    if escape[:1] == b"\\" and escape[1:2].isdigit():
        return int(digits, 8)
    return int(digits, 16) & 127
