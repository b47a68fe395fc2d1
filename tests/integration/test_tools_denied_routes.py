"""A denied tool takes its routes with it, whoever asks for them: `github_request`, or a harness that is taken over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agent.broker.policy.builtin import RunParameters, github_connection
from agent.broker.policy.decide import Policy
from agent.broker.policy.words import OFFER_GATE, PUBLISHER_GATE, Authority, EgressRequest
from agent.contract.modes import TOOL_TIERS, Tier
from tests.support.github_sim import GitHubSim
from tests.support.github_sim.repository import Repository
from tests.support.sim_broker import TOKEN, SimTools, sim_tools

ROOT = "/repos/acme/shop"
RUN, JOB = 77, 5001
TALK = tuple(name for name, tier in TOOL_TIERS.items() if tier in (Tier.READ, Tier.COMMENT))


@pytest.fixture
def repo(github: GitHubSim, tmp_path: Path) -> Repository:
    """One pull request with a comment and a failed job; its head is checked out."""
    github.token(TOKEN)
    github.add_user("maintainer", "write")
    repo = github.create_repository("acme/shop", files={"a.py": "one\n"})
    repo.commit("topic", {"a.py": "two\n"}, base="main")
    number = repo.create_pull("topic", body="the description").number
    repo.add_comment(number, "the talk", "maintainer")
    sha = repo.branch("topic") or ""
    repo.add_run(RUN, [{"id": JOB, "name": "test", "log": "the log\n"}], head_sha=sha)
    repo.checkout(tmp_path / "w", "topic")
    return repo


def world(github: GitHubSim, repo: Repository, tmp_path: Path, tools: tuple[str, ...]) -> Any:
    (pull,) = repo.pulls()
    facts = {"number": pull.number, "head_sha": repo.branch("topic"), "base_sha": repo.branch("main")}
    return sim_tools(github, repo, tmp_path / "w", tools=tools, **facts)


def paths(repo: Repository) -> dict[str, tuple[str, ...]]:
    """What only this tool's offer opens; `N` is the pull request's number."""
    (pull,) = repo.pulls()
    pages = {
        # pull.get stays open to list_checks and the review tools, which need it
        "get_pull_request": ("/pulls", "/pulls/N/commits", "/commits/SHA/pulls"),
        "get_issue": ("/issues/N/labels",),
        "list_comments": ("/pulls/N/reviews/1/comments", "/issues/N/timeline", "/collaborators/maintainer/permission"),
        "list_checks": ("/commits/SHA/check-runs", "/commits/SHA/status"),
        "get_check_logs": (
            f"/actions/jobs/{JOB}/logs", f"/actions/runs/{RUN}", f"/actions/runs/{RUN}/jobs",
            f"/actions/runs/{RUN}/logs", f"/check-runs/{JOB}/annotations", "/actions/runs",
        ),
        "read_file": ("/contents/a.py", "/git/trees/SHA"),
        "git_log": ("/commits", "/git/commits/SHA"),
        "git_diff": ("/commits/SHA",),
    }  # fmt: skip
    sha = repo.branch("topic") or ""
    return {
        tool: tuple(ROOT + p.replace("N", str(pull.number)).replace("SHA", sha) for p in some)
        for tool, some in pages.items()
    }


def asked(tools: SimTools, path: str) -> str:
    return tools("github_request", method="GET", path=path).text


def test_what_a_denied_tool_reads_cannot_be_read_in_its_place(
    github: GitHubSim, repo: Repository, tmp_path: Path
) -> None:
    """C4: refused with the code, nothing leaves; with the tool offered the same requests reach GitHub."""
    for denied, wanted in paths(repo).items():
        with world(github, repo, tmp_path, tuple(t for t in TALK if t != denied)) as tools:
            github.requests.clear()
            for path in wanted:
                assert "egress_gate_closed" in asked(tools, path), denied
            assert github.requests == []
            assert [(e["code"], e["path"]) for e in tools.recorded if e["type"] == "egress.denied"] == [
                ("egress_gate_closed", path) for path in wanted
            ]
    every = [path for some in paths(repo).values() for path in some]
    with world(github, repo, tmp_path, TALK) as tools:
        assert [path for path in every if "egress" in asked(tools, path)] == []
    assert {r.path for r in github.requests} >= set(every)


def test_without_github_request_only_what_another_tool_needs_stays(
    github: GitHubSim, repo: Repository, tmp_path: Path
) -> None:
    """The messages of a harness that is taken over: no free look-ups, though the tools' own routes stay open."""
    own = (ROOT, f"{ROOT}/branches/main", "/users/maintainer", "/rate_limit", f"{ROOT}/contents/a.py")
    others = tuple(t for t in TALK if t != "github_request")
    policy = Policy([github_connection(RunParameters("acme/shop", repo.id, tools=others))])
    harness = Authority.harness(frozenset({Tier.READ, Tier.COMMENT}))
    codes = [policy.check(EgressRequest("github", "GET", path), harness).code for path in own]
    assert codes == ["egress_gate_closed"] * len(own)
    needed = (f"{ROOT}/pulls/1", f"{ROOT}/issues/1", f"{ROOT}/actions/jobs/{JOB}/logs", f"{ROOT}/pulls/1/files")
    assert [policy.check(EgressRequest("github", "GET", path), harness).code for path in needed] == [None] * 4
    with world(github, repo, tmp_path, TALK) as tools:
        assert ["egress" in asked(tools, path) for path in own] == [False] * len(own)


def test_a_diff_by_another_route_needs_a_tool_that_reads_diffs(repo: Repository) -> None:
    """C4: `get_pull_request` opens the pull's facts; its diff is what `list_pull_request_files` is denied for."""
    harness = Authority.harness(frozenset({Tier.READ, Tier.COMMENT}))

    def asked_for(media: str, tools: tuple[str, ...]) -> str | None:
        policy = Policy([github_connection(RunParameters("acme/shop", repo.id, tools=tools))])
        request = EgressRequest("github", "GET", f"{ROOT}/pulls/1", headers={"Accept": media})
        wire = policy.check(request, harness).wire
        assert wire is not None
        return dict(wire.headers).get("accept")

    for form in ("diff", "patch"):
        media = f"application/vnd.github.{form}"
        assert asked_for(media, ("github_request", "get_pull_request")) is None
        assert asked_for(media, ("github_request", "get_pull_request", "list_pull_request_files")) == media
    assert asked_for("application/json", ("github_request", "get_pull_request")) == "application/json"


def test_a_denied_comment_tools_routes_write_nothing(github: GitHubSim, repo: Repository, tmp_path: Path) -> None:
    """The same for writes, by `github_request`."""
    (pull,) = repo.pulls()
    comment = {"path": "a.py", "line": 1, "side": "RIGHT", "body": "x", "commit_id": repo.branch("topic")}
    writes: dict[str, tuple[str, dict[str, Any], tuple[str, ...]]] = {
        "comment": (f"/issues/{pull.number}/comments", {"body": "x"}, ()),
        "file_issue": ("/issues", {"title": "x", "body": "x"}, ()),
        "review_comment": (f"/pulls/{pull.number}/comments", comment, ("submit_review",)),
        "submit_review": (f"/pulls/{pull.number}/reviews", {"event": "COMMENT", "body": "x"}, ()),
    }
    for tool, (path, body, others) in writes.items():
        with world(github, repo, tmp_path, tuple(t for t in TALK if t not in (tool, *others))) as tools:
            refused = tools("github_request", method="POST", path=ROOT + path, body=body)
            assert "egress_gate_closed" in refused.text
    assert [r for r in github.requests if r.method != "GET"] == []
    with world(github, repo, tmp_path, TALK) as tools:
        for path, body, _ in writes.values():
            assert not tools("github_request", method="POST", path=ROOT + path, body=body).is_error


ALONE: dict[str, tuple[dict[str, Any], ...]] = {
    "get_pull_request": ({},),
    "list_pull_request_files": ({},),
    "get_issue": ({},),
    "list_comments": ({}, {"comment_id": 1}),
    "list_checks": ({},),
    "get_check_logs": ({}, {"run_id": RUN}, {"run_id": RUN, "attempt": 1}, {"job_id": JOB}, {"check_run_id": JOB}),
    "comment": ({"body": "x", "key": "k"}, {"body": "y", "key": "k"}),
    "file_issue": ({"title": "t", "body": "b"},),
    "review_comment": ({"path": "a.py", "line": 1, "body": "Off by one."},),
    "submit_review": ({"body": "b", "comments": [{"path": "a.py", "line": 1, "body": "Off by one."}]},),
}


def test_a_tool_that_is_offered_alone_has_every_route_that_it_needs(
    github: GitHubSim, repo: Repository, tmp_path: Path
) -> None:
    """The map is whole: denying all others breaks no tool."""
    for tool, calls in ALONE.items():
        github.requests.clear()
        with world(github, repo, tmp_path, (tool,)) as tools:
            for arguments in calls:
                tools(tool, **arguments)
            assert [e for e in tools.recorded if e["type"] == "egress.denied"] == [], tool
        assert github.requests, tool


def test_the_broker_keeps_what_it_needs_and_every_route_names_tools_that_exist() -> None:
    """No offered tool at all: each route is closed to the harness; reads stay open to the broker itself."""
    names = tuple(TOOL_TIERS)
    everything = github_connection(RunParameters("acme/shop", 1, tools=names))
    nothing = github_connection(RunParameters("acme/shop", 1, tools=()))
    assert [r.id for r in everything.routes if r.gate == OFFER_GATE] == []
    assert {r.gate for r in nothing.routes} == {OFFER_GATE, PUBLISHER_GATE}
    assert OFFER_GATE in Authority.broker().gates & Authority.publisher(frozenset()).gates
    assert OFFER_GATE not in Authority.harness(frozenset(Tier)).gates
