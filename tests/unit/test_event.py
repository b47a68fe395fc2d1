"""Reading what started the run: real payloads, old ones, hostile ones."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.broker.event import EVENTS, Account, Head, Skip, Trigger, Upstream, read_event, upstream_pull, with_pull
from agent.contract.errors import UserError

EVENTS_DIR = Path(__file__).parents[2] / "fixtures" / "events"
IDENTITY = {
    "GITHUB_REPOSITORY": "acme/widgets",
    "GITHUB_REPOSITORY_ID": "1001",
    "GITHUB_ACTOR": "maintainer",
    "GITHUB_TRIGGERING_ACTOR": "maintainer",
    "GITHUB_RUN_ATTEMPT": "1",
}
REPOSITORY = {"full_name": "acme/widgets", "id": 1001, "default_branch": "main"}
SHA, BASE_SHA = "a" * 40, "b" * 40


def pull(**changes: Any) -> dict[str, Any]:
    return {
        "id": 70,
        "number": 7,
        "body": "Please review.",
        "updated_at": "2026-01-01T00:00:00Z",
        "user": {"login": "author", "id": 5, "type": "User"},
        "head": {"ref": "fix#42", "sha": SHA, "repo": {"full_name": "acme/widgets", "id": 1001}},
        "base": {"ref": "main", "sha": BASE_SHA},
        "labels": [{"name": "bug"}],
        **changes,
    }


def read(name: str, payload: object, **identity: str) -> Trigger | Skip:
    return read_event(name, json.dumps(payload).encode(), {**IDENTITY, **identity})


def pull_event(**changes: Any) -> dict[str, Any]:
    sender = {"login": "maintainer", "id": 2, "type": "User"}
    return {"action": "opened", "repository": REPOSITORY, "sender": sender, "pull_request": pull(**changes)}


def examples() -> list[tuple[str, int, dict[str, Any]]]:
    found = []
    for file in sorted(EVENTS_DIR.glob("*.json")):
        found += [(file.stem, index, payload) for index, payload in enumerate(json.loads(file.read_text()))]
    return found


@pytest.mark.parametrize(("name", "index", "payload"), [pytest.param(*e, id=f"{e[0]}-{e[1]}") for e in examples()])
def test_every_published_example_is_read_or_skipped_with_a_sentence(
    name: str, index: int, payload: dict[str, Any]
) -> None:
    """Each of GitHub's own payloads gives a trigger with its number, or a sentence."""
    identity = {"GITHUB_REPOSITORY": payload["repository"]["full_name"], "GITHUB_REPOSITORY_ID": ""}
    found = read(name, payload, **identity)

    if name not in EVENTS:
        assert isinstance(found, Skip)
        assert found.sentence.startswith(f"Airlock does nothing on the event {name}.")
        return
    assert isinstance(found, Trigger)
    thing = payload.get("pull_request") or payload.get("issue") or {}
    assert found.number == thing.get("number")
    assert found.repository_id == payload["repository"]["id"]
    assert found.sender.login == payload["sender"]["login"]
    if "pull_request" in payload:
        assert found.head.sha == payload["pull_request"]["head"]["sha"]
        assert found.base_ref == payload["pull_request"]["base"]["ref"]


def test_the_examples_are_the_whole_published_set() -> None:
    """The count of the fixture files is the package's, so that none is lost unseen."""
    assert len(examples()) == 108


def test_a_pull_request_is_read_whole() -> None:
    """Every field of a trigger comes from where it should."""
    assert read("pull_request_target", pull_event()) == Trigger(
        event="pull_request_target",
        action="opened",
        repository="acme/widgets",
        repository_id=1001,
        default_branch="main",
        actor="maintainer",
        triggering_actor="maintainer",
        sender=Account("maintainer", "User", 2),
        attempt=1,
        number=7,
        is_pull_request=True,
        text_kind="pull_request",
        text="Please review.",
        text_id=70,
        text_updated_at="2026-01-01T00:00:00Z",
        text_author=Account("author", "User", 5),
        head=Head("acme/widgets", 1001, "fix#42", SHA, is_fork=False, known=True),
        base_ref="main",
        base_sha=BASE_SHA,
        labels=("bug",),
    )


def test_null_body_and_deleted_fork_are_ordinary() -> None:
    """A pull request without description whose fork is gone is read, as a fork (F15)."""
    gone = {"ref": "fix", "sha": SHA, "repo": None, "user": None}
    found = read("pull_request", pull_event(body=None, head=gone, milestone=None, labels=[]))

    assert isinstance(found, Trigger)
    assert found.head == Head(None, None, "fix", SHA, is_fork=True, known=True)
    assert (found.text, found.labels) == ("", ())


def test_a_ghost_author_is_an_account_without_login() -> None:
    """`user: null` is nobody, not an error."""
    found = read("pull_request", pull_event(user=None))

    assert isinstance(found, Trigger)
    assert found.text_author == Account(None, None, None)


def test_a_fork_is_known_by_repository_and_by_id() -> None:
    """A fork whose branch is called main, and one that carries our name under another id, are forks."""
    by_name = read("pull_request", pull_event(head={"ref": "main", "sha": SHA, "repo": {"full_name": "x/widgets"}}))
    by_id = read(
        "pull_request", pull_event(head={"ref": "f", "sha": SHA, "repo": {"full_name": "acme/widgets", "id": 9}})
    )
    own = read("pull_request", pull_event(head={"ref": "f", "sha": SHA, "repo": {"full_name": "Acme/Widgets"}}))

    assert [t.head.is_fork for t in (by_name, by_id, own) if isinstance(t, Trigger)] == [True, True, False]


def test_a_comment_on_a_pull_request_says_nothing_of_the_code() -> None:
    """issue_comment carries no head; `with_pull` completes it and refuses another pull request's answer."""
    comment = {"id": 71, "body": "/airlock review", "updated_at": "2026-01-02T00:00:00Z", "user": {"login": "m"}}
    found = read(
        "issue_comment",
        {
            "action": "created",
            "repository": REPOSITORY,
            "sender": {"login": "m", "type": "User"},
            "comment": comment,
            "issue": {"number": 7, "pull_request": {"url": "x"}, "labels": [{"name": "ci"}, {"name": None}, 3]},
        },
    )

    assert isinstance(found, Trigger)
    assert (found.number, found.is_pull_request, found.head.known, found.labels) == (7, True, False, ("ci",))
    assert (found.text_kind, found.text_id, found.text) == ("comment", 71, "/airlock review")
    assert with_pull(found, pull()).head == Head("acme/widgets", 1001, "fix#42", SHA, is_fork=False, known=True)
    with pytest.raises(UserError, match="another pull request"):
        with_pull(found, pull(number=8))
    with pytest.raises(UserError, match="no head commit"):
        with_pull(found, pull(head={"sha": "HEAD"}))


def test_a_label_starts_a_run_by_the_labeller_not_by_the_author() -> None:
    """On `labeled` nobody's text started anything, so the author is not the text's author."""
    event = {**pull_event(), "action": "labeled", "label": {"name": "airlock"}}
    found = read("pull_request", event)

    assert isinstance(found, Trigger)
    assert (found.label, found.text_author, found.text_kind, found.text) == ("airlock", None, "", "")


def workflow_run(**changes: Any) -> dict[str, Any]:
    run = {
        "id": 500,
        "event": "push",
        "conclusion": "failure",
        "head_branch": "topic",
        "head_sha": SHA,
        "head_repository": {"full_name": "acme/widgets", "id": 1001},
        "actor": {"login": "pusher", "type": "User", "id": 3},
        "triggering_actor": {"login": "rerunner", "type": "User", "id": 4},
        "pull_requests": [{"number": 7}, {"number": None}, "x"],
        **changes,
    }
    return {"action": "completed", "repository": REPOSITORY, "sender": {"login": "pusher"}, "workflow_run": run}


def test_a_failed_run_is_read_with_both_its_actors() -> None:
    """The upstream run's actors, head and pull requests are there for the gate."""
    found = read("workflow_run", workflow_run())

    assert isinstance(found, Trigger)
    assert found.upstream == Upstream(
        500, "push", "failure", Account("pusher", "User", 3), Account("rerunner", "User", 4), (7,)
    )
    assert found.head == Head("acme/widgets", 1001, "topic", SHA, is_fork=False, known=True)


def test_a_failed_run_of_a_deleted_fork_is_a_forks() -> None:
    """A null head repository is never taken for our own."""
    found = read("workflow_run", workflow_run(head_repository=None, conclusion=None))

    assert isinstance(found, Trigger)
    assert found.head.is_fork


def test_the_pull_request_of_a_forks_failed_run_is_found_by_head_commit_and_repository() -> None:
    """One match is taken; none or several is no guess (F19)."""
    outside = {"full_name": "outsider/shop", "id": 9}
    found = read("workflow_run", workflow_run(event="pull_request", head_repository=outside, pull_requests=[]))
    assert isinstance(found, Trigger)
    right = pull(number=3, head={"sha": SHA, "ref": "topic", "repo": outside})
    other_commit = pull(number=4, head={"sha": "c" * 40, "ref": "topic", "repo": outside})
    other_repo = pull(number=5, head={"sha": SHA, "ref": "topic", "repo": REPOSITORY})
    gone = pull(number=6, head={"sha": SHA, "ref": "topic", "repo": None})

    assert upstream_pull(found, [other_commit, "x", right, other_repo, gone]) == right
    assert upstream_pull(found, [other_commit, gone]) == Skip(
        "No open pull request has the failed run's head commit, so there is none to answer on."
    )
    assert isinstance(upstream_pull(found, [right, right]), Skip)


def test_schedule_has_no_repository_in_its_payload() -> None:
    """What the runner says is enough for a schedule."""
    found = read("schedule", {"schedule": "0 3 * * *"})

    assert isinstance(found, Trigger)
    assert (found.repository, found.repository_id, found.number) == ("acme/widgets", 1001, None)


@pytest.mark.parametrize(
    ("payload", "identity", "match"),
    [
        (pull_event(), {"GITHUB_REPOSITORY": "acme/other"}, "not about acme/other"),
        ({**pull_event(), "repository": None}, {}, "not about acme/widgets"),
        ({**pull_event(), "repository": {"full_name": "../x"}}, {}, "not about acme/widgets"),
        (pull_event(), {"GITHUB_REPOSITORY_ID": "1002"}, "different repositories"),
        (pull_event(), {"GITHUB_REPOSITORY": ""}, "GITHUB_REPOSITORY is not set"),
        ({"repository": REPOSITORY}, {}, "no object 'pull_request'"),
        (pull_event(number=0), {}, "another pull request than None"),
        (pull_event(number=True), {}, "another pull request than None"),
        (pull_event(head={"sha": "main"}), {}, "names no head commit"),
    ],
)
def test_a_payload_that_does_not_fit_is_refused_with_a_sentence(
    payload: object, identity: dict[str, str], match: str
) -> None:
    """Runner and payload disagreeing, or a part missing, is an error for a person, never a guess."""
    with pytest.raises(UserError, match=match):
        read("pull_request", payload, **identity)


@pytest.mark.parametrize("data", [b"", b"{", b"[1]", b"null", b"\xff\xfe", b"[" * 100_000, b"1" * 5000])
def test_bytes_that_are_no_object_are_refused(data: bytes) -> None:
    """Truncated, deep, foreign or huge: one error, no traceback."""
    with pytest.raises(UserError, match="event file"):
        read_event("pull_request", data, IDENTITY)


def test_an_unknown_event_is_skipped_before_its_payload_is_looked_at() -> None:
    """The payload of an event we do not know may be anything."""
    assert isinstance(read_event("deployment_status", b"\xff", {}), Skip)
    odd = read_event("x\n::error::y", b"", {})
    assert isinstance(odd, Skip)
    assert "::error" not in odd.sentence


def test_a_login_that_github_cannot_have_issued_is_nobody() -> None:
    """A login becomes part of a request's path, so a path trick in it must not survive."""
    found = read("pull_request", pull_event(user={"login": "../../orgs/acme", "type": "User"}), GITHUB_ACTOR="a/b")

    assert isinstance(found, Trigger)
    assert (found.text_author, found.actor) == (Account(None, "User", None), None)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just("acme/widgets") | st.just(SHA),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)


@st.composite
def mutated(draw: st.DrawFn) -> tuple[str, Any]:
    """A real payload with a few of its values, at any depth, replaced by any JSON."""
    name = draw(st.sampled_from(sorted(EVENTS)))
    base: Any = {
        "issues": {"action": "opened", "repository": REPOSITORY, "issue": {"number": 9, "body": "x", "user": {}}},
        "workflow_run": workflow_run(),
        "issue_comment": {
            "action": "created",
            "repository": REPOSITORY,
            "issue": {"number": 7, "pull_request": {}},
            "comment": {"id": 1, "body": "/airlock review", "user": {"login": "m"}},
        },
    }.get(name, {**pull_event(), "comment": {"id": 1, "body": "x", "user": None}})
    payload = copy.deepcopy(base)
    for _ in range(draw(st.integers(1, 4))):
        at: Any = payload
        while True:
            key = draw(st.sampled_from(sorted(at))) if at else "x"
            if isinstance(at.get(key), dict) and at[key] and draw(st.booleans()):
                at = at[key]
                continue
            at[key] = draw(JSON)
            break
    return name, payload


@given(mutated())
@settings(max_examples=300, deadline=None)
def test_any_mutation_of_a_payload_gives_a_trigger_a_skip_or_a_user_error(case: tuple[str, Any]) -> None:
    """No value of any shape at any place raises anything else, and what is read is of the promised types."""
    name, payload = case
    try:
        found = read(name, payload)
    except UserError:
        return
    if isinstance(found, Trigger):
        assert found.repository == "acme/widgets"
        assert isinstance(found.text, str)
        found.text.encode("utf-8")
        assert found.number is None or found.number > 0
        assert all(isinstance(label, str) for label in found.labels)


@given(st.sampled_from(sorted(EVENTS)), st.binary(max_size=200))
@settings(max_examples=200, deadline=None)
def test_any_bytes_give_a_trigger_a_skip_or_a_user_error(name: str, data: bytes) -> None:
    """Bytes that are no payload at all are an error with a sentence."""
    try:
        found = read_event(name, data, IDENTITY)
    except UserError:
        return
    assert isinstance(found, Trigger | Skip)
