"""`replay`: the recorded model drives the real loop and file tools again; a planted difference is found."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.replay import main, replay
from tests.support.github_sim import GitHubSim
from tests.support.model_server import ModelServer
from tests.support.scenario import RUN_ID, World, fixing_turns, make_world


@pytest.fixture(scope="module")
def recorded() -> Iterator[tuple[Path, Path]]:
    """One whole run: its transcript, and the files that it began with."""
    with tempfile.TemporaryDirectory(prefix="replay-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # the run's user must reach the workspace
        with GitHubSim(folder / "github") as github:
            world: World = make_world(folder, github)
            shutil.copytree(world.workspace, folder / "before", ignore=shutil.ignore_patterns(".git"))
            event = github.event("workflow_run", world.repository, run=RUN_ID)
            with ModelServer(fixing_turns(f"airlock/fix-{RUN_ID}")) as model:
                result = world.run("workflow_run", event, model)
        assert result.exit_status == 0, result.log
        yield result.results / "transcript.jsonl", folder / "before"


def test_a_run_replays_without_divergence_and_touches_nothing(recorded: tuple[Path, Path]) -> None:
    """File tools run for real on a copy; commands, git and GitHub answer from the record."""
    transcript, before = recorded
    files = {p: p.read_bytes() for p in before.rglob("*") if p.is_file()}
    done = replay(transcript, before)
    assert (done.divergence, done.turns, done.faults) == (None, 9, [])
    assert done.from_record == {
        "get_check_logs": 1, "run_command": 2, "git_commit": 1, "git_push": 1, "create_pull_request": 1,
    }  # fmt: skip
    assert done.compared > 25
    assert {p: p.read_bytes() for p in before.rglob("*") if p.is_file()} == files


def test_other_files_are_the_first_divergence(
    recorded: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A workspace that is not the recorded one shows at the first tool that reads it."""
    transcript, before = recorded
    shutil.copytree(before, tmp_path / "other")
    cart = tmp_path / "other/prices/cart.py"
    cart.write_text(cart.read_text().replace("amount in cents", "in cents") + "# one more line\n")
    assert main([str(transcript), "--workspace", str(tmp_path / "other")]) == 1
    said = capsys.readouterr().out
    assert "Divergence in turn 3" in said
    assert "one more line" in said.partition("replayed:")[2]


@pytest.mark.parametrize(
    ("kind", "field", "value", "turn"),
    [
        ("tool.result", "text", "something else", 1),
        ("agent.rendered", "tools", ["read_file"], 1),
        ("agent.stop", "stop_reason", "no_progress", 9),
    ],
)
def test_a_changed_record_is_a_divergence(
    recorded: tuple[Path, Path], tmp_path: Path, kind: str, field: str, value: object, turn: int
) -> None:
    """What the loop did then and what it does now differ in one event; the chain's break is told as well."""
    transcript, before = recorded
    lines = transcript.read_text().splitlines()
    at = next(i for i, line in enumerate(lines) if json.loads(line)["type"] == kind and _plantable(json.loads(line)))
    lines[at] = json.dumps({**json.loads(lines[at]), field: value})
    changed = tmp_path / "changed.jsonl"
    changed.write_text("\n".join(lines) + "\n")
    done = replay(changed, before)
    assert done.faults != []
    if kind == "tool.result":  # a recorded answer is what a recorded tool says, so it agrees with itself
        assert done.divergence is None
        return
    assert done.divergence is not None
    assert done.divergence.turn == turn


def _plantable(event: dict[str, object]) -> bool:
    return event["type"] != "tool.result" or event["name"] == "get_check_logs"


def test_a_record_that_a_crash_cut_off_is_compared_as_far_as_it_goes(
    recorded: tuple[Path, Path], tmp_path: Path
) -> None:
    """No divergence is made up for what the record does not hold."""
    transcript, before = recorded
    data = transcript.read_bytes().split(b"\n")
    half = tmp_path / "half.jsonl"
    half.write_bytes(b"\n".join(data[: len(data) // 2]) + b"\n" + data[len(data) // 2][:20])
    done = replay(half, before)
    assert done.divergence is None
    assert 2 <= done.turns < 9


def test_what_is_no_transcript_or_no_folder_is_told(
    recorded: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit status 2 and a sentence."""
    (tmp_path / "empty").write_text("")
    assert main([str(tmp_path / "empty"), "--workspace", str(tmp_path)]) == 2
    (tmp_path / "transcript.jsonl").write_text("")
    assert main([str(tmp_path), "--workspace", str(tmp_path)]) == 2
    assert main([str(recorded[0]), "--workspace", str(tmp_path / "absent")]) == 2
    said = capsys.readouterr().err
    assert said.count("nothing to replay") == 2
    assert "is no folder" in said
