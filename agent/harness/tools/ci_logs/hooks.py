"""pre-commit: one line a hook, and below a failed one what the hook says."""

from __future__ import annotations

from agent.contract.regex import regex
from agent.harness.tools.ci_logs.findings import FIRST, SECOND, THIRD, Findings, Kind, Log, place_of

_HOOK = regex(r"^\S.{0,120}?\.{3,}(?:\(.{1,60}\))?(Failed|Passed|Skipped)$")
_FIXED = regex(r"^(?:Fixing|Fixed|Sorting|Rewriting|reformatted|Reformatted) ['\"]?([^\s'\"]{1,300})['\"]?$")
_SAYS = regex(r"^([^\s:(]{1,300}\.\w{1,10}|[^\s:(]{0,300}(?:Dockerfile|Makefile)):(\d+)(?::(\d+))?:? \S")


def pre_commit(log: Log, out: Findings) -> None:
    """Failed hooks, files that they changed, and lines with a place in what they printed."""
    if not log.has("\n- hook id: "):
        return
    inside = False
    for i, text in enumerate(log.lines):
        hook = _HOOK.match(text)
        if hook:
            inside = hook[1] == "Failed"
            if inside:
                out.keep(i, FIRST)
                out.vote(Kind.LINT, 2)
            continue
        if not inside:
            continue
        fixed, says = _FIXED.match(text), _SAYS.match(text)
        if fixed:
            out.keep(i, FIRST)
            out.place(place_of(log, fixed[1]), i)
        elif says:
            out.keep(i, FIRST)
            out.place(place_of(log, says[1], says[2], says[3]), i)
        elif text.startswith(("- exit code:", "- files were modified", "- hook id:")):
            out.keep(i, SECOND if "files" in text else THIRD)
