"""S7: calls, turns, time, tokens, comments are capped, each on its own, whatever the model or harness says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.broker.usage import tokens_used
from tests.support.github_sim import GitHubSim
from tests.support.model_server import ModelServer
from tests.support.model_turns import Call, Turn
from tests.support.scenario import RUN_ID, World, make_world


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


def test_five_hundred_calls_in_one_batch_run_only_up_to_the_cap(world: World) -> None:
    """A batch does not slip through as one call; those over the cap are not run."""
    event = world.github.event("workflow_run", world.repository, run=RUN_ID)
    batch = Turn(calls=[Call("run_command", {"command": f"echo x >> many; : {n}"}) for n in range(500)])
    with ModelServer([batch]) as model:
        result = world.run("workflow_run", event, model, inputs={"max-tool-calls": "5"})
    assert (result.outputs["stop-reason"], result.exit_status) == ("max_tool_calls", 3)
    assert (world.workspace / "many").read_text() == "x\n" * 5


def test_the_clock_ends_a_run_whose_model_goes_on_for_ever(world: World) -> None:
    """An endless model meets the time limit."""
    event = world.github.event("workflow_run", world.repository, run=RUN_ID)
    turns = [Turn(calls=[Call("run_command", {"command": f"sleep 0.2; echo {n}"})]) for n in range(400)]
    with ModelServer(turns) as model:
        result = world.run("workflow_run", event, model, inputs={"timeout-minutes": "0.2", "max-tool-calls": "1000"})
    assert (result.outputs["stop-reason"], result.exit_status) == ("timeout", 3)


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
    assert tokens_used(answer) == expected
