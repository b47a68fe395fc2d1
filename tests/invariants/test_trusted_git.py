"""Invariant: no git command of the trusted side runs code that lies in the workspace (DESIGN section 4.6).

A nested repository brings `core.fsmonitor` and a clean filter of its own; git enters it from any command
that walks the work tree. The positive control runs exactly such commands and sees both payloads run.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent.broker.git.journal import undo
from agent.broker.git.materialise import bring_to, materialise
from agent.broker.git.prepare import prepare
from agent.broker.git.publish import Publisher
from agent.broker.git.rules import BranchRules, TreeRules
from agent.broker.git.run import OPTIONS, Git
from agent.broker.git.workspace import open_shadow, open_worktree
from tests.support.checkouts import SimApi, git, make_checkout
from tests.support.github_sim import GitHubSim

FILES = {"src/app.py": "print('one')\n", "README.md": "# Widgets\n", "sub/keep.txt": "x\n"}
WALKERS = ("status", "add", "diff", "diff-files", "diff-index", "commit", "stash", "checkout", "reset", "clean")


def plant(workspace: Path, marks: Path) -> None:
    """Every payload that git would run out of a work tree, at the top and in a registered nested repository."""
    nested = workspace / "vendor"
    make_checkout(nested, {"a.txt": "a\n"})
    for folder in (workspace, nested):
        for key, value in {
            "core.fsmonitor": f"touch {marks}/fsmonitor; false",
            "filter.x.clean": f"sh -c 'touch {marks}/clean; cat'",
            "filter.x.smudge": f"sh -c 'touch {marks}/smudge; cat'",
            "diff.y.textconv": f"sh -c 'touch {marks}/textconv; cat'",
            "diff.external": f"touch {marks}/extdiff",
            "core.sshCommand": f"touch {marks}/ssh",
            "core.pager": f"touch {marks}/pager",
            "core.hooksPath": str(workspace / "hooks"),
        }.items():
            git(folder, "config", key, value)
        (folder / ".gitattributes").write_text("* filter=x diff=y\n")
    hooks = workspace / "hooks"
    hooks.mkdir()
    for name in (
        "pre-commit",
        "post-commit",
        "post-index-change",
        "reference-transaction",
        "pre-push",
        "post-checkout",
    ):
        (hooks / name).write_text(f"#!/bin/sh\ntouch {marks}/hook-{name}\n")
        (hooks / name).chmod(0o755)
    # a gitlink in the index, as the agent can make one, is what makes git enter the nested repository
    head = git(nested, "rev-parse", "HEAD")
    git(workspace, "update-index", "--add", "--cacheinfo", f"160000,{head},vendor")
    (nested / "a.txt").write_text("b\n")
    (workspace / "src/app.py").write_text("print('two')\n")


@pytest.mark.root
def test_payloads_of_the_workspace_never_run_on_the_trusted_side(tmp_path: Path) -> None:
    """Snapshot, diff, commit, materialise, bring_to, push and undo leave no mark of any payload."""
    marks = tmp_path / "marks"
    marks.mkdir(mode=0o777)
    with GitHubSim(tmp_path / "sim") as sim:
        sim.token("t0ken")
        repository = sim.create_repository("acme/widgets", files=dict(FILES))
        workspace = tmp_path / "work/widgets"
        start = repository.checkout(workspace, "main")
        state = tmp_path / "state"
        prepared = prepare(workspace, state)
        shadow = open_shadow(prepared, state / "shadow.git")
        worktree = open_worktree(prepared, shadow, workspace)
        plant(workspace, marks)
        for mark in marks.iterdir():  # planting runs ordinary git itself
            mark.unlink()

        snapshot = worktree.snapshot()
        text = worktree.diff()
        worktree.shadow.log(worktree.head, 5, "src")
        made = worktree.commit("Change app", ["src"])
        target = tmp_path / "gate"
        target.mkdir()
        materialise(shadow, snapshot.tree, target)
        bring_to(shadow, target, snapshot.tree, start)
        publisher = Publisher(
            SimApi(sim.api_url, "acme/widgets", "t0ken"),
            shadow,
            owner="acme",
            start=start,
            branches=BranchRules("agent/", "main"),
            trees=TreeRules(),
            holds_secret=lambda data: False,
        )
        pushed = publisher.push(made.sha, "agent/change")
        undo(state)

        assert sorted(os.listdir(marks)) == []
        assert "+print('two')" in text
        assert made.files() == [{"path": "src/app.py", "status": "modified"}]
        assert repository.branch("agent/change") == pushed.sha
        assert repository.read("agent/change", "src/app.py") == b"print('two')\n"


def test_positive_control_the_same_payloads_do_run_under_commands_that_walk(tmp_path: Path) -> None:
    """`git status` and `git add` in the same tree run the nested repository's fsmonitor and clean filter."""
    marks = tmp_path / "marks"
    marks.mkdir()
    workspace = tmp_path / "work"
    make_checkout(workspace, FILES)
    plant(workspace, marks)
    shadow = tmp_path / "shadow"
    git(workspace, "clone", "-q", "--bare", str(workspace), str(shadow))
    git(workspace, f"--git-dir={shadow}", f"--work-tree={workspace}", "read-tree", "HEAD")
    head = git(workspace / "vendor", "rev-parse", "HEAD")
    git(workspace, f"--git-dir={shadow}", "update-index", "--add", "--cacheinfo", f"160000,{head},vendor")
    for mark in marks.iterdir():
        mark.unlink()

    git(workspace, f"--git-dir={shadow}", f"--work-tree={workspace}", "status", check=False)
    git(workspace, f"--git-dir={shadow}", f"--work-tree={workspace}", "add", "-A", check=False)

    assert {"fsmonitor", "clean"} <= set(os.listdir(marks))


@pytest.mark.parametrize("subcommand", WALKERS)
def test_a_command_that_walks_the_work_tree_cannot_be_called(tmp_path: Path, subcommand: str) -> None:
    """The runner knows no such subcommand, so a later mistake fails in its first test."""
    with pytest.raises(ValueError, match="is not run on the trusted side"):
        Git(tmp_path).run(subcommand)
    assert subcommand not in OPTIONS


@pytest.mark.parametrize(
    ("subcommand", "option"),
    [
        ("cat-file", "--textconv"),
        ("cat-file", "--filters"),
        ("diff-tree", "--ext-diff"),
        ("diff-tree", "--textconv"),
        ("diff-tree", "--output=/tmp/x"),
        ("log", "--show-signature"),
        ("log", "--ext-diff"),
        ("config", "--includes"),
        ("config", "--global"),
        ("index-pack", "--index-version=2"),
    ],
)
def test_an_option_that_runs_or_writes_something_cannot_be_given(tmp_path: Path, subcommand: str, option: str) -> None:
    """Options are a closed list too; the listed ones work."""
    with pytest.raises(ValueError, match="is not run on the trusted side"):
        Git(tmp_path).argv(subcommand, option)
    assert subcommand in Git(tmp_path).argv(subcommand)


def test_the_environment_of_git_is_built_from_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables of the caller that steer git do not reach it."""
    for name in ("GIT_EXTERNAL_DIFF", "GIT_SSH", "GIT_PROXY_COMMAND", "GIT_TRACE", "GITHUB_TOKEN", "https_proxy"):
        monkeypatch.setenv(name, f"touch {tmp_path}/{name}")
    environment = Git(tmp_path).environment()

    assert sorted(environment) == [
        "GIT_ALLOW_PROTOCOL",
        "GIT_ASKPASS",
        "GIT_ATTR_NOSYSTEM",
        "GIT_CEILING_DIRECTORIES",
        "GIT_CONFIG_GLOBAL",
        "GIT_CONFIG_NOSYSTEM",
        "GIT_DIR",
        "GIT_EDITOR",
        "GIT_NO_LAZY_FETCH",
        "GIT_NO_REPLACE_OBJECTS",
        "GIT_OPTIONAL_LOCKS",
        "GIT_PAGER",
        "GIT_PROTOCOL_FROM_USER",
        "GIT_SSH_COMMAND",
        "GIT_TERMINAL_PROMPT",
        "HOME",
        "LC_ALL",
        "PATH",
        "TZ",
        "XDG_CONFIG_HOME",
    ]
    assert "touch" not in "".join(environment.values())
