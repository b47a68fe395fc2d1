"""Failed tests of the JVM (Surefire, Gradle) and .NET."""

from __future__ import annotations

import re

from agent.contract.regex import regex
from agent.harness.tools.ci_logs.findings import FIRST, SECOND, THIRD, Findings, Kind, Log, Place, place_of

_SUREFIRE = regex(
    r"^\[ERROR\]\s+(?:([\w.$]+)\.(\w[^\s.]*)|(\w+)\(([\w.$]+)\))\s+(?:-- )?Time elapsed: .*<<< (?:FAILURE|ERROR)!"
)
_SUMMARY = regex(r"^\[ERROR\]\s{2,}(\w+)\.(\w+)(?::\d+)+ ?.*|^\[ERROR\]\s{2,}\w+\.\w+ » ")
_TOTAL = regex(r"^(?:\[ERROR\] )?Tests run: \d+, Failures: (\d+), Errors: (\d+)")
_JAVA_FRAME = regex(r"^\s+at (?:[\w.-]+/)?([\w.$]+)\.([\w$<>]+)\((\w+\.(?:java|kt|scala|groovy)):(\d+)\)")
_GRADLE = regex(r"^(\S.*?) > (\S.*?) FAILED$")
_GRADLE_AT = regex(r"\bat (\w+\.(?:java|kt|scala|groovy)):(\d+)$")


def surefire(log: Log, out: Findings) -> None:
    """`<<< FAILURE!` with the exception and the frames of the test below."""
    if not log.has("<<< FAILURE!", "<<< ERROR!"):
        return
    for i, text in enumerate(log.lines):
        found = _SUREFIRE.match(text)
        if found:
            owner, method = (found[1], found[2]) if found[1] else (found[4], found[3])
            out.keep(i, FIRST)
            out.vote(Kind.TEST, 3)
            out.test(f"{owner}.{method}", _java_block(log, out, i + 1, owner), log.numbers[i])
        elif _SUMMARY.match(text):
            out.keep(i, FIRST)
        elif (total := _TOTAL.match(text)) and (total[1] != "0" or total[2] != "0"):
            out.keep(i, FIRST if "<<<" not in text else THIRD)


def _java_block(log: Log, out: Findings, start: int, owner: str) -> Place | None:
    """Exception, causes, and frames in the test's own packages; the place in the test class itself."""
    package = ".".join(owner.split(".")[:2])
    at: Place | None = None
    others = 0
    for i in range(start, min(start + 80, len(log.lines))):
        text = log.lines[i]
        if not text.strip() or text.startswith("["):
            break
        frame = _JAVA_FRAME.match(text)
        if frame is None:
            is_cause = i == start or text.startswith(("Caused by:", "\tSuppressed:"))
            if not text.lstrip().startswith(("at ", "...")):
                out.keep(i, FIRST if is_cause else SECOND)
            continue
        here = Place(frame[3], int(frame[4]))
        if frame[1].split("$")[0] == owner.split("$")[0] and at is None:
            at = here
            out.keep(i, FIRST)
            out.place(here, i)
        elif frame[1].startswith(package + ".") and others < 3:
            others += 1
            out.keep(i, SECOND)
            out.place(here, i)
    return at


def gradle(log: Log, out: Findings) -> None:
    """`Class > method FAILED`, `What went wrong`, failing tasks."""
    if not log.has(" FAILED", "What went wrong"):
        return
    for i, text in enumerate(log.lines):
        if text.startswith("> Task ") and text.endswith(" FAILED"):
            out.keep(i, SECOND)
            continue
        found = _GRADLE.match(text)
        if found and not text.startswith(("> Task", "Execution failed")):
            out.keep(i, FIRST)
            out.vote(Kind.TEST, 3)
            at = None
            for k in range(i + 1, min(i + 12, len(log.lines))):
                if not log.lines[k].startswith("    "):
                    break
                frame = _GRADLE_AT.search(log.lines[k]) or re.search(
                    r"\((\w+\.(?:java|kt|scala|groovy)):(\d+)\)$", log.lines[k]
                )
                own = found[1].split(".")[-1].split(" ")[0].split("$")[0]
                if frame and (at is None or frame[1].startswith(own + ".")):
                    at = Place(frame[1], int(frame[2]))
                    out.place(at, k)
                out.keep(k, FIRST if "Error" in log.lines[k] or "Exception" in log.lines[k] or frame else THIRD)
            out.test(f"{found[1]} > {found[2]}", at, log.numbers[i])
        elif re.match(r"^\d+ tests? completed, \d+ failed", text):
            out.keep(i, FIRST)
        elif text.startswith("* What went wrong:"):
            for k in range(i + 1, min(i + 8, len(log.lines))):
                if not log.lines[k].strip() or log.lines[k].startswith("* "):
                    break
                out.keep(k, FIRST if k <= i + 3 else SECOND)


_DOTNET = regex(r"^\s+(?:Failed|X|\[xUnit\.net .*?\]) +([\w.+<>`]+(?:\(.*\))?)(?: \[(?:[\d.<>, ]+|FAIL)\s*\w*\])")
_DOTNET_AT = regex(r"^\s+at .* in (\S.*?):line (\d+)")


def dotnet(log: Log, out: Findings) -> None:
    """`Failed Name [5 ms]` with message and stack below."""
    if not log.has("Error Message:", "Failed!  - Failed"):
        return
    for i, text in enumerate(log.lines):
        found = _DOTNET.match(text)
        if found and "[xUnit" not in text:
            out.keep(i, FIRST)
            out.vote(Kind.TEST, 3)
            out.test(found[1], _dotnet_block(log, out, i + 1), log.numbers[i])
        elif re.match(r"^(?:Failed!  - Failed:|Total tests:|\s+Failed:|Test Run Failed)", text):
            out.keep(i, FIRST if text.startswith("Failed!") else THIRD)


def _dotnet_block(log: Log, out: Findings, start: int) -> Place | None:
    at: Place | None = None
    section = ""
    for i in range(start, min(start + 60, len(log.lines))):
        text = log.lines[i]
        bare = text.strip()
        if _DOTNET.match(text) or bare.startswith(("Failed!", "Passed ", "Total tests", "Standard Output")):
            break
        if bare in ("Error Message:", "Stack Trace:"):
            section = bare
            continue
        frame = _DOTNET_AT.match(text)
        if frame:
            here = place_of(log, frame[1], frame[2])
            if here:
                out.keep(i, FIRST if at is None else SECOND)
                out.place(here, i)
                at = at or here
        elif section == "Error Message:" and bare:
            out.keep(i, FIRST)
    return at
