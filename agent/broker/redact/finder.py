"""The automaton that finds candidates, and the exact form that takes one apart."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

Found = tuple[int, int, str]
"""Start, end and label of what is to be replaced."""


class Finder:
    """Rules as one automaton. No groups: with them re2 leaves its automaton and is a hundred times slower."""

    def __init__(self, patterns: tuple[str, ...], *, fold: bool) -> None:
        import re2  # 20 ms, paid at the first text rather than at start

        options = re2.Options()
        options.encoding = re2.Options.Encoding.LATIN1
        options.case_sensitive = not fold
        options.never_capture = True
        options.max_mem = 64 << 20
        self._find: Any = re2.compile("|".join(f"(?:{p})" for p in patterns).encode(), options)

    def search(self, data: bytes, at: int) -> tuple[int, int] | None:
        match = self._find.search(data, at)
        return match.span() if match else None


@cache
def exact(pattern: str, *, fold: bool = False) -> re.Pattern[bytes]:
    """Python's form of a rule, compiled when a candidate first needs it."""
    return re.compile(pattern.encode(), re.I if fold else 0)
