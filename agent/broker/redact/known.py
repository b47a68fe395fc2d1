"""Find known values in any of their forms, in one pass over the letters and digits of a text.

The first pass is one automaton over the anchors of all forms (google-re2: linear time whatever the text
holds). A hit is then grown to the longest run that agrees with the form, so that a value is found whole, in
the middle of other text, taken apart by separators, or with its start or end cut off. The price of a text
without secrets is one `bytes.translate` and one scan.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from typing import Any

from agent.broker.redact.escapes import normal, serialised, stretches
from agent.broker.redact.forms import ANCHOR, Form, flat, forms, literals, values
from agent.contract.dataclass import dataclass

BLOCK = 4096  # step of the table from flat to raw positions, built only where something was found
CHUNK = 1 << 18  # bytes scanned at a time: the copies stay in the cache
REACH = 1 << 12  # overlap of chunks: longer than the longest form with separators between its characters
WIDE = 256  # how far a base64 word is followed
_JOINERS = frozenset(b" \t\r\n\"'\\,+.&#>*|-_:;/%`()[]{}=\0")
_WORD = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=_-")


@dataclass(frozen=True)
class Span:
    """A stretch of raw bytes that holds the named secret, or a piece of it."""

    start: int
    end: int
    name: str


class KnownValues:
    """The automaton over a set of secrets. Immutable; building costs about 5 µs a form."""

    def __init__(self, secrets: dict[str, set[str]]) -> None:
        """Build from secret names and their values, taken as given (see `forms.values`)."""
        self._forms: dict[bytes, list[tuple[Form, int]]] = {}
        self._literals: list[tuple[bytes, str]] = []
        self._short: list[Form] = []
        longest = 0
        for name, texts in secrets.items():
            for value in sorted({v for text in texts for v in values(text)}, key=len, reverse=True):
                self._literals += [(spelt, name) for spelt in literals(value)]
                for form in forms(name, value):
                    longest = max(longest, len(form.text) * (5 if form.gaps else 2))
                    for offset in form.anchors:
                        key = form.text[offset : offset + ANCHOR]
                        self._forms.setdefault(key, []).append((form, offset))
        self.reach = max(REACH, longest)
        self._finder: Any = None

    def __bool__(self) -> bool:
        return bool(self._forms or self._literals)

    def spans(self, data: bytes) -> list[Span]:
        """Every stretch of data that holds a secret, in order, not overlapping."""
        if not self:
            return []
        found: list[Span] = []
        start = 0
        while True:
            end = min(start + CHUNK + self.reach, len(data))
            piece = data if start == 0 and end == len(data) else data[start:end]
            found += [Span(s.start + start, s.end + start, s.name) for s in self._anywhere(piece)]
            if end == len(data):
                return merge(found)
            start += CHUNK

    def _anywhere(self, data: bytes) -> Iterator[Span]:
        yield from self._in(data)
        for stretch in stretches(data):
            for span in self._in(stretch.data):
                yield Span(*stretch.raw(span.start, span.end), span.name)

    def _in(self, data: bytes) -> Iterator[Span]:
        for spelt, name in self._literals:
            place = data.find(spelt)
            while place >= 0:
                yield Span(place, place + len(spelt), name)
                place = data.find(spelt, place + len(spelt))
        if not self._forms:
            return
        plain = normal(data) if serialised(data) else data
        letters = flat(plain)
        table = _Positions(plain)
        after = 0
        grown: dict[int, tuple[int, int]] = {}  # of each form: where its text would begin, and how far that was seen
        while (at := self._search(letters, after)) is not None:
            after = at + 1
            for form, offset in self._forms.get(letters[at : at + ANCHOR], ()):
                begins, seen = grown.get(id(form), (0, 0))
                if begins == at - offset and at < seen:
                    continue
                first, last = _grow(letters, at, form.text, offset)
                grown[id(form)] = at - offset, last
                for left, right in _unbroken(table, form, first, last, offset - (at - first)):
                    # only past what is replaced: in a run that does not read as one, another value may stand
                    after = max(after, right - ANCHOR + 1)
                    yield _edges(data, table, form, left, right, offset - (at - left))

    def _search(self, letters: bytes, start: int) -> int | None:
        if self._finder is None:
            self._finder = _compile(self._forms)
        match = self._finder.search(letters, start)
        return match.start() if match else None


def merge(spans: list[Span]) -> list[Span]:
    """Spans in order, overlapping and touching ones joined under the first one's name."""
    joined: list[Span] = []
    for span in sorted(spans, key=lambda s: (s.start, -s.end)):
        if joined and span.start < joined[-1].end:
            last = joined.pop()
            span = Span(last.start, max(last.end, span.end), last.name)
        joined.append(span)
    return joined


def _compile(anchors: dict[bytes, list[tuple[Form, int]]]) -> Any:
    """One alternation. re2 is imported here: 20 ms that a run without secrets and `--help` do not pay."""
    import re2

    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.never_capture = True
    options.max_mem = 128 << 20  # a bound, not a cost: states are made as texts need them
    return re2.compile(b"|".join(sorted(anchors)), options)


class _Positions:
    """From positions in the flat view to positions in the raw bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._starts: list[int] | None = None
        self._blocks: dict[int, list[int]] = {}

    def __getitem__(self, index: int) -> int:
        if self._starts is None:
            self._starts, total = [], 0
            for at in range(0, len(self._data), BLOCK):
                self._starts.append(total)
                total += len(flat(self._data[at : at + BLOCK]))
        block = bisect.bisect_right(self._starts, index) - 1
        if block not in self._blocks:
            base = block * BLOCK
            piece = self._data[base : base + BLOCK]
            self._blocks[block] = [base + i for i, b in enumerate(piece) if b < 128 and chr(b).isalnum()]
        return self._blocks[block][index - self._starts[block]]


def _grow(letters: bytes, at: int, text: bytes, offset: int) -> tuple[int, int]:
    """The longest run around position `at` that agrees with `text` around `offset`, as a half-open range."""
    first, o = at, offset
    while first > 0 and o > 0 and letters[first - 1] == text[o - 1]:
        first, o = first - 1, o - 1
    last, o = at, offset
    while last < len(letters) and o < len(text) and letters[last] == text[o]:
        last, o = last + 1, o + 1
    return first, last


def _unbroken(table: _Positions, form: Form, first: int, last: int, offset: int) -> Iterator[tuple[int, int]]:
    """Parts of a run that still read as one: between neighbours a few separators or joining marks only."""
    if last - first < form.run:
        return
    start = first
    for i in range(first + 1, last + 1):
        if i < last:
            low, high = table[i - 1] + 1, table[i]
            k = offset + i - first
            natural = form.gaps[k] if k < len(form.gaps) else 0
            if high - low <= 3 + 4 * natural or _joins(table, low, high):
                continue
        if i - start >= form.run:
            yield start, i
        start = i


def _joins(table: _Positions, low: int, high: int) -> bool:
    return high - low <= 64 and _JOINERS.issuperset(table._data[low:high])


def _after_escape(data: bytes, start: int, most: int) -> int:
    """Where a word that begins right after a backslash really begins: `\\n` before it is JSON's, not the word's.

    Args:
        most: first byte that is surely the secret's own.
    """
    slashes = start
    while slashes > 0 and data[slashes - 1] == 0x5C:
        slashes -= 1
    if (start - slashes) % 2 == 0:
        return start
    letter = data[start : start + 1]
    return min(most, start + (5 if letter == b"u" else 1 if letter in b"nrtbf" else 0))


def _edges(data: bytes, table: _Positions, form: Form, left: int, right: int, offset: int) -> Span:
    """The raw stretch of a run, with what the value has before its first and after its last letter."""
    start, end = table[left], table[right - 1] + 1
    if form.wide:
        low, high = max(0, start - WIDE), min(len(data), end + WIDE)
        while start > low and data[start - 1] in _WORD:
            start -= 1
        start = _after_escape(data, start, table[left])
        while end < high and data[end] in _WORD:
            end += 1
        return Span(start, end, form.name)
    if offset == 0:
        start -= next((len(h) for h in form.heads if data.endswith(h, 0, start)), 0)
    if offset + right - left == len(form.text):
        end += next((len(t) for t in form.tails if data.startswith(t, end)), 0)
    return Span(start, end, form.name)
