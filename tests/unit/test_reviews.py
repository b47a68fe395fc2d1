"""Reviews: one call, nothing lost, nothing twice, never an approval (F17)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent.contract.errors import ToolInputError
from agent.contract.fingerprint import Mark, code_key, is_own, mark_of, same_finding, with_mark
from agent.harness.tools.context import ToolContext
from agent.harness.tools.reviews import TOOLS
from agent.kernel.beneath import Beneath
from tests.support.fake_broker import FakeBroker, facts

SUBMIT = next(t for t in TOOLS if t.name == "submit_review").run
SINGLE = next(t for t in TOOLS if t.name == "review_comment").run
PATCH = "@@ -10,3 +10,4 @@\n x\n+y\n z\n w"
BOT = {"login": "github-actions[bot]", "type": "Bot"}


@pytest.fixture
def broker() -> FakeBroker:
    made = FakeBroker()
    made.on("GET", "/pulls/7", {"head": {"sha": "a" * 40, "repo": None}, "base": {"sha": "b" * 40}})
    made.on("GET", "/pulls/7/files", [{"filename": "a.py", "patch": PATCH}, {"filename": "bin.dat"}])
    made.on("GET", "/pulls/7/comments", [])
    made.on("GET", "/pulls/7/reviews", [])
    made.on("POST", "/pulls/7/reviews", {"html_url": "https://github.com/acme/widgets/pull/7#r1"})
    made.on("POST", "/pulls/7/comments", {"html_url": "https://github.com/acme/widgets/pull/7#c1"}, 201)
    return made


def _ctx(broker: FakeBroker, tmp_path: Path, **changes: Any) -> ToolContext:
    return ToolContext(facts=facts(**changes), broker=broker, files=Beneath(str(tmp_path)))


def _comments(*lines: int) -> list[dict[str, Any]]:
    return [{"path": "a.py", "line": n, "body": f"The value at number {n} overflows silently here."} for n in lines]


def test_lines_outside_the_diff_go_into_the_body_of_one_review(broker: FakeBroker, tmp_path: Path) -> None:
    """11 and 13 stand in place; 14, 40 and a binary are folded with file and line."""
    comments = [*_comments(11, 13, 14, 40), {"path": "bin.dat", "line": 1, "body": "This binary should not be here."}]
    SUBMIT({"body": "Two problems.", "comments": comments}, _ctx(broker, tmp_path))
    ((method, path, review),) = broker.writes()
    assert (method, path, review["event"], review["commit_id"]) == ("POST", "/pulls/7/reviews", "COMMENT", "a" * 40)
    assert [(c["path"], c["line"], c["side"]) for c in review["comments"]] == [
        ("a.py", 11, "RIGHT"),
        ("a.py", 13, "RIGHT"),
    ]
    assert [p in review["body"] for p in ("`a.py:14`", "`a.py:40`", "`bin.dat:1`", "Two problems.")] == [True] * 4


def test_a_review_refused_as_a_whole_is_posted_one_by_one(broker: FakeBroker, tmp_path: Path) -> None:
    """422 names no line: each comment is tried, and what is refused again is folded."""

    def reviews(query: Any, body: Any) -> tuple[int, Any]:
        return (
            (422, {"message": "Unprocessable Entity", "errors": ["Line could not be resolved"]})
            if body.get("comments")
            else (200, {})
        )

    def single(query: Any, body: Any) -> tuple[int, Any]:
        return (422, {"message": "Validation Failed"}) if body["line"] == 13 else (201, {})

    broker.on("POST", "/pulls/7/reviews", reviews)
    broker.on("POST", "/pulls/7/comments", single)
    out = SUBMIT({"body": "Lead.", "comments": _comments(11, 13)}, _ctx(broker, tmp_path))
    assert [(p, b.get("line")) for _, p, b in broker.writes()] == [
        ("/pulls/7/reviews", None),
        ("/pulls/7/comments", 11),
        ("/pulls/7/comments", 13),
        ("/pulls/7/reviews", None),
    ]
    assert "`a.py:13`" in broker.writes()[-1][2]["body"]
    assert "1 line comments were posted singly" in out.text


def test_a_finding_is_posted_once_across_runs_although_its_line_moved(broker: FakeBroker, tmp_path: Path) -> None:
    """Known by file and code; another text on the same code is another finding."""
    SUBMIT({"comments": _comments(11)}, _ctx(broker, tmp_path))
    posted = broker.writes()[0][2]["comments"][0]["body"]
    broker.on("GET", "/pulls/7/comments", [{"id": 5, "path": "a.py", "body": posted, "user": BOT}])
    broker.on("GET", "/pulls/7/files", [{"filename": "a.py", "patch": PATCH.replace("-10,3 +10,4", "-30,3 +30,4")}])
    (tmp_path / "a.py").write_text("x\ny\nz\nw\n")
    again = [{"path": "a.py", "line": 31, "body": "Here the value overflows silently."}]
    other = [{"path": "a.py", "line": 31, "body": "Wrong licence header: translate documentation instead."}]
    broker.asked.clear()
    out = SUBMIT({"comments": again}, _ctx(broker, tmp_path))
    assert broker.writes() == []
    assert "no review was posted" in out.text
    SUBMIT({"comments": other}, _ctx(broker, tmp_path))
    assert len(broker.writes()[0][2]["comments"]) == 1


def test_a_forged_mark_of_somebody_else_hides_no_finding(broker: FakeBroker, tmp_path: Path) -> None:
    """Whoever copies our mark is not us: the author decides."""
    body = with_mark(
        "The value at number 11 overflows silently here.", Mark("finding", code_key("a.py", "RIGHT", ["y"]))
    )
    forger = {"login": "mallory", "type": "User"}
    broker.on("GET", "/pulls/7/comments", [{"id": 5, "path": "a.py", "body": body, "user": forger}])
    SUBMIT({"comments": _comments(11)}, _ctx(broker, tmp_path))
    assert [p for _, p, _ in broker.writes()] == ["/pulls/7/reviews"]
    assert len(broker.writes()[0][2]["comments"]) == 1


def test_an_own_comment_whose_code_is_gone_is_edited_to_say_resolved(broker: FakeBroker, tmp_path: Path) -> None:
    """In which commit; a comment whose code stands is left alone."""
    gone = with_mark("Old finding.", Mark("finding", code_key("a.py", "RIGHT", ["gone()"])))
    here = with_mark("Live finding.", Mark("finding", code_key("a.py", "RIGHT", ["y"])))
    broker.on("GET", "/pulls/7/comments", [
        {"id": 5, "path": "a.py", "body": gone, "user": BOT},
        {"id": 6, "path": "a.py", "body": here, "user": BOT},
    ])  # fmt: skip
    broker.on("PATCH", "/pulls/comments/5", {})
    (tmp_path / "a.py").write_text("x\n  y\nz\n")
    SUBMIT({"body": "Fine now."}, _ctx(broker, tmp_path))
    edits = [(p, b["body"]) for m, p, b in broker.writes() if m == "PATCH"]
    assert [p for p, _ in edits] == ["/pulls/comments/5"]
    assert edits[0][1].startswith("**Resolved in aaaaaaaaaaaa:**")
    assert mark_of(edits[0][1]) == Mark("resolved", code_key("a.py", "RIGHT", ["gone()"]))


def test_no_review_ever_approves(broker: FakeBroker, tmp_path: Path) -> None:
    """APPROVE is an error and nothing is sent; REQUEST_CHANGES needs the configuration."""
    with pytest.raises(ToolInputError, match="never approves"):
        SUBMIT({"body": "LGTM", "event": "APPROVE"}, _ctx(broker, tmp_path))
    assert broker.writes() == []
    SUBMIT({"event": "REQUEST_CHANGES", "body": "No."}, _ctx(broker, tmp_path))
    SUBMIT({"event": "REQUEST_CHANGES", "body": "No."}, _ctx(broker, tmp_path, options={"request_changes": True}))
    assert [b["event"] for _, _, b in broker.writes()] == ["COMMENT", "REQUEST_CHANGES"]


def test_a_single_comment_outside_the_diff_names_the_lines_that_work(broker: FakeBroker, tmp_path: Path) -> None:
    """Nothing is sent; the model can mend it."""
    with pytest.raises(ToolInputError, match="10-13"):
        SINGLE(_comments(40)[0], _ctx(broker, tmp_path))
    assert broker.writes() == []
    SINGLE({**_comments(12)[0], "start_line": 11}, _ctx(broker, tmp_path))
    ((_, path, body),) = broker.writes()
    assert (path, body["line"], body["start_line"], body["start_side"]) == ("/pulls/7/comments", 12, 11, "RIGHT")


def test_only_the_account_makes_a_comment_ours() -> None:
    """Exact login and account type."""
    assert is_own({"user": BOT}, None)
    assert not is_own({"user": {"login": "github-actions[bot]", "type": "User"}}, None)
    assert not is_own({"user": None}, None)
    assert is_own({"user": {"login": "octo-app[bot]", "type": "Bot"}}, "octo-app[bot]")
    assert not is_own({"user": BOT}, "octo-app[bot]")
    assert mark_of("x\n<!-- airlock:note:abc:1 -->\nquoted by someone") is None
    assert same_finding("Null pointer when name missing", "When the name is missing: null pointer")
    assert not same_finding("Null pointer when name missing", "Typo in the heading")
