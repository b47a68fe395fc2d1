"""Review anchors on every kind of file and line: posted as asked, cut to the hunk, or folded; never lost (F17).

The simulator refuses a whole review for one line outside the diff, as GitHub does. The table stands in the report.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.artifacts import PROPERTY
from tests.support.github_sim import GitHubSim
from tests.support.sim_broker import TOKEN, SimTools, sim_tools

TABLE = "review anchors: file, anchor asked, what became of it"
EXACT, CUT, FOLDED = "exact", "cut to its hunk", "folded into the body"


def lines(first: int, last: int) -> str:
    return "".join(f"line {n}\n" for n in range(first, last + 1))


BASE = {
    "two.py": lines(1, 80),
    "dos.py": lines(1, 20).replace("\n", "\r\n"),
    "moved_old.py": lines(1, 40),
    "renamed_old.py": lines(1, 40),
    "gone.py": lines(1, 5),
    "tail.py": "a\nb",
    "run.sh": "echo\n",
    "whole.py": lines(1, 9),
    "untouched.py": lines(1, 9),
}
HEAD: dict[str, Any] = {
    "two.py": lines(1, 9) + "new ten\n" + lines(11, 60) + "extra\n" + lines(61, 80),
    "dos.py": (lines(1, 9) + "new\n" + lines(10, 20)).replace("\n", "\r\n"),
    "moved_old.py": None,
    "moved.py": lines(1, 40),
    "renamed_old.py": None,
    "renamed.py": lines(1, 20) + "changed\n" + lines(22, 40),
    "gone.py": None,
    "new file é.py": "one\ntwo\n",
    "tail.py": "a\nc",
    "run.sh": ("100755", "echo\n"),
    "whole.py": "nothing\nis\nleft\n",
    "image.png": b"\x89PNG\r\n\x1a\n\0\0",
    "empty.txt": "",
    "big.txt": lines(1, 20_500),
}

# path, line, start, side, what becomes of it
ASKED: tuple[tuple[str, int, int | None, str, str], ...] = (
    ("two.py", 10, None, "RIGHT", EXACT),
    ("two.py", 10, None, "LEFT", EXACT),
    ("two.py", 7, None, "RIGHT", EXACT),
    ("two.py", 6, None, "RIGHT", FOLDED),
    ("two.py", 13, None, "RIGHT", EXACT),
    ("two.py", 14, None, "RIGHT", FOLDED),
    ("two.py", 61, None, "RIGHT", EXACT),
    ("two.py", 64, None, "LEFT", FOLDED),
    ("two.py", 12, 9, "RIGHT", EXACT),
    ("two.py", 9, 12, "RIGHT", EXACT),
    ("two.py", 11, 1, "RIGHT", CUT),
    ("two.py", 61, 10, "RIGHT", CUT),
    ("two.py", 40, 30, "RIGHT", FOLDED),
    ("two.py", 9_999, None, "RIGHT", FOLDED),
    ("dos.py", 10, None, "RIGHT", EXACT),
    ("moved.py", 3, None, "RIGHT", FOLDED),
    ("moved_old.py", 3, None, "LEFT", FOLDED),
    ("renamed.py", 21, None, "RIGHT", EXACT),
    ("renamed_old.py", 21, None, "LEFT", FOLDED),
    ("gone.py", 3, None, "LEFT", EXACT),
    ("gone.py", 3, None, "RIGHT", FOLDED),
    ("new file é.py", 2, None, "RIGHT", EXACT),
    ("new file é.py", 1, None, "LEFT", FOLDED),
    ("tail.py", 2, None, "RIGHT", EXACT),
    ("run.sh", 1, None, "RIGHT", FOLDED),
    ("whole.py", 3, 1, "RIGHT", EXACT),
    ("whole.py", 9, 1, "LEFT", EXACT),
    ("image.png", 1, None, "RIGHT", FOLDED),
    ("empty.txt", 1, None, "RIGHT", FOLDED),
    ("untouched.py", 1, None, "RIGHT", FOLDED),
    ("no/such/file.py", 1, None, "RIGHT", FOLDED),
    ("../../etc/passwd", 1, None, "RIGHT", FOLDED),
    ("./two.py", 12, None, "RIGHT", EXACT),
)


@pytest.fixture
def tools(github: GitHubSim, tmp_path: Path) -> Any:
    """A run on one pull request that changes a file of every kind."""
    github.token(TOKEN)
    repo = github.create_repository("acme/shop", files=BASE)
    repo.commit("topic", HEAD, base="main")
    number = repo.create_pull("topic").number
    facts = {"number": number, "head_sha": repo.checkout(tmp_path / "w", "topic"), "base_sha": repo.branch("main")}
    with sim_tools(github, repo, tmp_path / "w", **facts) as made:
        yield made, repo.issue(number).pull


def comment(index: int) -> dict[str, Any]:
    path, line, start, side, _ = ASKED[index]
    asked = {"path": path, "line": line, "side": side, "body": f"Finding w{index:03}q: word{index} other{index}."}
    return asked | ({"start_line": start} if start else {})


def test_every_anchor_is_posted_cut_or_folded_and_none_is_lost(
    github: GitHubSim, tools: tuple[SimTools, Any], record_property: Callable[[str, object], None]
) -> None:
    """One review in one request, never a 422; each finding stands once, and the model is told of each change."""
    call, pull = tools
    text = call("submit_review", body="Summary.", comments=[comment(i) for i in range(len(ASKED))]).text

    (review,) = pull.reviews
    assert [r.path.rsplit("/", 1)[-1] for r in github.requests if r.method == "POST"] == ["reviews"]
    assert [r.status for r in github.requests if r.status >= 400] == []
    assert review.state == "COMMENTED"
    for index, (path, line, start, side, wanted) in enumerate(ASKED):
        word = f"w{index:03}q"
        on_lines = [c for c in pull.comments if word in c.body]
        assert len(on_lines) + review.body.count(word) == 1, ASKED[index]
        if on_lines:
            (posted,) = on_lines
            assert (posted.path, posted.side) == (path.removeprefix("./"), side)
            first, last = min(start or line, line), max(start or line, line)
            assert posted.line == last
            got = EXACT if (posted.start_line or posted.line) == first else CUT
        else:
            got = FOLDED
            assert f"`{path.removeprefix('./')}:" in review.body
        assert got == wanted, ASKED[index]
        span = f"{start}-{line}" if start else str(line)
        assert (got == EXACT) or path.removeprefix("./") in text
        record_property(PROPERTY, (TABLE, f"{path:<20} {side:<6} {span:<8} {got}"))


def test_a_review_that_github_refuses_whole_is_posted_line_by_line(
    github: GitHubSim, tools: tuple[SimTools, Any]
) -> None:
    """Where GitHub sees the diff otherwise than its files list: what it takes stands in place, the rest in the body."""
    call, pull = tools
    body = {"message": "Unprocessable Entity", "errors": ["Pull request review thread line must be part of the diff"]}
    github.fault("POST", r"/pulls/\d+/reviews$", 422, body, times=1)
    github.fault("POST", r"/pulls/\d+/comments$", 422, body, times=1)
    text = call("submit_review", body="Summary.", comments=[comment(0), comment(14), comment(27)]).text
    (review,) = [r for r in pull.reviews if "Summary." in r.body]
    found = [sum(f"w{i:03}q" in c.body for c in pull.comments) for i in (0, 14, 27)]
    assert found == [0, 1, 0]
    assert [f"w{i:03}q" in review.body for i in (0, 14, 27)] == [True, False, True]
    assert "GitHub refused it whole" in text


def test_a_storm_of_findings_is_one_review_with_the_rest_in_its_body(
    github: GitHubSim, tools: tuple[SimTools, Any], tmp_path: Path
) -> None:
    """A hundred findings on lines: fifty in place, none lost; a re-run posts nothing twice."""
    call, pull = tools
    words = [f"s{n:03}q" for n in range(100)]
    storm = [
        {"path": "new file é.py", "line": 1 + n % 2, "body": f"Storm {word} alpha{n} beta{n} gamma{n}."}
        for n, word in enumerate(words)
    ]
    call("submit_review", body="Storm.", comments=storm)
    (review,) = pull.reviews
    assert len(pull.comments) == 50
    assert [w for w in words if sum(w in c.body for c in pull.comments) + review.body.count(w) != 1] == []
    repo = github.repository("acme/shop")
    facts = {k: getattr(call.facts, k) for k in ("number", "head_sha", "base_sha")}
    with sim_tools(github, repo, tmp_path / "w", **facts) as again:
        assert "All 100 findings stand on" in again("submit_review", body="Storm.", comments=storm).text
    assert (len(pull.comments), len(pull.reviews)) == (50, 1)


def test_a_finding_like_an_earlier_folded_one_is_not_lost_to_it(
    github: GitHubSim, tools: tuple[SimTools, Any], tmp_path: Path
) -> None:
    """Alike in words and file, at another line: both stand. The same one at a moved line is said once."""
    call, pull = tools
    say = "The total overflows for many items here."
    first = {"path": "untouched.py", "line": 3, "body": say}
    call("submit_review", body="One.", comments=[first])
    repo = github.repository("acme/shop")
    facts = {k: getattr(call.facts, k) for k in ("number", "head_sha", "base_sha")}
    with sim_tools(github, repo, tmp_path / "w", **facts) as again:
        again("submit_review", body="Two.", comments=[{**first, "line": 7}, first])
        moved = again("submit_review", body="Three.", comments=[{**first, "line": 4}, {**first, "line": 8}]).text
    assert [("`untouched.py:3`" in r.body, "`untouched.py:7`" in r.body) for r in pull.reviews] == [
        (True, False), (False, True),
    ]  # fmt: skip
    assert "All 2 findings stand on" in moved
    with sim_tools(github, repo, tmp_path / "w", **facts) as again:
        again("submit_review", body="Four.", comments=[{"path": "two.py", "line": 10, "body": say}])
    assert [c.path for c in pull.comments] == ["two.py"]
