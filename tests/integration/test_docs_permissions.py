"""README's workflows, played with a token of exactly the permissions that each of them asks for."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

import pytest
import yaml

from tests.support.action import Result
from tests.support.doc_pages import blocks
from tests.support.github_sim.routing import find, need
from tests.support.github_sim.world import ApiError, Token
from tests.support.model_server import ModelServer
from tests.support.model_turns import Call, Turn
from tests.support.scenario import FIX, RUN_ID, TOKEN, World, fixing_turns

CHECKS = Turn(calls=[Call("list_checks", {}), Call("get_check_logs", {"run_id": RUN_ID})])
ISSUE = Turn(calls=[Call("file_issue", {"title": "Flaky", "body": "Seen on the way."})])
LABELLED = 'ai:\n  agent:\n    labels: [airlock]\n  github:\n    logHosts: ["{log_host}"]\n'


def permissions(job: str) -> dict[str, str]:
    """What the job of this name in README asks for, in the simulator's words."""
    flows = [yaml.safe_load(block.text) for block in blocks() if block.page == "README.md" and block.language == "yaml"]
    (found,) = [flow["jobs"][job]["permissions"] for flow in flows if job in flow.get("jobs", {})]
    return {name.replace("-", "_"): level for name, level in found.items()}


def play(world: World, job: str) -> Result:
    """The job's own event and a model that does what the job is for."""
    world.github.token(TOKEN, permissions=permissions(job))
    name, event, turns = JOBS[job](world)
    with ModelServer(turns) as model:
        return world.run(name, event, model)


def review(world: World) -> tuple[str, dict[str, Any], list[Turn]]:
    repo = world.repository
    repo.commit("feature/x", {"prices/cart.py": "def total(items):\n    return eval(items)\n"}, base="main")
    number = repo.create_pull("feature/x").number
    shutil.rmtree(world.workspace)
    repo.checkout(world.workspace, "feature/x")
    finding = {"path": "prices/cart.py", "line": 2, "side": "RIGHT", "body": "`eval` runs what a caller sends."}
    turns = [
        Turn(calls=[Call("get_pull_request", {"number": number}), Call("list_pull_request_files", {"number": number})]),
        CHECKS,
        Turn(calls=[Call("submit_review", {"event": "COMMENT", "body": "One finding.", "comments": [finding]})]),
        Turn(text="Reviewed."),
    ]
    return "pull_request", world.github.event("pull_request", repo, number=number), turns


def fix(world: World) -> tuple[str, dict[str, Any], list[Turn]]:
    event = world.github.event("workflow_run", world.repository, run=RUN_ID)
    return "workflow_run", event, [CHECKS, ISSUE, *fixing_turns(f"airlock/fix-{RUN_ID}")]


def command(world: World) -> tuple[str, dict[str, Any], list[Turn]]:
    repo, branch = world.repository, "airlock/discount"
    number = repo.create_issue("Discount", "It is wrong.").number
    repo.add_comment(number, "/airlock implement fix the discount", "maintainer")
    pull = {"title": "Fix the discount", "body": "", "head": branch, "base": "main"}
    turns = [
        Turn(calls=[Call("list_checks", {"sha": world.head}), Call("get_check_logs", {"run_id": RUN_ID})]),
        ISSUE,
        Turn(calls=[Call("edit_file", FIX)]),
        Turn(calls=[Call("git_commit", {"message": "Fix the discount"})]),
        Turn(calls=[Call("git_push", {"branch": branch})]),
        Turn(calls=[Call("create_pull_request", pull)]),
        Turn(text="Done."),
    ]
    return "issue_comment", world.github.event("issue_comment", repo, number=number), turns


def plan(world: World) -> tuple[str, dict[str, Any], list[Turn]]:
    repo = world.repository
    number = repo.create_issue("Add VAT", "Please add VAT.").number
    repo.data.labels["airlock"] = {**repo.data.labels["bug"], "id": 3009, "default": False}
    repo.issue(number).labels.append("airlock")
    turns = [
        Turn(calls=[Call("get_issue", {"number": number}), Call("list_comments", {"number": number})]),
        Turn(calls=[Call("comment", {"number": number, "body": "1. Add a rate."})]),
        Turn(text="Planned."),
    ]
    return "issues", world.github.event("issues", repo, number=number, label="airlock"), turns


JOBS: dict[str, Callable[[World], tuple[str, dict[str, Any], list[Turn]]]] = {
    "review": review,
    "fix": fix,
    "command": command,
    "plan": plan,
}


def denied(world: World, granted: dict[str, str]) -> list[str]:
    """Requests of the run that GitHub refuses to a token of these permissions."""
    token, found = Token("ghs_x", "github-actions[bot]", granted), []
    for method, path in {(record["method"], record["path"].partition("?")[0]) for record in world.github.records}:
        operation = find(method, unquote(path))
        try:
            need(token, operation[0], None) if operation else None
        except ApiError:
            found.append(f"{method} {path}")
    return found


@pytest.mark.parametrize("job", JOBS)
def test_the_permissions_that_the_readme_asks_for_are_enough_and_no_more(make: Callable[..., World], job: str) -> None:
    """The job is done and GitHub refuses nothing; with any of them a step lower it would have refused something."""
    world = make(config=LABELLED)
    result = play(world, job)

    assert (result.exit_status, result.outputs["outcome"]) == (0, "done"), result.log
    assert [event["text"] for event in result.events("tool.result") if event["is_error"]] == []
    assert denied(world, permissions(job)) == []

    needed = permissions(job)
    for name, level in needed.items():
        less = (
            {**needed, name: "read"}
            if level == "write"
            else {other: needed[other] for other in needed if other != name}
        )
        assert denied(world, less) != [], f"{name}: {level} is asked for and not needed"
