"""Setup, stop and prepush scripts on whole runs: what fails is fed back, what passed is what is pushed."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tests.support.action import Result, interrupt
from tests.support.model_server import ModelServer
from tests.support.model_turns import Call, Status, Turn
from tests.support.scenario import RUN_ID, World

LOGS = '  github:\n    logHosts: ["{log_host}"]\n'
BRANCH = f"airlock/fix-{RUN_ID}"


def deliver(world: World, model: ModelServer, **options: Any) -> Result:
    event = world.github.event("workflow_run", world.repository, run=RUN_ID)
    return world.run("workflow_run", event, model, **options)


def write(text: str) -> Turn:
    return Turn(calls=[Call("write_file", {"path": "state.txt", "content": f"{text}\n"})])


def test_a_stop_script_that_passes_at_the_third_try_ends_in_a_finished_run(make: Callable[..., World]) -> None:
    """Each failure goes back framed and the loop resumes; the attempts are counted; then it is green."""
    world = make(config="ai:\n  agent:\n    stopScript: cat state.txt; grep -q three state.txt\n" + LOGS)
    turns = [write("one"), Turn(text="Done."), write("two"), Turn(text="Done."), write("three"), Turn(text="Done.")]
    with ModelServer(turns) as model:
        result = deliver(world, model)
    assert (result.exit_status, result.outputs["outcome"]) == (0, "done")
    stops = [(e["passed"], e["output"]) for e in result.events("hook.end") if e["purpose"] == "stop"]
    assert stops == [(False, "[stdout]\none\n"), (False, "[stdout]\ntwo\n"), (True, "[stdout]\nthree\n")]
    told = [message["content"] for message in model.requests[-1].json["messages"] if message["role"] == "user"]
    fed_back = [text for text in map(str, told) if "The stop script did not pass." in text]
    assert len(fed_back) == 2
    assert all(text.index("<untrusted-content") < text.index("exit status 1") for text in fed_back)


def test_a_stop_script_that_fails_without_a_word_is_fed_back_all_the_same(make: Callable[..., World]) -> None:
    """No output is no reason to hang, to pass, or to send the model nothing."""
    world = make(config="ai:\n  agent:\n    stopScript: exit 7\n" + LOGS)
    with ModelServer([write("one"), *[Turn(text="Done.")] * 9]) as model:
        result = deliver(world, model)
    assert (result.outputs["stop-reason"], result.exit_status) == ("not_verified", 5)
    assert "exit status 7" in str(model.requests[2].json["messages"])
    assert len(result.events("hook.end")) == 1, "the same tree is not judged twice"


def test_what_the_stop_script_lacks_is_told_where_the_run_was_asked_for(make: Callable[..., World]) -> None:
    """F24: a busy provider is waited for; a script that cannot pass ends the run, its exit and words in the comment."""
    world = make(config="ai:\n  agent:\n    stopScript: echo the linter is not installed; exit 127\n")
    repository = world.repository
    number = repository.create_issue("Discount", "It is wrong.").number
    repository.add_comment(number, "/airlock implement fix the discount", "maintainer")
    event = world.github.event("issue_comment", repository, number=number)
    busy = [Turn(fault=Status(529)), Turn(fault=Status(429, headers={"retry-after": "1"}))]
    with ModelServer([*busy, write("one"), *[Turn(text="Done.")] * 9]) as model:
        result = world.run("issue_comment", event, model)
    assert (result.outputs["stop-reason"], result.exit_status) == ("not_verified", 5)
    assert [event["attempt"] for event in result.events("model.retry")] == [1, 2]
    assert len(model.requests) < 10
    told = repository.issue(number).comments[-1].body
    assert "The stop script did not pass (exit status 127)" in told
    assert "What stop printed last:\n\n```\n[stdout]\nthe linter is not installed\n```" in told


def test_a_failed_setup_script_ends_the_run_with_its_output_before_the_model_is_asked(
    make: Callable[..., World],
) -> None:
    """A dependency that cannot be installed is told as that, and costs no token."""
    world = make(config="ai:\n  agent:\n    setupScript: echo no such package '@acme/left'; exit 3\n" + LOGS)
    with ModelServer([Turn(text="never")]) as model:
        result = deliver(world, model)
    assert (result.exit_status, result.outputs["outcome"], model.requests) == (1, "error", [])
    assert "The setup script did not pass (exit status 3)." in result.log
    assert "no such package" in result.summary
    assert "no such package" in result.outputs["output"]
    assert "```\nno such package @acme/left" in result.summary, "in a fence, where a mention notifies nobody"
    (issue,) = world.repository.data.issues.values()
    assert "no such package" in (issue.body or "")


def test_a_cancel_during_setup_does_not_wait_for_it(make: Callable[..., World]) -> None:
    """The script sleeps for two minutes; nobody waits for it."""
    world = make(config="ai:\n  agent:\n    setupScript: sleep 120\n" + LOGS)
    sent: list[float] = []

    def begun() -> bool:
        return any(b"hook.start" in path.read_bytes() for path in (world.folder / "temp").glob("airlock-*/*.jsonl"))

    def when_started(process: Any) -> None:
        while not begun() and process.poll() is None:
            time.sleep(0.05)
        sent.append(time.monotonic())
        interrupt(0.1)(process)

    with ModelServer([Turn(text="never")]) as model:
        result = deliver(world, model, interrupt_after=when_started)
    assert time.monotonic() - sent[0] < 60
    assert (result.outputs["stop-reason"], result.exit_status) == ("cancelled", 6)
    assert model.requests == []


def test_what_is_pushed_is_the_tree_that_passed_and_not_what_the_workspace_became(make: Callable[..., World]) -> None:
    """A gate's verdict belongs to one tree: a later edit is neither pushed nor covered by it."""
    gate = 'test "$(cat state.txt)" = good'
    world = make(config=f"ai:\n  agent:\n    prepushScript: {gate}\n" + LOGS)
    push = Turn(calls=[Call("git_push", {"branch": BRANCH})])
    turns = [
        write("good"),
        Turn(calls=[Call("git_commit", {"message": "Good"})]),
        write("evil"),
        push,  # the commit's tree is judged, not the workspace
        push,  # the same tree: not judged again
        Turn(calls=[Call("git_commit", {"message": "Evil"})]),
        push,  # another tree: judged, and refused
        push,  # and latched
        Turn(text="Done."),
    ]
    with ModelServer(turns) as model:
        result = deliver(world, model)
    gates = [(e["purpose"], e["passed"]) for e in result.events("hook.end")]
    assert gates == [("prepush", True), ("prepush", False)]
    assert world.repository.read(BRANCH, "state.txt") == b"good\n"
    pushes = [e["is_error"] for e in result.events("tool.result") if e["name"] == "git_push"]
    assert pushes == [False, False, True, True]
