"""Logs of tools that no reader knows: lines with words of trouble, and the last words before the end."""

from __future__ import annotations

import re

from agent.contract.regex import regex
from agent.harness.tools.ci_logs.findings import FIRST, SECOND, THIRD, Findings, Kind, Log

_WORDS = regex(
    r"(?i)(?<![\w./-])(?:errors?|fatal|failed|failure|failing|panic(?:ked)?|exception|"
    r"cannot|can't|unable to|undefined|unresolved|"
    r"denied|refused|invalid|missing|aborted|timed out|not found|no such|unexpected|mismatch|violat\w+|conflict)"
    r"(?![\w-]*[/\\])"
)
_STRONG = regex(r"^(?:##\[error\]|\[?(?:error|fatal|failed|failure|critical|panic)\b)", re.I)
_NOISE = regex(
    r"(?i)\b(?:0|no) (?:errors?|failures?|failed|problems|conflicts?|vulnerabilit\w+|missing)\b|"
    r"\b(?:errors?|failures?|failed): ?0\b|"
    r"\bwarn(?:ing)?\b|^\s*(?:npm warn|\[?(?:info|debug|notice|trace)\b)|\bpass(?:ed|ing)?\b|\bok$|"
    r"[✓✔]|if-no-files-found|"
    r"fail-fast|continue-on-error|error-on|--no-fail|ignored|"
    r"^##\[(?:group|endgroup|debug|notice|warning|command)\]|^\[command\]|"
    r"deprecat|retry(?:ing)? |debconf:|^Get:\d|^\s+at "
)
_GOOD = regex(r"(?i)\bpass(?:ed|ing)?\b|\.\.\. ok$|[✓✔]|^ok\b|^\s+at ")
_MILD = regex(r"(?i)\s*\[?(?:warn(?:ing)?|info|debug|notice|trace)\b")  # its own words: no error
_TAIL = 6
_PLENTY = 3


def fallback(log: Log, out: Findings) -> None:
    """Add lines when the readers found little."""
    strong = sum(worth == FIRST for worth in out.kept.values())
    if strong >= _PLENTY or out.tests:
        return
    known = bool(out.kept)
    hits = [
        i
        for i in log.suspects
        if _WORDS.search(text := log.lines[i])
        and not _NOISE.search(text)
        and "Process completed with exit code" not in text
    ]
    if not known:
        for i in hits[:40] + hits[-20:]:
            out.keep(i, FIRST if _STRONG.match(log.lines[i].lstrip()) else SECOND)
            for k in (i + 1, i + 2):
                if k < len(log.lines) and log.lines[k].startswith((" ", "\t")) and not _NOISE.search(log.lines[k]):
                    out.keep(k, THIRD)
    end = _end(log)
    shown = 0
    for i in range(end - 1, max(-1, end - 40), -1):
        text = log.lines[i]
        if not text.strip() or text.startswith(("##[group]", "##[endgroup]", "##[debug]", "Post job cleanup")):
            continue
        passed_over = hits and (_MILD.match(text) or (not known and _NOISE.search(text)))
        if not _GOOD.search(text) and not passed_over:
            out.keep(i, FIRST if shown < 2 and not hits else SECOND)
        shown += 1
        if shown >= (_TAIL if not strong else 3):
            break
    if not out.votes:
        out.vote(Kind.UNKNOWN, 0.1)


def _end(log: Log) -> int:
    """Index of the step's last `##[error]`, or of its end."""
    for i in range(len(log.lines) - 1, -1, -1):
        if log.lines[i].startswith("##[error]"):
            return i
    return len(log.lines)
