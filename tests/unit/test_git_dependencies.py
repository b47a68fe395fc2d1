"""Ignored folders for gates: which are found, how they are kept and copied, and that no gate changes the next."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from agent.broker.git.checkouts import Checkouts
from agent.broker.git.dependencies import Bounds, Dependencies
from agent.broker.git.materialise import Owner
from agent.broker.git.snapshot import Snapshotter
from agent.contract.errors import UpstreamError
from tests.support.checkouts import git, make_checkout, shadow_of, worktree_of
from tests.unit.test_git_materialise import contents

ROOT = os.geteuid() == 0
OWNER = Owner(20001, 20002) if ROOT else None


def write(path: Path, data: str = "x\n", mode: int = 0o644) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(data)
    path.chmod(mode)
    return path


def kept(workspace: Path, state: Path, *paths: bytes, bounds: Bounds | None = None) -> Dependencies:
    found = Dependencies(state, OWNER, bounds)
    assert found.keep(workspace, paths) == ""
    return found


def new(path: Path) -> Path:
    path.mkdir()
    return path


def test_the_folders_are_those_that_git_ignores_as_a_whole(tmp_path: Path) -> None:
    """Maximal ones, by the rules of every `.gitignore`; never a tracked folder, a link, a file or the private place."""
    work = tmp_path / "work"
    make_checkout(
        work,
        {
            ".gitignore": "node_modules\n.venv/\n*.cache\n.airlock-*\nbuild/\n!keep.cache\nvendor/\n",
            "web/.gitignore": "/out\n",
            "web/app.js": "",
            "vendor/code.c": "",
        },
    )
    git(work, "add", "-f", "vendor/code.c")
    git(work, "commit", "-q", "--allow-empty", "-m", "vendored")
    for name in (
        ".venv/bin/python",
        "node_modules/a/node_modules/b/c.js",
        "web/node_modules/d/e.js",
        "web/out/x",
        "out/x",
        "x.cache/y",
        "keep.cache/y",
        "file/build/z",
        "vendor/built/w",
        ".airlock-1/private/git",
    ):
        write(work / name)
    write(work / "lone.cache")
    (work / "build").symlink_to("/etc")
    status = (work / ".airlock-1").stat()
    shadow = shadow_of(work, tmp_path / "shadow")
    snapshotter = Snapshotter(shadow, work, excluded=(status.st_dev, status.st_ino))
    found = snapshotter.take(shadow.tree_of(git(work, "rev-parse", "HEAD"))).ignored

    by_git = subprocess.run(
        ["git", "-c", "safe.directory=*", "-C", str(work), "ls-files", "-oi", "--exclude-standard", "--directory"],
        check=True,
        capture_output=True,
    ).stdout.split()
    assert sorted(found) == sorted(
        [b".venv", b"node_modules", b"web/node_modules", b"web/out", b"x.cache", b"file/build"]
    )
    assert set(found) <= {name.rstrip(b"/") for name in by_git}


def test_copies_hold_what_was_there_and_belong_to_the_sandboxs_user(tmp_path: Path) -> None:
    """Modes, links as links, times, odd names; no set-user-id bit, no device, no socket, no git folder."""
    work = tmp_path / "work"
    tool = write(work / "node_modules/.bin/check", "#!/bin/sh\n", 0o755)
    os.utime(tool, ns=(1_600_000_000_123_456_789, 1_600_000_000_123_456_789))
    write(work / "node_modules/read-only", mode=0o444)
    write(work / "node_modules/su", mode=0o4755)
    write(work / "node_modules/dep/.git/hooks/post-checkout")
    write(work / "node_modules/dep/GIT~1")
    (work / "node_modules/empty").mkdir()
    (work / "node_modules/out").symlink_to("/etc")
    (work / "node_modules/.bin/again").symlink_to("check")
    os.link(tool, work / "node_modules/twin")
    os.mkfifo(work / "node_modules/fifo")
    with open(os.fsencode(work) + b"/node_modules/caf\xe9\n", "wb") as file:
        file.write(b"odd")
    gate = new(tmp_path / "gate")

    kept(work, tmp_path / "state", b"node_modules").place(gate)

    assert contents(gate) == {
        "node_modules/.bin/check": (0o755, b"#!/bin/sh\n"),
        "node_modules/.bin/again": (0o120000, b"check"),
        "node_modules/twin": (0o755, b"#!/bin/sh\n"),
        "node_modules/read-only": (0o444, b"x\n"),
        "node_modules/su": (0o755, b"x\n"),
        "node_modules/out": (0o120000, b"/etc"),
        "node_modules/empty/": (0o755, b""),
        "node_modules/caf\udce9\n": (0o644, b"odd"),
        "node_modules/dep/": (0o755, b""),
    }
    assert (gate / "node_modules/.bin/check").stat().st_mtime_ns == 1_600_000_000_123_456_789
    if OWNER is not None:
        owners = {(p.lstat().st_uid, p.lstat().st_gid) for p in gate.rglob("*")}
        assert owners == {(OWNER.uid, OWNER.gid)}
        assert {p.lstat().st_uid for p in (tmp_path / "state").rglob("*")} == {0}
    assert stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o700


def test_a_gate_changes_only_its_own_copy(tmp_path: Path) -> None:
    """All that a gate's user can do to its copy, done as root even, leaves the next gate's as it was."""
    work = tmp_path / "work"
    write(work / ".venv/bin/pytest", "real\n", 0o755)
    write(work / ".venv/lib/a.py", "real\n")
    found = kept(work, tmp_path / "state", b".venv")
    first, second = new(tmp_path / "first"), new(tmp_path / "second")
    found.place(first)
    before = contents(first)
    (first / ".venv/bin/pytest").write_text("exit 0\n")
    (first / ".venv/bin/pytest").chmod(0)
    (first / ".venv/lib/a.py").unlink()
    write(first / ".venv/lib/b.py")
    write(work / ".venv/bin/pytest", "hollow\n")
    found.place(second)

    assert contents(second) == before
    assert before[".venv/bin/pytest"] == (0o755, b"real\n")


def test_what_the_tree_has_itself_stays_and_no_link_of_it_is_followed(tmp_path: Path) -> None:
    """A change can put files, links or a file in the place of a kept folder or above it: nothing is written outside."""
    work = tmp_path / "work"
    for folder in ("node_modules", "a/node_modules", "b/node_modules", "c/node_modules", "gone/node_modules"):
        write(work / folder / "mine", "kept\n")
        write(work / folder / "sub/mine", "kept\n")
    paths = [os.fsencode(str(p.relative_to(work))) for p in work.rglob("node_modules")]
    outside, gate = new(tmp_path / "outside"), new(tmp_path / "gate")
    write(gate / "node_modules/mine", "tree\n")
    (gate / "node_modules/sub").symlink_to(outside)
    (gate / "a").symlink_to(outside)
    write(gate / "b/x")
    (gate / "b/node_modules").symlink_to(outside)
    write(gate / "c", "a file\n")

    kept(work, tmp_path / "state", *paths).place(gate)

    assert list(outside.iterdir()) == []
    assert {k: v[1] for k, v in contents(gate).items()} == {
        "node_modules/mine": b"tree\n",
        "node_modules/sub": os.fsencode(outside),
        "a": os.fsencode(outside),
        "b/x": b"x\n",
        "b/node_modules": os.fsencode(outside),
        "c": b"a file\n",
        "gone/node_modules/mine": b"kept\n",
        "gone/node_modules/sub/mine": b"kept\n",
    }


@pytest.mark.parametrize(
    ("bounds", "reason"),
    [
        (Bounds(entries=5), "more than 5 files and folders"),
        (Bounds(size=5), "more than 0 MB, or than a quarter of the free disk"),
        (Bounds(depth=1), "folders more than 1 deep"),
    ],
)
def test_over_a_bound_nothing_is_kept_and_the_sentence_says_what_to_do(
    tmp_path: Path, bounds: Bounds, reason: str
) -> None:
    """Half of a dependency is worse than none. Within the bounds the same folders are kept: the control."""
    work = tmp_path / "work"
    write(work / "a/one", "123")
    write(work / "node_modules/b/c/two", "456")
    gate = new(tmp_path / "gate")
    refused = Dependencies(tmp_path / "state", OWNER, bounds)
    said = refused.keep(work, [b"a", b"node_modules"])
    refused.place(gate)

    assert reason in said
    assert "(a, node_modules)" in said
    assert "npm ci --offline" in said
    assert (list(gate.iterdir()), (tmp_path / "state").exists()) == ([], False)

    kept(work, tmp_path / "again", b"a", b"node_modules", bounds=Bounds(entries=6, size=6, depth=2)).place(gate)
    assert sorted(contents(gate)) == ["a/one", "node_modules/b/c/two"]


def test_a_disk_without_room_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept and one copy of it never take half of what is free."""
    write(tmp_path / "work/node_modules/big", "x" * 1000)
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=3_999))
    assert "a quarter of the free disk" in Dependencies(tmp_path / "state", OWNER).keep(
        tmp_path / "work", [b"node_modules"]
    )
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=4_000))
    assert Dependencies(tmp_path / "state", OWNER).keep(tmp_path / "work", [b"node_modules"]) == ""


def test_a_link_in_a_kept_folders_path_and_a_kept_copy_that_is_gone_are_told(tmp_path: Path) -> None:
    """Neither is silently a gate without dependencies."""
    write(tmp_path / "real/node_modules/x")
    work, gate = new(tmp_path / "work"), new(tmp_path / "gate")
    (work / "web").symlink_to("../real")
    assert "web/node_modules" in Dependencies(tmp_path / "state", OWNER).keep(work, [b"web/node_modules"])
    found = kept(tmp_path / "real", tmp_path / "again", b"node_modules")
    shutil.rmtree(tmp_path / "again")
    with pytest.raises(UpstreamError, match="copy ignored folders to a gate: No such file"):
        found.place(gate)


def test_checkouts_hold_the_tree_and_what_was_kept_before_the_workspace_changed(tmp_path: Path) -> None:
    """The driver: found by the snapshot, kept once, put beside the tree; before that a checkout is the tree alone."""
    work = tmp_path / "work"
    make_checkout(work, {".gitignore": "node_modules\n", "app.js": "1\n"})
    write(work / "node_modules/x", "before\n")
    worktree = worktree_of(work, tmp_path / "shadow")
    uid, gid = (OWNER.uid, OWNER.gid) if OWNER else (os.getuid(), os.getgid())
    checkouts = Checkouts(worktree, work, uid, gid)
    tree = worktree.snapshot().tree
    checkouts.check_out(tree, new(tmp_path / "plain"), {})
    assert checkouts.keep_ignored(tmp_path / "state") == ""
    write(work / "node_modules/x", "after\n")
    checkouts.check_out(tree, new(tmp_path / "gate"), {"app.js": b"2\n"})

    assert sorted(contents(tmp_path / "plain")) == [".gitignore", "app.js"]
    assert {name: data for name, (_, data) in contents(tmp_path / "gate").items()} == {
        ".gitignore": b"node_modules\n",
        "app.js": b"2\n",
        "node_modules/x": b"before\n",
    }


@pytest.mark.skipif(not ROOT, reason="needs another user's files")
def test_what_this_user_cannot_read_is_left_out_and_the_rest_is_kept(tmp_path: Path) -> None:
    """A normal user's run, after a step with sudo: its commands could not read those files either."""
    work, state, gate = tmp_path / "work", tmp_path / "state", new(tmp_path / "gate")
    write(work / "node_modules/x")
    write(work / "node_modules/of-root", mode=0o600)
    write(work / "shut/x")
    (work / "shut").chmod(0o700)
    for folder in (tmp_path, gate):
        os.chown(folder, 20001, 20001)
    os.seteuid(20001)
    try:
        found = Dependencies(state, None)
        assert found.keep(work, [b"shut", b"node_modules"]) == ""
        found.place(gate)
    finally:
        os.seteuid(0)

    assert sorted(contents(gate)) == ["node_modules/x"]


@pytest.mark.skipif(not ROOT, reason="gives files to another user")
def test_the_actions_own_capabilities_are_enough(tmp_path: Path) -> None:
    """In its container root has no CAP_FOWNER: what was given away can no longer be changed."""
    work, gate = tmp_path / "work", new(tmp_path / "gate")
    tool = write(work / "node_modules/.bin/check", "#!/bin/sh\n", 0o755)
    os.utime(tool, ns=(10**18, 10**18))
    code = (
        "import sys; from pathlib import Path; from tests.unit.test_git_dependencies import kept\n"
        f"kept(Path({str(work)!r}), Path({str(tmp_path / 'state')!r}), b'node_modules').place(Path({str(gate)!r}))"
    )
    subprocess.run(["setpriv", "--bounding-set", "-fowner", sys.executable, "-c", code], check=True)

    status = (gate / "node_modules/.bin/check").stat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (20001, 20002, 0o755)
    assert status.st_mtime_ns == 10**18
