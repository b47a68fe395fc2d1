"""Diagnostics that begin with their level and name the place later: sbt, Psalm, Helm, Bazel."""

from __future__ import annotations

from agent.contract.regex import regex
from agent.harness.tools.ci_logs.findings import FIRST, SECOND, THIRD, Findings, Kind, Log, Place, place_of

_LEVEL = regex(r"^(\[(?:error|ERROR)\] |(?:ERROR|Error|error): )")
_PLACE = regex(r"(?<![\w/.\\-])((?:[A-Za-z]:[\\/])?[\w./\\@+-]{1,240}\.[A-Za-z]\w{0,9}):(\d+)(?::(\d+))?(?=[:\s)]|$)")
_HELM = regex(r"^==> Linting (\S+)")
_VERDICT = regex(r"(?i)\bfail(?:ed|ure)\b|\bNOT complete")
_TARGET = regex(r"^//\S{1,240}\s+(?:FAILED|TIMEOUT)\b")  # Bazel
_RULE = regex(r"^[|\s^~-]*$")  # frame and underline of a quoted source line
_BELOW = 12


def levelled(log: Log, out: Findings, *, lint: bool) -> None:
    """`[error] … file:line:column …` and `ERROR: … file:line:column …`, with what is quoted below.

    Failed tests are told by their own readers; an application's log has levels too, so this one is not asked then.
    """
    if out.tests:
        return
    charts = [heading[1].rstrip("/") for text in log.lines if (heading := _HELM.match(text))]
    known = False
    for i in log.suspects:
        text = log.lines[i]
        level = _LEVEL.match(text)
        found = _PLACE.search(text[:1000], level.end()) if level else None
        if known and found is None and (_VERDICT.search(text) if level else _TARGET.match(text)):
            out.keep(i, FIRST)
        if level is None or found is None or i in out.kept:
            continue
        template = ": template: " in text
        at = place_of(log, found[1], found[2], found[3])
        if at is None:
            continue
        known = True
        out.keep(i, FIRST)
        out.place(_in_chart(at, charts) if template else at, i)
        kind = Kind.CONFIGURATION if template else Kind.LINT if lint else Kind.COMPILE
        out.vote(kind, 2 if template else 1)
        _below(log, out, i, level[1] if text.startswith("[") else "  ")


def _in_chart(at: Place, charts: list[str]) -> Place:
    """Helm names a template by the chart's name; a folder that it linted usually has the same one."""
    name, _, rest = at.file.partition("/")
    folder = next((chart for chart in charts if chart.rpartition("/")[2] == name), name)
    return Place(f"{folder}/{rest}", at.line, at.column)


def _below(log: Log, out: Findings, i: int, prefix: str) -> None:
    """Lines that go on with the message: under the same level, or deeper."""
    for k in range(i + 1, min(i + _BELOW, len(log.lines))):
        text = log.lines[k]
        if not text.startswith(prefix) or _PLACE.search(text[:1000]):
            return
        bare = text.removeprefix(prefix)
        out.keep(k, THIRD if _RULE.match(bare) else FIRST if k < i + 6 else SECOND)
