"""S7: calls, turns, time, tokens, comments are capped, each on its own, whatever the model or harness says."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.broker.closing import make_report
from agent.broker.limits import Limits, Meter
from agent.broker.report.facts import RAISE
from agent.broker.state import RunState
from agent.broker.usage import used_by
from agent.contract.facts import RunFacts
from agent.contract.outcomes import OUTCOMES, StopReason
from agent.contract.totals import Totals
from tests.support.github_sim import GitHubSim
from tests.support.model_server import ModelServer
from tests.support.model_turns import Call, Turn
from tests.support.scenario import RUN_ID, World, make_world

FACTS: dict[str, Any] = {
    "mode": "plan", "event": "issues", "repository": "acme/shop", "base_sha": None, "head_sha": "", "number": None,
    "is_pull_request": False, "run_id": None, "tools": [], "task": "", "playbook": "plan", "playbook_is_text": False,
    "max_tool_calls": 1, "max_turns": 1, "timeout_s": 100.0, "max_tokens": None, "models": [], "branch_prefix": "a/",
}  # fmt: skip


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with GitHubSim(tmp_path / "github") as github:
        yield make_world(tmp_path, github)


def reads(count: int) -> list[Turn]:
    return [Turn(calls=[Call("grep", {"pattern": f"p{n}"})]) for n in range(count)]


def test_the_token_budget_ends_the_run_and_says_how_to_raise_it(world: World) -> None:
    """The run stops before the call that would overrun, with a report."""
    event = world.github.event("workflow_run", world.repository, run=RUN_ID)
    with ModelServer(reads(30)) as model:
        result = world.run("workflow_run", event, model, inputs={"max-tokens": "12000"})
    assert (result.outputs["stop-reason"], result.outputs["outcome"], result.exit_status) == ("budget", "capped", 3)
    assert 1 <= len(model.requests) <= 4
    (issue,) = world.repository.data.issues.values()
    assert "max-tokens" in (issue.body or "")


def test_the_money_cap_ends_the_run_by_the_brokers_own_count(world: World) -> None:
    """Tokens of the provider's answer times the price table; the report names the cap and how to raise it."""
    event = world.github.event("workflow_run", world.repository, run=RUN_ID)
    with ModelServer(reads(30)) as model:
        result = world.run("workflow_run", event, model, inputs={"max-cost": "0.03"})
    assert (result.outputs["stop-reason"], result.outputs["outcome"], result.exit_status) == ("budget", "capped", 3)
    assert 1 <= len(model.requests) <= 4
    assert 0 < float(result.outputs["cost-usd"]) < 0.1
    (issue,) = world.repository.data.issues.values()
    body = issue.body or ""
    assert "max-cost" in body
    assert "**Done:** nothing was changed or published." in body
    assert "**Not done:** the task was not reported as finished." in body
    (limit,) = result.events("limit")
    assert (limit["limit"], limit["cap"]["cost_usd"]) == ("budget", 0.03)


def test_one_huge_answer_is_counted_cut_and_kept_out_of_everything_that_has_a_cap(world: World) -> None:
    """A million characters in one turn: budget reached, and no report over what GitHub or the runner takes."""
    number = world.repository.create_issue("x", "y").number
    world.repository.add_comment(number, "/airlock plan", "maintainer")
    event = world.github.event("issue_comment", world.repository, number=number)
    words = "<b>word</b> @acme | `x` \n" * 40_000
    with ModelServer([Turn(text=words, calls=[Call("glob", {"pattern": "**"})]), Turn(text="Done.")]) as model:
        result = world.run("issue_comment", event, model, inputs={"max-tokens": "200000"})
    assert (result.outputs["stop-reason"], len(model.requests)) == ("budget", 1)
    assert len(result.summary.encode()) < 1 << 20
    assert all(len(comment.body) <= 65_536 for comment in world.repository.issue(number).comments)
    assert max(len(line) for line in (result.results / "transcript.jsonl").read_bytes().split(b"\n")) < 2_000_000
    assert int(result.outputs["output-tokens"]) > 200_000


@pytest.mark.parametrize(
    ("inputs", "turns", "reason"),
    [
        ({"max-tool-calls": "2"}, reads(30), "max_tool_calls"),
        ({"max-tokens": "9000"}, reads(30), "budget"),
        ({"max-cost": "0.01"}, reads(30), "budget"),
        ({"timeout-minutes": "0.1"}, [Turn(calls=[Call("run_command", {"command": "sleep 60"})])], "timeout"),
    ],
)
def test_a_cap_ends_the_run_within_two_seconds(
    world: World, inputs: dict[str, str], turns: list[Turn], reason: str
) -> None:
    """From the moment that the cap is reached to the last event, report and comment included; the comment names the
    cap, what was done and what was not, and how to raise it."""
    event = world.github.event("workflow_run", world.repository, run=RUN_ID)
    with ModelServer(turns) as model:
        result = world.run("workflow_run", event, model, inputs=inputs)
    (end,) = result.events("run.end")
    assert (end["stop_reason"], result.exit_status) == (reason, 3)
    if reason == "max_tool_calls":
        assert len([e for e in result.events("tool.result") if not e["is_error"]]) == 2
    (issue,) = world.repository.data.issues.values()
    stopped = StopReason(reason)
    for words in (OUTCOMES[stopped].sentence, RAISE[stopped], "**Done:**", "**Not done:**"):
        assert (issue.body or "").count(words) == 1
    if reason == "timeout":
        reached = result.events("run.start")[0]["ts"] + 60 * float(inputs["timeout-minutes"])
    else:
        reached = max(e["ts"] for kind in ("tool.result", "model.response") for e in result.events(kind))
    busy = max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))  # other tests may share this machine
    assert end["ts"] - reached < 2.0 * busy


def test_a_wall_clock_that_jumps_changes_no_limit_and_no_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NTP or a resumed machine may set the clock by hours: limits run on a clock that only goes forward."""
    facts = RunFacts.from_json({**FACTS, "workspace": str(tmp_path)})
    run = RunState(
        facts, frozenset(), Meter(Limits(1, timeout_s=100.0), started=time.monotonic()), lambda *_, **__: None
    )
    for jump in (-1e6, 1e6):
        real = time.time()
        monkeypatch.setattr(time, "time", lambda real=real, jump=jump: real + jump)
        assert 90 < run.remaining_s() <= 100


def test_false_counts_of_the_harness_reach_no_report(tmp_path: Path) -> None:
    """A harness that is taken over says it used nothing, or everything; outputs hold the provider's count."""
    facts = RunFacts.from_json({**FACTS, "workspace": str(tmp_path)})
    for lie in (0, 10**12):
        run = RunState(facts, frozenset(), Meter(Limits(1), started=time.monotonic()), lambda *_, **__: None)
        run.meter.used(700, 70, 0.25)
        report = make_report(
            run, StopReason.COMPLETED, "", Totals(input_tokens=lie, output_tokens=lie, cost_usd=float(lie)),
            gates=(), digest="", config_sha=None, notes=(), duration_s=1.0, run_url="", name="run-1", version="1",
        )  # fmt: skip
        told = report.outputs("x")
        assert (told["input-tokens"], told["output-tokens"], told["cost-usd"]) == ("700", "70", "0.2500")


def test_five_hundred_calls_in_one_batch_run_only_up_to_the_cap(world: World) -> None:
    """A batch does not slip through as one call; those over the cap are not run."""
    event = world.github.event("workflow_run", world.repository, run=RUN_ID)
    batch = Turn(calls=[Call("run_command", {"command": f"echo x >> many; : {n}"}) for n in range(500)])
    with ModelServer([batch]) as model:
        result = world.run("workflow_run", event, model, inputs={"max-tool-calls": "5"})
    assert (result.outputs["stop-reason"], result.exit_status) == ("max_tool_calls", 3)
    assert result.outputs["tool-calls"] == "5"
    assert (world.workspace / "many").read_text() == "x\n" * 5


def test_comments_over_the_cap_are_refused_and_the_run_goes_on(world: World) -> None:
    """A storm of comments would take the repository's whole rate limit."""
    number = world.repository.create_issue("x", "y").number
    world.repository.add_comment(number, "/airlock plan", "maintainer")
    event = world.github.event("issue_comment", world.repository, number=number)
    calls = [
        Call("comment", {"number": number, "body": f"Note {n}: {'abcdefghij'[n % 10] * (n + 5)}"}) for n in range(34)
    ]
    with ModelServer([Turn(calls=calls), Turn(text="Planned.")]) as model:
        result = world.run("issue_comment", event, model, timeout=180)
    assert result.exit_status == 0
    refused = [e for e in result.events("tool.result") if e["is_error"] and "cap of 30 comments" in e["text"]]
    assert len(refused) == 4
    assert len(world.repository.issue(number).comments) == 1 + 30 + 1


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (b'{"usage":{"input_tokens":10,"cache_read_input_tokens":90,"output_tokens":5}}', (100, 5)),
        (
            b'data: {"message":{"usage":{"input_tokens":10,"output_tokens":1}}}\n\n'
            b'data: {"usage":{"output_tokens":40}}',
            (10, 40),
        ),
        (b'{"usage":{"prompt_tokens":70,"completion_tokens":7,"total_tokens":77}}', (70, 7)),
        (b'{"text":"\\"output_tokens\\": 999999"}', (0, 0)),
        (b'{"usage":{"input_tokens":-5,"output_tokens":"many"}}', (0, 0)),
        (b"", (0, 0)),
    ],
)
def test_tokens_are_counted_from_the_providers_bytes(answer: bytes, expected: tuple[int, int]) -> None:
    """Streamed or whole, both families; text of the model cannot imitate a count."""
    used = used_by(answer)
    assert (used.read, used.written) == expected
