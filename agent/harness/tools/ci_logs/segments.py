"""One pass over a log: cut it into steps and keep a bounded part of each.

A log does not hold the steps' names, only `##[group]Run …` where a step begins (F13). Of a short step everything
is kept; of a long one its beginning, its end, and the surroundings of lines that look like trouble, found by one
automaton over the raw bytes, so that no line without a hit costs anything.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from agent.contract.dataclass import dataclass, field
from agent.harness.tools.ci_logs.lines import blocks, body_of, clean, stamp_of
from agent.harness.tools.ci_logs.trouble import trouble

HEAD = 128 << 10  # bytes kept from a step's beginning
TAIL = 64 << 10  # bytes kept from its end
HITS = 256 << 10  # bytes kept around hits between them
BEFORE, AFTER = 4, 30  # lines kept around a hit
_KEPT = 12  # failing segments that are kept whole; further ones keep their end alone
_MANY = 800  # segments from which the middle ones are dropped: a job has dozens, a forger of `##[group]Run` millions
_BEGINNING, _FAILED, _END = 20, 100, 200  # of so many: the first ones, the first that failed, the last ones

_BEGINS = (b"##[group]Run ", b"Post job cleanup.", b"Cleaning up orphan processes")


@dataclass
class Segment:
    """One stretch of the log, from a step's first line to the next step's.

    Attributes:
        title: text after `##[group]`, or the runner's sentence that began it; empty for the set-up.
        first: number of its first line, from 1.
        last: number of its last line.
        at: time of the first line, or None.
        has_error: it holds an `##[error]` line.
        terminal: last `##[error]` line's text.
        left_out: lines that were not kept.
        lines: kept lines as (number, text), in order.
    """

    title: str
    first: int
    at: str | None
    last: int = 0
    has_error: bool = False
    terminal: str = ""
    left_out: int = 0
    lines: list[tuple[int, str]] = field(default_factory=list)


@dataclass
class _Capture:
    """What is kept of the segment that is being read."""

    head: list[tuple[int, bytes]] = field(default_factory=list)
    head_size: int = 0
    hits: list[tuple[int, bytes]] = field(default_factory=list)
    hits_size: int = 0
    tail: deque[tuple[int, bytes]] = field(default_factory=deque)
    tail_size: int = 0
    owed: int = 0  # lines of after-context that the next block still gives

    def add(self, number: int, text: bytes, trouble: Any) -> None:
        """Add whole lines, the first of which is line `number`."""
        if self.head_size < HEAD:
            room = HEAD - self.head_size
            cut = len(text) if len(text) <= room else (text.rfind(b"\n", 0, room) + 1 or len(text))
            part = text[:cut]
            self.head.append((number, part))
            self.head_size += cut
            if cut == len(text):
                return
            number, text = number + part.count(b"\n"), text[cut:]
        self._find(number, text, trouble)
        self.tail.append((number, text[-TAIL:] if len(text) > TAIL else text))
        if len(text) > TAIL:
            number_of_tail = number + text[:-TAIL].count(b"\n")
            whole = text.find(b"\n", len(text) - TAIL) + 1
            number_of_tail += 1 if whole else 0
            self.tail[-1] = (number_of_tail, text[whole:] if whole else text[-TAIL:])
        self.tail_size += len(self.tail[-1][1])
        while len(self.tail) > 1 and self.tail_size - len(self.tail[0][1]) >= TAIL:
            self.tail_size -= len(self.tail.popleft()[1])

    def _find(self, number: int, text: bytes, trouble: Any) -> None:
        at = counted = 0
        if self.owed:
            end = _forward(text, 0, self.owed)
            self._keep(number, text[:end])
            self.owed = max(0, self.owed - text.count(b"\n", 0, end))
            at = end
        while at < len(text) and self.hits_size < HITS:
            found = trouble.search(text, at)
            if found is None:
                return
            hit = found.start()
            start = max(at, _backward(text, hit, BEFORE))
            line_end = text.find(b"\n", hit) + 1 or len(text)
            end = _forward(text, line_end, AFTER)
            number += text.count(b"\n", counted, start)
            counted = start
            self._keep(number, text[start:end])
            got = text.count(b"\n", line_end, end)
            self.owed = AFTER - got if end >= len(text) else 0
            at = end

    def _keep(self, number: int, text: bytes) -> None:
        self.hits.append((number, text))
        self.hits_size += len(text)

    def lines(self) -> list[tuple[int, str]]:
        """All kept lines once, in order."""
        out: dict[int, str] = {}
        for number, text in [*self.head, *self.hits, *self.tail]:
            for offset, raw in enumerate(text.split(b"\n")[: text.count(b"\n") + (not text.endswith(b"\n"))]):
                if number + offset not in out:
                    out[number + offset] = clean(raw)
        return sorted(out.items())


def _backward(text: bytes, at: int, count: int) -> int:
    for _ in range(count + 1):
        at = text.rfind(b"\n", 0, at)
        if at < 0:
            return 0
    return at + 1


def _forward(text: bytes, at: int, count: int) -> int:
    for _ in range(count):
        end = text.find(b"\n", at)
        if end < 0:
            return len(text)
        at = end + 1
    return at


def read_segments(chunks: Iterable[bytes]) -> list[Segment]:
    """Read a whole log once; memory stays below a few megabytes, whatever its length."""
    reader = _Reader(trouble())
    for block in blocks(chunks):
        reader.feed(block)
    return reader.finish()


class _Reader:
    def __init__(self, trouble: Any) -> None:
        self._trouble = trouble
        self._done: list[Segment] = []
        self._number = 1
        self._open = Segment("", 1, None)
        self._capture = _Capture()
        self._failing = 0

    def feed(self, block: bytes) -> None:
        """One block of whole lines."""
        at = 0
        for start, title in _beginnings(block):
            self._take(block[at:start])
            self._close()
            line = block[start : block.find(b"\n", start) if block.find(b"\n", start) >= 0 else len(block)]
            self._open = Segment(title, self._number, stamp_of(line))
            at = start
        self._take(block[at:])

    def _take(self, text: bytes) -> None:
        if not text:
            return
        segment = self._open
        if segment.at is None:
            segment.at = stamp_of(text[:64])
        error = text.rfind(b"##[error]")
        if error >= 0:
            segment.has_error = True
            end = text.find(b"\n", error)
            segment.terminal = clean(text[error : end if end >= 0 else len(text)])
        self._capture.add(self._number, text, self._trouble)
        self._number += text.count(b"\n") + (not text.endswith(b"\n"))

    def _close(self) -> None:
        segment = self._open
        segment.last = self._number - 1
        if segment.last >= segment.first:
            lines = self._capture.lines()
            if self._failing >= _KEPT:
                lines = lines[-40:]
            segment.lines = lines
            segment.left_out = segment.last - segment.first + 1 - len(lines)
            self._done.append(segment)
            self._failing += segment.has_error
            self._forget_old()
        self._capture = _Capture()

    def _forget_old(self) -> None:
        """Of quiet segments far behind, only what a later look could need is kept."""
        done = self._done
        if len(done) > 4 and not done[-4].has_error and len(done[-4].lines) > 400:
            old = done[-4]
            old.left_out += len(old.lines) - 400
            old.lines = [*old.lines[:100], *old.lines[-300:]]
        if len(done) >= _MANY:
            middle = [s for s in done[_BEGINNING:-_END] if s.has_error][:_FAILED]
            self._done = [*done[:_BEGINNING], *middle, *done[-_END:]]

    def finish(self) -> list[Segment]:
        self._close()
        return self._done


def _beginnings(block: bytes) -> list[tuple[int, str]]:
    """Offsets of lines at which a segment begins, with its title."""
    found: list[tuple[int, str]] = []
    for word in _BEGINS:
        at = block.find(word)
        while at >= 0:
            start = block.rfind(b"\n", 0, at) + 1
            end = block.find(b"\n", at)
            line = block[start : end if end >= 0 else len(block)]
            if body_of(line).startswith(word):
                text = clean(line)
                found.append((start, text.removeprefix("##[group]")))
            at = block.find(word, at + len(word))
    return sorted(found)
