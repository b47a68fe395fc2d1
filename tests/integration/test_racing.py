"""Two runs on one pull request at once: nothing is trampled, nothing is there twice (D4)."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.action import Result, job_environment, run_action
from tests.support.model_server import ModelServer
from tests.support.model_turns import Call, Recorded, Turn
from tests.support.scenario import World

OWN = "feature/discount"


def branches(world: World) -> set[str]:
    return {name.removeprefix("refs/heads/") for name in world.repository.refs() if name.startswith("refs/heads/")}


def reports(world: World) -> list[str]:
    """Hidden marks of all reports."""
    found = [c.body for i in world.repository.data.issues.values() for c in i.comments]
    return [body.split("\n", 1)[0] for body in found if body.startswith("<!-- airlock:")]


def racing(branch: str, content: str, gate: threading.Barrier) -> list[Turn | Callable[[Recorded], Turn]]:
    """A model that changes one file, meets the other before its push, and pushes."""

    def push(_: Recorded) -> Turn:
        gate.wait(60)
        return Turn(calls=[Call("git_push", {"branch": branch})])

    return [
        Turn(calls=[Call("write_file", {"path": "prices/note.py", "content": content})]),
        Turn(calls=[Call("git_commit", {"message": f"Note {content.strip()}"})]),
        push,
        Turn(text="Done."),
    ]


def race(make: Callable[..., World], tmp_path: Path, targets: tuple[str, str]) -> tuple[World, list[Result]]:
    """Two runs on the same pull request, started by two comments, pushing at the same moment."""
    world = make(config="ai: {agent: {timeoutMinutes: 3}}\n")
    repo = world.repository
    repo.commit(OWN, {"prices/tax.py": "RATE = 19\n"}, base="main")
    number = repo.create_pull(OWN, title="Tax").number
    gate = threading.Barrier(2)
    results: dict[int, Result] = {}
    jobs = []
    for index, branch in enumerate(targets):
        folder = tmp_path / f"runner-{index}"
        workspace = folder / "work" / "prices"
        repo.checkout(workspace, OWN)
        repo.add_comment(number, "/airlock implement on this branch: add a note", "maintainer")
        event = folder / "event.json"
        event.write_text(json.dumps(world.github.event("issue_comment", repo, number=number)))
        model = ModelServer(racing(branch, f"N = {index}\n", gate))
        environment = job_environment(
            event_name="issue_comment",
            event=event,
            workspace=workspace,
            temp=folder / "temp",
            repository=repo.full_name,
            api_url=world.github.api_url,
            server_url=world.github.server_url,
            inputs={
                "github-token": world.token,
                "api-key": world.api_key,
                "model": "anthropic/claude-sonnet-4-5",
                "base-url": model.url,
            },
            extra={"GITHUB_RUN_ID": str(9000 + index)},
        )
        jobs.append((index, model, environment))

    def run(index: int, model: ModelServer, environment: dict[str, str]) -> None:
        with model:
            results[index] = run_action(environment)

    threads = [threading.Thread(target=run, args=job) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(150)
    return world, [results[0], results[1]]


def pushes(result: Result) -> tuple[list[dict[str, Any]], list[str]]:
    """Pushes that went through, and the texts of those that were refused."""
    refused = [str(e["text"]) for e in result.events("tool.result") if "push_conflict" in str(e["text"])]
    return result.events("git.push"), refused


@pytest.mark.parametrize("branch", [OWN, "airlock/note"])
def test_of_two_runs_that_push_to_one_branch_at_once_one_wins_and_the_other_is_told(
    make: Callable[..., World], tmp_path: Path, branch: str
) -> None:
    """The branch holds the winner's single commit on top of what was there; the loser's overwrites nothing."""
    world, results = race(make, tmp_path, (branch, branch))
    went, refused = zip(*(pushes(r) for r in results), strict=True)

    assert sorted(len(found) for found in went) == [0, 1], [r.log for r in results]
    assert sorted(len(found) for found in refused) == [0, 1]
    winner = 0 if went[0] else 1
    assert world.repository.branch(branch) == went[winner][0]["sha"]
    assert world.repository.read(branch, "prices/note.py") == f"N = {winner}\n".encode()
    new = world.repository.git.run("rev-list", "--count", f"main..{branch}").decode().strip()
    assert new == "2", "the pull request's own commit and the winner's"


def test_two_runs_with_branches_of_their_own_both_get_through(make: Callable[..., World], tmp_path: Path) -> None:
    """Control: being at once is no reason to refuse; each report stands in a comment of its own."""
    world, results = race(make, tmp_path, ("airlock/note-a", "airlock/note-b"))

    assert [len(pushes(r)[0]) for r in results] == [1, 1], [r.log for r in results]
    assert {"airlock/note-a", "airlock/note-b"} <= branches(world)
    assert world.repository.read("airlock/note-a", "prices/note.py") == b"N = 0\n"
    assert world.repository.read("airlock/note-b", "prices/note.py") == b"N = 1\n"
    marks = reports(world)
    assert len(marks) == len(set(marks)) == 2
