"""The broker's own GitHub requests: pages, errors that say what to do, and permissions that give up."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from agent.broker.egress import Egress, make_transport
from agent.broker.event import Account, Trigger
from agent.broker.gate import Answer, TextNow
from agent.broker.github import GitHubApi
from agent.broker.identity import ask_permissions, read_text
from agent.broker.policy.builtin import RunParameters, github_connection
from agent.broker.policy.decide import Policy
from agent.broker.policy.words import Authority
from agent.broker.redact.redactor import Redactor
from agent.broker.secrets import SecretStore
from agent.contract.errors import Refusal, UpstreamError
from agent.contract.modes import Tier
from tests.support.stub_http import Seen, Stub, reply, serving

TOKEN = "ghs_CANARY0123456789abcdefghijklmno"
API = "/api/v3/repos/acme/widgets"


@pytest.fixture
def hub() -> Iterator[Stub]:
    with serving() as stub:
        yield stub


def api(hub: Stub, authority: Authority | None = None) -> GitHubApi:
    run = RunParameters("acme/widgets", 1001, api_url=f"{hub.url}/api/v3")
    egress = Egress(
        Policy([github_connection(run)]),
        SecretStore({"github-token": TOKEN, "push-token": TOKEN}),
        make_transport(),
        record=lambda type_, **data: None,
        redactor=Redactor({}),
        remaining_s=lambda: 4.0,
        write_pause_s=0.0,
    )
    return GitHubApi(egress, "acme/widgets", authority or Authority.broker())


def test_reads_and_writes_go_to_the_runs_repository(hub: Stub) -> None:
    """Relative paths, the repository itself, the API's root; JSON both ways."""
    hub.answer = lambda seen: [reply(b'{"a":1}', 201 if seen.method == "POST" else 200)]
    publisher = api(hub, Authority.publisher(frozenset(Tier)))

    assert publisher.get("", step="read repository") == {"a": 1}
    assert publisher.get("contents/a%20b", step="read file", query={"ref": "main"}) == {"a": 1}
    assert publisher.get("/users/octocat", step="read user") == {"a": 1}
    assert publisher.post("git/blobs", {"content": "é"}, step="create blob") == {"a": 1}
    assert publisher.patch("pulls/7", {"title": "x"}, step="update pull request") == {"a": 1}
    with pytest.raises(Refusal, match="not ours"):
        publisher.patch("git/refs/heads/main", {"sha": "a" * 40}, step="not ours")
    assert [(seen.method, seen.target, seen.body) for seen in hub.seen] == [
        ("GET", API, b""),
        ("GET", f"{API}/contents/a%20b?ref=main", b""),
        ("GET", "/api/v3/users/octocat", b""),
        ("POST", f"{API}/git/blobs", b'{"content":"\\u00e9"}'),
        ("PATCH", f"{API}/pulls/7", b'{"title":"x"}'),
    ]


def test_pages_are_computed_until_there_is_no_next(hub: Stub) -> None:
    """F14: 30 a page whatever is asked, a `Link` whose address is never followed, the job on page 3."""

    def answer(seen: Seen) -> list[Any]:
        page = int(seen.target.rpartition("page=")[2])
        jobs = [{"id": page * 100 + i} for i in range(30 if page < 3 else 1)]
        link = {"link": '<https://evil.invalid/steal?page=2>; rel="next"'} if page < 3 else {}
        return [reply(json.dumps({"total_count": 61, "jobs": jobs}).encode(), **link)]

    hub.answer = answer
    jobs = list(api(hub).paged("actions/runs/7/jobs", step="list jobs", key="jobs"))

    assert (len(jobs), jobs[-1]) == (61, {"id": 300})
    assert [seen.target for seen in hub.seen] == [
        f"{API}/actions/runs/7/jobs?per_page=100&page={page}" for page in (1, 2, 3)
    ]


def test_pages_have_an_end_of_our_own(hub: Stub) -> None:
    """A server that always has a next page is asked only so often; an empty page is the end."""
    hub.answer = lambda seen: [reply(b"[1]", link='<x>; rel="next"')]
    assert list(api(hub).paged("pulls", step="list pulls", pages=4)) == [1, 1, 1, 1]

    hub.answer = lambda seen: [reply(b"[]", link='<x>; rel="next"')]
    assert list(api(hub).paged("pulls", step="list pulls")) == []
    assert len(hub.seen) == 5


@pytest.mark.parametrize("body", [b"{}", b'{"jobs":{}}', b"[]", b"3"])
def test_an_answer_without_its_list_is_an_error(hub: Stub, body: bytes) -> None:
    """Not an empty list: nobody may conclude that there is nothing."""
    hub.answer = lambda seen: [reply(body)]

    with pytest.raises(UpstreamError, match="without the list"):
        list(api(hub).paged("actions/runs/7/jobs", step="list jobs", key="jobs"))


@pytest.mark.parametrize(
    ("status", "body", "headers", "expected"),
    [
        (401, b'{"message":"Bad credentials"}', {}, "GitHub refused the token (401). It is wrong or has expired."),
        (
            403,
            b'{"message":"Resource not accessible by integration"}',
            {"x_accepted_github_permissions": "issues=write"},
            "GitHub says the token may not do this (403): Resource not accessible by integration. "
            "The workflow's `permissions:` lacks issues=write.",
        ),
        (403, b"<html>", {}, "GitHub says the token may not do this (403): no explanation."),
        (
            403,
            b"{}",
            {"retry_after": "3600"},
            "GitHub's rate limit was reached (403), and the run's time does not allow to wait for it.",
        ),
        (404, b'{"message":"Not Found"}', {}, "GitHub says 404: it is not there, or the token may not see it."),
        (
            422,
            b'{"message":"Validation Failed","errors":["Line could not be resolved",{"code":"custom","message":"m"},'
            b'{"code":"missing"},3]}',
            {},
            "GitHub answered 422: Validation Failed; Line could not be resolved; m; missing.",
        ),
        (409, b"[1]", {}, "GitHub answered 409: no explanation."),
        (422, b'{"message":"%s","errors":{}}' % (b"x" * 900), {}, f"GitHub answered 422: {'x' * 300}."),
    ],
)
def test_a_failure_names_the_step_and_what_mends_it(
    hub: Stub, status: int, body: bytes, headers: dict[str, str], expected: str
) -> None:
    """F18: one sentence for each kind, errors of both shapes, nothing endless."""
    hub.answer = lambda seen: [reply(body, status, **headers)]

    with pytest.raises(UpstreamError) as error:
        api(hub).get("pulls/7", step="read pull request")
    assert (str(error.value), error.value.step, error.value.status) == (
        f"read pull request: {expected}",
        "read pull request",
        status,
    )


def test_our_own_refusal_is_a_refusal_with_its_code(hub: Stub) -> None:
    """The broker's own requests pass the same policy."""
    with pytest.raises(Refusal, match="merge it: 403 egress_path_blocked") as error:
        api(hub, Authority.publisher(frozenset(Tier))).post("merges", {}, step="merge it")
    assert (error.value.code, hub.seen) == ("egress_path_blocked", [])


def test_what_is_no_json_is_an_error(hub: Stub) -> None:
    """A 200 that is HTML is not an answer."""
    hub.answer = lambda seen: [reply(b"<html>")]

    with pytest.raises(UpstreamError, match="not JSON"):
        api(hub).get("pulls/7", step="read pull request")


# -- identity


def permission(word: object, login: str | None = None) -> bytes:
    user = {"user": {"login": login}} if login else {}
    return reply(json.dumps({"permission": word, **user}).encode())


PERMISSIONS: dict[str, tuple[bytes, Answer]] = {
    "admin": (permission("admin"), Answer("admin")),
    "write": (permission("write", "write"), Answer("write")),
    "read": (permission("read"), Answer("read")),
    "none": (permission("none"), Answer("none")),
    "maintain": (permission("maintain"), Answer(None, "GitHub's answer names no permission")),
    "Admin": (permission("Admin"), Answer(None, "GitHub's answer names no permission")),
    "true": (permission(True), Answer(None, "GitHub's answer names no permission")),
    "listed": (permission(["admin"]), Answer(None, "GitHub's answer names no permission")),
    "absent": (reply(b"{}"), Answer(None, "GitHub's answer names no permission")),
    "list": (reply(b'["admin"]'), Answer(None, "GitHub's answer names no permission")),
    "html": (reply(b"<html>ok</html>"), Answer(None, "GitHub answered 200")),
    "somebody": (permission("admin", "else"), Answer(None, "GitHub answered about somebody else")),
    "unnamed": (
        reply(b'{"permission":"admin","user":{"login":3}}'),
        Answer(None, "GitHub answered about somebody else"),
    ),
    "copilot": (reply(b'{"message":"Copilot is not a user"}', 404), Answer(None, "GitHub answered 404")),
    "forbidden": (reply(b'{"permission":"admin"}', 403), Answer(None, "GitHub answered 403")),
    "broken": (reply(b'{"permission":"admin"}', 500), Answer(None, "GitHub answered 500")),
    "created": (reply(b'{"permission":"admin"}', 202), Answer(None, "GitHub answered 202")),
    "moved": (reply(b"", 302, location="https://evil.invalid/"), Answer(None, "GitHub gave no answer")),
}


def test_only_the_four_words_of_a_200_are_a_permission(hub: Stub) -> None:
    """S6: each way in which the look-up fails is an answer without permission; all asked side by side."""
    hub.answer = lambda seen: [PERMISSIONS[seen.target.split("/")[-2]][0]]
    found = ask_permissions(api(hub), [*PERMISSIONS, "admin"])

    assert found == {login: answer for login, (_, answer) in PERMISSIONS.items()}


def test_a_permission_that_does_not_come_is_none(hub: Stub) -> None:
    """A server that hangs costs the patience and no more, and the other answers count."""
    stop = threading.Event()

    def answer(seen: Seen) -> list[Any]:
        if "slow" in seen.target:
            stop.wait(30)
        return [permission("admin")]

    hub.answer = answer
    found = ask_permissions(api(hub), ["slow", "quick"], patience_s=0.5)
    stop.set()

    assert found["quick"] == Answer("admin")
    assert found["slow"].permission is None


@pytest.mark.parametrize("login", ["..", ".", "a/b", "a%2Fb", "x?y"])
def test_a_login_that_is_a_path_trick_is_not_asked_about(hub: Stub, login: str) -> None:
    """The policy refuses the path, and the answer is no permission."""
    assert ask_permissions(api(hub), [login]) == {login: Answer(None, "GitHub gave no answer")}
    assert hub.seen == []


def trigger(kind: str, **fields: Any) -> Trigger:
    base = {
        "event": "issue_comment",
        "action": "created",
        "repository": "acme/widgets",
        "repository_id": 1001,
        "default_branch": "main",
        "actor": "m",
        "triggering_actor": "m",
        "sender": Account("m", "User"),
        "number": 9,
        "text_kind": kind,
        "text_id": 71,
    }
    return Trigger(**{**base, **fields})


@pytest.mark.parametrize(
    ("kind", "path"),
    [
        ("comment", f"{API}/issues/comments/71"),
        ("review_comment", f"{API}/pulls/comments/71"),
        ("issue", f"{API}/issues/9"),
    ],
)
def test_the_triggering_text_is_read_again_where_it_stands(hub: Stub, kind: str, path: str) -> None:
    """Body, date and author as they are now."""
    hub.answer = lambda seen: [reply(b'{"body":"/airlock x","updated_at":"2026","user":{"login":"m"}}')]

    assert read_text(api(hub), trigger(kind)) == TextNow("/airlock x", "2026", "m")
    assert hub.seen[0].target == path


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (reply(b"{}", 404), TextNow(None, detail="GitHub answered 404")),
        (reply(b'{"body":null}'), TextNow(None, detail="GitHub's answer has no text")),
        (reply(b"[]"), TextNow(None, detail="GitHub's answer has no text")),
        (reply(b'{"body":"x","user":null,"updated_at":3}'), TextNow("x", None, None)),
        (reply(b'{"body":"x","user":{"login":3}}'), TextNow("x", None, None)),
    ],
)
def test_a_text_that_cannot_be_read_again_is_gone(hub: Stub, raw: bytes, expected: TextNow) -> None:
    """Every failure reads as no text, which the gate restricts."""
    hub.answer = lambda seen: [raw]

    assert read_text(api(hub), trigger("comment")) == expected


@pytest.mark.parametrize("started", [trigger("pull_request"), trigger(""), trigger("comment", text_id=None)])
def test_a_text_without_a_place_is_gone(hub: Stub, started: Trigger) -> None:
    """Nothing is asked where the event does not say where."""
    assert read_text(api(hub), started).body is None
    assert hub.seen == []


def test_a_connection_that_is_cut_off_names_the_step(hub: Stub) -> None:
    """Not only the host: a reader wants to know what was being done."""
    hub.answer = lambda seen: []
    with pytest.raises(UpstreamError) as error:
        api(hub, Authority.publisher(frozenset(Tier))).post("issues", {"title": "x"}, step="file an issue")

    assert (error.value.step, error.value.status) == ("file an issue", None)
    assert str(error.value).startswith("file an issue: POST 127.0.0.1:")
