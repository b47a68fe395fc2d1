"""A dry run: a write is decided and recorded as ever and does not leave; reads and the model do."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent.broker.egress.dry_run import NOWHERE, SHOWN
from agent.broker.git.dry_run import DryPublishing
from agent.broker.git.objects import EMPTY_TREE, Entry, object_id
from agent.broker.git.shadow import ShadowGit
from agent.broker.github import GitHubApi
from tests.support.stub_http import reply, serving
from tests.unit.test_egress_send import PUBLISHER, ROOT, SECRETS, World

COMMENT = {"body": "x" * (SHOWN + 1)}


@pytest.fixture
def worlds() -> Iterator[Callable[..., World]]:
    with serving() as hub, serving() as storage:
        hub.answer = lambda seen: [reply(b'{"ok":1}')]
        yield lambda secrets=SECRETS, **options: World(hub, storage, secrets, **options)


@pytest.mark.parametrize(
    ("method", "path", "body", "number"),
    [
        ("POST", f"{ROOT}/issues/7/comments", COMMENT, NOWHERE),
        ("PATCH", f"{ROOT}/issues/comments/71", COMMENT, 71),
        ("POST", f"{ROOT}/git/refs", {"ref": "refs/heads/airlock/x", "sha": "a" * 40}, NOWHERE),
    ],
)
def test_a_write_is_recorded_and_neither_leaves_nor_reads_its_secret(
    worlds: Callable[..., World], method: str, path: str, body: dict[str, str], number: int
) -> None:
    dry = worlds(dry_run=True)
    answer = dry.ask(method, path, body, PUBLISHER)

    assert (answer.refused, answer.status in (200, 201), json.loads(answer.body)["number"]) == (False, True, number)
    assert (dry.hub.seen, dry.store.reads) == ([], ())
    assert dry.types == ["egress.dry_run"]
    record = dry.records[0][1]
    assert (record["method"], record["path"], set(record["body"])) == (method, path, set(body))
    assert len(json.dumps(record["body"])) < SHOWN + 200, "a summary, not the whole text"

    wet = worlds()  # control: the same request does leave without it
    wet.ask(method, path, body, PUBLISHER)
    assert [seen.method for seen in wet.hub.seen] == [method]


def test_a_refused_write_is_refused_in_a_dry_run_too(worlds: Callable[..., World]) -> None:
    """The record of what would have been sent holds nothing that would not have been sent."""
    dry = worlds(dry_run=True)
    answer = dry.ask("POST", "/repos/acme/payments/issues", {"title": "x"}, PUBLISHER)

    assert (answer.status, answer.code, dry.types) == (403, "egress_path_blocked", ["egress.denied"])


def test_reads_and_the_model_go_out_as_ever(worlds: Callable[..., World]) -> None:
    dry = worlds(dry_run=True)
    asked = {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": "hello"}]}
    dry.ask("GET", f"{ROOT}/pulls/7")
    dry.ask("POST", "/v1/messages", asked, connection="model")

    assert [(s.method, "authorization" in s.headers or "x-api-key" in s.headers) for s in dry.hub.seen] == [
        ("GET", True),
        ("POST", True),
    ]


def test_objects_get_the_ids_that_git_gives_them(worlds: Callable[..., World], tmp_path: Path) -> None:
    """The publisher compares ids: a blob's comes from its bytes, a tree's from the base and the request's entries."""
    shadow = ShadowGit.create(tmp_path / "shadow.git")
    kept, old, new = (shadow.write("blob", data) for data in (b"kept\n", b"old\n", b"new\xff\n"))
    base = shadow.write_tree({b"a/kept": Entry("100644", kept), b"gone": Entry("100644", old)})
    inline = object_id("blob", b"text\n")
    wanted = {b"a/kept": Entry("100644", kept), b"a/new": Entry("100755", new), b"text": Entry("100644", inline)}
    dry = worlds(dry_run=True)
    api = DryPublishing(GitHubApi(dry.egress, "acme/widgets", PUBLISHER), shadow)

    sent = {"content": base64.b64encode(b"new\xff\n").decode(), "encoding": "base64"}
    assert api.post("git/blobs", sent, step="create blob")["sha"] == new
    entries = [
        {"path": "a/new", "mode": "100755", "type": "blob", "sha": new},
        {"path": "text", "mode": "100644", "type": "blob", "content": "text\n"},
        {"path": "gone", "mode": "100644", "type": "blob", "sha": None},
    ]
    made = api.post("git/trees", {"base_tree": base, "tree": entries}, step="create tree")["sha"]
    assert made == shadow.write_tree(wanted) != EMPTY_TREE
    assert dry.hub.seen == []
