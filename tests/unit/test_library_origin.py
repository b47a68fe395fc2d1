"""Bringing a clone's files back, whatever a model left there: nothing but plain changes of plain files comes."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.broker.git.rules import TreeRules
from agent.library.place import open_place

NAMES = ["a.txt", "data", "x", "build", ".env", ".git", ".GIT", ".gitignore", ".github", "hooks", ".gitmodules", "é"]
OUTSIDE = "../outside"


def git(folder: Path, *arguments: str) -> None:
    command = ["git", "-C", str(folder), "-c", "user.name=Ann", "-c", "user.email=ann@example.org", *arguments]
    subprocess.run(command, check=True, capture_output=True)


@pytest.fixture(scope="module")
def template() -> Iterator[Path]:
    """A checkout with tracked files, an ignored file and ignored link, and a folder beside it."""
    top = Path(tempfile.mkdtemp(prefix="airlock-test-"))
    top.chmod(0o755)
    folder = top / "shop"
    folder.mkdir()
    (top / "outside").mkdir()
    (top / "outside" / "x").write_text("precious\n")
    git(folder, "init", "-q", "-b", "main")
    (folder / "a.txt").write_text("a\n")
    (folder / "data").mkdir()
    (folder / "data" / "x").write_text("x\n")
    (folder / ".gitignore").write_text(".env\nbuild\n")
    (folder / ".github").mkdir()
    (folder / ".github" / "x").write_text("workflow\n")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "first")
    (folder / ".env").write_text("secret\n")
    (folder / "build").symlink_to(OUTSIDE)
    yield top
    shutil.rmtree(top)


PATHS = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map("/".join)
ACTS = st.lists(st.tuples(st.sampled_from(["write", "link", "folder", "remove", "exec"]), PATHS), max_size=12)


def act(folder: Path, kind: str, path: str) -> None:
    """One thing that a command might do; what the file system refuses is not done."""
    target = folder / path
    try:
        if kind == "remove":
            shutil.rmtree(target) if target.is_dir() and not target.is_symlink() else target.unlink()
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        if kind == "write":
            target.write_text(f"written {path}\n")
        elif kind == "link":
            target.symlink_to(OUTSIDE)
        elif kind == "folder":
            target.mkdir()
        else:
            target.write_text("#!/bin/sh\n")
            target.chmod(0o4777)
    except OSError:
        return


def everything(folder: Path) -> dict[str, object]:
    """Kind, mode and content of every entry, links not followed."""
    found: dict[str, object] = {}
    for path, folders, files in os.walk(folder):
        for name in (*folders, *files):
            entry = Path(path, name)
            mode = entry.lstat().st_mode
            content = os.readlink(entry) if stat.S_ISLNK(mode) else entry.read_bytes() if stat.S_ISREG(mode) else b""
            found[str(entry.relative_to(folder))] = (mode, content)
    return found


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(acts=ACTS)
def test_only_plain_changes_come_back(template: Path, acts: list[tuple[str, str]]) -> None:
    """Not `.git`, not what is ignored here, not a protected path, nothing through a link; the rest as it was left."""
    with tempfile.TemporaryDirectory(prefix="airlock-test-") as name:
        top = Path(name)
        top.chmod(0o755)
        shutil.copytree(template, top, symlinks=True, dirs_exist_ok=True)
        workspace, state = top / "shop", top / "state"
        state.mkdir(mode=0o711)
        before, outside = everything(workspace), everything(top / "outside")
        place = open_place(workspace, state, base_branch="main", writes=True, learn=lambda _: None)
        place.begin()
        for kind, path in acts:
            act(place.folder, kind, path)
        left = everything(place.folder)
        brought = place.bring_back(TreeRules())

        after = everything(workspace)
        assert everything(top / "outside") == outside
        kept = (".git", ".env", "build", ".github")
        assert {p: e for p, e in after.items() if p.split("/")[0] in kept} == {
            p: e for p, e in before.items() if p.split("/")[0] in kept
        }
        assert [p for p in after if ".git" in p.lower().split("/")[1:] or p.split("/")[0] == ".GIT"] == []
        changed = {p for p in {*before, *after} if before.get(p) != after.get(p)}
        folders = {p for p in changed if (workspace / p).is_dir() and not (workspace / p).is_symlink()}
        gone_folders = {p for p in changed if p not in after and stat.S_ISDIR(before[p][0])}  # type: ignore[index]
        assert changed - folders - gone_folders <= set(brought.paths)
        for path in brought.paths:
            here, there = after.get(path), left.get(path)
            if here is None or stat.S_ISDIR(here[0]):  # type: ignore[index]
                assert there is None or stat.S_ISDIR(there[0])  # type: ignore[index]
            else:
                assert here[1] == there[1]  # type: ignore[index]
                assert here[0] & 0o7000 == 0  # type: ignore[index]


def test_a_plain_change_does_come_back(template: Path, tmp_path: Path) -> None:
    """The control of the test above."""
    shutil.copytree(template, tmp_path, symlinks=True, dirs_exist_ok=True)
    state = tmp_path / "state"
    state.mkdir(mode=0o711)
    place = open_place(tmp_path / "shop", state, base_branch="main", writes=True, learn=lambda _: None)
    place.begin()
    for kind, path in (("write", "a.txt"), ("exec", "new/run"), ("remove", "data/x"), ("link", "link")):
        act(place.folder, kind, path)
    brought = place.bring_back(TreeRules())
    assert (set(brought.paths), brought.left_out) == ({"a.txt", "new/run", "data/x", "link"}, ())
    shop = tmp_path / "shop"
    assert (shop / "a.txt").read_text() == "written a.txt\n"
    assert stat.S_IMODE((shop / "new/run").stat().st_mode) == 0o755
    assert not (shop / "data").exists()
    assert os.readlink(shop / "link") == OUTSIDE
