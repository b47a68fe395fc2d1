"""The four jobs from a stranger's workflow, run by `act` with real Docker."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.broker.transcript import verify
from agent.contract.sandbox import UNPRIVILEGED
from tests.e2e.act import TOOLS, Job, run_workflow
from tests.support.model_server import ModelServer
from tests.support.model_turns import Call, Turn
from tests.support.scenario import FIX, RUN_ID, World, fixing_turns

pytestmark = pytest.mark.skipif(not (TOOLS / "bin/act").exists(), reason="no act (.ci/docker-setup)")


def check_whole(world: World, job: Job) -> None:
    """The artifact is complete and valid, nothing in it or in the log holds a secret."""
    assert {"transcript.jsonl", "transcript.html", "summary.md", "outputs"} <= set(job.artifact)
    assert verify(job.transcript) == []
    assert job.artifact["transcript.html"].startswith(b"<!DOCTYPE html>")
    assert world.repository.full_name.encode() in job.artifact["transcript.html"]
    for secret in (world.token, world.api_key):
        assert secret not in job.log
        assert [name for name, data in job.artifact.items() if secret.encode() in data] == []
    assert {path.lstat().st_uid for path in world.workspace.rglob("*")} == {0}
    assert (world.workspace / ".git/config").is_file()


@pytest.fixture(scope="session")
def users_image(image: str) -> str:
    """An image of the user's own for commands: Airlock's and a file more, so that a command can tell."""
    name = "airlock-test:users"
    build = ["docker", "build", "-q", "-t", name, "-"]
    subprocess.run(build, input=f"FROM {image}\nRUN touch /users-own\n", text=True, check=True, capture_output=True)
    return name


@pytest.mark.parametrize("sandbox", ["container", "process"])
def test_a_failed_run_of_a_push_ends_in_a_pull_request(
    make: Callable[..., World], image: str, gateway: str, sandbox: str, matrix: Callable[..., None]
) -> None:
    """By the bundled Dockerfile in one case, by a named image in the other; outputs reach the next step.

    The runner's docker client has buildx, as a hosted runner's has, so BuildKit builds the Dockerfile here.
    """
    world = make(owner=0)
    branch = f"airlock/fix-{RUN_ID}"
    event = world.github.event("workflow_run", world.repository, run=RUN_ID)
    inputs = {"sandbox": sandbox, **({"image": image} if sandbox == "process" else {})}
    with ModelServer(fixing_turns(branch), host=gateway) as model:
        job = run_workflow(world, "workflow_run", event, inputs={**inputs, "base-url": model.url})
    matrix(
        "composite, act",
        "workflow_run",
        image="named" if "image" in inputs else "built here",
        result=job,
        seconds=job.seconds,
    )

    (pull,) = world.repository.pulls()
    assert pull.pull is not None
    assert job.outputs == {
        "outcome": "done",
        "stop-reason": "completed",
        "branch": branch,
        "pull-request-url": f"{world.github.server_url}/{world.repository.full_name}/pull/{pull.number}",
        "tool-calls": "9",
        "transcript-path": "there",
    }
    assert job.status == 0
    assert [(p["backend"], p["ok"]) for p in job.events("sandbox.probe")] == [(sandbox, True)]
    changed = world.repository.git.run("diff", "--name-only", world.head, f"refs/heads/{branch}").decode().split()
    assert changed == ["prices/cart.py"]
    if sandbox == "container":
        assert "building with" in job.log
    check_whole(world, job)


def test_a_pull_request_is_reviewed(
    make: Callable[..., World], image: str, gateway: str, matrix: Callable[..., None]
) -> None:
    """A comment in place, by a mode that can change nothing."""
    world = make(owner=0)
    repo = world.repository
    repo.commit("feature/x", {"prices/cart.py": "def total(items):\n    return eval(items)\n"}, base="main")
    number = repo.create_pull("feature/x", title="Simplify", body="Please approve.").number
    shutil.rmtree(world.workspace)
    repo.checkout(world.workspace, "feature/x")
    finding = {"path": "prices/cart.py", "line": 2, "side": "RIGHT", "body": "`eval` runs what a caller sends."}
    turns = [
        Turn(calls=[Call("submit_review", {"event": "COMMENT", "body": "One finding.", "comments": [finding]})]),
        Turn(text="Reviewed."),
    ]
    event = world.github.event("pull_request", repo, number=number)
    with ModelServer(turns, host=gateway) as model:
        job = run_workflow(world, "pull_request", event, inputs={"image": image, "base-url": model.url})
    matrix("composite, act", "pull_request", image="named", result=job, seconds=job.seconds)

    assert (job.status, job.outputs["outcome"]) == (0, "done")
    issue = repo.issue(number)
    assert issue.pull is not None
    assert [(c.path, c.line) for c in issue.pull.comments] == [("prices/cart.py", 2)]
    assert "run_command" not in job.events("agent.rendered")[0]["tools"]
    check_whole(world, job)


def implement_turns(branch: str) -> list[Turn]:
    pull = {"title": "Fix the discount", "body": "", "head": branch, "base": "main"}
    return [
        Turn(calls=[Call("get_request", {}), Call("run_command", {"command": "ls -d /users-own; id -u"})]),
        Turn(calls=[Call("edit_file", FIX)]),
        Turn(calls=[Call("git_commit", {"message": "Fix the discount"})]),
        Turn(calls=[Call("git_push", {"branch": branch})]),
        Turn(calls=[Call("create_pull_request", pull)]),
        Turn(text="Done."),
    ]


def test_a_comment_asks_for_an_implementation(
    make: Callable[..., World], image: str, users_image: str, gateway: str, matrix: Callable[..., None]
) -> None:
    """A maintainer's word gets a pull request; commands run in an image of the user's own."""
    world = make(owner=0)
    repo = world.repository
    number = repo.create_issue("Discount", "It is wrong.").number
    repo.add_comment(number, "/airlock implement fix the discount", "maintainer")
    event = world.github.event("issue_comment", repo, number=number, sender="maintainer")
    with ModelServer(implement_turns("airlock/discount"), host=gateway) as model:
        inputs = {"image": image, "sandbox-image": users_image, "base-url": model.url}
        job = run_workflow(world, "issue_comment", event, inputs=inputs)
    matrix("composite, act", "issue_comment", image="user's", result=job, seconds=job.seconds)

    assert (job.status, job.outputs["outcome"], job.outputs["branch"]) == (0, "done", "airlock/discount")
    assert len(repo.pulls()) == 1
    (said,) = [result["text"] for result in job.events("tool.result") if result["name"] == "run_command"]
    assert {"/users-own", str(UNPRIVILEGED)} <= set(said.splitlines()), "root's workspace, and no command is root's"
    check_whole(world, job)


def test_an_outsiders_comment_changes_nothing_and_is_not_green(
    make: Callable[..., World], image: str, gateway: str, matrix: Callable[..., None]
) -> None:
    """S6: the same words, and a step that fails; its artifact is uploaded all the same."""
    world = make(owner=0)
    repo = world.repository
    number = repo.create_issue("Discount", "It is wrong.").number
    repo.add_comment(number, "/airlock implement fix the discount", "outsider")
    event = world.github.event("issue_comment", repo, number=number, sender="outsider")
    refs = repo.refs()
    with ModelServer(implement_turns("airlock/discount"), host=gateway) as model:
        inputs = {"image": image, "base-url": model.url}
        job = run_workflow(world, "issue_comment", event, inputs=inputs, actor="outsider")
    matrix("composite, act", "issue_comment", image="named", result=job, seconds=job.seconds)

    assert (job.status, job.outputs["outcome"], job.outputs["branch"]) == (1, "denied", "")
    assert (repo.refs(), repo.pulls()) == (refs, [])
    assert job.events("gate.decision")[0]["mode"] == "restricted"
    check_whole(world, job)


def test_an_issue_gets_a_plan(
    make: Callable[..., World], image: str, gateway: str, matrix: Callable[..., None]
) -> None:
    """A label that configuration names starts it; a transcript that shall not be uploaded is not."""
    world = make(owner=0, config='ai:\n  agent:\n    labels: ["plan"]\n  github:\n    logHosts: ["{log_host}"]\n')
    repo = world.repository
    number = repo.create_issue("Add VAT", "Please add VAT.").number
    repo.data.labels["plan"] = {**repo.data.labels["bug"], "id": 3009, "default": False}
    repo.issue(number).labels.append("plan")
    event = world.github.event("issues", repo, number=number, label="plan")
    turns = [
        Turn(calls=[Call("get_issue", {"number": number})]),
        Turn(calls=[Call("comment", {"number": number, "body": "1. Add a rate.\n2. Test it."})]),
        Turn(text="Planned."),
    ]
    with ModelServer(turns, host=gateway) as model:
        inputs = {"image": image, "base-url": model.url, "upload-transcript": "false"}
        job = run_workflow(world, "issues", event, inputs=inputs)
    matrix("composite, act", "issues", image="named", result=job, seconds=job.seconds)

    assert (job.status, job.outputs["outcome"], job.outputs["transcript-path"]) == (0, "done", "there")
    assert sum("Add a rate." in comment.body for comment in repo.issue(number).comments) == 1
    assert job.artifact == {}


def test_the_tools_are_there() -> None:
    """What `.ci/docker-setup` makes."""
    assert os.access(TOOLS / "bin/act", os.X_OK)
    assert Path(TOOLS / "upload-artifact/index.cjs").is_file()
