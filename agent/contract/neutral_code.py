"""Which parts of a Markdown text are code, read strictly and read leniently.

Text in code is left as it is, so whoever can make harmful text pass as code has won. Two readings are taken and
only what both call code counts: the strict one follows CommonMark and gives up wherever a container, raw HTML or
an unpaired backtick could change what GitHub sees; the lenient one pairs fences and backticks across everything,
as simple scanners do.
"""

from __future__ import annotations

from bisect import bisect_right

from agent.contract.regex import regex

Span = tuple[int, int]

_FENCE = regex(r"( {0,3})(`{3,}|~{3,})([^\n]*)")
_NESTED_FENCE = regex(r"[ \t]*(?:(?:>|[-+*]|\d{1,9}[.)])[ \t]*)+(?:`{3,}|~{3,})")
_HTML_START = regex(r"[ \t]*(?:(?:>|[-+*]|\d{1,9}[.)])[ \t]*)*<")
_RAW_BLOCK = regex(r"(?i)<(?:pre|script|style|textarea)\b")
_TAINT = regex(r"<[A-Za-z/!?]|\$")
_RUNS = regex(r"`+")


def strict_code(body: str) -> list[Span]:
    """Spans that are code for CommonMark, GitHub's tables and HTML included; uncertain ones are left out."""
    spans: list[Span] = []
    fence: tuple[int, int, str] | None = None  # start offset, indent, run
    html = tainted = False
    at = 0
    for line in body.split("\n"):
        start, at = at, at + len(line) + 1
        if fence is not None:
            opened, indent, run = fence
            bare = line.strip(" \t")
            depth = len(line) - len(line.lstrip(" "))
            closes = len(bare) >= len(run) and bare == run[0] * len(bare)
            if closes and indent <= depth <= 3:
                spans.append((opened, start + len(line)))
                fence = None
                tainted = html = False
            elif indent and (closes or (bare and depth < indent and not line.startswith("\t"))):
                return spans  # a list item may have ended here and taken the fence with it
            elif closes and depth < indent:
                return spans
            continue
        if not line.strip():
            html = tainted = False
            continue
        if html:
            continue
        if _NESTED_FENCE.match(line):
            return spans
        opening = _FENCE.match(line)
        if opening and not (opening[2][0] == "`" and "`" in opening[3]):
            fence = (start, len(opening[1]), opening[2])
            continue
        if _HTML_START.match(line):
            if _RAW_BLOCK.search(line):
                return spans
            html = True
            continue
        tainted = _line_spans(line, start, spans, tainted=tainted)
    if fence is not None and fence[1] == 0:
        spans.append((fence[0], len(body)))
    return spans


def _line_spans(line: str, start: int, spans: list[Span], *, tainted: bool) -> bool:
    """Add the trusted code spans of one line; return whether the rest of the paragraph is uncertain."""
    runs = [(m.start(), m.end()) for m in _RUNS.finditer(line)]
    at = index = 0
    while index < len(runs) and not tainted:
        left, right = runs[index]
        slashes = len(line[:left]) - len(line[:left].rstrip("\\"))
        if slashes % 2:
            left += 1
        if _TAINT.search(line, at, left):
            return True
        if left == right:
            index, at = index + 1, right
            continue
        size = right - left
        pair = next((k for k in range(index + 1, len(runs)) if runs[k][1] - runs[k][0] == size), None)
        if pair is None:
            return True
        end = runs[pair][1]
        if "|" not in line[right:end]:
            spans.append((start + left, start + end))
        index, at = pair + 1, end
    return tainted or _TAINT.search(line, at) is not None


def lenient_code(body: str) -> list[Span]:
    """Spans that a simple reader takes for code: fences anywhere near a line's start, then backtick pairs."""
    fences = _lenient_fences(body)
    kept: list[Span] = []
    at = 0
    for left, right in fences:
        kept.append((at, left))
        at = right
    kept.append((at, len(body)))
    text = "".join(body[a:b] for a, b in kept)
    starts: list[int] = []  # offset in text of each kept part
    total = 0
    for a, b in kept:
        starts.append(total)
        total += b - a

    def source(offset: int, *, end: bool) -> int:
        part = bisect_right(starts, offset - 1 if end else offset) - 1
        return kept[part][0] + offset - starts[part]

    spans = list(fences)
    for left, right in _lenient_pairs(text):
        a, b = source(left, end=False), source(right, end=True)
        spans += _without(a, b, fences)
    return sorted(spans)


def _without(start: int, end: int, holes: list[Span]) -> list[Span]:
    parts: list[Span] = []
    for left, right in holes:
        if start < left < end:
            parts.append((start, left))
            start = right
    parts.append((start, end))
    return [p for p in parts if p[0] < p[1]]


def _lenient_fences(body: str) -> list[Span]:
    spans: list[Span] = []
    opened: tuple[int, str] | None = None
    at = 0
    for line in body.split("\n"):
        start, at = at, at + len(line) + 1
        found = _FENCE.match(line)
        if opened is None:
            opened = (start, found[2]) if found else None
            continue
        if found is None:
            continue
        run, rest = opened[1], (found[2] + found[3]).rstrip()
        if rest.startswith(run) and not rest[len(run) :].strip("`~"):
            spans.append((opened[0], start + len(line)))
            opened = None
    if opened is not None:
        spans.append((opened[0], len(body)))
    return spans


def _lenient_pairs(text: str) -> list[Span]:
    """Backtick pairs, leftmost first; a long run may also open as a shorter one."""
    runs = [(m.start(), m.end()) for m in _RUNS.finditer(text)]
    by_size: dict[int, list[int]] = {}
    for left, right in runs:
        by_size.setdefault(right - left, []).append(left)
    pairs: list[Span] = []
    at = 0
    for left, right in runs:
        if left < at:
            continue
        for size in sorted((s for s in by_size if s <= right - left), reverse=True):
            later = by_size[size]
            k = bisect_right(later, right - 1)
            if k < len(later):
                at = later[k] + size
                pairs.append((right - size, at))
                break
    return pairs


def outside(body: str, spans: list[Span]) -> list[Span]:
    """What is left of the text between sorted spans."""
    parts: list[Span] = []
    at = 0
    for left, right in spans:
        if left > at:
            parts.append((at, left))
        at = max(at, right)
    if at < len(body):
        parts.append((at, len(body)))
    return parts


def open_fence(body: str) -> str | None:
    """The run that would close a fence left open at the end, or None."""
    opened: str | None = None
    for line in body.split("\n"):
        found = _FENCE.match(line.lstrip(" \t"))
        if opened is None:
            if found and not (found[2][0] == "`" and "`" in found[3]):
                opened = found[2]
        elif found and found[2].startswith(opened) and not found[3].strip():
            opened = None
    return opened
