"""One page of matching lines, collected file by file."""

from __future__ import annotations

from typing import Any

from agent.contract.regex import regex
from agent.harness.tools import paging
from agent.harness.tools.text_form import shown_text

BYTES_CAP = 1 << 30  # bytes read in one call
LINE_SHOWN = 300  # characters of a matching line

_META = regex(r"[\\.\[\]{}()*+?|^$]")


def required_prefix(pattern: str) -> bytes:
    """Bytes that every match begins with, as far as that is plain to see: `in` is faster than any expression."""
    if "|" in pattern or "(?" in pattern:
        return b""
    meta = _META.search(pattern)
    if meta is None:
        return pattern.encode()
    end = meta.start() - 1 if meta[0] in "*?{" else meta.start()
    return pattern[: max(0, end)].encode()


class Matches:
    """Collects one page of matching lines and knows when to stop."""

    def __init__(self, regex: Any, literal: bytes, offset: int, limit: int, context: int) -> None:
        self.regex = regex
        self.literal = literal  # every match holds it; empty when nothing is known
        self.first, self.context = offset, context
        self.last = offset + limit  # number of the first line that is too many
        self.count = 0
        self.shown: list[str] = []
        self.files = 0
        self.binary = self.cut = 0
        self.room = paging.PAGE_CHARS
        self.more = False
        self.left = BYTES_CAP

    def search(self, path: str, data: bytes) -> None:
        if self.literal and self.literal not in data:
            return
        found = self.regex.search(data)
        if found is None:
            return
        if b"\0" in data[:8192]:
            self.binary += 1
            return
        self.files += 1
        number, counted = 1, 0
        while found is not None and not self.more:
            at = found.start()
            start = data.rfind(b"\n", 0, at) + 1
            end = data.find(b"\n", at)
            end = len(data) if end < 0 else end
            number += data.count(b"\n", counted, start)
            counted = start
            self._add(path, number, data, start, end, at - start)
            if end >= len(data):
                return
            found = self.regex.search(data, end + 1)

    def _add(self, path: str, number: int, data: bytes, start: int, end: int, at: int) -> None:
        self.count += 1
        if self.count < self.first:
            return
        if self.count >= self.last:
            self.more = True
            return
        block = f"{path}:{number}:{_shown_line(data[start:end], at)}"
        if self.context:
            before = data[:start].split(b"\n")[-self.context - 1 : -1] if start else []
            rest = data[end + 1 : end + 1 + 65536].removesuffix(b"\n")
            after = rest.split(b"\n")[: self.context] if rest else []
            lines = [f"{path}-{number - len(before) + i}-{_shown_line(b, 0)}" for i, b in enumerate(before)]
            lines += [block] + [f"{path}-{number + 1 + i}-{_shown_line(a, 0)}" for i, a in enumerate(after)]
            block = "\n".join([*lines, "--"])
        if self.shown and len(block) + 1 > self.room:
            self.more = True
            return
        self.shown.append(block)
        self.room -= len(block) + 1


def _shown_line(raw: bytes, at: int) -> str:
    """A line, or the part of a long one around the match."""
    raw = raw.removesuffix(b"\r")
    if len(raw) <= LINE_SHOWN:
        return shown_text(raw)[0]
    begin = max(0, at - LINE_SHOWN // 3)
    text = shown_text(raw[begin : begin + LINE_SHOWN])[0]
    return f"{'…' if begin else ''}{text}… [line of {len(raw)} bytes]"
