"""GitHub tools over the broker: nulls, pages, 403 told apart, logs, idempotent writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent.contract.errors import Refusal, ToolInputError, UpstreamError
from agent.contract.fingerprint import Mark
from agent.contract.tool import AgentTool, ToolOutput
from agent.harness.tools import checks, github_read, github_request, github_write, reviews
from agent.harness.tools.arguments import ArgumentCheck
from agent.harness.tools.context import ToolContext
from agent.kernel.beneath import Beneath
from tests.support.fake_broker import FakeBroker, facts
from tests.support.score_ci_logs import load

ALL = (*github_read.TOOLS, *github_request.TOOLS, *github_write.TOOLS, *checks.TOOLS, *reviews.TOOLS)
BOT = {"login": "github-actions[bot]", "type": "Bot"}


def _tool(name: str) -> AgentTool:
    return next(t for t in ALL if t.name == name)


def _run(broker: FakeBroker, tmp_path: Path, name: str, args: dict[str, Any], **changes: Any) -> ToolOutput:
    tool = _tool(name)
    checked = ArgumentCheck(name, tool.schema).checked(args)
    return tool.run(checked, ToolContext(facts=facts(**changes), broker=broker, files=Beneath(str(tmp_path))))


@pytest.mark.parametrize("number", ["9/../../../payments/issues/1", "7?x=1", -1, 0, 1.5, True, None, [7]])
@pytest.mark.parametrize("name", ["get_issue", "get_pull_request", "list_comments", "list_pull_request_files"])
def test_a_number_that_is_none_reaches_no_path(name: str, number: object, tmp_path: Path) -> None:
    """R09: an error before anything is sent; a whole number works."""
    broker = FakeBroker()
    with pytest.raises(ToolInputError):
        _run(broker, tmp_path, name, {"number": number})
    assert broker.asked == []
    broker.on("GET", "/issues/9", {"title": "t", "comments": 0})
    assert "#9 t" in _run(broker, tmp_path, "get_issue", {"number": 9}).text


def test_null_bodies_users_and_forks_are_read_as_usual(tmp_path: Path) -> None:
    """A pull request without description whose fork is gone (F15)."""
    broker = FakeBroker()
    pull = {"title": "T", "body": None, "user": None, "labels": [], "milestone": None, "state": "open"}
    broker.on("GET", "/pulls/7", {**pull, "head": {"ref": "fix", "sha": "a" * 40, "repo": None, "user": None}})
    own = {"user": BOT, "state": "COMMENTED", "commit_id": "c" * 40, "body": f"B\n\n{Mark('review', 'c' * 40)}"}
    broker.on("GET", "/pulls/7/reviews", [{"user": None, "state": "APPROVED"}, own])
    text = _run(broker, tmp_path, "get_pull_request", {}).text
    assert "a fork that was deleted" in text
    assert "author: ghost (deleted account)" in text
    assert "(no text)" in text
    assert f"reviewed by this action last at {'c' * 40}" in text


@pytest.mark.parametrize(
    ("status", "headers", "message", "words"),
    [
        (
            403,
            {"retry-after": "2"},
            "You have exceeded a secondary rate limit.",
            "secondary rate limit holds (wait 2 s)",
        ),
        (403, {"x-ratelimit-remaining": "0"}, "API rate limit exceeded", "hourly rate limit is used up"),
        (
            403,
            {"X-Accepted-GitHub-Permissions": "issues=read"},
            "Resource not accessible by integration",
            "`issues=read`",
        ),
        (404, {}, "Not Found", "the token may not see it"),
        (410, {}, "This issue was deleted", "Gone (410)"),
        (502, {}, "<html>", "a fault of its own"),
    ],
)
def test_failures_are_told_apart(
    status: int, headers: dict[str, str], message: str, words: str, tmp_path: Path
) -> None:
    """A limit is not a permission, and each says what to do (F18)."""
    broker = FakeBroker()
    broker.on("GET", "/issues/9", {"message": message}, status, headers)
    with pytest.raises(UpstreamError) as caught:
        _run(broker, tmp_path, "get_issue", {"number": 9})
    assert words in str(caught.value)
    assert caught.value.status == status


def test_a_refusal_of_the_policy_keeps_its_code(tmp_path: Path) -> None:
    """Told to the model as the broker said it."""
    broker = FakeBroker()
    error = {"status": 403, "error": {"code": "egress_method_blocked", "message": "No."}}
    broker.on("PUT", "/pulls/7/merge", error, 403, {"refused": "1"})
    args = {"method": "PUT", "path": "/repos/acme/widgets/pulls/7/merge", "body": {}}
    with pytest.raises(Refusal) as caught:
        _run(broker, tmp_path, "github_request", args)
    assert caught.value.code == "egress_method_blocked"


def test_comments_come_newest_first_with_permission_and_bots_folded(tmp_path: Path) -> None:
    """Public accounts have read; bots are cut short and can be read in full by id."""
    broker = FakeBroker()
    broker.on("GET", "/issues/9", {"comments": 3})
    made = [
        {"id": 1, "user": {"login": "amy", "type": "User"}, "body": "first", "created_at": "2026-01-01T00:00:00Z"},
        {"id": 2, "user": BOT, "body": "noise " * 500, "created_at": "2026-01-02T00:00:00Z"},
        {"id": 3, "user": None, "body": None, "created_at": "2026-01-03T00:00:00Z"},
    ]
    broker.on("GET", "/issues/9/comments", made)
    broker.on("GET", "/issues/comments/2", made[1])
    broker.on("GET", "/collaborators/amy/permission", {"permission": "write"})
    text = _run(broker, tmp_path, "list_comments", {"number": 9}).text
    assert text.index("[3]") < text.index("[2]") < text.index("[1] comment by amy (write)")
    assert len(text) < 700
    assert "comment_id=2" in text
    assert "noise " * 500 in _run(broker, tmp_path, "list_comments", {"number": 9, "comment_id": 2}).text + " "


def test_the_failing_job_on_page_three_is_found_and_its_log_read(tmp_path: Path) -> None:
    """The server gives thirty a page whatever is asked (F14)."""
    data, want = load("go-test-panic")
    fine = [{"id": n, "name": f"j{n}", "status": "completed", "conclusion": "success"} for n in range(1, 61)]
    bad = {**want["job"], "id": 61}

    def jobs(query: dict[str, str], body: Any) -> tuple[int, Any, dict[str, str]]:
        page = int(query["page"])
        link = {"Link": '<https://api.github.com/x?page=9>; rel="next"'} if page < 3 else {}
        return 200, {"total_count": 61, "jobs": [*fine, bad][(page - 1) * 30 : page * 30]}, link

    broker = FakeBroker()
    broker.on("GET", "/actions/runs/5", {"name": "ci", "conclusion": "failure"})
    broker.on("GET", "/actions/runs/5/jobs", jobs)
    broker.on("GET", "/actions/jobs/61/logs", data)
    text = _run(broker, tmp_path, "get_check_logs", {"run_id": 5}).text
    assert "internal/cache.TestPutThenGet (internal/cache/cache.go:10)" in text
    assert [p for _, p, _, _ in broker.asked if p.endswith("/logs")] == ["/repos/acme/widgets/actions/jobs/61/logs"]


def test_a_log_that_is_gone_or_not_there_yet_is_said(tmp_path: Path) -> None:
    """410 after retention: the annotations instead; a running job: no request for its log."""
    broker = FakeBroker()
    broker.on("GET", "/actions/jobs/8", {"id": 8, "name": "a", "status": "completed", "conclusion": "failure"})
    broker.on("GET", "/actions/jobs/8/logs", {"message": "Gone"}, 410)
    broker.on(
        "GET",
        "/check-runs/8/annotations",
        [{"path": "a.py", "start_line": 3, "annotation_level": "failure", "message": "bad"}],
    )
    assert "failure: a.py:3: bad" in _run(broker, tmp_path, "get_check_logs", {"job_id": 8}).text
    broker.on("GET", "/actions/jobs/9", {"id": 9, "name": "b", "status": "in_progress", "conclusion": None})
    assert "until it has ended" in _run(broker, tmp_path, "get_check_logs", {"job_id": 9}).text
    assert not any(p.endswith("/9/logs") for _, p, _, _ in broker.asked)


def test_a_keyed_comment_is_updated_and_a_copied_mark_is_passed_over(tmp_path: Path) -> None:
    """Posted once, then edited; a stranger's comment with our mark is never touched."""
    broker = FakeBroker()
    broker.on("GET", "/issues/7/comments", [])
    broker.on("POST", "/issues/7/comments", {"id": 4}, 201)
    _run(broker, tmp_path, "comment", {"body": "Summary one @acme/everyone", "key": "summary"})
    first = broker.writes()[0][2]["body"]
    assert "@acme" not in first
    forged = {"id": 3, "user": {"login": "mallory", "type": "User"}, "body": first}
    broker.on("GET", "/issues/7/comments", [{"id": 4, "user": BOT, "body": first}, forged])
    broker.on("PATCH", "/issues/comments/4", {})
    _run(broker, tmp_path, "comment", {"body": "Summary two", "key": "summary"})
    assert [(m, p) for m, p, _ in broker.writes()] == [("POST", "/issues/7/comments"), ("PATCH", "/issues/comments/4")]
    with pytest.raises(ToolInputError):
        _run(broker, tmp_path, "comment", {"body": "  "})


def test_an_open_issue_of_ours_with_the_title_is_not_filed_twice(tmp_path: Path) -> None:
    """A re-run names the one that is there."""
    broker = FakeBroker()
    broker.on("GET", "/issues", [])
    broker.on("POST", "/issues", {"number": 12}, 201)
    _run(broker, tmp_path, "file_issue", {"title": "CI is red", "body": "Because."})
    made = broker.writes()[0][2]
    broker.on("GET", "/issues", [{"number": 12, "user": BOT, "body": made["body"]}])
    assert "#12" in _run(broker, tmp_path, "file_issue", {"title": "CI is red", "body": "Again."}).text
    assert len(broker.writes()) == 1


def test_definitions_are_small() -> None:
    """All of this family's definitions together."""
    shown = [{"name": t.name, "description": t.description, "input_schema": t.schema} for t in ALL]
    assert len(json.dumps(shown)) <= 6_144
