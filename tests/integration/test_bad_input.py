"""Bad input of every kind: a sentence that says what to do, the right exit status, never a traceback."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import pytest

from tests.support.action import Result
from tests.support.model_server import ModelServer
from tests.support.model_turns import Status, Turn
from tests.support.scenario import RUN_ID, World, fixing_turns


def deliver(world: World, model: ModelServer | None = None, **options: object) -> Result:
    event = world.github.event("workflow_run", world.repository, run=RUN_ID)
    return world.run("workflow_run", event, model, **options)  # type: ignore[arg-type]


def says(result: Result, text: str) -> None:
    """The sentence is on the run's page (an annotation) and in the summary, and nothing looks like a crash."""
    assert text in result.log
    assert text.split("`")[0][:30] in result.summary
    assert "Traceback" not in result.log + result.stderr


@pytest.mark.parametrize("mode", ["reveiw", "", "Review", "auto "])
def test_a_mode_that_is_none_ends_before_the_model_is_asked(world: World, mode: str) -> None:
    """B4: no default; the sentence lists the modes or says that it is empty."""
    with ModelServer([Turn(text="never")]) as model:
        result = deliver(world, model, inputs={"mode": mode})
    assert (result.exit_status, result.outputs["outcome"], len(model.requests)) == (1, "error", 0)
    says(result, "mode")


def test_no_key_turns_ai_features_off(world: World) -> None:
    """A fork's workflow without secrets is not an error: a notice, green, nothing done."""
    result = deliver(world, inputs={"api-key": ""})
    assert (result.exit_status, result.outputs["outcome"]) == (0, "skipped")
    says(result, "No `api-key` is given")


def test_no_token_is_told(world: World) -> None:
    """The fix is in the sentence."""
    result = deliver(world, inputs={"github-token": ""})
    assert result.exit_status == 1
    says(result, "Input `github-token` is empty")


@pytest.mark.parametrize("payload", [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"action": 3}', b"[" * 50_000])
def test_an_event_that_is_none_is_told(world: World, payload: bytes) -> None:
    """Empty, cut off, of another shape, not UTF-8, nested without end."""
    path = world.folder / "odd.json"
    path.write_bytes(payload)
    result = deliver(world, extra={"GITHUB_EVENT_PATH": str(path)})
    assert result.exit_status == 1
    assert "event" in result.log
    assert "Traceback" not in result.log + result.stderr


def test_an_event_that_is_not_there_is_told(world: World) -> None:
    """The path and the variable are named."""
    result = deliver(world, extra={"GITHUB_EVENT_PATH": "/nonexistent/event.json"})
    assert result.exit_status != 0
    assert "GITHUB_EVENT_PATH" in result.stderr
    assert "Traceback" not in result.stderr


def test_an_event_that_is_not_ours_is_skipped(world: World) -> None:
    """Exit 0, nothing done, and the sentence names the events there are."""
    result = world.run("release", {"action": "published"}, None)
    assert (result.exit_status, result.outputs["outcome"]) == (0, "skipped")
    says(result, "Airlock does nothing on the event release")


def test_a_broken_configuration_names_file_line_and_key(make: Callable[..., World]) -> None:
    """The default branch's file is wrong: where, what, and what was probably meant."""
    world = make(config="ai:\n  agent:\n    stopScrip: make test\n")
    result = deliver(world)
    assert result.exit_status == 1
    says(result, ".github/airlock.yml, line 3: ai.agent.stopScrip")
    assert "stopScript" in result.log


def test_a_workspace_without_git_says_to_check_out(world: World) -> None:
    """A forgotten checkout step is the commonest mistake."""
    shutil.rmtree(world.workspace / ".git")
    with ModelServer([Turn(text="never")]) as model:
        result = deliver(world, model)
    assert (result.exit_status, len(model.requests)) == (1, 0)
    says(result, "is no git checkout")
    assert "actions/checkout" in result.log


@pytest.mark.parametrize(
    ("status", "body", "sentence"),
    [
        (403, {"message": "Resource not accessible by integration"}, "may not do this"),
        (404, {"message": "Not Found"}, "404"),
        (422, {"message": "Validation Failed", "errors": [{"code": "custom", "message": "No."}]}, "422"),
        (502, "<html>Bad gateway</html>", "502"),
    ],
)
def test_github_failing_while_publishing_names_the_step(world: World, status: int, body: object, sentence: str) -> None:
    """D4: the model and the log learn which step failed, and nothing is half published."""
    world.github.fault("POST", r"/git/trees$", status=status, body=body, times=None)
    branch = f"airlock/fix-{RUN_ID}"
    with ModelServer(fixing_turns(branch)) as model:
        result = deliver(world, model)
    told = [e["text"] for e in result.events("tool.result") if e["name"] == "git_push"]
    assert len(told) == 1
    assert "create tree" in told[0]
    assert sentence in told[0]
    assert world.repository.branch(branch) is None
    assert world.repository.pulls() == []
    assert "Traceback" not in result.log + result.stderr


def test_a_missing_permission_is_named(world: World) -> None:
    """A workflow without `contents: write` learns which line it lacks."""
    world.github.token(
        world.token, permissions={"metadata": "read", "contents": "read", "actions": "read", "issues": "write"}
    )
    with ModelServer(fixing_turns(f"airlock/fix-{RUN_ID}")) as model:
        result = deliver(world, model)
    told = next(e["text"] for e in result.events("tool.result") if e["name"] == "git_push")
    assert "contents" in told
    assert world.repository.pulls() == []


@pytest.mark.parametrize("status", [403, 404, 500])
def test_github_refusing_to_say_who_the_actor_is_means_restricted(world: World, status: int) -> None:
    """S6: every doubt is restricted; the run goes on with reads alone."""
    world.github.fault("GET", r"/collaborators/", status=status, times=None)
    number = world.repository.create_issue("x", "y").number
    world.repository.add_comment(number, "/airlock implement this", "maintainer")
    event = world.github.event("issue_comment", world.repository, number=number)
    with ModelServer([Turn(text="Read only.")]) as model:
        result = world.run("issue_comment", event, model)
    assert result.events("gate.decision")[0]["mode"] == "restricted"
    assert "run_command" not in result.events("agent.rendered")[0]["tools"]


@pytest.mark.parametrize("text", ["", "   \n", "<xml>nonsense</xml>" * 50])
def test_a_model_that_answers_nonsense_ends_the_run(world: World, text: str) -> None:
    """No hang, no green: what it left fails the stop script, or it said nothing."""
    with ModelServer([Turn(text=text) for _ in range(12)]) as model:
        result = deliver(world, model)
    assert result.exit_status != 0
    assert result.outputs["outcome"] in ("error", "not_verified")
    assert world.repository.pulls() == []
    assert "Traceback" not in result.log + result.stderr


def test_a_provider_that_refuses_the_key_ends_as_error_and_says_so(world: World) -> None:
    """A wrong key is told as that, without the key."""
    refusal = Turn(fault=Status(401, body=b'{"type":"error","error":{"type":"authentication_error"}}'))
    with ModelServer([refusal] * 9) as m:
        result = deliver(world, m)
    assert (result.exit_status, result.outputs["stop-reason"]) == (1, "error")
    assert "401" in result.log + result.stderr
    assert world.api_key not in result.log + result.stderr
