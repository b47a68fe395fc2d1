"""S6: who may start what, on whole runs; every doubt is restricted (the table of cases is tests/unit/test_gate)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.action import Result
from tests.support.github_sim import GitHubSim
from tests.support.model_server import ModelServer
from tests.support.model_turns import Call, Turn
from tests.support.scenario import FIX, World, make_world

READS = {
    "read_file", "list_dir", "glob", "grep", "git_diff", "git_log", "get_request", "get_pull_request",
    "list_pull_request_files", "get_issue", "list_comments", "list_checks", "get_check_logs", "github_request",
}  # fmt: skip


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with GitHubSim(tmp_path / "github") as github:
        yield make_world(tmp_path, github)


def ask(world: World, user: str, *, actor: str | None = None, **payload: Any) -> tuple[Result, set[str]]:
    """`/airlock implement` by a user; returns the result and the tools that the model was shown."""
    repo = world.repository
    number = repo.create_issue("Discount", "Wrong.").number
    repo.add_comment(number, "/airlock implement fix it", user)
    event = world.github.event("issue_comment", repo, number=number, sender=user, over=payload)
    extra = {"GITHUB_TRIGGERING_ACTOR": actor} if actor else {}
    with ModelServer([Turn(calls=[Call("edit_file", FIX)]), Turn(text="Done.")]) as model:
        result = world.run("issue_comment", event, model, actor=user, extra=extra)
    offered = result.events("agent.rendered")
    return result, set(offered[0]["tools"]) if offered else set()


def unchanged(world: World) -> bool:
    return "// 10\n" in (world.workspace / "prices/cart.py").read_text()


@pytest.mark.parametrize(
    ("login", "setup", "payload"),
    [
        ("outsider", {"permission": "read"}, {}),
        ("contributor", {"permission": "read"}, {"comment": {"author_association": "CONTRIBUTOR"}}),
        ("member", {"permission": "none"}, {"comment": {"author_association": "OWNER"}}),
        ("some-app[bot]", {"permission": "write", "type": "Bot"}, {}),
        ("Copilot", {"status": 404}, {}),
        ("odd", {"raw": "<html>ok</html>"}, {}),
    ],
)
def test_anyone_but_a_writer_gets_reads_alone(
    world: World, login: str, setup: dict[str, Any], payload: dict[str, Any]
) -> None:
    """Association, a bot's permission, a name that is no user, a body that is none: restricted, nothing changed."""
    world.github.add_user(login, **setup)
    result, offered = ask(world, login, **payload)
    assert result.events("gate.decision")[0]["mode"] == "restricted"
    assert offered <= READS
    assert unchanged(world)
    assert [c.user for i in world.repository.data.issues.values() for c in i.comments] == [login]


def test_a_rerun_by_a_maintainer_does_not_lift_an_outsiders_event(world: World) -> None:
    """The lower of actor and triggering actor counts."""
    result, offered = ask(world, "outsider", actor="maintainer")
    assert result.events("gate.decision")[0]["mode"] == "restricted"
    assert offered <= READS


def test_a_comment_edited_after_the_trigger_has_lost_its_right(world: World) -> None:
    """The text that started the run must still be the text."""
    repo = world.repository
    number = repo.create_issue("Discount", "Wrong.").number
    comment = repo.add_comment(number, "/airlock implement fix it", "maintainer")
    event = world.github.event("issue_comment", repo, number=number)
    comment.body = "/airlock implement delete everything"
    comment.updated_at = "2027-01-01T00:00:00Z"
    with ModelServer([Turn(text="Done.")]) as model:
        result = world.run("issue_comment", event, model)
    assert result.events("gate.decision")[0]["mode"] == "restricted"


def test_a_maintainer_is_let_in(world: World) -> None:
    """Positive control: with write access the same comment changes the file in the workspace."""
    result, offered = ask(world, "maintainer")
    assert result.events("gate.decision")[0]["mode"] == "implement"
    assert {"edit_file", "run_command", "git_push"} <= offered
    assert not unchanged(world)


def test_outsiders_can_be_ignored_altogether(world: World) -> None:
    """`outsiders: ignore`: green, nothing done, the model is not asked."""
    world.inputs["outsiders"] = "ignore"
    result, offered = ask(world, "outsider")
    assert (result.exit_status, result.outputs["outcome"], offered) == (0, "skipped", set())
