"""What reaches GitHub's branches and pull requests, end to end (S4, DESIGN sections 4.10 and 6)."""

from __future__ import annotations

import shutil
from typing import Any

from tests.support.leaks import hits, in_files
from tests.support.model_server import ModelServer
from tests.support.model_turns import Call, Turn
from tests.support.scenario import FIX, World, fixing_turns

OWN = "feature/discount"


def comment_event(
    world: World, text: str, *, author: str = "maintainer", pull_author: str = "maintainer"
) -> dict[str, Any]:
    """A pull request of this repository that is wrong, checked out, and a comment on it."""
    repo = world.repository
    repo.commit(OWN, {"prices/tax.py": "RATE = 19\n"}, base="main")
    number = repo.create_pull(OWN, title="Tax", body="on this branch: fix it", user=pull_author).number
    shutil.rmtree(world.workspace)
    world.head = repo.checkout(world.workspace, OWN)
    repo.add_comment(number, text, author)
    return world.github.event("issue_comment", repo, number=number, sender=author)


def push_turns(branch: str) -> list[Turn]:
    return [
        Turn(calls=[Call("get_request", {})]),
        Turn(calls=[Call("edit_file", FIX)]),
        Turn(calls=[Call("git_commit", {"message": "Fix the discount"})]),
        Turn(calls=[Call("git_push", {"branch": branch})]),
        Turn(text="Done."),
    ]


def result_of(result: Any, name: str) -> str:
    """Text of a tool's first result."""
    call = next(e for e in result.events("tool.call") if e["name"] == name)
    return next(str(e["text"]) for e in result.events("tool.result") if e["id"] == call["id"])


def test_a_maintainer_who_asks_for_it_gets_the_commit_on_the_pull_requests_own_branch(world: World) -> None:
    """The branch is fast-forwarded, no other ref moves, and there is no second pull request."""
    event = comment_event(world, "/airlock implement on this branch: fix the discount")
    before = world.repository.refs()
    with ModelServer(push_turns(OWN)) as model:
        result = world.run("issue_comment", event, model)

    assert result.exit_status == 0, result.log
    tip = world.repository.branch(OWN)
    assert tip is not None
    assert world.repository.git.run("rev-parse", f"{tip}^").decode().strip() == before[f"refs/heads/{OWN}"]
    after = world.repository.refs()
    moved = {name for name in {*before, *after} if before.get(name) != after.get(name)}
    assert moved <= {f"refs/heads/{OWN}", "refs/pull/1/head", "refs/pull/1/merge"}
    assert len(world.repository.pulls()) == 1
    assert "git_push may name that branch" in result_of(result, "get_request")
    assert result.events("manifest")[0]["document"]["ownHead"] == OWN


def test_without_being_asked_the_pull_requests_own_branch_is_refused(world: World) -> None:
    """The same push after a request that does not ask, although the pull request's own text does."""
    event = comment_event(world, "/airlock implement fix the discount\n\n> on this branch")
    before = world.repository.refs()
    with ModelServer(push_turns(OWN)) as model:
        result = world.run("issue_comment", event, model)

    assert "push_branch_refused" in result_of(result, "git_push")
    assert world.repository.refs() == before
    assert result.events("manifest")[0]["document"]["ownHead"] is None


def test_an_outsider_who_asks_for_it_gets_nothing(world: World) -> None:
    """The same words from somebody without write access."""
    event = comment_event(world, "/airlock implement on this branch: fix it", author="outsider")
    before = world.repository.refs()
    with ModelServer(push_turns(OWN)) as model:
        result = world.run("issue_comment", event, model, actor="outsider")

    assert result.events("gate.decision")[0]["mode"] == "restricted"
    assert world.repository.refs() == before


def test_a_protected_branch_is_refused_even_when_asked_for(world: World) -> None:
    """GitHub is asked at the push."""
    event = comment_event(world, "/airlock implement on this branch: fix the discount")
    world.repository.protect(OWN)
    before = world.repository.refs()
    with ModelServer(push_turns(OWN)) as model:
        result = world.run("issue_comment", event, model)

    assert "protected" in result_of(result, "git_push")
    assert world.repository.refs() == before


def test_a_protected_path_is_refused_at_the_commit_already(world: World) -> None:
    """The model is told at once, nothing is committed, and the rest can be committed by name.

    A folder that is there is read-only for commands; this spelling of it is not there.
    """
    event = world.github.event("workflow_dispatch", world.repository)
    turns = [
        Turn(calls=[Call("run_command", {"command": "mkdir -p .GitHub/x; touch .GitHub/x/y"})]),
        Turn(calls=[Call("edit_file", FIX)]),
        Turn(calls=[Call("git_commit", {"message": "All"})]),
        Turn(calls=[Call("git_commit", {"message": "Part", "paths": ["prices/cart.py"]})]),
        Turn(text="Done."),
    ]
    with ModelServer(turns) as model:
        result = world.run("workflow_dispatch", event, model, inputs={"mode": "implement", "task": "Fix the discount."})

    said = [e for e in result.events("tool.result") if "push_protected_path" in str(e["text"])]
    assert len(said) == 1, result.log
    assert ".GitHub/x/y is a protected path" in said[0]["text"]
    assert "Nothing was committed" in said[0]["text"]
    (made,) = result.events("git.commit")
    assert [f["path"] for f in made["files"]] == ["prices/cart.py"]


def test_a_pull_request_names_the_changed_files_that_the_checks_read(world: World) -> None:
    """An edited test is named below the model's words; an ordinary fix has no such paragraph."""
    branch = "airlock/fix-tests"
    edit = {"path": "tests/test_cart.py", "old": "percent=10), 900)", "new": "percent=20), 800)"}
    turns = fixing_turns(branch)
    turns[3] = Turn(calls=[Call("edit_file", FIX), Call("edit_file", edit)])
    event = world.github.event("workflow_run", world.repository, run=4711)
    with ModelServer(turns) as model:
        world.run("workflow_run", event, model)

    (pull,) = world.repository.pulls()
    assert pull.body is not None
    words, _, named = pull.body.partition("touches files that the checks themselves read")
    assert "`total` took a tenth" in words
    assert named.count("- `") == 1
    assert "- `tests/test_cart.py`" in named


def test_credentials_that_earlier_steps_left_in_the_home_folder_are_known_and_redacted(world: World) -> None:
    """HOME of the job is searched, its value is in no process of ours, and no surface shows it."""
    secret = "ghp_" + "LeftInHome0" * 3
    home = world.folder / "home"
    home.mkdir()
    (home / ".netrc").write_text(f"machine github.com login x password {secret}\n")
    event = world.github.event("workflow_dispatch", world.repository)
    plain = secret[::-1]
    turns = [
        Turn(calls=[Call("run_command", {"command": f"printf %s {plain} | rev; echo home=$HOME"})]),
        Turn(text="Done."),
    ]
    with ModelServer(turns) as model:
        result = world.run(
            "workflow_dispatch",
            event,
            model,
            inputs={"mode": "implement", "task": "Look around."},
            extra={"HOME": str(home)},
        )

    said = result_of(result, "run_command")
    assert secret not in said
    assert f"home={home}" not in said
    shown = result.log.replace(f"::add-mask::{secret}\n", "", 1)  # the runner hides it too, and shows no such line
    surfaces = [shown.encode(), *(request.raw for request in model.requests[1:])]
    assert [hits(data, {"netrc": secret}) for data in surfaces if secret.encode() in data] == []
    assert in_files(result.results, {"netrc": secret}) == []
