"""Unified diffs as review needs them: hunks, lines that a comment can stand on, anchors.

A line is commentable when it stands inside a hunk: added and context lines on side RIGHT, deleted and context
lines on side LEFT (github-contract section 6). GitHub refuses a whole review for one anchor outside.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from agent.contract.dataclass import dataclass, replace
from agent.contract.regex import regex

_HUNK = regex(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@")

LEFT, RIGHT = "LEFT", "RIGHT"


@dataclass(frozen=True)
class DiffLine:
    """One line of a hunk.

    Attributes:
        kind: `+`, `-` or a blank.
        old: line number before, None for an added line.
        new: line number after, None for a deleted line.
        text: without the first column.
    """

    kind: str
    old: int | None
    new: int | None
    text: str


@dataclass(frozen=True)
class Hunk:
    """One hunk.

    Attributes:
        header: the whole `@@` line.
        lines: in order; "no newline at end of file" remarks are left out.
    """

    header: str
    lines: tuple[DiffLine, ...]

    def numbers(self, side: str) -> frozenset[int]:
        """Line numbers that a comment can stand on."""
        return frozenset(n for line in self.lines if (n := line.old if side == LEFT else line.new) is not None)

    def text_at(self, side: str, number: int) -> str | None:
        """Text of one line, or None where the hunk lacks it."""
        for line in self.lines:
            if number == (line.old if side == LEFT else line.new):
                return line.text
        return None


@dataclass(frozen=True)
class Anchor:
    """Where a review comment stands.

    Attributes:
        path: relative to the repository.
        line: last line of the comment's range.
        side: `RIGHT` (after the change) or `LEFT` (before it).
        start_line: first line of a range of several lines, or None.
    """

    path: str
    line: int
    side: str = RIGHT
    start_line: int | None = None


@dataclass(frozen=True)
class AnchorVerdict:
    """What became of an anchor.

    Attributes:
        anchor: the anchor to post, or None when nothing in the diff can hold it.
        reason: why it was changed or cannot be held; empty when it is as asked.
    """

    anchor: Anchor | None
    reason: str = ""


def parse_patch(patch: str) -> tuple[Hunk, ...]:
    """Hunks of one file's patch (the `patch` of the files API, or a file's part of a diff).

    Lines past what a hunk's header counts are not part of it, so a header with wrong counts cannot make a
    line commentable that GitHub would refuse.
    """
    hunks: list[Hunk] = []
    header = ""
    lines: list[DiffLine] = []
    old = new = old_left = new_left = 0
    for raw in patch.split("\n"):
        found = _HUNK.match(raw) if old_left <= 0 and new_left <= 0 else None
        if found:
            if header:
                hunks.append(Hunk(header, tuple(lines)))
            header, lines = raw, []
            old, new = int(found[1]), int(found[3])
            old_left = 1 if found[2] is None else int(found[2])
            new_left = 1 if found[4] is None else int(found[4])
            continue
        if not header or raw.startswith("\\"):
            continue
        kind = raw[:1] or " "
        if kind == "+" and new_left > 0:
            lines.append(DiffLine("+", None, new, raw[1:]))
            new, new_left = new + 1, new_left - 1
        elif kind == "-" and old_left > 0:
            lines.append(DiffLine("-", old, None, raw[1:]))
            old, old_left = old + 1, old_left - 1
        elif kind == " " and old_left > 0 and new_left > 0:
            lines.append(DiffLine(" ", old, new, raw[1:]))
            old, new, old_left, new_left = old + 1, new + 1, old_left - 1, new_left - 1
    if header:
        hunks.append(Hunk(header, tuple(lines)))
    return tuple(hunks)


def ranges(hunks: Iterable[Hunk], side: str) -> str:
    """Commentable lines in words, such as `10-13, 40`."""
    numbers = sorted(set().union(*(h.numbers(side) for h in hunks), frozenset()))
    parts: list[str] = []
    start = last = None
    for number in [*numbers, None]:
        if start is None or last is None:
            start = last = number
        elif number == last + 1:
            last = number
        else:
            parts.append(str(start) if start == last else f"{start}-{last}")
            start = last = number
    return ", ".join(parts)


def numbered(hunks: Iterable[Hunk]) -> str:
    """The hunks as text with both line numbers, so that a model can cite them: `old new kind text`."""
    out: list[str] = []
    for hunk in hunks:
        out.append(hunk.header)
        for line in hunk.lines:
            old = "" if line.old is None else str(line.old)
            new = "" if line.new is None else str(line.new)
            out.append(f"{old:>5} {new:>5} {line.kind}{line.text}")
    return "\n".join(out)


def place(anchor: Anchor, files: Mapping[str, tuple[Hunk, ...]]) -> AnchorVerdict:
    """Decide where a comment can stand.

    What may be mended without moving the comment to another line is mended: a range is cut to the hunk that
    holds its last line, its ends are put in order, and a range of one line becomes a line. The last line and the
    side are never changed: a comment beside its subject misleads (F17).
    """
    hunks = files.get(anchor.path)
    if hunks is None:
        return AnchorVerdict(None, "the pull request does not change this file")
    if not hunks:
        return AnchorVerdict(None, "the diff shows no lines of this file (binary, too large, or only renamed)")
    start = anchor.start_line
    if start is not None and start > anchor.line:
        anchor = replace(anchor, line=start, start_line=anchor.line)
    reasons = []
    hunk = next((h for h in hunks if anchor.line in h.numbers(anchor.side)), None)
    if hunk is None:
        shown = ranges(hunks, anchor.side) or "none"
        return AnchorVerdict(None, f"line {anchor.line} ({anchor.side}) is outside the diff, which has {shown}")
    if anchor.start_line is not None:
        first = min(n for n in hunk.numbers(anchor.side))
        start = max(anchor.start_line, first)
        if start != anchor.start_line:
            reasons.append("the range is cut to its hunk")
        anchor = replace(anchor, start_line=start if start < anchor.line else None)
    return AnchorVerdict(anchor, "; ".join(reasons))
