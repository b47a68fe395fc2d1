"""Failed tests of Scala: ScalaTest and MUnit under sbt, Mill or Maven."""

from __future__ import annotations

from agent.contract.regex import regex
from agent.harness.tools.ci_logs.findings import FIRST, SECOND, Findings, Kind, Log, Place, place_of

_PREFIX = regex(r"^\[(?:info|error)\] ?")
_SUITE = regex(r"^(\w[\w.$]*):$")
_SUBJECT = regex(r"^[^\s\[*-].{0,200}$")
_FAILED = regex(r"^\s*- (.{1,300}?) \*\*\* FAILED \*\*\*(?: \(.*\))?$")
_RUNS_INTO = regex(r"\((\w+\.scala):(\d+)\)")
_MUNIT = regex(r"^==> X ([\w.$]+\.\S.{0,300}?) +[\d.]+s +(?:\w[\w.]*(?:Exception|Error): (\S+\.scala):(\d+))?")
_TOTALS = regex(r"^(?:Tests: succeeded \d+, failed [1-9]|(?:Failed|Error): Total \d+, Failed \d+)")
_BLOCK = 30


def scala(log: Log, out: Findings) -> None:
    """`- should … *** FAILED ***` below the suite's name, `==> X suite.test`, totals."""
    if not log.has("*** FAILED ***", "==> X "):
        return
    suite = subject = ""
    lines = [_PREFIX.sub("", text) for text in log.lines]
    for i, text in enumerate(lines):
        if named := _SUITE.match(text):
            suite, subject = named[1], ""
        elif failed := _FAILED.match(text):
            out.keep(i, FIRST)
            out.vote(Kind.TEST, 3)
            name = " ".join(filter(None, (suite, subject, failed[1])))
            out.test(name, _block(out, lines, i, suite), log.numbers[i])
        elif munit := _MUNIT.match(text):
            at = place_of(log, munit[2], munit[3]) if munit[2] else None
            out.keep(i, FIRST)
            out.vote(Kind.TEST, 3)
            out.test(munit[1], at, log.numbers[i])
            out.place(at, i)
        elif _TOTALS.match(text):
            out.keep(i, FIRST)
        elif text == "Failed tests:":
            out.keep(i, FIRST)
            for k in range(i + 1, len(lines)):
                if not lines[k].startswith("\t"):
                    break
                out.keep(k, FIRST)
        elif _SUBJECT.match(text):
            subject = text


def _block(out: Findings, lines: list[str], start: int, suite: str) -> Place | None:
    """Message and frames below a failed test; the place in the suite itself goes before others."""
    at: Place | None = None
    own, frames = f"{suite.rpartition('.')[2]}.scala", 0
    for i in range(start + 1, min(start + _BLOCK, len(lines))):
        text = lines[i]
        if not text.startswith("  ") or text.lstrip().startswith("- "):
            break
        found = _RUNS_INTO.search(text)
        foreign = text.startswith(("  at org.scalatest.", "  at java.", "  at scala.", "  ..."))
        if foreign:
            continue
        if found is None:
            out.keep(i, FIRST if i < start + 8 else SECOND)
            continue
        here = Place(found[1], int(found[2]))
        out.keep(i, FIRST if frames == 0 else SECOND)
        frames += 1
        out.place(here, i)
        if at is None or found[1] == own != at.file:
            at = here
    return at
