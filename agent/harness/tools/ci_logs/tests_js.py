"""Failed tests of Jest, Vitest and Node's own runner."""

from __future__ import annotations

import re

from agent.contract.regex import regex
from agent.harness.tools.ci_logs.findings import FIRST, SECOND, THIRD, Findings, Kind, Log, Place, place_of

_SECTION = regex(r"^\s?(FAIL|PASS)\s+(?:\S+\s+)?(\S+\.[cm]?[jt]sx?)(?: \(.*\))?\s*$")
_BULLET = regex(r"^  ● (.+)$")
_VITEST = regex(r"^\s?FAIL\s+(?:\|?\S+\|?\s+)?(\S+\.[cm]?[jt]sx?)(?:\s+\[.*\])?(?: > (.+))?$")
_VITEST_RULE = regex(r"^⎯{3,}")
_FRAME = regex(r"^\s*(?:at |❯ ).*?\(?((?:file://)?[^\s():]+\.[cm]?[jt]sx?):(\d+)(?::(\d+))?\)?$")
_CODE = regex(r"^\s*>?\s*\d* ?\|")
_JEST_TOTAL = regex(r"^\s*(?:Tests|Test Suites|Test Files|Snapshots):?\s+.*\d+ (?:failed|obsolete)")
_ENDS = regex(r"^(?:Test Suites:|Snapshot Summary|Summary of all failing|Tests:)")
_BLOCK = 90  # lines of one failing test that are looked at


def jest(log: Log, out: Findings) -> None:
    """`●` blocks inside the sections of failing files; console output and passing files are passed over."""
    if not log.has("  ● "):
        return
    failing, block = False, 0
    name: str | None = None
    for i, text in enumerate(log.lines):
        section = _SECTION.match(text)
        if section:
            failing, name = section[1] == "FAIL", None
            if failing:
                out.keep(i, FIRST)
            continue
        if _JEST_TOTAL.match(text):
            out.keep(i, FIRST if text.lstrip().startswith("Tests") else THIRD)
        if _ENDS.match(text.lstrip()):
            failing = text.startswith("Summary of all")
            name = None
            continue
        bullet = _BULLET.match(text)
        if bullet:
            name = bullet[1].strip()
            if not failing or name == "Console":
                name = None
                continue
            block = i
            out.keep(i, FIRST)
            if name != "Test suite failed to run":
                out.test(name, None, log.numbers[i])
            out.vote(Kind.TEST, 3)
        elif name is not None and i - block < _BLOCK:
            _jest_line(log, out, i, name)


def _jest_line(log: Log, out: Findings, i: int, name: str) -> None:
    text = log.lines[i]
    bare = text.strip()
    if not bare:
        return
    frame = _FRAME.match(text)
    if frame:
        at = place_of(log, frame[1], frame[2], frame[3])
        if at is None:
            return
        known = out.tests.get(name)
        first = known is not None and known.at is None
        if first and known is not None:
            known.at = Place(at.file, at.line)
        out.place(at, i)
        out.keep(i, FIRST if first or known is None else THIRD)
    elif _CODE.match(text):
        if bare.startswith(">"):
            out.keep(i, THIRD)
    elif bare.startswith(("›", "at ")):
        out.keep(i, THIRD) if bare.startswith("›") else None
    elif bare.startswith("expect(") or bare in ("Cause:", "Difference:"):
        out.keep(i, THIRD)
    elif bare.startswith(("- ", "+ ", "Expected", "Received", "Cannot find", "thrown:", "Rejected")) or "Error" in bare:
        out.keep(i, FIRST)
    else:
        out.keep(i, SECOND)


def vitest(log: Log, out: Findings) -> None:
    """`FAIL file > suite > name` headings with the error below."""
    if not log.has(" FAIL  ") or log.has("  ● "):
        return
    name: str | None = None
    waiting: list[str] = []
    block = 0
    for i, text in enumerate(log.lines):
        head = _VITEST.match(text)
        if head:
            out.keep(i, FIRST)
            out.vote(Kind.TEST, 3)
            if i - block > 1:
                waiting = []
            name, block = head[2], i
            if name:
                out.test(name, None, log.numbers[i])
                waiting.append(name)
            else:
                name = ""
        elif _VITEST_RULE.match(text):
            name, waiting = None, []
        elif re.match(r"^\s+(?:Tests|Test Files)\s+.*failed", text):
            out.keep(i, FIRST)
        elif name is not None and i - block < _BLOCK and text.strip():
            _vitest_line(log, out, i, waiting)


def _vitest_line(log: Log, out: Findings, i: int, waiting: list[str]) -> None:
    text = log.lines[i]
    frame = _FRAME.match(text)
    if frame:
        at = place_of(log, frame[1], frame[2], frame[3])
        if at:
            out.keep(i, FIRST)
            out.place(at, i)
            for name in waiting:
                out.test(name, Place(at.file, at.line))
    elif re.match(r"^\s*(?:\d+\||\|)", text):
        return
    elif re.match(r"^\s*[-+] ", text) or "Error" in text or text.lstrip().startswith(("Expected", "Received")):
        out.keep(i, FIRST)
    else:
        out.keep(i, THIRD)


_NOT_OK = regex(r"^(\s*)not ok \d+ -? ?(.*?)(?: # (?:time|duration).*)?$")


def tap(log: Log, out: Findings) -> None:
    """`not ok` lines of the Test Anything Protocol with the few lines that explain them."""
    if not log.has("not ok "):
        return
    for i, text in enumerate(log.lines):
        found = _NOT_OK.match(text)
        if not found or re.search(r"# (?:TODO|SKIP)", text, re.I):
            continue
        out.keep(i, FIRST)
        out.vote(Kind.TEST, 3)
        at = None
        nested = i > 0 and log.lines[i - 1].strip().startswith("# Subtest") is False
        for k in range(i + 1, min(i + 40, len(log.lines))):
            line = log.lines[k].strip()
            if _NOT_OK.match(log.lines[k]) or line.startswith(("ok ", "1..")) or line == "...":
                break
            place = re.match(
                r"(?:# \(.*in test file |location: '?|at: .*|# +at .*?\(?)([^\s():']+?)(?::|, line )(\d+)(?::(\d+))?",
                line,
            )
            if place and at is None:
                at = place_of(log, place[1], place[2], place[3])
                out.keep(k, SECOND)
                out.place(at, k)
            elif re.match(r"(?:error|message): [|>]-?$", line):
                out.keep(k, FIRST)
                _tap_text(log, out, k)
            elif re.match(r"(?:error|expected|actual|message|operator|failureType|code):", line) or line.startswith(
                "#"
            ):
                out.keep(k, FIRST if line.startswith(("error", "#", "message", "expected", "actual")) else THIRD)
        if nested or found[2]:
            out.test(found[2] or text.strip(), at, log.numbers[i])
    for i, text in enumerate(log.lines):
        if out.tests and re.match(r"^# fail [1-9]", text):
            out.keep(i, FIRST)


def _tap_text(log: Log, out: Findings, start: int) -> None:
    """The deeper lines of a YAML text block."""
    depth = len(log.lines[start]) - len(log.lines[start].lstrip())
    for k in range(start + 1, min(start + 12, len(log.lines))):
        text = log.lines[k]
        if text.strip() and len(text) - len(text.lstrip()) <= depth:
            return
        if text.strip():
            out.keep(k, FIRST)
