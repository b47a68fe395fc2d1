"""The words of trouble: one automaton over raw bytes that says which lines are worth a regular expression."""

from __future__ import annotations

from bisect import bisect_right
from functools import cache
from typing import Any

_WORDS = (
    r"(?i)error|err!|fail|fatal|panic|exception|traceback|assert|killed|terminated|aborted|denied|unauthori|forbidden|"
    r"cannot|can't|could ?n[o']t|not found|no such|undefined|unresolved|unrecogni|unable|impossible|timed out|timeout|"
    r"cancel|no space|disk space|out ?of ?memory|\boom|expected|not ok|refused|invalid|missing|mismatch|conflict|"
    r"violat|required|requires|not set|empty|too ?many|bad gateway|unavailable|handshake|reset by peer|\beof|"
    r"econn|etimedout|enotfound|eai_again|enospc|lost communication|shutdown signal|no matching|no solution|"
    r"no required|no version|no installation|\.kts?:|yn00|nu1\d|segmentation|core dumped|issues|offen[cs]e|reformat|"
    r"problem|credential|remote:|"
    "●|✗|✖|✘|×|╷"
)


SUSPECTS = 3000  # lines of one step that readers of single lines look at


@cache
def trouble() -> Any:
    """The compiled automaton over bytes."""
    import re2  # here: 10 ms that only runs which read logs pay

    return re2.compile(_WORDS.encode())


def suspects(lines: list[str]) -> list[int]:
    """Indexes of the lines that hold a word of trouble.

    Of more than `SUSPECTS` the first two thirds and the last third: an extract shows a few dozen lines, and a log
    of nothing but error lines would cost a hundred times what a log costs.
    """
    encoded = [line.encode("utf-8", "replace") for line in lines]
    starts, at = [], 0
    for line in encoded:
        starts.append(at)
        at += len(line) + 1
    text = b"\n".join(encoded)
    automaton = trouble()
    found: list[int] = []
    at = 0
    while at < len(text) and len(found) < SUSPECTS * 2 // 3:
        hit = automaton.search(text, at)
        if hit is None:
            return found
        index = bisect_right(starts, hit.start()) - 1
        found.append(index)
        at = starts[index] + len(encoded[index]) + 1
    last: list[int] = []
    for index in range(len(encoded) - 1, found[-1] if found else -1, -1):
        if len(last) == SUSPECTS // 3:
            break
        if automaton.search(encoded[index]):
            last.append(index)
    return found + last[::-1]
