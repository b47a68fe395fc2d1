"""Telling our own comments again: hidden marks, whose they are, and whether two findings are one.

A finding is known by the file and the code it stands on, not by its line number (a push moves lines) and not by
its wording (a model words it anew). Two findings on the same code are one when they share enough words.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agent.contract.cut import MARK
from agent.contract.dataclass import dataclass
from agent.contract.regex import regex

ACTIONS_LOGIN = "github-actions[bot]"
"""Author of everything that a workflow's GITHUB_TOKEN writes."""

SAME_WORDS = 0.3
"""Share of common words (Jaccard) from which two texts on the same code are one finding."""

_MARK = regex(r"<!-- airlock:([a-z]{1,20}):([A-Za-z0-9._=,-]{1,80})(?::(\d{1,5}))? -->")
_WORD = regex(r"[a-z_][a-z0-9_]{2,}")
_COMMON = frozenset(
    "the and that this with for from are not but can may will would should when which into its has".split()
)


@dataclass(frozen=True)
class Mark:
    """A hidden mark.

    Attributes:
        kind: `finding`, `resolved`, `note` or `issue`.
        key: what it marks.
        lines: number of lines that a finding stands on.
    """

    kind: str
    key: str
    lines: int = 1

    def __str__(self) -> str:
        return f"<!-- airlock:{self.kind}:{self.key}:{self.lines} -->"


def digest(*parts: str) -> str:
    """Sixteen hexadecimal digits of the parts."""
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def code_key(path: str, side: str, lines: Sequence[str]) -> str:
    """Key of the code that a finding stands on; white space does not count, so that reformatting keeps it."""
    return digest(path, side, *("".join(line.split()) for line in lines))


def code_is_there(path: str, text: str, mark: Mark) -> bool:
    """Whether a file's text still holds the code of a finding on side RIGHT."""
    lines = text.split("\n")
    count = max(1, mark.lines)
    return any(
        code_key(path, "RIGHT", [line.rstrip("\r") for line in lines[at : at + count]]) == mark.key
        for at in range(len(lines) - count + 1)
    )


def with_mark(body: str, mark: Mark) -> str:
    """The body with a mark as its last line."""
    return f"{body.rstrip()}\n\n{mark}"


def mark_of(body: Any) -> Mark | None:
    """The mark on a body's last line; a mark anywhere else is quoted text and counts for nothing."""
    if not isinstance(body, str):
        return None
    last = body.rstrip().rsplit("\n", 1)[-1].strip()
    found = _MARK.fullmatch(last)
    if found is None or MARK.fullmatch(last) is None:
        return None
    return Mark(found[1], found[2], int(found[3] or 1))


def is_own(comment: Mapping[str, Any], own_login: str | None) -> bool:
    """Whether a comment is by this action's own account.

    A mark proves nothing, since anyone can copy it: the author decides. Without a known login it must be the
    bot that GITHUB_TOKEN writes as, by exact login and by account type (a login can imitate, a type cannot).
    """
    user = comment.get("user")
    if not isinstance(user, Mapping):
        return False
    login = user.get("login")
    if own_login:
        return login == own_login and (not own_login.endswith("[bot]") or user.get("type") == "Bot")
    return login == ACTIONS_LOGIN and user.get("type") == "Bot"


def same_finding(first: str, second: str) -> bool:
    """Whether two texts about the same code say the same."""
    a, b = _words(first), _words(second)
    if not a or not b:
        return first.split() == second.split()
    return len(a & b) / len(a | b) >= SAME_WORDS


def _words(text: str) -> frozenset[str]:
    plain = re.sub(r"<!--.*?-->|```.*?(?:```|\Z)", " ", text, flags=re.S)
    return frozenset(w for w in _WORD.findall(plain.lower().replace("\u200b", "")) if w not in _COMMON)


def own_marked(
    comments: Iterable[Mapping[str, Any]], own_login: str | None, kind: str
) -> list[tuple[Mapping[str, Any], Mark]]:
    """Own comments that bear a mark of this kind, in order."""
    found = []
    for comment in comments:
        mark = mark_of(comment.get("body"))
        if mark is not None and mark.kind == kind and is_own(comment, own_login):
            found.append((comment, mark))
    return found
