"""One line of `python -m agent doctor`."""

from __future__ import annotations

from dataclasses import dataclass

OK, WARNING, FAIL = "ok", "warning", "fail"


@dataclass(frozen=True)
class Finding:
    """What was found about one thing.

    Attributes:
        topic: what was looked at, a word or two.
        state: `OK`, `WARNING` (a run works, with less) or `FAIL` (it does not).
        text: what was found.
        fix: what mends it; empty where all is well.
    """

    topic: str
    state: str
    text: str
    fix: str = ""
