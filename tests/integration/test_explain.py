"""`explain` says what a run will do: same code, same manifest, same digest, and no network (D8)."""

from __future__ import annotations

import json
import shutil
import socket
from pathlib import Path
from typing import Any

import pytest

from agent.explain import main as explain
from tests.support.model_server import ModelServer
from tests.support.model_turns import Turn
from tests.support.scenario import RUN_ID, World


def text_of(capsys: pytest.CaptureFixture[str], arguments: list[str], command: str = "explain") -> tuple[int, str, str]:
    status = explain(arguments, command=command)
    said = capsys.readouterr()
    return status, said.out, said.err


def told(world: World, name: str, event: dict[str, Any], model: ModelServer, *more: str) -> list[str]:
    """Every fact of the run as options."""
    file = world.folder / "told.json"
    file.write_text(json.dumps(event))
    return [
        "--event", str(file), "--event-name", name, "--root", str(world.workspace),
        "--commit", world.repository.branch("main") or "", "--actor-permission", "maintainer=write",
        "--api-url", world.github.api_url, "--server-url", world.github.server_url,
        "--input", "model=anthropic/claude-sonnet-4-5", "--input", f"base-url={model.url}", *more,
    ]  # fmt: skip


def digest_in(text: str) -> str:
    (line,) = [line for line in text.splitlines() if line.startswith("digest ")]
    return line.split()[1]


@pytest.mark.parametrize("kind", ["workflow_run", "pull_request", "issue_comment"])
def test_the_digest_is_the_runs_own_in_transcript_summary_and_comment(
    world: World, kind: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Explained first, then run: one digest everywhere, over the same document."""
    repo = world.repository
    if kind == "workflow_run":
        event = world.github.event(kind, repo, run=RUN_ID)
    elif kind == "pull_request":
        repo.commit("feature/x", {"prices/x.py": "X = 1\n"}, base="main")
        event = world.github.event(kind, repo, number=repo.create_pull("feature/x").number)
        shutil.rmtree(world.workspace)
        repo.checkout(world.workspace, "feature/x")
    else:
        number = repo.create_issue("Discount", "It is wrong.").number
        repo.add_comment(number, "/airlock implement fix the discount", "maintainer")
        event = world.github.event(kind, repo, number=number)
    with ModelServer([Turn(text="Nothing to do.")]) as model:
        options = told(world, kind, event, model)
        with monkeypatch.context() as patch:
            patch.setattr(socket.socket, "connect", lambda *_: pytest.fail("explain connects"))
            status, text, _ = text_of(capsys, options)
            document = json.loads(text_of(capsys, [*options, "--json"])[1])
        result = world.run(kind, event, model)

    assert status == 0
    (frozen,) = result.events("manifest")
    assert document == frozen["document"]
    assert digest_in(text) == frozen["digest"]
    assert frozen["digest"] in result.summary
    if kind != "workflow_run":
        (number,) = repo.data.issues
        assert any(frozen["digest"] in comment.body for comment in repo.issue(number).comments)


def test_mode_ceiling_and_the_fact_that_set_it_are_told(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """An outsider's comment: restricted, by whom, which tools are left, and what was assumed."""
    repo = world.repository
    number = repo.create_issue("Discount", "It is wrong.").number
    repo.add_comment(number, "/airlock implement fix it", "outsider")
    event = world.github.event("issue_comment", repo, number=number, sender="outsider")
    with ModelServer([]) as model:
        status, text, _ = text_of(
            capsys, told(world, "issue_comment", event, model, "--actor-permission", "outsider=read")
        )

    assert status == 0
    assert "mode        restricted (asked for: implement)" in text
    assert "fact        actor: restricted. The actor, outsider, has no write access. <- sets the ceiling" in text
    assert "ceiling     restricted: The actor, outsider, has no write access." in text
    assert "tools       read_file, list_dir" in text
    assert "run_command" not in text.split("connection", 1)[0]
    for part in (
        "hook ",
        "limit ",
        "protected ",
        "connection  github",
        "connection  git",
        "connection  model",
        "never:",
    ):
        assert part in text or part == "hook ", part
    assert "assumed     the comment is unedited since the event" in text


def test_a_permission_that_is_not_given_is_not_guessed(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """Fails closed as a run does, and says which option to give."""
    event = world.github.event("workflow_run", world.repository, run=RUN_ID)
    with ModelServer([]) as model:
        options = [
            o for o in told(world, "workflow_run", event, model) if o not in ("--actor-permission", "maintainer=write")
        ]
        _, text, _ = text_of(capsys, options)

    assert "mode        restricted" in text
    assert "The permission of the actor, maintainer, is not known" in text
    assert "assumed     maintainer is nobody who may write (--actor-permission maintainer=write)\n" in text


def test_an_event_that_starts_nothing_is_told_as_such(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """Skips end with the run's own sentence."""
    number = world.repository.create_issue("A", "b").number
    world.repository.add_comment(number, "just a remark", "maintainer")
    event = world.github.event("issue_comment", world.repository, number=number)
    with ModelServer([]) as model:
        status, text, _ = text_of(capsys, told(world, "issue_comment", event, model))

    assert (status, text) == (0, "nothing is done: The comment has no line that begins with /airlock.\n")


def test_manifest_needs_no_event(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """A manual start in a named mode, over the configuration of the checkout at hand."""
    status, text, _ = text_of(
        capsys,
        [
            "--mode",
            "implement",
            "--actor",
            "maintainer",
            "--actor-permission",
            "maintainer=admin",
            "--root",
            str(world.workspace),
        ],
        "manifest",
    )

    assert status == 0
    assert "mode        implement\n" in text
    assert "hook        prepush: sh scripts/check.sh" in text
    assert "protected   .git, .github, .github/airlock.yml, scripts/check.sh" in text
    assert len(digest_in(text)) == 64


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--mode", ""], "`mode` is empty"),
        (["--mode", "nope"], "nope"),
        (["--input", "x"], "is not NAME=VALUE"),
        (["--input", "api-key=secret"], "--input api-key decides nothing. Those that do: allow-bots,"),
        (["--actor-permission", "me=owner"], "is not LOGIN=LEVEL"),
        (["--commit", "main"], "--commit 'main' is not a full commit hash."),
        (["--root", "/nonexistent"], "--root /nonexistent is no folder."),
        (["--repository", "name"], "--repository 'name' is not OWNER/NAME."),
        (["--pull", "/dev/null"], "--pull /dev/null is not JSON."),
    ],
)
def test_wrong_options_are_a_sentence_and_status_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    """Never a traceback."""
    status, out, err = text_of(capsys, ["--root", str(tmp_path), "--mode", "plan", *arguments], "manifest")

    assert (status, out) == (2, "")
    assert words in err
