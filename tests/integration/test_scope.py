"""The scope of a run, seen from outside (D9): what a hostile report asks for is refused, and the work goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import scope
from tests.support.github_sim import GitHubSim
from tests.support.github_sim.repository import Repository
from tests.support.scenario import TOKEN, World


@pytest.fixture
def places(tmp_path: Path, github: GitHubSim) -> tuple[World, Repository]:
    """The world of the command, and the second repository."""
    return scope.prepare(tmp_path, github)


def writes(github: GitHubSim) -> list[str]:
    """Paths of all requests that would change something."""
    return [str(r.path) for r in github.requests if r.method in ("POST", "PATCH", "PUT", "DELETE")]


def test_a_report_that_asks_for_more_is_refused_and_the_fix_still_opens(
    places: tuple[World, Repository], github: GitHubSim
) -> None:
    """Both demands get their code and never leave; the pull request of the fix opens all the same."""
    world, other = places
    seen = scope.play(world, other, scope.turns(world.repository.full_name))

    assert seen.denials == (
        (f"/repos/{scope.OTHER}/issues", "egress_path_blocked"),
        (f"/repos/{world.repository.full_name}/labels/{scope.LABEL}", "egress_path_blocked"),
    )
    said = [e["text"] for e in seen.result.events("tool.result") if "egress_path_blocked" in e["text"]]
    assert len(said) == 2, "the model is told both codes"
    assert scope.DEMAND in seen.result.events("tool.result")[0]["text"], "the demand did reach the model"
    assert [path for path in writes(github) if scope.OTHER in path or "/labels" in path] == []
    assert (len(other.data.issues), scope.LABEL in seen.labels) == (0, True)
    assert (seen.pulls, seen.result.exit_status) == (("Divide a percentage by 100",), 0)


def test_the_same_token_could_have_done_it(places: tuple[World, Repository]) -> None:
    """Control: the refusals are ours, as GitHub itself lets this token file the issue."""
    from tests.support.checkouts import SimApi

    world, other = places
    SimApi(world.github.api_url, scope.OTHER, TOKEN).post("issues", {"title": "CI fails"}, step="control")

    assert [issue.title for issue in other.data.issues.values()] == ["CI fails"]


def test_without_the_push_token_the_first_write_stops_with_its_step_and_the_rest_goes_on(
    places: tuple[World, Repository], github: GitHubSim
) -> None:
    """The input is given and empty: 409 at the first blob, no write of git at all, and the issue is filed."""
    world, other = places
    seen = scope.play(world, other, scope.without_token_turns(), inputs={"push-token": ""})

    root = f"/repos/{world.repository.full_name}"
    assert seen.denials == ((f"{root}/git/blobs", "secret_unavailable"),)
    (said,) = [e["text"] for e in seen.result.events("tool.result") if "secret_unavailable" in e["text"]]
    wanted = "create blob prices/cart.py: 409 secret_unavailable. The secret 'push-token' is not set"
    assert wanted in said
    assert {path for path in writes(github) if "/git/" in path or path.endswith("/pulls")} == set()
    assert (world.repository.branch(scope.BRANCH), seen.pulls) == (None, ())
    assert "The discount is wrong" in [issue.title for issue in world.repository.data.issues.values()]


def test_the_command_says_that_the_scope_held(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What a user runs: exit status 0, both refusals and the open pull request in its output."""
    status = scope.main([str(tmp_path / "scope")])
    text = capsys.readouterr().out

    assert status == 0
    assert text.count("   held\n") == 2
    assert "refused  egress_path_blocked  /repos/example/payments/issues" in text
    assert "refused  secret_unavailable" in text
    assert "pull requests: Divide a percentage by 100" in text
