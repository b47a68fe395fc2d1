"""Invariant S4: nothing but an own branch is ever pushed, and never by force, whatever the name looks like."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.broker.git.publish import Publisher
from agent.broker.git.rules import BranchRules, TreeRules, check_branch, check_pull, is_ref_name
from agent.broker.git.worktree import WorkTree
from agent.contract.errors import Refusal
from tests.support.checkouts import SimApi, worktree_of
from tests.support.github_sim import GitHubSim, Repository

RULES = BranchRules("agent/", "main", "release", frozenset({"stable"}), None)

# R08 and its relatives: name, part of the reason
FORBIDDEN = {
    "main": "default branch",
    "MAIN": "default branch",
    "Main": "default branch",
    "ma\u0131n": "does not begin",
    "mai\u200dn": "default branch",
    "\uff4dain": "default branch",
    "release": "base branch",
    "Release": "base branch",
    "stable": "protected",
    "STABLE": "protected",
    "refs/heads/main": "short name",
    "refs/heads/agent/x": "short name",
    "REFS/heads/main": "short name",
    "heads/main": "short name",
    "refs/heads/../main": "valid branch name",
    "agent/../../heads/main": "valid branch name",
    "agent/../main": "valid branch name",
    "refs/tags/v1": "short name",
    "tags/v1": "short name",
    "refs/tags/v2": "short name",
    "refs/notes/commits": "short name",
    "refs/pull/7/head": "short name",
    "pull/7/head": "short name",
    "refs/remotes/origin/main": "short name",
    "remotes/origin/main": "short name",
    ":feature/x": "valid branch name",
    "agent/x:main": "valid branch name",
    "+agent/x": "does not begin",
    "agent/x.lock": "valid branch name",
    "agent/x.lock/y": "valid branch name",
    "agent/.x": "valid branch name",
    "agent/x.": "valid branch name",
    "agent//x": "valid branch name",
    "/agent/x": "valid branch name",
    "agent/": "valid branch name",
    "agent": "does not begin",
    "Agent/x": "does not begin",
    "AGENT/x": "does not begin",
    "agents/x": "does not begin",
    "HEAD": "short name",
    "head": "short name",
    "@": "valid branch name",
    "agent/@{1}": "valid branch name",
    "": "valid branch name",
    " ": "valid branch name",
    "-f": "valid branch name",
    "--force": "valid branch name",
    "agent/x y": "valid branch name",
    "agent/x\n": "valid branch name",
    "agent/x\0y": "valid branch name",
    "agent/x~1": "valid branch name",
    "agent/x^": "valid branch name",
    "agent/x*": "valid branch name",
    "agent/x?": "valid branch name",
    "agent/[x]": "valid branch name",
    "agent/x\\y": "valid branch name",
    "agent/%2e%2e/main": "may hold only",
    "agent/\u00e9": "may hold only",
    "agent/$(touch${IFS}pwned)": "may hold only",
    "agent/a;touch${IFS}pwned": "may hold only",
    "agent/x`id`": "may hold only",
    "agent/it's-me": "may hold only",
    "feature/x": "does not begin",
    "other-person": "does not begin",
    "a" * 40: "short name",
}


@pytest.mark.parametrize("name", FORBIDDEN, ids=ascii)
def test_a_forbidden_name_is_refused_with_its_reason(name: str) -> None:
    """Each spelling of R08 and its relatives gets the reason of the first rule that it breaks."""
    with pytest.raises(Refusal) as caught:
        check_branch(name, RULES)

    assert caught.value.code == "push_branch_refused"
    assert FORBIDDEN[name] in str(caught.value)


@pytest.mark.parametrize("name", ["agent/fix-1", "agent/a/b/c", "agent/x_y.z", "agent/@scope/dep-1.2.3+build=1"])
def test_an_own_branch_is_allowed(name: str) -> None:
    """Positive control: ordinary names under the prefix pass."""
    check_branch(name, RULES)


@pytest.mark.parametrize("name", ["feature/x", "fix#42", "it's-me", "dependabot/npm_and_yarn/@quay/core-1.2.3+build"])
def test_the_pull_requests_own_head_is_allowed_only_where_the_run_may_and_only_exactly(name: str) -> None:
    """With permission the exact name passes; without it, or in another case, it is refused."""
    allowed = BranchRules("agent/", "main", "release", frozenset(), name)

    check_branch(name, allowed)
    for rules, other in ((RULES, name), (allowed, name.upper()), (allowed, name + "/y")):
        with pytest.raises(Refusal):
            check_branch(other, rules)


@pytest.mark.parametrize("head", ["main", "release", "MAIN", "stable"])
def test_a_head_that_is_default_base_or_protected_is_refused_even_where_asked_for(head: str) -> None:
    """The maintainer's request cannot lift the rule on the base branch."""
    with pytest.raises(Refusal):
        check_branch(head, BranchRules("agent/", "main", "release", frozenset({"stable"}), head))


@pytest.mark.parametrize(("prefix", "name"), [("", "anything"), ("main", "main"), ("ma", "main"), ("rel", "RELEASE")])
def test_a_prefix_that_would_cover_the_base_does_not(prefix: str, name: str) -> None:
    """An empty or unlucky prefix opens nothing."""
    with pytest.raises(Refusal):
        check_branch(name, BranchRules(prefix, "main", "release"))


@given(st.text(max_size=60))
def test_whatever_the_text_only_an_own_branch_passes(name: str) -> None:
    """Any text is refused, or begins with the prefix, is plain, and is none of the kept branches."""
    try:
        check_branch(name, RULES)
    except Refusal:
        return
    assert name.startswith("agent/")
    assert name.isascii()
    assert name.casefold() not in ("main", "release", "stable")


@given(st.text(alphabet="am/.-@{~^: l\\ockinLOCKé*[?\x7f\x01", max_size=14))
def test_names_are_judged_as_git_judges_them(name: str) -> None:
    """`is_ref_name` never accepts what `git check-ref-format --branch` refuses, and the other way round."""
    if "\0" in name or name in ("", "-"):
        return
    done = subprocess.run(["git", "check-ref-format", f"refs/heads/{name}"], check=False)
    expected = done.returncode == 0 and not name.startswith("-") and name != "@"

    assert is_ref_name(name) == expected


@pytest.mark.parametrize(
    ("head", "base", "code"),
    [
        ("main", "main", "push_branch_refused"),
        ("outsider:feature", "main", "push_branch_refused"),
        ("feature/x", "main", "push_branch_refused"),
        ("agent/x", "feature/x", "pull_base_refused"),
        ("agent/x", "refs/heads/main", "pull_base_refused"),
        ("agent/x", "", "pull_base_refused"),
    ],
)
def test_a_pull_request_from_or_into_the_wrong_branch_is_refused(head: str, base: str, code: str) -> None:
    """The head must be an own branch, the base one of this run's."""
    with pytest.raises(Refusal) as caught:
        check_pull(head, base, RULES)
    assert caught.value.code == code
    with pytest.raises(Refusal, match="shows the commits already"):
        check_pull("feature/x", "main", BranchRules("agent/", "main", "release", frozenset(), "feature/x"))
    check_pull("agent/x", "main", RULES)
    check_pull("agent/x", "release", RULES)


@dataclass
class Bench:
    """A repository at the simulator with the branches of R08, a commit in the shadow, and its publisher."""

    sim: GitHubSim
    repository: Repository
    worktree: WorkTree
    publisher: Publisher


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with GitHubSim(tmp_path / "sim") as sim:
        sim.token("t0ken")
        repository = sim.create_repository("acme/widgets", files={"src/app.py": "print(1)\n"})
        for name in ("release", "feature/x", "other-person", "stable"):
            repository.create_branch(name, "main")
        repository.create_tag("v1", "main")
        workspace = tmp_path / "work"
        start = repository.checkout(workspace, "feature/x")
        worktree = worktree_of(workspace, tmp_path / "shadow")
        (workspace / "src/app.py").write_text("print(2)\n")
        worktree.commit("Change")
        publisher = Publisher(
            SimApi(sim.api_url, "acme/widgets", "t0ken"),
            worktree.shadow,
            owner="acme",
            start=start,
            branches=RULES,
            trees=TreeRules(),
            holds_secret=lambda data: False,
        )
        yield Bench(sim, repository, worktree, publisher)


def test_no_forbidden_name_reaches_github_and_an_own_branch_does(bench: Bench) -> None:
    """Every forbidden push leaves the refs as they were and sends nothing; the control makes its one branch."""
    before = bench.repository.refs()
    for name in FORBIDDEN:
        with pytest.raises(Refusal):
            bench.publisher.push(bench.worktree.head, name)
    assert bench.repository.refs() == before
    assert [r.path for r in bench.sim.requests] == []

    pushed = bench.publisher.push(bench.worktree.head, "agent/fine")

    assert bench.repository.refs() == {**before, "refs/heads/agent/fine": pushed.sha}
    assert pushed.created
    sent = [(r.method, r.json) for r in bench.sim.requests if r.method != "GET"]
    assert not [r for r in sent if r[0] == "DELETE" or "refs/tags" in str(r[1]) or (r[1] or {}).get("force")]


def test_a_branch_that_is_protected_at_github_is_refused(bench: Bench) -> None:
    """An own name that somebody protected is asked for and refused; without protection it goes through."""
    bench.repository.create_branch("agent/kept", "feature/x")
    bench.repository.data.protection["agent/kept"] = {}
    before = bench.repository.refs()

    with pytest.raises(Refusal, match="protected at GitHub"):
        bench.publisher.push(bench.worktree.head, "agent/kept")
    assert bench.repository.refs() == before

    bench.repository.data.protection.clear()
    pushed = bench.publisher.push(bench.worktree.head, "agent/kept")
    assert bench.repository.branch("agent/kept") == pushed.sha
