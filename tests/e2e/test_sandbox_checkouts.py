"""A whole run on a linked worktree with submodules: every `.git` is a file that leads elsewhere."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.job import composite, tree
from tests.support.checkouts import git, make_checkout
from tests.support.model_server import ModelServer
from tests.support.model_turns import Call, Turn
from tests.support.scenario import World

WATCH = "git status --porcelain && git log --format=%s -1 && git rev-parse --absolute-git-dir"
TURNS = [
    Turn(calls=[Call("run_command", {"command": f"{WATCH} && cd mods/part && {WATCH}"})]),
    Turn(calls=[Call("list_dir", {"path": "."}), Call("read_file", {"path": "mods/part/.git/HEAD"})]),
    Turn(calls=[Call("edit_file", {"path": "README.md", "old": "# prices", "new": "# Prices"})]),
    Turn(calls=[Call("run_command", {"command": "git commit -q -a -m local && cd mods/part && git gc -q && echo ok"})]),
    Turn(calls=[Call("git_commit", {"message": "A capital"})]),
    Turn(text="Done."),
]


@pytest.mark.parametrize(
    ("shape", "sandbox"), [("folder", "container"), ("worktree", "container"), ("worktree", "process")]
)
def test_a_checkout_with_a_submodule_is_worked_on_and_put_back(
    make: Callable[..., World], image: str, gateway: str, shape: str, sandbox: str
) -> None:
    """The sandbox has a git of its own at the top and below, the harness sees none, all comes back byte for byte."""
    world = make(owner=0)
    part = world.folder / "part"
    make_checkout(part, {"p": "p\n"})
    git(world.workspace, "submodule", "add", "-q", str(part), "mods/part")
    git(world.workspace, "commit", "-q", "-m", "With a part")
    world.repository.push_from(world.workspace, "HEAD:refs/heads/main")
    kept = world.workspace
    if shape == "worktree":
        world.workspace = world.folder / "work/linked"
        git(kept, "worktree", "add", "-q", "--detach", str(world.workspace))
        git(world.workspace, "submodule", "update", "-q", "--init")
    for folder in (kept, world.workspace):
        for path in (folder, *folder.rglob("*")):
            os.chown(path, 1001, 1001, follow_symlinks=False)
    before = tree(world.workspace), tree(kept)
    repo = world.repository
    number = repo.create_issue("Capital", "Write the name with one.").number
    repo.add_comment(number, "/airlock implement", "maintainer")
    event = world.github.event("issue_comment", repo, number=number)
    with ModelServer(list(TURNS), host=gateway) as model:
        result = composite(world, "issue_comment", event, model, sandbox=sandbox).run()

    said = [event["text"] for event in result.events("tool.result")]
    assert [f"{world.workspace}{name}" in said[0] for name in ("/.git\n", "/mods/part/.git" if shape == "worktree"
            else "/.git/modules/mods/part")] == [True, True], result.log  # fmt: skip
    assert "With a part" in said[0]
    assert "first" in said[0]
    assert ".git" not in said[1].split()
    assert ".airlock-" not in said[1], "where the real git folder is kept meanwhile"
    assert "refs/heads" not in said[2]
    assert "ok" in said[4].split()
    assert '"README.md"' in said[5] or "README.md" in said[5]
    after = tree(world.workspace), tree(kept)
    readme = "README.md"
    assert (world.workspace / readme).read_text().startswith("# Prices")
    for one, other in zip(before, after, strict=True):
        assert {name for name in one | other if one.get(name) != other.get(name)} <= {readme}
    assert Path(world.workspace / ".git").is_file() == (shape == "worktree")
    assert git(world.workspace / "mods/part", "status", "--porcelain") == ""
