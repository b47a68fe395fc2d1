"""The GitHub tools over the broker's own policy and egress, against the simulator; its contract check stays clean."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.contract.modes import Tier
from tests.support.github_sim import GitHubSim
from tests.support.github_sim.repository import AUTHOR, Repository
from tests.support.sim_broker import TOKEN, sim_tools

BOT = "github-actions[bot]"


def lines(*numbers: int) -> str:
    return "".join(f"line {n}\n" for n in numbers)


BASE = lines(*range(1, 61))
HEAD = lines(*range(1, 11)) + "added\n" + lines(*range(11, 61))  # the diff shows 8 to 14


@pytest.fixture
def repo(github: GitHubSim) -> Repository:
    github.token(TOKEN)
    github.add_user("maintainer", "write")
    return github.create_repository("acme/shop", files={"a.py": BASE, "old.py": BASE, "gone.py": "x\n"})


def pull(repo: Repository, files: dict[str, Any], workspace: Path, **fields: Any) -> dict[str, Any]:
    """A pull request with these files, checked out; the facts of a run on it."""
    repo.commit("topic", files, base="main")
    number = repo.create_pull("topic", **fields).number
    return {"number": number, "head_sha": repo.checkout(workspace, "topic"), "base_sha": repo.branch("main")}


def move(repo: Repository, branch: str, sha: str) -> None:
    """The branch points at any commit, as after a merge or a force push."""
    repo.git.update_ref(f"refs/heads/{branch}", sha)
    repo.sim.refresh_pulls()


def finding(line: int, body: str = "", path: str = "a.py", **more: Any) -> dict[str, Any]:
    return {"path": path, "line": line, "body": body or f"Line {line} overflows the total.", **more}


# --- reviews ------------------------------------------------------------------------------------------------


def test_lines_outside_the_diff_do_not_cost_the_review(github: GitHubSim, repo: Repository, tmp_path: Path) -> None:
    """F17: what stands on the diff is posted in place, the rest goes into the body of the one review."""
    facts = pull(repo, {"a.py": HEAD, "bin.dat": b"\0\1"}, tmp_path / "w")
    findings = [finding(n) for n in (11, 13, 15, 40)] + [finding(1, "Binary?", "bin.dat")]
    with sim_tools(github, repo, tmp_path / "w", **facts) as tools:
        text = tools("submit_review", body="Looks **odd**.", comments=findings).text

    posted = repo.issue(facts["number"]).pull
    assert posted is not None
    assert [(c.path, c.line) for c in posted.comments] == [("a.py", 11), ("a.py", 13)]
    (review,) = posted.reviews
    assert (review.state, review.commit_id) == ("COMMENTED", facts["head_sha"])
    for where in ("`a.py:15`: Line 15 overflows", "`a.py:40`: Line 40 overflows", "`bin.dat:1`: Binary?"):
        assert where in review.body
        assert where.split(": ")[0].strip("`") in text
    sent = [r for r in github.requests if r.method == "POST"]
    assert [r.path.rsplit("/", 1)[-1] for r in sent] == ["reviews"]
    assert not [r for r in github.requests if r.status == 422]


def test_ranges_sides_and_suggestions_arrive_as_they_were_meant(
    github: GitHubSim, repo: Repository, tmp_path: Path
) -> None:
    """Several lines, the deleted side, and a suggestion block byte for byte."""
    facts = pull(repo, {"a.py": HEAD.replace("line 12\n", "")}, tmp_path / "w")
    suggestion = "Use one name.\n\n```suggestion\nadded  # once\n```"
    comments = [finding(11, suggestion, start_line=10), finding(12, "Still needed by the importer.", side="LEFT")]
    with sim_tools(github, repo, tmp_path / "w", **facts) as tools:
        assert "with 2 line comments" in tools("submit_review", body="B", comments=comments).text
        single = tools("review_comment", **finding(13, "Off by one here."))
        refused = tools("review_comment", **finding(40))
    assert not single.is_error
    assert refused.is_error
    assert "list_pull_request_files" in refused.text
    posted = repo.issue(facts["number"]).pull
    assert posted is not None
    assert [(c.start_line, c.line, c.side) for c in posted.comments] == [
        (10, 11, "RIGHT"), (None, 12, "LEFT"), (None, 13, "RIGHT"),
    ]  # fmt: skip
    assert posted.comments[0].body.startswith(suggestion)


def test_a_review_of_a_head_that_has_moved_stands_on_the_commit_that_was_read(
    github: GitHubSim, repo: Repository, tmp_path: Path
) -> None:
    """Line numbers belong to the commit in the workspace; the new head would make them point elsewhere."""
    facts = pull(repo, {"a.py": HEAD}, tmp_path / "w")
    moved = repo.commit("topic", {"a.py": "new top\n" * 30 + HEAD}, message="Push meanwhile")
    with sim_tools(github, repo, tmp_path / "w", **facts) as tools:
        text = tools("submit_review", body="B", comments=[finding(11)]).text
    assert f"moved on to {moved[:12]}" in text
    posted = repo.issue(facts["number"]).pull
    assert posted is not None
    assert [(r.commit_id, r.state) for r in posted.reviews] == [(facts["head_sha"], "COMMENTED")]
    assert [c.line for c in posted.comments] == [11]
    assert [r.json["commit_id"] for r in github.requests if r.method == "POST"] == [facts["head_sha"]]


def test_approving_is_refused_and_requesting_changes_needs_the_configuration(
    github: GitHubSim, repo: Repository, tmp_path: Path
) -> None:
    """Verdicts: an approval never leaves, on no route."""
    facts = pull(repo, {"a.py": HEAD}, tmp_path / "w")
    route = f"/repos/acme/shop/pulls/{facts['number']}/reviews"
    for allowed in (False, True):
        with sim_tools(github, repo, tmp_path / "w", request_changes=allowed, **facts) as tools:
            assert tools("submit_review", event="APPROVE", body="ok").is_error
            raw = tools("github_request", method="POST", path=route, body={"event": "APPROVE", "body": "ok"})
            assert "egress_body_blocked" in raw.text
            asked = tools("submit_review", event="REQUEST_CHANGES", body=f"Please mend it ({allowed}).")
            assert ("does not allow requesting changes" in asked.text) is not allowed
    posted = repo.issue(facts["number"]).pull
    assert posted is not None
    assert [r.state for r in posted.reviews] == ["COMMENTED", "CHANGES_REQUESTED"]


def test_findings_are_posted_once_across_runs_and_resolved_when_their_code_is_gone(
    github: GitHubSim, repo: Repository, tmp_path: Path
) -> None:
    """A re-run and a push that moves lines repeat nothing; a push that takes the code away resolves the comment."""
    facts = pull(repo, {"a.py": HEAD}, tmp_path / "w")
    number = facts["number"]
    with sim_tools(github, repo, tmp_path / "w", **facts) as tools:
        tools("submit_review", body="B", comments=[finding(11, "The total overflows for many items.")])
        tools("comment", body="Summary of push one.", key="summary")
    with sim_tools(github, repo, tmp_path / "w", **facts) as tools:
        again = tools("submit_review", body="B", comments=[finding(11, "For many items the total overflows.")])
        assert "stand on" in again.text
    posted = repo.issue(number).pull
    assert posted is not None
    assert len(posted.comments) == len(posted.reviews) == 1

    repo.commit("topic", {"a.py": "header\n" + HEAD}, message="Move lines")
    facts["head_sha"] = repo.checkout(tmp_path / "w2", "topic")
    with sim_tools(github, repo, tmp_path / "w2", **facts) as tools:
        moved = tools("submit_review", body="B", comments=[finding(12, "The total overflows for many items.")])
        assert "stand on" in moved.text
    assert len(posted.comments) == 1
    assert "Resolved" not in posted.comments[0].body

    repo.commit("topic", {"a.py": "header\n" + BASE + "tail\n"}, message="Take it back")
    facts["head_sha"] = repo.checkout(tmp_path / "w3", "topic")
    with sim_tools(github, repo, tmp_path / "w3", **facts) as tools:
        text = tools("submit_review", body="Second look.").text
        tools("comment", body="Summary of push three.", key="summary")
    assert "1 earlier findings were marked as resolved" in text
    assert posted.comments[0].body.startswith(f"**Resolved in {facts['head_sha'][:12]}:**")
    (summary,) = repo.issue(number).comments
    assert summary.body.startswith("Summary of push three.")
    resolved = posted.comments[0].body
    with sim_tools(github, repo, tmp_path / "w3", **facts) as tools:  # a re-run resolves nothing a second time
        assert "resolved" not in tools("submit_review", body="Third look.").text

    repo.commit("topic", {"a.py": HEAD}, message="It comes back")
    facts["head_sha"] = repo.checkout(tmp_path / "w4", "topic")
    with sim_tools(github, repo, tmp_path / "w4", **facts) as tools:
        tools("submit_review", body="B", comments=[finding(11, "The total overflows for many items.")])
    assert [c.body == resolved for c in posted.comments] == [True, False]


def test_a_second_review_is_shown_only_what_is_new(github: GitHubSim, repo: Repository, tmp_path: Path) -> None:
    """Since our own last review: a later push's hunks alone, without what a merge of the base brought."""
    facts = pull(repo, {"a.py": HEAD}, tmp_path / "w")
    number, first = facts["number"], facts["head_sha"]
    with sim_tools(github, repo, tmp_path / "w", **facts) as tools:
        assert "everything is new" in tools("list_pull_request_files", new_only=True).text
        tools("submit_review", body="B", comments=[finding(11)])
        nothing = tools("list_pull_request_files", new_only=True).text
        assert nothing == f"Nothing has changed since the last review, of {first}."

    repo.commit("topic", {"new.py": "one\ntwo\n", "a.py": HEAD + "tail\n"}, message="Second push")
    facts["head_sha"] = repo.checkout(tmp_path / "w2", "topic")
    with sim_tools(github, repo, tmp_path / "w2", **facts) as tools:
        text = tools("list_pull_request_files", new_only=True).text
        whole = tools("list_pull_request_files").text
        told = tools("get_pull_request").text
    assert "### new.py: added, +2 -0\ncommentable RIGHT: 1-2\n" in text
    assert "+tail" in text
    assert "+added" not in text
    assert "commentable RIGHT: 8-14, 59-62\n" in text  # lines of the pull request's diff, not of the push alone
    assert f"Changed since the last review, of {first[:12]}" in text
    assert "+added" in whole
    assert f"reviewed by this action last at {first}" in told

    # a review of another workflow, which is the same bot, and a copy of our mark are not ours
    posted = repo.issue(number).pull
    assert posted is not None
    (own,) = posted.reviews
    for user, body in ((BOT, "All fine."), ("outsider", own.body.replace(first, facts["head_sha"]))):
        posted.reviews.append(replace(own, id=own.id + 1, user=user, body=body, commit_id=facts["head_sha"]))
    with sim_tools(github, repo, tmp_path / "w2", **facts) as tools:
        assert tools("list_pull_request_files", new_only=True).text == text

    main = repo.commit("main", {"elsewhere.py": "x\n"}, message="Base goes on")
    blobs = {name: repo.git.write_blob(text) for name, text in (("elsewhere.py", b"x\n"), ("late.py", b"y\n"))}
    tree = repo.git.write_tree(
        facts["head_sha"], [{"path": name, "mode": "100644", "sha": sha} for name, sha in blobs.items()]
    )
    move(repo, "topic", repo.git.write_commit(tree, [facts["head_sha"], main], "Merge", AUTHOR, AUTHOR))
    facts |= {"head_sha": repo.checkout(tmp_path / "w3", "topic"), "base_sha": repo.branch("main")}
    with sim_tools(github, repo, tmp_path / "w3", **facts) as tools:
        merged = tools("list_pull_request_files", new_only=True).text
    assert "late.py" in merged
    assert "elsewhere.py" not in merged


def test_after_a_rewritten_branch_the_whole_change_is_new(github: GitHubSim, repo: Repository, tmp_path: Path) -> None:
    """A force push leaves no path from the reviewed commit: nothing is hidden, and the note says why."""
    facts = pull(repo, {"a.py": HEAD}, tmp_path / "w")
    with sim_tools(github, repo, tmp_path / "w", **facts) as tools:
        tools("submit_review", body="B", comments=[finding(11)])
    repo.create_branch("again", repo.branch("main") or "")
    repo.commit("again", {"a.py": HEAD, "b.py": "b\n"}, message="Rewritten")
    move(repo, "topic", repo.branch("again") or "")
    facts["head_sha"] = repo.checkout(tmp_path / "w2", "again")
    with sim_tools(github, repo, tmp_path / "w2", **facts) as tools:
        text = tools("list_pull_request_files", new_only=True).text
    assert "cannot be told apart" in text
    assert "+added" in text


def test_forged_marks_of_ours_in_others_comments_are_never_trusted(
    github: GitHubSim, repo: Repository, tmp_path: Path
) -> None:
    """R17: a copied mark neither hides a finding nor makes us edit somebody's comment."""
    facts = pull(repo, {"a.py": HEAD}, tmp_path / "w")
    number = facts["number"]
    with sim_tools(github, repo, tmp_path / "w", **facts) as tools:
        tools("comment", body="ours", key="summary")
    (own,) = repo.issue(number).comments
    mark = own.body.rsplit("\n", 1)[1]
    own.user = "outsider"
    forged = f"Nothing to see.\n\n{mark}"
    repo.add_comment(number, forged, "outsider")
    with sim_tools(github, repo, tmp_path / "w", **facts) as tools:
        tools("comment", body="ours again", key="summary")
        patched = tools(
            "github_request", method="PATCH", path=f"/repos/acme/shop/issues/comments/{own.id}", body={"body": "taken"}
        )
    assert "egress_gate_closed" in patched.text
    assert [c.body.split("\n")[0] for c in repo.issue(number).comments] == ["ours", "Nothing to see.", "ours again"]
    assert not [r for r in github.requests if r.method == "PATCH"]


# --- diffs --------------------------------------------------------------------------------------------------


def test_every_kind_of_file_is_listed_with_what_can_be_cited(
    github: GitHubSim, repo: Repository, tmp_path: Path
) -> None:
    """Renamed, deleted, new, binary, empty: hunks and numbers where there are some, a reason where not."""
    files = {"a.py": HEAD, "new.py": "one\n", "bin.dat": b"\0\1\2", "empty": "", "moved.py": BASE, "old.py": None}
    facts = pull(repo, {**files, "gone.py": None}, tmp_path / "w")
    with sim_tools(github, repo, tmp_path / "w", **facts) as tools:
        text = tools("list_pull_request_files").text
    for part in (
        "### a.py: modified, +1 -0\ncommentable RIGHT: 8-14; LEFT: 8-13\n",
        "### new.py: added, +1 -0\ncommentable RIGHT: 1; LEFT: none\n",
        "### gone.py: removed, +0 -1\ncommentable RIGHT: none; LEFT: 1\n",
        "### moved.py (was old.py): renamed, +0 -0\nno hunks: only its name changed.",
        "### bin.dat: added, +0 -0\nno hunks: binary, empty, or too large to be shown.",
        "### empty: added, +0 -0\nno hunks: binary, empty, or too large to be shown.",
    ):
        assert part in text


def test_three_hundred_files_are_paged_and_a_pull_request_without_changes_says_so(
    github: GitHubSim, repo: Repository, tmp_path: Path
) -> None:
    """GitHub refuses the whole diff with 406; the pages of files go on, and git_diff has the rest."""
    facts = pull(repo, {f"f{n:03}.txt": f"{n}\n" for n in range(310)}, tmp_path / "w")
    with sim_tools(github, repo, tmp_path / "w", **facts) as tools:
        first = tools("list_pull_request_files").text
        pages = [first]
        while more := re.search(r"; more: offset=(\d+)\.$", pages[-1]):
            pages.append(tools("list_pull_request_files", offset=int(more[1])).text)
        assert "offset=2941 is past the end" in tools("list_pull_request_files", offset=2941).text
        posted = tools("submit_review", body="B", comments=[finding(1, path="f305.txt")]).text
    text = "".join(pages)
    assert [n for n in range(310) if f"f{n:03}.txt" not in text] == []
    assert "with 1 line comments" in posted

    repo.create_branch("same", repo.branch("main") or "")
    number = repo.create_pull("same").number
    with sim_tools(github, repo, tmp_path / "w", number=number) as tools:
        assert "changes no files" in tools("list_pull_request_files").text
        assert "0 files" in tools("get_pull_request").text


def test_a_diff_of_twenty_thousand_lines_is_cut_and_says_how_to_go_on(
    github: GitHubSim, repo: Repository, tmp_path: Path
) -> None:
    """A tool result stays small whatever the diff."""
    facts = pull(repo, {"big.txt": lines(*range(25_000))}, tmp_path / "w")
    with sim_tools(github, repo, tmp_path / "w", **facts) as tools:
        text = tools("list_pull_request_files").text
    assert len(text) < 40_000
    assert "git_diff" in text or "too large" in text


# --- odd worlds ---------------------------------------------------------------------------------------------


def test_null_bodies_deleted_users_and_comments_of_nobody_are_read(
    github: GitHubSim, repo: Repository, tmp_path: Path
) -> None:
    """F15: what GitHub gives as null is a sentence, never a crash."""
    issue = repo.create_issue("Empty", None, None).number
    repo.add_comment(issue, "", None)
    facts = pull(repo, {"a.py": HEAD}, tmp_path / "w", body=None)
    with sim_tools(github, repo, tmp_path / "w", **facts) as tools:
        assert "(no text)" in tools("get_pull_request").text
        text = tools("get_issue", number=issue).text
        assert "(no text)" in text
        assert "ghost (deleted account)" in text
        assert "ghost (deleted account)" in tools("list_comments", number=issue).text


def test_linked_issues_are_this_repositorys_and_an_issue_is_no_pull_request(
    github: GitHubSim, repo: Repository, tmp_path: Path
) -> None:
    """Closing words in every form; another repository's number is not ours; the wrong tool names the right one."""
    body = (
        "Fixes #3, closes: acme/shop#4 and resolves https://github.com/Acme/Shop/issues/5.\n"
        "Fixes other/repo#6, closes https://github.com/other/shop/issues/7, prefixes #8, see #9, fixed #3."
    )
    issue = repo.create_issue("Only an issue", "text").number
    facts = pull(repo, {"a.py": HEAD}, tmp_path / "w", body=body)
    with sim_tools(github, repo, tmp_path / "w", **facts) as tools:
        assert "\nlinked issues: #3, #4, #5\n" in tools("get_pull_request").text
        wrong = tools("get_pull_request", number=issue)
        assert (wrong.is_error, wrong.text) == (True, f"#{issue} is an issue and no pull request: get_issue shows it.")
        assert "404" in tools("get_pull_request", number=9_999).text
        assert "pull request, state: open" in tools("get_issue").text


def test_a_pull_request_whose_fork_and_author_are_gone_is_read(tmp_path: Path) -> None:
    """GitHub answers null for both, against its own published description: so this world is not held to it."""
    with GitHubSim(tmp_path / "github") as github:
        github.token(TOKEN)
        repo = github.create_repository("acme/shop", files={"a.py": BASE})
        fork = github.create_repository("ghost/shop", fork_of="acme/shop")
        fork.commit("topic", {"a.py": HEAD}, base="main")
        number = repo.create_pull("topic", user=None, head_repo="ghost/shop").number
        repo.delete_fork(number)
        repo.checkout(tmp_path / "w", "main")
        with sim_tools(github, repo, tmp_path / "w", number=number) as tools:
            text = tools("get_pull_request").text
            assert "ghost (deleted account)" in text
            assert "deleted" in text.split("head:")[1].split("\n")[0]
            assert "### a.py: modified" in tools("list_pull_request_files").text
            assert not tools("submit_review", body="B", comments=[finding(11)]).is_error


def test_a_repository_that_was_renamed_is_still_read(github: GitHubSim, repo: Repository, tmp_path: Path) -> None:
    """F19: GitHub answers the old name with a redirect to the numeric form, which is this repository's own."""
    number = repo.create_issue("Here", "body of it").number
    repo.checkout(tmp_path / "w", "main")
    with sim_tools(github, repo, tmp_path / "w", number=number, is_pull=False) as tools:
        repo.data.renamed_from.append("acme/shop")
        github.world.repos["acme/store"] = github.world.repos.pop("acme/shop")
        repo.data.full_name = "acme/store"
        assert "body of it" in tools("get_issue").text


def test_an_enterprise_servers_prefix_is_part_of_no_path_of_ours(tmp_path: Path) -> None:
    """GHES: the API lies below /api/v3, and pages are computed, not followed."""
    with GitHubSim(tmp_path / "ghes", api_prefix="/api/v3") as github:
        github.token(TOKEN)
        repo = github.create_repository("acme/shop", files={"a.py": BASE})
        number = repo.create_issue("Many", "talk").number
        for n in range(130):
            repo.add_comment(number, f"comment {n:03}", "maintainer")
        repo.checkout(tmp_path / "w", "main")
        with sim_tools(github, repo, tmp_path / "w", number=number, is_pull=False) as tools:
            first, second = tools("list_comments").text, tools("list_comments", offset=21).text
            assert "talk" in tools("get_issue").text
            assert not tools("comment", body="hello").is_error
        assert "comment 129" in first
        assert "comment 109" in second
        assert first.index("comment 129") < first.index("comment 110")
        api = [r.raw_path for r in github.requests]
        assert api
        assert all(path.startswith("/api/v3/repos/acme/shop/") for path in api)


def test_limits_are_waited_out_and_permissions_are_named(github: GitHubSim, repo: Repository, tmp_path: Path) -> None:
    """F18: a 403 that means later is tried again within the clock; one that means no is told at once."""
    number = repo.create_issue("One", "body").number
    repo.checkout(tmp_path / "w", "main")
    for kind in ("secondary", "primary", "429"):
        github.rate_limit("GET", rf"/issues/{number}$", kind, wait=1)
        with sim_tools(github, repo, tmp_path / "w", number=number, is_pull=False) as tools:
            assert "body" in tools("get_issue").text
    github.rate_limit("GET", rf"/issues/{number}$", wait=600, times=5)
    began = time.monotonic()
    with sim_tools(github, repo, tmp_path / "w", number=number, is_pull=False, clock_s=10.0) as tools:
        late = tools("get_issue")
    assert late.is_error
    assert time.monotonic() - began < 10
    github.faults.clear()
    body = {"message": "Resource not accessible by integration", "documentation_url": "x", "status": "403"}
    needed = {"x-accepted-github-permissions": "issues=write"}
    github.fault("POST", r"/comments$", 403, body, times=None, headers=needed)
    github.requests.clear()
    with sim_tools(github, repo, tmp_path / "w", number=number, is_pull=False) as tools:
        denied = tools("comment", body="hello")
    assert denied.is_error
    assert "lacks `issues=write`" in denied.text
    assert len([r for r in github.requests if r.method == "POST"]) == 1


# --- writes -------------------------------------------------------------------------------------------------


def test_labels_are_set_where_the_configuration_lists_them_and_refused_elsewhere(
    github: GitHubSim, repo: Repository, tmp_path: Path
) -> None:
    """A label starts workflows of others, so the model may set those that a maintainer listed and no other."""
    number = repo.create_issue("One", "body", labels=["ci"]).number
    repo.checkout(tmp_path / "w", "main")
    path = f"/repos/acme/shop/issues/{number}/labels"

    def set_label(tools: Any, *names: str, method: str = "POST", path: str = path) -> str:
        body = {"body": {"labels": list(names)}} if method != "DELETE" else {}
        return str(tools("github_request", method=method, path=path, **body).text)

    with sim_tools(github, repo, tmp_path / "w", number=number, is_pull=False, labels=("bug",)) as tools:
        assert "bug" in set_label(tools, "bug")
        for names in (["deploy"], ["bug", "deploy"], ["BUG"], [" bug"], []):
            assert "egress_body_blocked" in set_label(tools, *names)
        assert "egress" in set_label(tools, "bug", method="PUT")
        assert "egress" in set_label(tools, method="DELETE", path=f"{path}/ci")
        assert repo.issue(number).labels == ["ci", "bug"]
        assert "200" in set_label(tools, method="DELETE", path=f"{path}/bug")
    read_only = frozenset({Tier.READ})
    for more in ({"labels": ()}, {"labels": ("bug",), "tiers": read_only}):
        with sim_tools(github, repo, tmp_path / "w", number=number, is_pull=False, **more) as tools:  # type: ignore[arg-type]
            assert "egress" in set_label(tools, "bug")
    assert repo.issue(number).labels == ["ci"]


def test_what_is_written_is_neutralised_cut_and_not_repeated(
    github: GitHubSim, repo: Repository, tmp_path: Path
) -> None:
    """R17: nobody is mentioned, nothing closed; a long text is cut with its code block closed; an issue once."""
    number = repo.create_issue("One", "body").number
    repo.checkout(tmp_path / "w", "main")
    long = "Log:\n```\n" + "é🎈 line\n" * 9_000
    with sim_tools(github, repo, tmp_path / "w", number=number, is_pull=False) as tools:
        tools("comment", body="@maintainer fixes #1 ![x](https://evil.test/p.png)\n/merge")
        cut = tools("comment", body=long)
        filed = [tools("file_issue", title="Flaky  test", body="It @fails.").text for _ in range(2)]
    bad, whole = [c.body for c in repo.issue(number).comments]
    assert "@maintainer" not in bad
    assert "fixes #1" not in bad
    assert "\n/merge" not in bad
    assert "cut" in cut.text
    assert len(whole) <= 65_536
    assert whole.count("```") % 2 == 0
    assert "transcript" in whole
    assert "Filed issue" in filed[0]
    assert "open already" in filed[1]
    assert [i.title for i in repo.data.issues.values()].count("Flaky test") == 1


def test_the_cap_on_comments_refuses_the_next_one(github: GitHubSim, repo: Repository, tmp_path: Path) -> None:
    """S7: the broker counts, whatever the harness does."""
    number = repo.create_issue("One", "body").number
    repo.checkout(tmp_path / "w", "main")
    with sim_tools(github, repo, tmp_path / "w", number=number, is_pull=False, max_comments=2) as tools:
        results = [tools("comment", body=f"number {n}").is_error for n in range(4)]
    assert results == [False, False, True, True]
    assert len(repo.issue(number).comments) == 2


# --- checks -------------------------------------------------------------------------------------------------


def log(name: str) -> str:
    return (
        "2026-01-05T10:00:00.0000000Z ##[group]Run make test\n2026-01-05T10:00:00.1000000Z ##[endgroup]\n"
        f"2026-01-05T10:00:01.0000000Z error: {name} is broken\n"
        "2026-01-05T10:00:02.0000000Z ##[error]Process completed with exit code 2.\n"
    )


def test_the_failing_job_of_a_large_matrix_is_found_and_the_token_stays_here(
    github: GitHubSim, repo: Repository, tmp_path: Path
) -> None:
    """F14: the one failing job of 230 lies on page three, its log on another host, which never sees the token."""
    jobs: list[dict[str, Any]] = [
        {"id": 5000 + n, "name": f"test ({n})", "conclusion": "success", "log": "fine\n"} for n in range(230)
    ]
    jobs[225] |= {"conclusion": "failure", "log": log("job 225")}
    sha = repo.branch("main")
    repo.add_run(77, jobs, head_sha=sha)
    repo.checkout(tmp_path / "w", "main")
    with sim_tools(github, repo, tmp_path / "w", head_sha=sha, is_pull=False) as tools:
        texts = [
            tools("get_check_logs", **arguments).text
            for arguments in ({"run_id": 77}, {"job_id": 5225}, {"check_run_id": 5225}, {})
        ]
        recorded = str(tools.recorded)
    for text in texts:
        assert "test (225)" in text
        assert "error: job 225 is broken" in text
    fetched = [r for r in github.requests if "/repos/" not in r.path]
    assert len(fetched) == 4
    assert not any(r.header("Authorization") for r in fetched)
    assert "sig=" not in recorded


def test_matrix_jobs_that_fail_alike_are_told_once_and_an_older_attempt_is_read(
    github: GitHubSim, repo: Repository, tmp_path: Path
) -> None:
    """The latest attempt by run; an older one by its job."""
    jobs: list[dict[str, Any]] = [
        {"id": 6000 + n, "name": f"test ({n})", "log": log("the build"), "attempt": 2} for n in range(3)
    ]
    jobs.append({"id": 5999, "name": "test (0)", "log": log("the first attempt"), "attempt": 1})
    repo.add_run(88, jobs, attempt=2)
    repo.checkout(tmp_path / "w", "main")
    with sim_tools(github, repo, tmp_path / "w", is_pull=False, run_id=88) as tools:
        text = tools("get_check_logs").text
        older = tools("get_check_logs", job_id=5999).text
        first = tools("get_check_logs", attempt=1).text
        wrong = tools("get_check_logs", attempt=1, job_id=5999)
    assert text.count("error: the build is broken") == 1
    assert text.count("fails as test (0)") == 2
    assert "the first attempt" not in text
    assert "error: the first attempt is broken" in older
    assert "attempt 1" in older
    assert "Earlier attempts" in text
    assert "error: the first attempt is broken" in first
    assert "the build is broken" not in first
    assert "goes with run_id" in wrong.text


def test_a_job_without_a_log_is_explained(github: GitHubSim, repo: Repository, tmp_path: Path) -> None:
    """Expired, still running, or another app's check: what there is, and no traceback."""
    note = {"path": "a.py", "start_line": 3, "end_line": 3, "annotation_level": "failure", "message": "No space left"}
    sha = repo.branch("main") or ""
    repo.add_run(
        99,
        [
            {"id": 7001, "name": "expired", "log": "x", "log_status": 410, "annotations": [note]},
            {"id": 7002, "name": "running", "status": "in_progress"},
        ],
        head_sha=sha,
    )
    check = repo.add_check("lint-app", sha, "failure", title="3 problems", summary="see a.py")
    repo.checkout(tmp_path / "w", "main")
    with sim_tools(github, repo, tmp_path / "w", is_pull=False, head_sha=sha) as tools:
        assert "No space left" in tools("get_check_logs", job_id=7001).text
        assert "no log until it has ended" in tools("get_check_logs", job_id=7002).text
        assert "3 problems" in tools("get_check_logs", check_run_id=check.id).text
        listed = tools("list_checks").text
    assert listed.index("expired") < listed.index("running")
    assert f"check_run_id={check.id}" in listed
