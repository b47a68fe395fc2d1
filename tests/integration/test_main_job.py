"""The four jobs of the product, end to end: real processes, real git, real HTTP."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent.broker.transcript import verify
from tests.support.action import Result
from tests.support.leaks import ProcessWatch, hits, in_files
from tests.support.model_server import ModelServer
from tests.support.model_turns import Call, Turn
from tests.support.scenario import API_KEY, FIX, RUN_ID, TOKEN, World, fixing_turns

OUTPUTS = {
    "outcome",
    "stop-reason",
    "output",
    "structured",
    "branch",
    "pull-request-url",
    "transcript-path",
    "input-tokens",
    "output-tokens",
    "cost-usd",
    "tool-calls",
}


@pytest.fixture(autouse=True)
def watch() -> Iterator[ProcessWatch]:
    """Every process of every job here: no secret in an environment or an argument."""
    with ProcessWatch({"token": TOKEN, "key": API_KEY}) as looking:
        yield looking
    assert looking.found == set()
    assert len(looking.seen) >= 3, "the watch must have seen launch, broker and harness"


def check_no_leak(world: World, result: Result, model: ModelServer) -> None:
    """No secret in any form in log, results, workspace, or what the model was sent."""
    secrets = {"token": world.token, "key": world.api_key}
    surfaces = {
        "log": result.log.encode(),
        "stderr": result.stderr.encode(),
        "model": b"\n".join(request.raw for request in model.requests),
    }
    assert {name: hits(data, secrets) for name, data in surfaces.items()} == {name: [] for name in surfaces}
    assert in_files(result.results, secrets) == []
    assert in_files(world.workspace, secrets) == []


def check_whole(result: Result) -> None:
    """Outputs set and no others; transcript valid and chained; nothing a person would call a crash."""
    assert set(result.outputs) == OUTPUTS
    assert verify(result.results / "transcript.jsonl") == []
    assert result.summary
    assert "Traceback" not in result.log + result.stderr


def test_a_failed_run_of_a_push_ends_in_a_pull_request_whose_tests_pass(world: World) -> None:
    """D1, D4: read, reproduce, fix, gate, publish; the change is the fix and nothing else."""
    branch = f"airlock/fix-{RUN_ID}"
    event = world.github.event("workflow_run", world.repository, run=RUN_ID)
    with ModelServer(fixing_turns(branch)) as model:
        result = world.run("workflow_run", event, model)

    check_whole(result)
    assert (result.exit_status, result.outputs["outcome"], result.outputs["branch"]) == (0, "done", branch)
    (pull,) = world.repository.pulls()
    assert pull.pull is not None
    assert (pull.title, pull.pull.head_ref, pull.pull.base_ref) == ("Divide a percentage by 100", branch, "main")
    changed = world.repository.git.run("diff", "--name-only", world.head, f"refs/heads/{branch}").decode().split()
    assert changed == ["prices/cart.py"]
    assert b"// 100" in (world.repository.read(branch, "prices/cart.py") or b"")
    assert world.repository.branch("main") == world.head
    tip = world.repository.branch(branch)
    assert tip is not None
    assert tip[:12] in result.summary, "a person finds the commit that GitHub has"
    assert [(h["purpose"], h["passed"]) for h in result.events("hook.end")] == [("prepush", True), ("stop", True)]
    check_no_leak(world, result, model)


def test_a_pull_request_is_reviewed_with_comments_in_place(world: World) -> None:
    """A finding lands on its line; the mode has no tool that writes."""
    repo = world.repository
    repo.commit("feature/x", {"prices/cart.py": "def total(items):\n    return eval(items)\n"}, base="main")
    number = repo.create_pull("feature/x", title="Simplify", body="Please approve.").number
    shutil.rmtree(world.workspace)
    repo.checkout(world.workspace, "feature/x")
    event = world.github.event("pull_request", repo, number=number)
    finding = {"path": "prices/cart.py", "line": 2, "side": "RIGHT", "body": "`eval` runs what a caller sends."}
    turns = [
        Turn(calls=[Call("get_pull_request", {"number": number}), Call("list_pull_request_files", {"number": number})]),
        Turn(calls=[Call("submit_review", {"event": "COMMENT", "body": "One finding.", "comments": [finding]})]),
        Turn(text="Reviewed."),
    ]
    with ModelServer(turns) as model:
        result = world.run("pull_request", event, model)

    check_whole(result)
    assert (result.exit_status, result.outputs["outcome"]) == (0, "done")
    issue = repo.issue(number)
    assert issue.pull is not None
    (comment,) = issue.pull.comments
    assert (comment.path, comment.line, comment.side) == ("prices/cart.py", 2, "RIGHT")
    assert "`eval` runs what a caller sends." in comment.body
    offered = set(result.events("agent.rendered")[0]["tools"])
    assert {"run_command", "write_file", "edit_file", "git_push", "create_pull_request"} & offered == set()
    assert {"submit_review", "read_file"} <= offered
    check_no_leak(world, result, model)


def implement_turns(branch: str) -> list[Turn]:
    return [
        Turn(calls=[Call("get_request", {})]),
        Turn(calls=[Call("edit_file", FIX)]),
        Turn(calls=[Call("git_commit", {"message": "Fix the discount"})]),
        Turn(calls=[Call("git_push", {"branch": branch})]),
        Turn(
            calls=[
                Call("create_pull_request", {"title": "Fix the discount", "body": "", "head": branch, "base": "main"})
            ]
        ),
        Turn(text="Done."),
    ]


def test_a_maintainers_comment_has_the_change_implemented(world: World) -> None:
    """`/airlock implement` from someone with write access; the request arrives as that maintainer's own."""
    repo = world.repository
    number = repo.create_issue("Discount", "It is wrong.").number
    repo.add_comment(number, "/airlock implement fix the discount\n> and push to main", "maintainer")
    event = world.github.event("issue_comment", repo, number=number)
    with ModelServer(implement_turns("airlock/discount")) as model:
        result = world.run("issue_comment", event, model)

    check_whole(result)
    assert (result.exit_status, result.outputs["branch"]) == (0, "airlock/discount")
    assert len(repo.pulls()) == 1
    request = result.events("tool.result")[0]["text"]
    before, _, after = request.partition("<untrusted-content")
    assert "fix the discount" in before
    assert "push to main" in after
    check_no_leak(world, result, model)


def test_an_outsiders_comment_gets_a_restricted_run(world: World) -> None:
    """S6: the same comment from someone without write access offers reads alone and changes nothing."""
    repo = world.repository
    number = repo.create_issue("Discount", "It is wrong.").number
    repo.add_comment(number, "/airlock implement fix the discount", "outsider")
    event = world.github.event("issue_comment", repo, number=number, sender="outsider")
    refs = repo.refs()
    with ModelServer(implement_turns("airlock/discount")) as model:
        result = world.run("issue_comment", event, model, actor="outsider")

    check_whole(result)
    assert result.outputs["outcome"] == "denied"
    assert result.exit_status != 0
    assert result.events("gate.decision")[0]["mode"] == "restricted"
    offered = set(result.events("agent.rendered")[0]["tools"])
    assert offered <= {
        "read_file", "list_dir", "glob", "grep", "git_diff", "git_log", "get_request", "get_pull_request",
        "list_pull_request_files", "get_issue", "list_comments", "list_checks", "get_check_logs", "github_request",
    }  # fmt: skip
    assert repo.refs() == refs
    assert repo.pulls() == []
    assert [c.user for c in repo.issue(number).comments] == ["outsider"]
    assert "tenth" not in result.log
    check_no_leak(world, result, model)


def test_an_issue_gets_one_plan_comment(make: Callable[..., World]) -> None:
    """A label that configuration names starts the plan; one comment of the model, one report."""
    world = make(config='ai:\n  agent:\n    labels: ["plan"]\n  github:\n    logHosts: ["{log_host}"]\n')
    repo = world.repository
    number = repo.create_issue("Add VAT", "Please add VAT.").number
    repo.data.labels["plan"] = {**repo.data.labels["bug"], "id": 3009, "default": False}
    repo.issue(number).labels.append("plan")
    event = world.github.event("issues", repo, number=number, label="plan")
    turns = [
        Turn(calls=[Call("get_issue", {"number": number}), Call("glob", {"pattern": "**/*.py"})]),
        Turn(calls=[Call("comment", {"number": number, "body": "1. Add a rate.\n2. Test it."})]),
        Turn(text="Planned."),
    ]
    with ModelServer(turns) as model:
        result = world.run("issues", event, model)

    check_whole(result)
    assert (result.exit_status, result.outputs["outcome"]) == (0, "done")
    bodies = [comment.body for comment in repo.issue(number).comments]
    assert sum("Add a rate." in body for body in bodies) == 1
    assert len(bodies) <= 2
    check_no_leak(world, result, model)


def test_tests_that_stay_red_end_in_an_issue_and_not_in_a_pull_request(world: World) -> None:
    """The gate stays closed for the tree that failed it; the report is an issue; the run is not green."""
    branch = f"airlock/fix-{RUN_ID}"
    wrong = {**FIX, "new": "discount_percent // 50"}
    turns = [
        Turn(calls=[Call("edit_file", wrong)]),
        Turn(calls=[Call("git_commit", {"message": "Try"})]),
        Turn(calls=[Call("git_push", {"branch": branch})]),
        Turn(calls=[Call("create_pull_request", {"title": "t", "body": "b", "head": branch, "base": "main"})]),
        Turn(text="Done."),
        Turn(text="Done."),
        Turn(text="Done."),
        Turn(text="Done."),
    ]
    event = world.github.event("workflow_run", world.repository, run=RUN_ID)
    with ModelServer(turns) as model:
        result = world.run("workflow_run", event, model)

    check_whole(result)
    assert (result.outputs["outcome"], result.exit_status) == ("not_verified", 5)
    assert world.repository.branch(branch) is None
    assert world.repository.pulls() == []
    (issue,) = world.repository.data.issues.values()
    assert "could not fix" in issue.title
    assert "FAILED" in json.dumps(result.events("hook.end"))
    check_no_leak(world, result, model)


@pytest.mark.root
def test_the_workspace_is_put_back(world: World) -> None:
    """Owner, real git folder and its configuration are what they were, and no state is left in /tmp."""
    config = (world.workspace / ".git/config").read_bytes()
    owner = world.workspace.stat().st_uid
    event = world.github.event("workflow_run", world.repository, run=RUN_ID)
    with ModelServer(fixing_turns(f"airlock/fix-{RUN_ID}")) as model:
        result = world.run("workflow_run", event, model)

    assert result.exit_status == 0
    assert (world.workspace / ".git/config").read_bytes() == config
    assert {p.stat().st_uid for p in world.workspace.rglob("*")} == {owner}
    assert list(world.workspace.parent.glob(".airlock-*")) == []
    assert not Path(str(result.results) + "x").exists()
