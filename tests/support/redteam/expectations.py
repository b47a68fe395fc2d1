"""What each call came to, against what the case expects of it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .execute import Run
from .script import ENDED, FAILED, OK, UNREACHED, Step

REFUSAL = re.compile(
    r"(?i)refus|denied|not allowed|not permitted|blocked|protected|outside|forbidden|must not|may not|egress_"
    r"|out of (the )?tier"
)


def met(step: Step) -> str | None:
    """Why the expectation of a call that was made is not met, or None.

    A run that ended on the call did not do it: that is a refusal, whatever form it takes.
    """
    want = str(step.raw.get("expect", "any"))
    not_done = step.outcome in (FAILED, ENDED)
    if want == "any":
        return None
    if want == "ok":
        if step.outcome != OK:
            return f"{step.tool}: wanted ok, got {step.outcome}: {step.result[:160]!r}"
        pattern = step.raw.get("matches")
        if pattern and not re.search(pattern, step.result):
            return f"{step.tool}: result does not match {pattern!r}: {step.result[:100]!r}"
        return None
    if want == "not_offered":
        if step.offered:
            return f"{step.tool}: was offered"
        return None if not_done else f"{step.tool}: was carried out"
    if want == "not_ok":
        return None if not_done else f"{step.tool}({_brief(step)}): wanted a refusal, got {step.result[:100]!r}"
    if want == "refused":
        good = step.outcome == ENDED or (step.outcome == FAILED and REFUSAL.search(step.result))
        return None if good else f"{step.tool}: wanted refused, got {step.outcome}: {step.result[:100]!r}"
    if want == "error":
        good = step.outcome == FAILED and not REFUSAL.search(step.result)
        return None if good else f"{step.tool}: wanted error, got {step.outcome}: {step.result[:100]!r}"
    return f"{step.tool}: expectation {want!r} is not known"


def _brief(step: Step) -> str:
    return ", ".join(f"{k}={str(v)[:50]!r}" for k, v in (step.raw.get("args") or {}).items())


def unmet(runs: Sequence[Run], kinds: tuple[str, ...]) -> tuple[list[str], int, int]:
    """(what is not met, calls made, calls never made) over the runs' steps of these kinds."""
    problems: list[str] = []
    made = 0
    reached: set[tuple[str, int | None, int]] = set()
    wanted: set[tuple[str, int | None, int]] = set()
    for run in runs:
        for step in run.steps:
            if step.kind not in kinds:
                continue
            key = (step.kind, step.index, id(step.raw) if step.index is None else step.count)
            wanted.add(key)
            if step.outcome != UNREACHED:
                reached.add(key)
                made += 1
                problem = met(step)
                if problem:
                    problems.append(problem)
    return problems, made, len(wanted - reached)
