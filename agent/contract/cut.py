"""Cutting Markdown to GitHub's length without breaking what it is cut in."""

from __future__ import annotations

import re
import unicodedata

from agent.contract.neutral_code import open_fence, outside, strict_code
from agent.contract.regex import regex

LIMIT = 65_536
"""Characters of a body that GitHub takes (github-contract section 2)."""

MARK = regex(r"<!-- airlock:[A-Za-z0-9:._=,-]{1,160} -->")
"""Our own hidden marks. They hold no blanks, so no words can hide in one."""


def size(text: str) -> int:
    """Length in UTF-16 units."""
    return len(text) + sum(c > "\uffff" for c in text)


def cut(text: str, limit: int = LIMIT, rest: str = "") -> str:
    """Cut a body to a limit: never inside a character, open fences and `<details>` closed, a note added (F17).

    A hidden mark on the last line is kept. A text within the limit is returned as it is.
    """
    if size(text) <= limit:
        return text
    tail = re.search(r"\n(<!-- airlock:[^\n]{1,200} -->)\s*\Z", text)
    mark = "\n\n" + tail[1] if tail and MARK.fullmatch(tail[1]) else ""
    body = text[: tail.start()] if tail and mark else text
    room = max(0, limit - len(mark) - size(rest) - 120)
    end = _boundary(body, room)
    while True:
        kept = body[:end].rstrip()
        closing = _closing(kept)
        note = f"\n\n*[Cut here: {len(body) - len(kept)} more characters.{' ' + rest if rest else ''}]*"
        out = kept + closing + note + mark
        if size(out) <= limit or not end:
            return out
        end = _boundary(body, max(0, size(kept) - (size(out) - limit) - 8))


def _boundary(text: str, room: int) -> int:
    """Largest good index whose prefix has at most `room` UTF-16 units."""
    end = min(len(text), room)
    if size(text[:end]) > room:
        low, high = 0, end
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if size(text[:middle]) <= room else (low, middle - 1)
        end = low
    if end >= len(text):
        return len(text)
    line = text.rfind("\n", max(0, end - 2000), end)
    if line > 0:
        return line
    blank = text.rfind(" ", max(0, end - 200), end)
    if blank > 0:
        return blank
    while 0 < end < len(text) and _joins(text, end):
        end -= 1
    return end


def _joins(text: str, at: int) -> bool:
    """The character at `at` belongs to the one before it."""
    before, after = text[at - 1], text[at]
    flags = "\U0001f1e6" <= before <= "\U0001f1ff" and "\U0001f1e6" <= after <= "\U0001f1ff"
    skin = "\U0001f3fb" <= after <= "\U0001f3ff"
    joined = "\u200d" in (before, after) or "\ufe00" <= after <= "\ufe0f"
    return (
        flags or skin or joined or unicodedata.combining(after) > 0 or unicodedata.category(after) in ("Mn", "Me", "Mc")
    )


def _closing(text: str) -> str:
    """What closes the open fence and the open `<details>` of a text cut off."""
    out = ""
    run = open_fence(text)
    if run is not None:
        out += "\n" + run
    plain = "".join(text[a:b] for a, b in outside(text, strict_code(text)))
    opened = len(re.findall(r"(?i)<details\b", plain)) - len(re.findall(r"(?i)</details\s*>", plain))
    return out + "\n\n</details>" * min(max(opened, 0), 20)
