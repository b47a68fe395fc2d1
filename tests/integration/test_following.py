"""What people see of a run while it goes and after it: the reaction, the one comment, and its end."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable

import pytest

from agent.broker.transcript import verify
from tests.support.model_server import ModelServer
from tests.support.model_turns import Call, Turn
from tests.support.scenario import World


def plan_event(world: World, text: str = "/airlock plan", by: str = "maintainer") -> tuple[int, dict[str, object]]:
    number = world.repository.create_issue("Discount", "It is wrong.").number
    world.repository.add_comment(number, text, by)
    return number, world.github.event("issue_comment", world.repository, number=number, sender=by)


def pull_event(world: World) -> tuple[int, dict[str, object]]:
    repo = world.repository
    repo.commit("feature/x", {"README.md": "# changed\n"}, base="main")
    number = repo.create_pull("feature/x", title="Simplify", body="b").number
    shutil.rmtree(world.workspace)
    repo.checkout(world.workspace, "feature/x")
    return number, world.github.event("pull_request", repo, number=number)


def test_a_comment_that_starts_a_run_gets_eyes_before_the_model_has_answered(world: World) -> None:
    """Somebody who wrote a comment sees at once that it was read; the end is one comment."""
    number, event = plan_event(world)
    seen: list[dict[tuple[str, int], list[dict[str, object]]]] = []

    def answer(_: object) -> Turn:
        seen.append(
            json.loads(json.dumps({str(k): v for k, v in world.repository.data.reactions.items()}, default=str))
        )
        return Turn(text="Planned.")

    with ModelServer(answer) as model:
        result = world.run("issue_comment", event, model)
    assert result.exit_status == 0
    (given,) = [rows for rows in world.repository.data.reactions.values() if rows]
    assert [row["content"] for row in given] == ["eyes"]
    assert seen[0], "the reaction came before the first answer"
    bodies = [comment.body for comment in world.repository.issue(number).comments[1:]]
    assert len(bodies) == 1
    assert "done" in bodies[0]


def test_a_pull_request_gets_one_comment_that_is_first_a_sign_and_then_the_report(world: World) -> None:
    """Without a text to react to the comment is the sign; the report takes its place and is not a second one."""
    number, event = pull_event(world)
    during: list[list[str]] = []

    def answer(_: object) -> Turn:
        during.append([comment.body for comment in world.repository.issue(number).comments])
        return Turn(text="Reviewed: nothing to say.")

    with ModelServer(answer, delay_s=0.5) as model:
        result = world.run("pull_request", event, model)
    assert result.exit_status == 0
    assert [len(bodies) for bodies in during] == [1]
    assert "working" in during[0][0]
    (comment,) = world.repository.issue(number).comments
    assert "working" not in comment.body
    assert "Reviewed: nothing to say." in comment.body
    assert verify(result.results / "transcript.jsonl") == []


@pytest.mark.parametrize("wanted", [False, True])
def test_a_restricted_run_says_nothing_at_github_unless_the_configuration_wants_it(
    make: Callable[..., World], wanted: bool
) -> None:
    """S6: an outsider cannot make the account write; with the setting, one report."""
    setting = "    commentWhenRestricted: true\n" if wanted else ""
    world = make(config=f'ai:\n  agent:\n    timeoutMinutes: 5\n{setting}  github:\n    logHosts: ["{{log_host}}"]\n')
    number, event = plan_event(world, by="outsider")
    with ModelServer([Turn(text="Read only.")]) as model:
        result = world.run("issue_comment", event, model, actor="outsider")
    assert result.events("gate.decision")[0]["mode"] == "restricted"
    assert len(world.repository.issue(number).comments) == 1 + wanted
    assert [rows for rows in world.repository.data.reactions.values() if rows] == [] or wanted


def test_a_run_that_breaks_after_its_sign_says_so_where_it_was_asked(world: World) -> None:
    """A reaction and then silence would be a riddle: the failure and what to do stand in one comment."""
    number, event = plan_event(world, "/airlock implement the discount")
    shutil.rmtree(world.workspace / ".git")
    with ModelServer([Turn(text="never")]) as model:
        result = world.run("issue_comment", event, model)
    assert (result.exit_status, result.outputs["outcome"]) == (1, "error")
    (body,) = [comment.body for comment in world.repository.issue(number).comments[1:]]
    assert "working" not in body
    assert "actions/checkout" in body


def test_a_finding_stands_on_its_line_of_the_runs_page_and_starts_no_command(world: World) -> None:
    """An annotation for each comment that was posted; its words are hostile and do nothing (R15)."""
    _, event = pull_event(world)
    body = "Bad.\n::set-env name=X::y\n##[add-mask]e\r::error::x"
    finding = {"path": "README.md", "line": 1, "side": "RIGHT", "body": body}
    turns = [
        Turn(calls=[Call("submit_review", {"event": "COMMENT", "body": "One.", "comments": [finding]})]),
        Turn(text="Reviewed."),
    ]
    with ModelServer(turns) as model:
        result = world.run("pull_request", event, model)
    assert result.exit_status == 0
    commands = [line for line in result.log.splitlines() if line.startswith("::") and "group" not in line]
    (first, _) = commands
    assert first.startswith("::notice title=Airlock review,file=README.md,line=1::Bad.%0A")
    assert not any(line.lstrip().startswith(("::set-env", "::error", "##[")) for line in result.log.splitlines())


def test_the_results_hold_a_page_of_the_whole_run(world: World) -> None:
    """`transcript.html` is there when the artifact is uploaded, with the outcome, and loads nothing."""
    _, event = pull_event(world)
    with ModelServer([Turn(text="Reviewed.")]) as model:
        result = world.run("pull_request", event, model)
    page = result.files["transcript.html"].decode()
    assert "default-src &#x27;none&#x27;" in page
    assert "<dd>done</dd>" in page
    assert "Reviewed." in page
    assert world.token not in page


def test_github_refusing_every_comment_costs_the_run_nothing_but_the_comment(world: World) -> None:
    """The outcome stands, results and summary are whole, and the log says what could not be told."""
    number, event = pull_event(world)
    world.github.fault("POST|PATCH", r"/(comments|reactions)", status=403, times=None)
    with ModelServer([Turn(calls=[Call("read_file", {"path": "README.md"})]), Turn(text="Reviewed.")]) as model:
        result = world.run("pull_request", event, model)
    assert (result.exit_status, result.outputs["outcome"]) == (0, "done")
    assert world.repository.issue(number).comments == []
    assert "The report could not be posted" in result.log
    assert "Reviewed." in result.summary
