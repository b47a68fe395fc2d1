"""Publishing by the Git Data API, against the simulator's real repositories."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from agent.broker.git.objects import EMPTY_TREE, Entry
from agent.broker.git.publish import Publisher
from agent.broker.git.rules import BranchRules, TreeRules
from agent.broker.git.worktree import WorkTree
from agent.contract.errors import Refusal, ToolInputError, UpstreamError
from tests.support.checkouts import AUTHOR, SimApi, git, worktree_of
from tests.support.github_sim import GitHubSim, Repository

SECRET = "s3cr3t-value-of-this-run"
FILES: dict[str, Any] = {
    "README.md": "# Widgets\n",
    "src/app.py": "print(1)\n",
    "src/old.py": "old\n",
    "tool.sh": ("100755", "#!/bin/sh\n"),
    "scripts/prepush.sh": "exit 1\n",
    "dir/a": "a\n",
    "dir/b": "b\n",
}


@dataclass
class Bench:
    """A run that starts at `feature/x`."""

    sim: GitHubSim
    repository: Repository
    workspace: Path
    start: str
    worktree: WorkTree
    options: dict[str, Any] = field(default_factory=dict)

    def publisher(self, worktree: WorkTree | None = None, **options: Any) -> Publisher:
        wanted: dict[str, Any] = {
            "owner": "acme",
            "start": self.start,
            "branches": BranchRules("agent/", "main", "release"),
            "trees": TreeRules(protected=("scripts/prepush.sh",)),
            "holds_secret": lambda data: SECRET.encode() in data,
            "run_key": "500-1",
        }
        shadow = (worktree or self.worktree).shadow
        return Publisher(SimApi(self.sim.api_url, "acme/widgets", "t0ken"), shadow, **{**wanted, **options})

    def write(self, name: str, content: str | bytes) -> None:
        path = self.workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)

    def sent(self) -> list[tuple[str, str]]:
        return [(r.method, r.path.removeprefix("/repos/acme/widgets/")) for r in self.sim.requests if r.method != "GET"]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with GitHubSim(tmp_path / "sim") as sim:
        sim.token("t0ken")
        repository = sim.create_repository("acme/widgets", files=FILES)
        for name in ("release", "feature/x"):
            repository.create_branch(name, "main")
        workspace = tmp_path / "work"
        start = repository.checkout(workspace, "feature/x")
        yield Bench(sim, repository, workspace, start, worktree_of(workspace, tmp_path / "shadow"))


def files_of(repository: Repository, ref: str) -> dict[str, str]:
    """Mode of each path at a ref."""
    return {e.path: e.mode for e in repository.git.tree(ref, recursive=True) if e.type != "tree"}


def test_every_kind_of_change_arrives_bit_for_bit(bench: Bench) -> None:
    """Exec bits, links, renames, deletions, binary, empty, large and oddly named files arrive as they are."""
    big = os.urandom(3 << 20)
    bench.write("bin/data", bytes(range(256)))
    bench.write("empty", b"")
    bench.write("big.bin", big)
    bench.write("naïve name \u2603/ö.txt", "x\n")
    bench.write('q"uote\ttab', "x\n")
    bench.write("src/new.py", (bench.workspace / "src/old.py").read_bytes())
    (bench.workspace / "src/old.py").unlink()
    (bench.workspace / "src/app.py").chmod(0o755)
    (bench.workspace / "tool.sh").chmod(0o644)
    (bench.workspace / "link").symlink_to("../outside")
    made = bench.worktree.commit("All kinds")

    pushed = bench.publisher().push(made.sha, "agent/kinds")

    repository = bench.repository
    assert repository.branch("agent/kinds") == pushed.sha
    commit = repository.git.commit_info(pushed.sha)
    assert (commit.tree, commit.parents) == (made.tree, (bench.start,))
    assert commit.message.strip() == "All kinds\n\nAirlock-Run: 500-1"
    assert files_of(repository, "agent/kinds") == {
        "README.md": "100644",
        "bin/data": "100644",
        "big.bin": "100644",
        "dir/a": "100644",
        "dir/b": "100644",
        "empty": "100644",
        "link": "120000",
        "naïve name \u2603/ö.txt": "100644",
        'q"uote\ttab': "100644",
        "scripts/prepush.sh": "100644",
        "src/app.py": "100755",
        "src/new.py": "100644",
        "tool.sh": "100644",
    }
    assert repository.read("agent/kinds", "big.bin") == big
    assert repository.read("agent/kinds", "link") == b"../outside"


@pytest.mark.parametrize("direction", ["file-to-folder", "folder-to-file"])
def test_a_file_takes_the_place_of_a_folder_and_back(bench: Bench, direction: str) -> None:
    """Deletions go first where a name changes its kind, so that the tree is the one checked."""
    if direction == "file-to-folder":
        (bench.workspace / "README.md").unlink()
        bench.write("README.md/part", "x\n")
    else:
        for name in ("a", "b"):
            (bench.workspace / "dir" / name).unlink()
        (bench.workspace / "dir").rmdir()
        bench.write("dir", "now a file\n")
    made = bench.worktree.commit("Kind")

    pushed = bench.publisher().push(made.sha, "agent/kind")

    assert bench.repository.git.commit_info(pushed.sha).tree == made.tree


def test_several_commits_keep_their_order_and_a_second_push_sends_only_the_new_one(bench: Bench) -> None:
    """The branch is fast-forwarded, and each commit at GitHub goes on from the one before."""
    publisher = bench.publisher()
    shas = []
    for number in range(3):
        bench.write("src/app.py", f"print({number + 10})\n")
        shas.append(bench.worktree.commit(f"Step {number}").sha)
        if number == 1:
            first = publisher.push(shas[-1], "agent/steps")
    second = publisher.push(shas[-1], "agent/steps")
    again = publisher.push(shas[-1], "agent/steps")

    assert (first.commits, first.created) == (2, True)
    assert (second.commits, second.created) == (1, False)
    assert (again.sha, again.commits, again.created) == (second.sha, 0, False)
    assert bench.repository.git.commit_info(second.sha).parents == (first.sha,)
    updates = [r.json for r in bench.sim.requests if r.method == "PATCH"]
    assert updates == [{"sha": second.sha, "force": False}]


def test_the_head_branch_of_the_pull_request_is_fast_forwarded_where_allowed(bench: Bench) -> None:
    """With permission the commit goes onto the pull request's own branch."""
    bench.write("src/app.py", "print(2)\n")
    made = bench.worktree.commit("Onto the branch")
    rules = BranchRules("agent/", "main", "main", frozenset(), "feature/x")

    pushed = bench.publisher(branches=rules).push(made.sha, "feature/x")

    assert bench.repository.branch("feature/x") == pushed.sha
    assert bench.repository.git.commit_info(pushed.sha).parents == (bench.start,)


def test_the_head_branch_of_the_pull_request_is_not_made_again_when_it_is_gone(bench: Bench) -> None:
    """Somebody deleted the branch during the run; that is told, and nothing is made in its name."""
    bench.write("src/app.py", "print(2)\n")
    made = bench.worktree.commit("Late")
    rules = BranchRules("agent/", "main", "main", frozenset(), "feature/x")
    bench.repository.git.delete_ref("refs/heads/feature/x")

    with pytest.raises(Refusal, match="is gone at GitHub"):
        bench.publisher(branches=rules).push(made.sha, "feature/x")
    assert bench.repository.branch("feature/x") is None


def test_a_commit_of_somebody_else_on_the_branch_is_a_conflict_and_stays(bench: Bench) -> None:
    """Nothing is overwritten; the refusal says so, and another branch works."""
    bench.write("src/app.py", "print(2)\n")
    made = bench.worktree.commit("Mine")
    theirs = bench.repository.commit("agent/x", {"theirs": "1\n"}, base="feature/x")

    with pytest.raises(Refusal) as caught:
        bench.publisher().push(made.sha, "agent/x")

    assert caught.value.code == "push_conflict"
    assert bench.repository.branch("agent/x") == theirs
    assert bench.sent() == []
    assert bench.publisher().push(made.sha, "agent/y").created


def test_somebody_who_pushes_between_our_look_and_our_update_wins(bench: Bench) -> None:
    """The update is no force: GitHub's fast-forward check decides, and the loser is told."""
    publisher = bench.publisher()
    bench.write("src/app.py", "print(2)\n")
    publisher.push(bench.worktree.commit("One").sha, "agent/x")
    bench.write("src/app.py", "print(3)\n")
    two = bench.worktree.commit("Two")
    raced: list[str] = []
    api = publisher._api
    post = api.post

    def slow_post(path: str, body: Any, *, step: str) -> Any:
        answer = post(path, body, step=step)
        if path == "git/commits":
            raced.append(bench.repository.commit("agent/x", {"theirs": "1\n"}))
        return answer

    api.post = slow_post  # type: ignore[method-assign]
    with pytest.raises(Refusal) as caught:
        publisher.push(two.sha, "agent/x")

    assert caught.value.code == "push_conflict"
    assert bench.repository.branch("agent/x") == raced[0]


def test_two_runs_that_make_the_same_branch_at_once_do_not_trample_each_other(bench: Bench, tmp_path: Path) -> None:
    """The second to create the ref is told; the first's commit stays."""
    other = worktree_of(bench.workspace, tmp_path / "shadow2")
    bench.write("src/app.py", "print(2)\n")
    mine, theirs = bench.worktree.commit("Mine"), other.commit("Theirs")
    first, second = bench.publisher(run_key="1"), bench.publisher(other, run_key="2")
    tip = first._tip
    won: list[str] = []

    def late(branch: str) -> str | None:
        found = tip(branch)
        won.append(second.push(theirs.sha, branch).sha)
        return found

    first._tip = late  # type: ignore[method-assign]
    with pytest.raises(Refusal) as caught:
        first.push(mine.sha, "agent/same")

    assert caught.value.code == "push_conflict"
    assert bench.repository.branch("agent/same") == won[0]


def test_a_re_run_with_the_same_result_finds_its_branch_and_sends_nothing(bench: Bench, tmp_path: Path) -> None:
    """The trailer shows that the branch is by an attempt of this run, and the tree is the same."""
    bench.write("src/app.py", "print(2)\n")
    first = bench.publisher().push(bench.worktree.commit("One").sha, "agent/x")
    count = len(bench.sent())
    again = worktree_of(bench.workspace, tmp_path / "shadow2")

    pushed = bench.publisher(again).push(again.commit("One, again").sha, "agent/x")

    assert (pushed.sha, pushed.commits) == (first.sha, 0)
    assert len(bench.sent()) == count


def test_a_re_run_with_another_result_goes_on_from_its_branch(bench: Bench, tmp_path: Path) -> None:
    """The new commit stands on top of the former attempt's, whose history stays."""
    bench.write("src/app.py", "print(2)\n")
    first = bench.publisher().push(bench.worktree.commit("One").sha, "agent/x")
    bench.write("src/app.py", "print(3)\n")
    again = worktree_of(bench.workspace, tmp_path / "shadow2")
    made = again.commit("Better")

    pushed = bench.publisher(again).push(made.sha, "agent/x")

    commit = bench.repository.git.commit_info(pushed.sha)
    assert (commit.tree, commit.parents) == (made.tree, (first.sha,))


@pytest.mark.parametrize("trailer", ["", "Airlock-Run: 500-2", "Airlock-Run: 500-1 x", "see Airlock-Run: 500-1"])
def test_a_branch_of_another_run_is_not_taken_for_ours(bench: Bench, trailer: str) -> None:
    """Only the exact trailer line counts, and every commit since the start must have it."""
    theirs = bench.repository.commit("agent/x", {"t": "1\n"}, f"Theirs\n\n{trailer}", base="feature/x")
    theirs = bench.repository.commit("agent/x", {"t": "2\n"}, "Ours\n\nAirlock-Run: 500-1")
    bench.write("src/app.py", "print(2)\n")

    with pytest.raises(Refusal, match="did not make"):
        bench.publisher().push(bench.worktree.commit("Mine").sha, "agent/x")
    assert bench.repository.branch("agent/x") == theirs


STEPS = {
    "git/ref/": ("GET", "read branch"),
    "git/blobs": ("POST", "create blob src/app.py"),
    "git/trees": ("POST", "create tree"),
    "git/commits": ("POST", "create commit"),
    "git/refs": ("POST", "create ref"),
}


@pytest.mark.parametrize("path", STEPS)
def test_a_failure_names_its_step_and_leaves_nothing_that_a_re_run_trips_on(bench: Bench, path: str) -> None:
    """Whichever step fails, no ref is made, and the next push goes through."""
    method, step = STEPS[path]
    bench.write("src/app.py", "print(2)\n")
    made = bench.worktree.commit("One")
    before = bench.repository.refs()
    bench.sim.fault(method, path, 502, "<html>bad gateway</html>")

    with pytest.raises(UpstreamError) as caught:
        bench.publisher().push(made.sha, "agent/x")

    assert (caught.value.step, caught.value.status) == (step, 502)
    assert bench.repository.refs() == before
    assert bench.publisher().push(made.sha, "agent/x").created


@pytest.mark.parametrize(
    ("path", "step"),
    [("git/blobs", "create blob src/app.py"), ("git/trees", "create tree"), ("git/commits", "create commit")],
)
@pytest.mark.parametrize("body", [{"sha": "c" * 40}, {}, [], {"sha": 7}, {"sha": "../x"}])
def test_an_answer_about_something_else_is_not_believed(bench: Bench, path: str, step: str, body: Any) -> None:
    """Ids that GitHub returns are compared with ours; a tree other than the checked one gets no ref."""
    if path == "git/commits" and body == {"sha": "c" * 40}:
        return  # a commit's id is GitHub's to choose; the ref would then fail there
    bench.write("src/app.py", "print(2)\n")
    made = bench.worktree.commit("One")
    before = bench.repository.refs()
    bench.sim.fault("POST", path, 201, body)

    with pytest.raises(UpstreamError) as caught:
        bench.publisher().push(made.sha, "agent/x")

    assert caught.value.step == step
    assert bench.repository.refs() == before


def _secret_in_file(bench: Bench) -> None:
    bench.write("notes.txt", f"key={SECRET}\n")


def _secret_in_link(bench: Bench) -> None:
    (bench.workspace / "l").symlink_to(SECRET)


def _secret_in_name(bench: Bench) -> None:
    bench.write(f"a/{SECRET}", "")


def _protected(bench: Bench) -> None:
    bench.write("scripts/prepush.sh", "exit 0\n")


def _workflow(bench: Bench) -> None:
    bench.write(".GitHub/workflows/x.yml", "on: push\n")


def _not_utf8(bench: Bench) -> None:
    with open(os.fsencode(bench.workspace) + b"/caf\xe9", "wb"):
        pass


def _large(bench: Bench) -> None:
    bench.write("large", b"x" * 2000)


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (_secret_in_file, "push_holds_secret"),
        (_secret_in_link, "push_holds_secret"),
        (_secret_in_name, "push_holds_secret"),
        (_protected, "push_protected_path"),
        (_workflow, "push_protected_path"),
        (_not_utf8, "push_path_refused"),
        (_large, "push_too_large"),
    ],
)
def test_a_commit_that_breaks_a_rule_sends_nothing_even_below_an_honest_one(
    bench: Bench, spoil: Callable[[Bench], None], code: str
) -> None:
    """Every commit of the chain is looked at, and the control without it goes through."""
    publisher = bench.publisher(trees=TreeRules(protected=("scripts/prepush.sh",), max_file_bytes=1000))
    bench.write("src/app.py", "print(2)\n")
    honest = bench.worktree.commit("Honest")
    spoil(bench)
    bad = bench.worktree.commit("Bad")
    git(bench.workspace, "clean", "-fdq")
    git(bench.workspace, "checkout", "-q", "--", ".")
    bench.write("src/app.py", "print(3)\n")
    hidden = bench.worktree.commit("Taken back")

    for sha in (bad.sha, hidden.sha):
        with pytest.raises(Refusal) as caught:
            publisher.push(sha, "agent/x")
        assert caught.value.code == code
        assert SECRET not in str(caught.value)
    assert bench.sim.requests == []
    assert publisher.push(honest.sha, "agent/x").created


def test_a_secret_in_message_or_branch_sends_nothing(bench: Bench) -> None:
    """Texts of a push are looked at as files are."""
    bench.write("src/app.py", "print(2)\n")
    made = bench.worktree.commit(f"Use {SECRET}")

    with pytest.raises(Refusal) as caught:
        bench.publisher().push(made.sha, "agent/x")
    with pytest.raises(Refusal):
        bench.publisher().push(made.sha, f"agent/{SECRET}")
    assert caught.value.code == "push_holds_secret"
    assert bench.sim.requests == []


def test_a_submodule_stays_where_it_is_and_changing_it_is_refused(bench: Bench, tmp_path: Path) -> None:
    """The base's gitlink is in the pushed tree untouched; a commit that moves it sends nothing."""
    api = SimApi(bench.sim.api_url, "acme/widgets", "t0ken")
    tree = {
        "base_tree": bench.start,
        "tree": [{"path": "mods/sub", "mode": "160000", "type": "commit", "sha": "d" * 40}],
    }
    made = api.post("git/trees", tree, step="t")["sha"]
    commit = {"message": "sub", "tree": made, "parents": [bench.start]}
    start = api.post("git/commits", commit, step="c")["sha"]
    api.patch("git/refs/heads/feature/x", {"sha": start}, step="r")
    workspace = tmp_path / "with-sub"
    bench.repository.checkout(workspace, "feature/x")
    worktree = worktree_of(workspace, tmp_path / "shadow-sub")
    (workspace / "mods/sub").rmdir()
    (workspace / "src/app.py").write_text("print(2)\n")
    honest = worktree.commit("Honest")
    shadow = worktree.shadow
    entries = {**shadow.entries(honest.tree), b"mods/sub": Entry("160000", "e" * 40)}
    moved = shadow.commit(shadow.write_tree(entries), [honest.sha], "Move", AUTHOR, seconds=1)
    bench.sim.requests.clear()

    with pytest.raises(Refusal) as caught:
        bench.publisher(worktree, start=start).push(moved, "agent/x")
    assert caught.value.code == "push_submodule_refused"
    assert bench.sim.requests == []
    bench.publisher(worktree, start=start).push(honest.sha, "agent/x")
    assert files_of(bench.repository, "agent/x")["mods/sub"] == "160000"


def test_many_files_go_in_several_trees(bench: Bench) -> None:
    """A commit of more entries than one request takes still gives the checked tree."""
    for number in range(620):
        bench.write(f"many/f{number:03}", "same\n")
    made = bench.worktree.commit("Many")

    pushed = bench.publisher(trees=TreeRules(max_files=1000)).push(made.sha, "agent/many")

    assert bench.repository.git.commit_info(pushed.sha).tree == made.tree
    assert bench.sent().count(("POST", "git/trees")) == 2
    assert bench.sent().count(("POST", "git/blobs")) == 1
    assert made.tree != EMPTY_TREE


def test_a_large_commit_of_text_takes_few_requests_and_every_byte_arrives(bench: Bench) -> None:
    """Small text travels inside the trees; binary, empty and large files by blobs; the tree is the checked one."""
    wanted = {f"t/{n}": f"naïve {n}\r\n\ttext \x01 without end".encode() * (n * 40) for n in range(1, 60)}
    wanted |= {"t/nul": b"a\0b", "t/latin": b"caf\xe9", "t/none": b"", "t/big": b"x" * 70_000}
    for name, data in wanted.items():
        bench.write(name, data)
    (bench.workspace / "t/link").symlink_to("1")
    made = bench.worktree.commit("Large")

    pushed = bench.publisher().push(made.sha, "agent/large")

    assert bench.repository.git.commit_info(pushed.sha).tree == made.tree
    assert {name: bench.repository.read("agent/large", name) for name in wanted} == wanted
    sent = bench.sent()
    assert sent.count(("POST", "git/blobs")) < 20
    assert len(sent) < 30


def test_a_tree_that_changed_a_text_is_made_again_from_blobs(bench: Bench) -> None:
    """Where the tree made from text is not the checked one, the files go byte for byte, and then it is."""
    for number in range(20):
        bench.write(f"t/{number}", f"{number}\r\n")
    made = bench.worktree.commit("Text")
    bench.sim.fault("POST", "git/trees", 201, {"sha": "c" * 40})

    pushed = bench.publisher().push(made.sha, "agent/text")

    assert bench.repository.git.commit_info(pushed.sha).tree == made.tree
    assert bench.sent().count(("POST", "git/blobs")) == 20


def test_nothing_to_push_is_the_models_to_mend(bench: Bench) -> None:
    """A push without a commit is told as such."""
    with pytest.raises(ToolInputError, match="Commit first"):
        bench.publisher().push(bench.start, "agent/x")


def test_content_is_sent_as_base64_so_that_no_byte_changes(bench: Bench) -> None:
    """Bytes that are not text travel unchanged."""
    bench.write("b", b"\xff\x00\r\n")
    bench.publisher().push(bench.worktree.commit("B").sha, "agent/b")

    bodies = [r.json for r in bench.sim.requests if r.path.endswith("git/blobs")]
    assert bodies == [{"content": base64.b64encode(b"\xff\x00\r\n").decode(), "encoding": "base64"}]


def test_a_pull_request_is_opened_once_and_then_brought_up_to_date(bench: Bench) -> None:
    """The second call edits the first's pull request; another base gets another one."""
    publisher = bench.publisher()
    bench.write("src/app.py", "print(2)\n")
    publisher.push(bench.worktree.commit("One").sha, "agent/x")

    first = publisher.create_pull_request("Title", "Body", "agent/x", "release")
    second = publisher.create_pull_request("Better", "More", "agent/x", "release")
    other = publisher.create_pull_request("Other", "Body", "agent/x", "main")

    assert (first.updated, second.updated, other.updated) == (False, True, False)
    assert second.number == first.number != other.number
    pull = bench.repository.issue(first.number)
    assert (pull.title, pull.body) == ("Better", "More")
    assert str(first.number) in first.url


def test_a_pull_request_that_the_settings_forbid_names_the_setting(bench: Bench) -> None:
    """GitHub's 403 becomes a sentence that says where to allow it."""
    publisher = bench.publisher()
    bench.write("src/app.py", "print(2)\n")
    publisher.push(bench.worktree.commit("One").sha, "agent/x")
    message = "GitHub Actions is not permitted to create or approve pull requests."
    bench.sim.fault("POST", "/pulls$", 403, {"message": message})

    with pytest.raises(UpstreamError) as caught:
        publisher.create_pull_request("T", "B", "agent/x", "main")

    assert (caught.value.step, caught.value.status) == ("create pull request", 403)
    assert "Settings, Actions, General" in str(caught.value)
    assert "push-token" in str(caught.value)


def test_other_failures_of_a_pull_request_keep_their_words(bench: Bench) -> None:
    """A 422 such as `No commits between` is passed on with its step."""
    with pytest.raises(UpstreamError) as caught:
        bench.publisher().create_pull_request("T", "B", "agent/none", "main")
    assert caught.value.step == "create pull request"
    assert caught.value.status == 422


def test_a_secret_in_title_or_body_opens_nothing(bench: Bench) -> None:
    """The pull request's words are looked at too."""
    for title, body in ((SECRET, "b"), ("t", SECRET)):
        with pytest.raises(Refusal, match="holds a secret"):
            bench.publisher().create_pull_request(title, body, "agent/x", "main")
    assert bench.sim.requests == []
