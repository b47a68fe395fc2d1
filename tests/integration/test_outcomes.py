"""The one table: for every stop reason, exit status, outputs, annotation, summary and transcript say the same."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from agent.broker.transcript import verify
from agent.contract.outcomes import OUTCOMES, StopReason
from tests.integration.test_ending import leftovers
from tests.support.action import Result, interrupt
from tests.support.model_server import ModelServer
from tests.support.model_turns import Call, Status, Turn
from tests.support.scenario import RUN_ID, World, fixing_turns

QUICK = 'ai:\n  github:\n    logHosts: ["{log_host}"]\n'


def reads(count: int = 30) -> list[Turn]:
    return [Turn(calls=[Call("grep", {"pattern": f"p{n}"})]) for n in range(count)]


def endless() -> list[Turn]:
    """A model that would go on for ever; the limit of time falls between its turns or into a command."""
    return [Turn(calls=[Call("run_command", {"command": f"sleep 0.2; echo {n}"})]) for n in range(280)]


ASKED = threading.Event()


def slow(_: object) -> Turn:
    ASKED.set()  # the server lists a request only when it has answered it
    time.sleep(30)
    return Turn(text="late")


@dataclass(frozen=True)
class Case:
    """How one stop reason comes about in a whole run."""

    turns: Any
    inputs: dict[str, str] = field(default_factory=dict)
    config: str = QUICK
    event: str = "workflow_run"
    interrupted: bool = False


CASES: dict[StopReason, Case] = {
    StopReason.COMPLETED: Case(fixing_turns(f"airlock/fix-{RUN_ID}")),
    StopReason.SKIPPED: Case([], event="release"),
    StopReason.MAX_TOOL_CALLS: Case(reads(), {"max-tool-calls": "2"}),
    StopReason.MAX_TURNS: Case(reads(310), {"max-tool-calls": "1000", "timeout-minutes": "5"}),
    StopReason.TIMEOUT: Case(endless(), {"timeout-minutes": "0.1", "max-tool-calls": "1000"}),
    StopReason.BUDGET: Case(reads(), {"max-tokens": "9000"}),
    StopReason.BLOCKED: Case([Turn(calls=[Call("run_command", {"command": "true"})])], event="outsider"),
    StopReason.NOT_VERIFIED: Case([Turn(text="Done.")] * 12, config=QUICK + '  agent:\n    stopScript: "false"\n'),
    StopReason.NO_PROGRESS: Case([Turn(calls=[Call("read_file", {"path": "absent"})])] * 12),
    StopReason.CANCELLED: Case(slow, interrupted=True),
    StopReason.ERROR: Case([Turn(fault=Status(401))] * 9),
}


def deliver(world: World, case: Case) -> Result:
    options: dict[str, Any] = {"inputs": case.inputs}
    with ModelServer(case.turns) as model:
        if case.event == "release":
            return world.run("release", {"action": "published"}, model)
        if case.event == "outsider":
            number = world.repository.create_issue("x", "y").number
            world.repository.add_comment(number, "/airlock implement it", "outsider")
            event = world.github.event("issue_comment", world.repository, number=number, sender="outsider")
            return world.run("issue_comment", event, model, actor="outsider")
        if case.interrupted:

            def when_asked(process: Any) -> None:
                ASKED.wait(60)
                interrupt(0.2)(process)

            options["interrupt_after"] = when_asked
        event = world.github.event("workflow_run", world.repository, run=RUN_ID)
        return world.run("workflow_run", event, model, **options)


@pytest.mark.parametrize("reason", CASES, ids=str)
def test_every_row_of_the_table_is_told_the_same_everywhere(make: Callable[..., World], reason: StopReason) -> None:
    """Green means done: whoever looks at status, outputs, page, summary or transcript learns the same."""
    case, row = CASES[reason], OUTCOMES[reason]
    world = make(config=case.config)
    result = deliver(world, case)
    assert (result.exit_status, result.outputs["outcome"], result.outputs["stop-reason"]) == (
        row.exit_status,
        row.outcome,
        str(reason),
    )
    (end,) = result.events("run.end")
    assert (end["stop_reason"], end["outcome"], end["exit_status"]) == (str(reason), row.outcome, row.exit_status)
    level = "notice" if row.exit_status == 0 else "error"
    annotations = re.findall(r"^::(notice|error) title=Airlock::(.*)$", result.log, re.M)
    assert [found for found, _ in annotations] == [level]
    assert re.match(rf"## Airlock: \S+ {row.outcome.replace('_', ' ')}", result.summary)
    assert row.sentence in result.summary
    assert verify(result.results / "transcript.jsonl") == []
    requests = [event["n"] for event in result.events("egress.request")]
    assert len(requests) == len(set(requests)), "an answer belongs to one request"
    assert (row.exit_status == 0) == (row.outcome in ("done", "skipped"))
    assert leftovers(world) == []


def test_no_row_is_forgotten() -> None:
    """The one stop reason without a whole run here belongs to the Python interface: structured output."""
    assert set(OUTCOMES) == set(StopReason)
    assert set(StopReason) - set(CASES) == {StopReason.STRUCTURED}
