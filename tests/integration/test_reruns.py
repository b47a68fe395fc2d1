"""The same run again from the Actions page: what the first attempt made is updated, and nothing is there twice (A6).

Also where the first attempt failed half way or was killed: the next one picks it up.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from agent.broker.transcript import verify
from tests.support.action import Result
from tests.support.model_server import ModelServer
from tests.support.model_turns import Call, Turn
from tests.support.scenario import RUN_ID, World, fixing_turns

BRANCH = f"airlock/fix-{RUN_ID}"


def attempt(
    world: World, number: int, name: str, event: dict[str, Any], turns: list[Turn], ref: str, **options: Any
) -> Result:
    """One attempt on a fresh checkout, as a re-run gets one."""
    shutil.rmtree(world.workspace)
    world.repository.checkout(world.workspace, ref)
    with ModelServer(turns) as model:
        return world.run(name, event, model, extra={"GITHUB_RUN_ATTEMPT": str(number)}, **options)


def branches(world: World) -> set[str]:
    return {name.removeprefix("refs/heads/") for name in world.repository.refs() if name.startswith("refs/heads/")}


def reports(world: World) -> list[str]:
    """Every report that this run wrote, on whatever issue or pull request."""
    found = [c.body for issue in world.repository.data.issues.values() for c in issue.comments]
    return [body for body in found if body.startswith("<!-- airlock:run-9009 -->")]


WRITERS = ["github-actions[bot]", "release-account"]  # the job's own token, and a person's


@pytest.mark.parametrize("login", WRITERS)
def test_a_second_attempt_updates_branch_pull_request_and_report(world: World, login: str) -> None:
    """One branch with the same commit, one pull request, one report on it; the default branch is where it was."""
    world.github.token(world.token, login=login)
    event = world.github.event("workflow_run", world.repository, run=RUN_ID)
    first = attempt(world, 1, "workflow_run", event, fixing_turns(BRANCH), "main")
    (pull,) = world.repository.pulls()
    refs = world.repository.refs()
    second = attempt(world, 2, "workflow_run", event, fixing_turns(BRANCH), "main")
    assert (first.exit_status, second.exit_status) == (0, 0)
    assert [p.number for p in world.repository.pulls()] == [pull.number]
    assert second.outputs["pull-request-url"] == first.outputs["pull-request-url"]
    assert world.repository.refs() == refs, "an attempt that finds its branch as it wants it adds nothing to it"
    (report,) = reports(world)
    assert report in [c.body for c in world.repository.issue(pull.number).comments]
    assert verify(second.results / "transcript.jsonl") == []


@pytest.mark.parametrize("login", WRITERS)
def test_a_second_attempt_at_a_review_repeats_neither_findings_nor_report(world: World, login: str) -> None:
    """The finding is on its line once, and the report of the first attempt is edited."""
    world.github.token(world.token, login=login)
    repo = world.repository
    repo.commit("feature/x", {"prices/cart.py": "def total(items):\n    return eval(items)\n"}, base="main")
    number = repo.create_pull("feature/x", title="Simplify", body="b").number
    event = world.github.event("pull_request", repo, number=number)

    def turns(words: str) -> list[Turn]:
        finding = {
            "path": "prices/cart.py",
            "line": 2,
            "side": "RIGHT",
            "body": f"`eval` runs what a caller sends. {words}",
        }
        review = Call("submit_review", {"event": "COMMENT", "body": "One finding.", "comments": [finding]})
        return [
            Turn(calls=[Call("get_pull_request", {"number": number})]),
            Turn(calls=[review]),
            Turn(text=f"Reviewed: {words}"),
        ]

    assert attempt(world, 1, "pull_request", event, turns("first"), "feature/x").exit_status == 0
    assert attempt(world, 2, "pull_request", event, turns("second"), "feature/x").exit_status == 0
    issue = repo.issue(number)
    assert issue.pull is not None
    assert len(issue.pull.comments) == 1
    (report,) = issue.comments
    assert "Reviewed: second" in report.body
    assert "first" not in report.body


def test_a_failed_fix_files_one_issue_for_all_attempts(world: World) -> None:
    """The issue of the first attempt is brought up to date."""
    event = world.github.event("workflow_run", world.repository, run=RUN_ID)
    for number in (1, 2):
        result = attempt(
            world, number, "workflow_run", event, [Turn(text="No idea.")] * 9, "main", inputs={"max-tokens": "60000"}
        )
        assert result.exit_status == 5
    (issue,) = world.repository.data.issues.values()
    assert "could not fix" in issue.title


@pytest.mark.parametrize(
    ("path", "how"),
    [
        ("/git/blobs$", "cut off"),
        ("/git/trees$", "refused"),
        ("/git/commits$", "refused"),
        ("/git/refs$", "cut off"),
        ("/pulls$", "refused"),
    ],
)
def test_a_failure_at_any_step_is_made_good_by_the_next_attempt(world: World, path: str, how: str) -> None:
    """The first attempt tells its step and leaves no half branch; the second ends with one of everything."""
    fault = world.github.fault("POST", path, 502, times=None, drop=how == "cut off")
    event = world.github.event("workflow_run", world.repository, run=RUN_ID)
    first = attempt(world, 1, "workflow_run", event, fixing_turns(BRANCH), "main")
    assert fault.used > 0
    assert world.repository.pulls() == []
    assert branches(world) == ({"main", BRANCH} if path == "/pulls$" else {"main"})
    failed = [str(e["text"]) for e in first.events("tool.result") if e.get("is_error")]
    step = "pull request" if path == "/pulls$" else "create " + path.removeprefix("/git/").rstrip("s$")
    assert any(step in text for text in failed), failed

    world.github.faults.remove(fault)
    second = attempt(world, 2, "workflow_run", event, fixing_turns(BRANCH), "main")

    assert (second.exit_status, second.outputs["outcome"]) == (0, "done"), second.log
    assert branches(world) == {"main", BRANCH}
    (pull,) = world.repository.pulls()
    assert pull.pull is not None
    assert (pull.pull.head_ref, pull.pull.head_sha) == (BRANCH, world.repository.branch(BRANCH))
    chain = world.repository.git.run("rev-list", f"main..{BRANCH}").decode().split()
    assert len(chain) == 1, "an attempt that found its branch adds nothing to it"
    assert len(reports(world)) == 1


@pytest.mark.root
@pytest.mark.parametrize("where", ["/git/trees", "/git/refs", "/pulls"])
def test_an_attempt_killed_while_publishing_is_picked_up_by_the_next(world: World, where: str) -> None:
    """kill -9 at each step of a publication; the next attempt ends with one whole branch and one pull request."""
    event = world.github.event("workflow_run", world.repository, run=RUN_ID)

    def disturb(process: subprocess.Popen[str]) -> None:
        while process.poll() is None:
            sent = list(world.github.requests)
            if any(r.method == "POST" and r.raw_path.split("?")[0].endswith(where) for r in sent):
                for child in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
                    if b"--broker" in Path(f"/proc/{child}/cmdline").read_bytes():
                        os.kill(int(child), signal.SIGKILL)
                return
            time.sleep(0.002)

    first = attempt(world, 1, "workflow_run", event, fixing_turns(BRANCH), "main", interrupt_after=disturb)
    assert (first.exit_status, first.outputs["outcome"]) == (1, "error")
    second = attempt(world, 2, "workflow_run", event, fixing_turns(BRANCH), "main")
    assert (second.exit_status, second.outputs["outcome"]) == (0, "done")
    assert len(world.repository.pulls()) == 1
    changed = world.repository.git.run("diff", "--name-only", world.head, f"refs/heads/{BRANCH}").decode().split()
    assert changed == ["prices/cart.py"]


@pytest.mark.root
def test_a_comment_that_a_killed_run_left_at_work_is_taken_over_by_the_next_attempt(world: World) -> None:
    """Nobody is left to edit it then; the next attempt finds it by mark and author and ends it."""
    repo = world.repository
    repo.commit("feature/x", {"README.md": "# changed\n"}, base="main")
    number = repo.create_pull("feature/x", title="Simplify", body="b").number
    event = world.github.event("pull_request", repo, number=number)

    def disturb(process: subprocess.Popen[str]) -> None:
        while not repo.issue(number).comments and process.poll() is None:
            time.sleep(0.01)
        for child in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split():
            if b"--broker" in Path(f"/proc/{child}/cmdline").read_bytes():
                os.kill(int(child), signal.SIGKILL)

    slow = [Turn(calls=[Call("grep", {"pattern": f"p{n}"})]) for n in range(60)]
    first = attempt(world, 1, "pull_request", event, slow, "feature/x", interrupt_after=disturb)
    assert (first.exit_status, first.outputs["outcome"]) == (1, "error")
    (left,) = repo.issue(number).comments
    assert "working" in left.body
    second = attempt(world, 2, "pull_request", event, [Turn(text="Reviewed.")], "feature/x")
    assert second.exit_status == 0
    (report,) = repo.issue(number).comments
    assert report.id == left.id
    assert "working" not in report.body
    assert "Reviewed." in report.body
