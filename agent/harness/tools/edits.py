"""Replacing a text within a text, exactly once, with line ends kept. Pure."""

from __future__ import annotations

import difflib
import re
from bisect import bisect_right

from agent.contract.dataclass import dataclass
from agent.contract.regex import regex
from agent.harness.tools.text_form import as_meant, as_shown, dominant_end

_NUMBERED = regex(r"\s*\d+\t")
_SHOWN = 3  # lines of context, and places, that an error shows


class NoEdit(Exception):
    """Nothing was replaced.

    Attributes:
        lines: lines of the file that help to mend the call, with numbers; words of third parties.
    """

    def __init__(self, message: str, lines: str = "") -> None:
        super().__init__(message)
        self.lines = lines


@dataclass(frozen=True)
class Edited:
    """The new text, and the line of each replacement, from 1."""

    text: str
    lines: tuple[int, ...]


def edited(text: str, old: str, new: str, *, replace_all: bool = False) -> Edited:
    """Replace `old` by `new`. `\\n` in both stands for whatever line end the file has at that place.

    Raises:
        NoEdit: `old` is empty, equals `new`, is missing, or occurs more than once.
    """
    if not old:
        raise NoEdit("`old` is empty. Give the text to be replaced; to create a file use write_file.")
    flat = text.replace("\r\n", "\n")
    wanted, put = old.replace("\r\n", "\n"), new.replace("\r\n", "\n")
    if wanted == put:
        raise NoEdit("`old` and `new` are equal; there is nothing to change.")
    starts = _occurrences(flat, wanted)
    if not starts and (meant := as_meant(wanted)) != wanted:
        wanted, put = meant, as_meant(put)
        starts = _occurrences(flat, wanted)
    breaks = [m.start() for m in re.finditer("\n", flat)]
    if not starts:
        raise _missing(flat, wanted)
    numbers = tuple(bisect_right(breaks, s - 1) + 1 for s in starts)
    if len(starts) > 1 and not replace_all:
        where = ", ".join(map(str, numbers[:20]))
        raise NoEdit(
            f"`old` occurs {len(starts)} times, at lines {where}. Nothing was changed. Give more of the text around "
            "the one that is meant, or replace_all=true."
        )
    return Edited(_replaced(text, flat, starts, wanted, put), numbers)


def _occurrences(text: str, wanted: str) -> list[int]:
    """Where it stands; of occurrences that overlap each counts, so that none is taken for the only one."""
    found: list[int] = []
    at = text.find(wanted)
    while at >= 0 and len(found) < 100_000:
        found.append(at)
        at = text.find(wanted, at + 1)
    return found


def _replaced(text: str, flat: str, starts: list[int], wanted: str, put: str) -> str:
    """Replace in the text as it is, with each place's own line ends."""
    removed = [m.start() - i for i, m in enumerate(re.finditer("\r\n", text))]  # in `flat`, each \n that was \r\n
    parts: list[str] = []
    last = 0
    for start in starts:
        if start < last:
            continue  # overlaps the one before
        parts.append(_raw(text, removed, last, start))
        parts.append(put if "\n" not in put else put.replace("\n", _line_end(text, flat, removed, start, wanted)))
        last = start + len(wanted)
    parts.append(_raw(text, removed, last, len(flat)))
    return "".join(parts)


def _raw(text: str, removed: list[int], begin: int, end: int) -> str:
    """The part of the text as it is that `flat[begin:end]` stands for."""
    return text[begin + bisect_right(removed, begin - 1) : end + bisect_right(removed, end - 1)]


def _line_end(text: str, flat: str, removed: list[int], start: int, wanted: str) -> str:
    inside = wanted.find("\n")
    at = start + inside if inside >= 0 else flat.find("\n", start)
    if at < 0:
        return dominant_end(text)
    i = bisect_right(removed, at - 1)
    return "\r\n" if i < len(removed) and removed[i] == at else "\n"


def _missing(flat: str, wanted: str) -> NoEdit:
    lines = flat.split("\n")
    asked = wanted.strip("\n").split("\n")
    if all(_NUMBERED.match(line) for line in asked if line):
        bare = "\n".join(_NUMBERED.sub("", line, count=1) for line in asked)
        if bare in flat:
            return NoEdit("`old` begins its lines with the line numbers that read_file shows. Leave them out.")
    loose = [" ".join(line.split()) for line in asked]
    squeezed = [" ".join(line.split()) for line in lines]
    for i in range(len(lines) - len(asked) + 1):
        if squeezed[i] == loose[0] and squeezed[i : i + len(asked)] == loose:
            return NoEdit(
                f"`old` is not there, but lines {i + 1}-{i + len(asked)} differ from it in white space alone; "
                "they stand above as they are.",
                _numbered(lines, i, i + len(asked)),
            )
    near = _nearest(squeezed, next((line for line in loose if line), ""))
    if not near:
        return NoEdit("`old` is not in the file, nor anything like it. Read the file again.")
    shown = "\n…\n".join(_numbered(lines, max(0, i - 1), i + len(asked) + 1) for i in near)
    return NoEdit("`old` is not in the file. The nearest lines stand above; copy the text from there.", shown)


def _nearest(lines: list[str], wanted: str) -> list[int]:
    if not wanted:
        return []
    match = difflib.SequenceMatcher(autojunk=False)
    match.set_seq2(wanted[:200])
    scored: list[tuple[float, int]] = []
    for i, line in enumerate(lines[:20_000]):
        match.set_seq1(line[:200])
        if match.real_quick_ratio() > 0.6 and match.quick_ratio() > 0.6 and (ratio := match.ratio()) > 0.6:
            scored.append((-ratio, i))
        if len(scored) > 200:
            break
    return [i for _, i in sorted(scored)[:_SHOWN]]


def _numbered(lines: list[str], begin: int, end: int) -> str:
    return "\n".join(f"{i + 1}\t{as_shown(lines[i][:400])}" for i in range(begin, min(end, len(lines), begin + 40)))
