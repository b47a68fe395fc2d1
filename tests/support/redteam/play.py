"""Plays one plan: as many runs as it takes to make every call, then the judgement."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from . import checks, expectations, standing
from .cases import BadCase, Plan
from .execute import Run, execute
from .fill import UnknownPlace
from .product import Product
from .script import ENDED, UNREACHED, Step, steps_of

MAX_RUNS = 25
NO_LIBRARY = 70  # library_run.py found no interface to call


@dataclass
class Verdict:
    """What became of a plan.

    Attributes:
        state: held, BREACHED, or not run.
        breaches: what does not hold of the standing oracle and the case's own.
        unmet: expectations of calls that were not met; control: the same for the control calls.
        control_state: worked, FAILED, or `-` where the run is meant to be refused at start.
        weak: forms that are reported and not failed.
    """

    plan: Plan
    state: str
    breaches: list[str] = field(default_factory=list)
    unmet: list[str] = field(default_factory=list)
    made: int = 0
    control: list[str] = field(default_factory=list)
    control_state: str = "-"
    weak: list[str] = field(default_factory=list)
    seconds: float = 0.0
    note: str = ""

    @property
    def passed(self) -> bool:
        return self.state == "held" and not self.unmet and self.control_state != "FAILED"


def play(
    plan: Plan, under_test: Product, folder: Path, *, whole_machine: bool = False, groups: Sequence[str] = ()
) -> Verdict:
    """Makes the runs of a plan and judges them."""

    def run(steps: list[Step], number: int, shape: Plan = plan) -> Run:
        return execute(shape, steps, under_test, folder / str(number), whole_machine=whole_machine, groups=groups)

    try:
        steps = steps_of(plan.model, plan.control if plan.starts else [])
        runs = [run(steps, 0)]
        while len(runs) < MAX_RUNS and (rest := _left(runs[-1])):
            runs.append(run(rest, len(runs)))
        if runs[0].exit == NO_LIBRARY and plan.setup.get("custom_tools"):
            return Verdict(plan, "not run", note="the Python interface (agent.run_agent) is not there yet")
        control = _control(plan, runs)
        extra = [run(control, len(runs), _plain(plan))] if control else []
    except (BadCase, UnknownPlace) as exc:
        return Verdict(plan, "not run", note=str(exc))
    return _judge(plan, runs, extra)


def _left(run: Run) -> list[Step]:
    """Calls still to make, after fresh `prepare` calls, because a rule (or going in circles) ended the run."""
    rest = [s for s in run.steps if s.kind == "call" and s.outcome == UNREACHED]
    by_rule = run.stop_reason == "blocked" and any(s.outcome == ENDED for s in run.steps)
    if not rest or not (by_rule or (run.plan.setup.get("concurrent") and run.stop_reason == "no_progress")):
        return []
    before = [s for s in run.steps if s.kind == "prepare"]
    return [dataclasses.replace(s, outcome=UNREACHED, result="", offered=False) for s in [*before, *rest]]


def _control(plan: Plan, runs: Sequence[Run]) -> list[Step]:
    """Control calls that no run got to."""
    if not plan.starts:
        return []
    reached = [s for r in runs for s in r.steps if s.kind == "control" and s.outcome != UNREACHED]
    return [] if len(reached) >= len(plan.control) else steps_of({}, plan.control)


def _plain(plan: Plan) -> Plan:
    """The plan without what would keep any run from working."""
    setup = {k: v for k, v in plan.setup.items() if k not in ("model_provider", "concurrent", "limits")}
    return dataclasses.replace(plan, setup=setup, model={"calls": [], "final": "done"})


def _judge(plan: Plan, runs: Sequence[Run], extra: Sequence[Run]) -> Verdict:
    breaches: list[str] = []
    for run in [*runs, *extra]:
        breaches += standing.judge(run)
    for row in plan.oracle:
        problem = checks.judge(runs, row)
        if problem:
            breaches.append(f"{row['id']} {row['check']}: {problem}")
    unmet, made, left = expectations.unmet(runs, ("prepare", "call"))
    if left and runs[-1].stop_reason not in ("max_tool_calls", "timeout"):
        must = [
            s for s in runs[-1].steps if s.outcome == UNREACHED and s.raw.get("expect") == "ok" and s.kind != "control"
        ]
        unmet += [f"{s.tool}: wanted ok, was never made" for s in must[:3]]
    control, worked, missing = expectations.unmet(extra or runs, ("control",))
    if missing:
        control.append(f"{missing} control calls were never made (the run ended: {(extra or runs)[-1].stop_reason!r})")
    state = "-" if not plan.starts or not plan.control else "FAILED" if control or not worked else "worked"
    weak = [w for run in runs for w in standing.weak_forms(run)]
    return Verdict(
        plan,
        "BREACHED" if breaches else "held",
        list(dict.fromkeys(breaches)),
        list(dict.fromkeys(unmet)),
        made,
        control,
        state,
        list(dict.fromkeys(weak)),
        sum(r.report["seconds"] for r in [*runs, *extra]),
        runs[0].stop_reason,
    )
