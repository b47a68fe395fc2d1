"""Which stretch of the log is which step of the job, by order, time and name together (F13)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent.contract.dataclass import dataclass
from agent.harness.tools.ci_logs.segments import Segment

FAILED = ("failure", "timed_out", "cancelled")
_RUNNERS_OWN = ("Set up job", "Complete job", "Initialize containers", "Stop containers", "Set up runner")
_FAR = 3600.0


@dataclass(frozen=True)
class Step:
    """One step as the API gives it.

    Attributes:
        name, number, conclusion: as there; the conclusion may be empty.
        begin, end: seconds within some day-long scale, or None.
    """

    name: str
    number: int
    conclusion: str
    begin: float | None
    end: float | None


def steps_of(job: Mapping[str, Any]) -> list[Step]:
    """The job's steps; anything malformed is left out."""
    steps = job.get("steps")
    found = []
    for item in steps if isinstance(steps, list) else []:
        if isinstance(item, Mapping):
            number = item.get("number")
            found.append(
                Step(
                    name=str(item.get("name") or ""),
                    number=number if isinstance(number, int) else 0,
                    conclusion=str(item.get("conclusion") or ""),
                    begin=seconds(item.get("started_at")),
                    end=seconds(item.get("completed_at")),
                )
            )
    return found


def seconds(stamp: Any) -> float | None:
    """Seconds of an ISO time on a scale that is good for differences; None for anything else."""
    if not isinstance(stamp, str) or len(stamp) < 19:
        return None
    try:
        year, month, day = int(stamp[:4]), int(stamp[5:7]), int(stamp[8:10])
        hour, minute, second = int(stamp[11:13]), int(stamp[14:16]), int(stamp[17:19])
    except ValueError:
        return None
    return ((((year * 12 + month) * 31 + day) * 24 + hour) * 60 + minute) * 60.0 + second


def assign(steps: list[Step], segments: list[Segment]) -> dict[int, list[Segment]]:
    """Segments by step number.

    Steps that ran and `Run …` segments are matched in order, each segment to one step, with the least sum of
    distances in time; a title that equals a step's name settles it. A composite action prints several groups for
    one step, and output may forge one: that is why order alone is not enough.
    """
    ran = [
        s
        for s in steps
        if s.conclusion != "skipped" and s.name not in _RUNNERS_OWN and not s.name.startswith(("Post ", "Pre "))
    ]
    runs = [s for s in segments if s.title.startswith("Run ")]
    if not ran or not runs:
        return {}
    best = _match(ran, runs)
    out: dict[int, list[Segment]] = {}
    for segment, index in zip(runs, best, strict=True):
        out.setdefault(ran[index].number, []).append(segment)
    return out


def _cost(step: Step, segment: Segment) -> float:
    at = seconds(segment.at)
    cost = 0.0
    if at is not None and step.begin is not None:
        end = step.end if step.end is not None else step.begin + _FAR
        cost = min(_FAR, max(0.0, step.begin - 1 - at, at - end))
        cost += min(2.0, abs(at - step.begin) * 0.1)
    if step.name == segment.title:
        cost -= 5.0
    if segment.has_error != (step.conclusion in FAILED) and step.conclusion:
        cost += 0.4
    return cost


def _match(ran: list[Step], runs: list[Segment]) -> list[int]:
    """Index of a step for each segment, never going back; dynamic programming over both orders."""
    many, share = len(ran), 0.8
    costs: list[list[float]] = []
    came: list[list[int]] = []
    for row, segment in enumerate(runs):
        line: list[float] = []
        back: list[int] = []
        best_before, best_index = float("inf"), 0
        for index in range(many):
            own = _cost(ran[index], segment)
            if row == 0:
                line.append(own + index * 0.5)
                back.append(0)
                continue
            stay = costs[row - 1][index] + share
            if index and costs[row - 1][index - 1] - (index - 1) * 0.5 < best_before:
                best_before, best_index = costs[row - 1][index - 1] - (index - 1) * 0.5, index - 1
            move = best_before + (index - 1) * 0.5 if index else float("inf")
            line.append(own + min(stay, move))
            back.append(index if stay <= move else best_index)
        costs.append(line)
        came.append(back)
    index = min(range(many), key=lambda i: costs[-1][i] + (many - 1 - i) * 0.5)
    path = [index]
    for row in range(len(runs) - 1, 0, -1):
        index = came[row][index]
        path.append(index)
    return path[::-1]
