"""A small real disk under workspace, results and all else of the runner: who fills it, and what can still be told."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from agent.broker.transcript import verify
from tests.integration.test_ending import leftovers
from tests.support.github_sim import GitHubSim
from tests.support.model_server import ModelServer
from tests.support.model_turns import Call, Recorded, Turn
from tests.support.scenario import RUN_ID, World, fixing_turns, make_world
from tests.support.small_disk import small_disk

BRANCH = f"airlock/fix-{RUN_ID}"

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount a small disk"),
]


@pytest.fixture
def small(tmp_path: Path, github: GitHubSim) -> Iterator[World]:
    """A job all of whose folders lie on a disk of 96 MB."""
    with small_disk(tmp_path / "disk", 96):
        yield make_world(tmp_path / "disk", github)


def test_a_command_that_fills_the_disk_is_ended_and_the_job_is_done(small: World) -> None:
    """It is killed before the disk is full, and the model is told why, removes what it wrote, and goes on."""
    fill = "mkdir f; for i in $(seq 40); do head -c 4000000 /dev/zero > f/$i || break; sleep 0.2; done; echo unseen"
    turns = [
        Turn(calls=[Call("run_command", {"command": fill})]),
        Turn(calls=[Call("run_command", {"command": "du -sm f | cut -f1; rm -r f"})]),
        *fixing_turns(BRANCH),
    ]
    event = small.github.event("workflow_run", small.repository, run=RUN_ID)
    with ModelServer(turns) as model:
        result = small.run("workflow_run", event, model)

    filled, removed = (e["text"] for e in result.events("tool.result")[:2])
    assert "it filled the disk further than a command may" in filled
    assert "unseen" not in filled
    assert any(line.isdigit() and int(line) > 40 for line in removed.splitlines()), "it had filled most of it"
    assert (result.exit_status, result.outputs["outcome"]) == (0, "done"), result.log
    assert len(small.repository.pulls()) == 1


def test_a_disk_that_something_else_fills_ends_the_run_and_everything_says_so(small: World) -> None:
    """Nothing can be recorded, so nothing more is sent but the report, whose room was kept: it is whole."""
    turns = iter(fixing_turns(BRANCH))
    before = small.repository.refs()

    def answer(_: Recorded) -> Turn:
        turn = next(turns)
        if [call.name for call in turn.calls] == ["edit_file"]:
            with (small.folder / "filler").open("wb", buffering=0) as file:
                for size in (1 << 20, 512):
                    with suppress(OSError):
                        while file.write(bytes(size)):
                            pass
        return turn

    event = small.github.event("workflow_run", small.repository, run=RUN_ID)
    with ModelServer(answer) as model:
        result = small.run("workflow_run", event, model)

    assert result.exit_status not in (0, None)
    assert "::error title=Airlock::" in result.log
    assert "No space left on device" in result.log.rpartition("::error")[2]
    assert "attempts" not in result.log, "asking the provider again would not make the disk empty"
    assert "Traceback" not in result.log + result.stderr
    assert verify(result.results / "transcript.jsonl") == []
    assert result.events("command"), "what was done before is recorded"
    assert [e["message"] for e in result.events("log") if "events are missing" in e["message"]], "the gap is told"
    (end,) = result.events("run.end")
    issue = next(body for body in small.repository.bodies() if "airlock" in body and "The run failed" in body)
    told = (end["reason"], (result.results / "summary.md").read_text(), issue)
    assert ["No space left on device" in text for text in told] == [True] * 3
    assert (end["stop_reason"], result.outputs["stop-reason"], result.outputs["outcome"]) == ("error", "error", "error")
    assert not [p.name for p in result.results.iterdir() if p.name.startswith(".") or p.name.endswith(".part")]
    assert leftovers(small) == []
    assert (small.repository.refs(), small.repository.pulls()) == (before, [])
