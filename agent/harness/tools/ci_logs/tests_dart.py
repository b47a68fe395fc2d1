"""Failed tests of Dart and Flutter, in the reporter for terminals and in the one for GitHub."""

from __future__ import annotations

import re

from agent.contract.regex import regex
from agent.harness.tools.ci_logs.findings import FIRST, SECOND, Findings, Kind, Log, Place, place_of

_HEAD = regex(
    r"^(?:\d+:\d\d \+\d+(?: ~\d+)? -\d+: (?:(\S{1,300}\.dart): )?(\S.{0,500}) \[E\]|"
    r"##\[group\]❌ (?:(\S{1,300}\.dart): )?(\S.{0,500}) \(failed\))$"
)
_FRAME = regex(r"^\s*(?:package:(\w{1,100})/)?([^\s:]{1,300}\.dart) (\d+):(\d+)\s")
_TOTAL = regex(r"^\d+:\d\d \+\d+(?: ~\d+)? -\d+: Some tests failed\.$|^##\[error\]\d+ tests? passed, \d+ failed")
_BLOCK = 40
_SAID = 10


def dart(log: Log, out: Findings) -> None:
    """`… [E]` or a failed group, with message and frames indented below."""
    if not log.has(" [E]", "##[group]❌ "):
        return
    for i, text in enumerate(log.lines):
        found = _HEAD.match(text)
        if found:
            out.keep(i, FIRST)
            out.vote(Kind.TEST, 3)
            out.test(found[2] or found[4], _block(log, out, i, found[1] or found[3]), log.numbers[i])
        elif _TOTAL.match(text):
            out.keep(i, FIRST)


def _block(log: Log, out: Findings, start: int, suite: str | None) -> Place | None:
    """Where it failed: the frame in the test's own file, else the first one in the repository."""
    own = place_of(log, suite) if suite else None
    at: Place | None = None
    grouped = log.lines[start].startswith("##[group]")
    said = 0
    for i in range(start + 1, min(start + _BLOCK, len(log.lines))):
        text = log.lines[i]
        if text.startswith("##[endgroup]") or (text and not grouped and not text.startswith(" ")):
            break  # blank lines stand within a message
        frame = _FRAME.match(text)
        if frame:
            # the package under test is the repository's own `lib`
            mine = frame[1] == log.repository.replace("-", "_")
            file = f"lib/{frame[2]}" if frame[1] else frame[2]
            here = place_of(log, file, frame[3], frame[4]) if mine or not frame[1] else None
            if here:
                out.keep(i, FIRST)
                out.place(here, i)
                if at is None or (own and here.file == own.file and at.file != own.file):
                    at = Place(here.file, here.line)
        elif text.strip() and not re.match(r"^\s*(?:package|dart):", text) and said < _SAID:
            out.keep(i, FIRST if said < 6 else SECOND)
            said += 1
    return at or own
