"""Failed tests of pytest and unittest, and bare Python tracebacks."""

from __future__ import annotations

from agent.contract.regex import regex
from agent.harness.tools.ci_logs.findings import FIRST, SECOND, THIRD, Findings, Kind, Log, Place, place_of

_HEAD = regex(r"^_{3,} (?:(ERROR at (?:setup|teardown) of|ERROR collecting) )?(.+?) _{3,}$")
_RULE = regex(r"^={3,} .* ={3,}$")
_AT = regex(r"^([^\s:]+\.pyx?):(\d+):(?: in .+| [A-Za-z_][\w.]*)?\s*$")
_SUMMARY = regex(r"^(FAILED|ERROR) (\S+?\.py(?:::.+?)?)(?: - .*)?$")
_VERBOSE = regex(r"^(\S+\.py::.+?) (FAILED|ERROR)(?:\s+\[ *\d+%\])?$")
_TOTAL = regex(r"^=+ .*\b\d+ (?:failed|errors?)\b.* =+$")
_CAPTURED = regex(r"^-{3,} Captured ")
_FRAME = regex(r'^\s+File "([^"]+)", line (\d+)')
_UNIT = regex(r"^(FAIL|ERROR): (\w+) \(([\w.]+)\)")
_EXCEPTION = regex(r"^(?:[\w.]+\.)?[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Warning|Failure|Failed)\b")


def pytest(log: Log, out: Findings) -> None:
    """Blocks between headers of underscores, then the short summary."""
    if not log.has("short test summary", "= FAILURES =", "= ERRORS =", "no tests ran"):
        return
    places: dict[str, Place] = {}
    name, quiet = "", True
    for i, text in enumerate(log.lines):
        head = _HEAD.match(text)
        if head:
            name, quiet = head[2].strip(), False
            out.keep(i, SECOND)
            continue
        if _RULE.match(text):
            quiet = True
            if _TOTAL.match(text):
                out.keep(i, FIRST)
        elif _CAPTURED.match(text):
            quiet = True
        elif not quiet:
            _block_line(log, out, i, name, places)
    _summary(log, out, places)


def _block_line(log: Log, out: Findings, i: int, name: str, places: dict[str, Place]) -> None:
    text = log.lines[i]
    if text.startswith("E  "):
        out.keep(
            i, FIRST if not log.lines[i - 1].startswith("E  ") or "Error" in text or " assert " in text else SECOND
        )
    elif text.startswith(">  "):
        out.keep(i, THIRD)
    else:
        found = _AT.match(text)
        at = place_of(log, found[1], found[2]) if found else None
        if at:
            out.keep(i, FIRST)
            out.place(at, i)
            places.setdefault(name, at)


def _summary(log: Log, out: Findings, places: dict[str, Place]) -> None:
    found = [(i, m) for i, text in enumerate(log.lines) if (m := _SUMMARY.match(text))]
    if not found:
        found = [(i, m) for i, text in enumerate(log.lines) if (m := _VERBOSE.match(text))]
    for i, m in found:
        out.keep(i, FIRST)
        nodeid = m[2] if m[1] in ("FAILED", "ERROR") else m[1]
        file, _, rest = nodeid.partition("::")
        short = rest.replace("::", ".")
        at = places.get(short) or places.get(rest) or places.get(file) or place_of(log, file)
        out.test(nodeid, at, log.numbers[i])
    if found:
        out.vote(Kind.TEST, 6)


def unittest(log: Log, out: Findings) -> None:
    """`FAIL: name (module.Class)` with a traceback below."""
    if not log.has("FAILED (", "\nFAIL: ", "\nERROR: "):
        return
    for i, text in enumerate(log.lines):
        found = _UNIT.match(text)
        if not found:
            if text.startswith("FAILED ("):
                out.keep(i, FIRST)
            continue
        out.keep(i, FIRST)
        at = _traceback(log, out, i + 1)
        scope = found[3] if found[3].endswith("." + found[2]) else f"{found[3]}.{found[2]}"
        out.test(scope, at, log.numbers[i])
        out.vote(Kind.TEST, 3)


def _traceback(log: Log, out: Findings, start: int) -> Place | None:
    """Keep the frames in the repository and the exception of the traceback after `start`; the first frame."""
    first: Place | None = None
    inside = False
    for i in range(start, min(start + 120, len(log.lines))):
        text = log.lines[i]
        if text.startswith("Traceback (most recent"):
            inside = True
        elif not inside and i > start + 6:
            break
        elif inside:
            found = _FRAME.match(text)
            at = place_of(log, found[1], found[2]) if found else None
            if at:
                out.keep(i, SECOND)
                out.place(at, i)
                first = first or at
            elif text and not text[0].isspace():
                out.keep(i, FIRST)
                break
    return first


def traceback(log: Log, out: Findings) -> None:
    """A traceback outside any test framework: the last frames in the repository and the exception."""
    if out.tests or not log.has("Traceback (most recent call last)"):
        return
    for i, text in enumerate(log.lines):
        if text.lstrip().startswith("Traceback (most recent call last)"):
            out.keep(i, THIRD)
            _traceback(log, out, i)
        elif _EXCEPTION.match(text) and i and log.lines[i - 1].startswith("  "):
            out.keep(i, FIRST)
