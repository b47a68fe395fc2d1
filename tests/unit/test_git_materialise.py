"""Writing trees into folders, and changing a workspace from one commit to another."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from agent.broker.git.index import parse_index, rewrite_index
from agent.broker.git.materialise import Owner, bring_to, materialise
from agent.broker.git.objects import EMPTY_TREE, EXECUTABLE, FILE, GITLINK, LINK, Entry, encode_tree, is_git_name
from agent.broker.git.shadow import ShadowGit
from agent.contract.errors import UpstreamError
from tests.support.checkouts import git, make_checkout, shadow_of, worktree_of


@pytest.fixture
def shadow(tmp_path: Path) -> ShadowGit:
    return ShadowGit.create(tmp_path / "shadow")


def tree(shadow: ShadowGit, **files: tuple[str, bytes]) -> str:
    """A tree of `a__b` (for `a/b`) to mode and content."""
    entries = {}
    for name, (mode, data) in files.items():
        sha = data.decode() if mode == GITLINK else shadow.write("blob", data)
        entries[name.replace("__", "/").encode()] = Entry(mode, sha)
    return shadow.write_tree(entries)


def contents(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Mode and content of everything but folders with something in them."""
    found = {}
    for path in sorted(folder.rglob("*")):
        mode = stat.S_IMODE(path.lstat().st_mode)
        if path.is_symlink():
            found[str(path.relative_to(folder))] = (0o120000, os.fsencode(os.readlink(path)))
        elif path.is_file():
            found[str(path.relative_to(folder))] = (mode, path.read_bytes())
        elif not any(path.iterdir()):
            found[str(path.relative_to(folder)) + "/"] = (mode, b"")
    return found


def test_a_tree_is_written_as_it_is(shadow: ShadowGit, tmp_path: Path) -> None:
    """Modes, links, empty folders for submodules; no filter changes a byte."""
    made = tree(
        shadow,
        a__b__c=(FILE, b"x\r\n"),
        a__run=(EXECUTABLE, b"#!/bin/sh\n"),
        link=(LINK, b"../../etc/passwd"),
        mods__sub=(GITLINK, b"d" * 40),
        empty=(FILE, b""),
    )
    target = tmp_path / "out"
    target.mkdir()

    materialise(shadow, made, target)

    assert contents(target) == {
        "a/b/c": (0o644, b"x\r\n"),
        "a/run": (0o755, b"#!/bin/sh\n"),
        "empty": (0o644, b""),
        "link": (0o120000, b"../../etc/passwd"),
        "mods/sub/": (0o755, b""),
    }


@pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another user")
def test_everything_written_belongs_to_the_owner(shadow: ShadowGit, tmp_path: Path) -> None:
    """Folders, files and links, the target itself included."""
    made = tree(shadow, a__b=(FILE, b""), link=(LINK, b"/etc/passwd"), sub__m=(GITLINK, b"d" * 40))
    target = tmp_path / "out"
    target.mkdir()

    materialise(shadow, made, target, Owner(1234, 1235))

    owners = {(p.lstat().st_uid, p.lstat().st_gid) for p in [target, *target.rglob("*")]}
    assert owners == {(1234, 1235)}
    assert os.stat("/etc/passwd").st_uid == 0


def test_a_folder_that_is_not_empty_is_not_written_to(shadow: ShadowGit, tmp_path: Path) -> None:
    """A gate's checkout holds the tree and nothing else."""
    target = tmp_path / "out"
    target.mkdir()
    (target / "left").write_text("")

    with pytest.raises(UpstreamError, match="is not empty"):
        materialise(shadow, tree(shadow, a=(FILE, b"")), target)
    assert os.listdir(target) == ["left"]


@pytest.mark.parametrize("name", [b"..", b".", b".git", b".GIT", b"git~1"])
def test_a_tree_with_a_name_that_no_checkout_may_have_is_refused(
    shadow: ShadowGit, tmp_path: Path, name: bytes
) -> None:
    """A fetched tree is a third party's: `..` in it leads nowhere, `.git` in it is never written."""
    blob = Entry(FILE, shadow.write("blob", b"evil"))
    made = shadow.write("tree", encode_tree({name: blob, b"ok": blob}))
    target = tmp_path / "in/out"
    target.mkdir(parents=True)

    with pytest.raises(UpstreamError):
        materialise(shadow, made, target)
    assert contents(tmp_path / "in") == {"out/": (0o755, b"")}


def test_a_tree_with_a_link_and_a_file_below_it_writes_nothing_through_the_link(
    shadow: ShadowGit, tmp_path: Path
) -> None:
    """The classic: `d` is a link out and `d/x` a file, by duplicate entries of a forged tree."""
    outside = tmp_path / "outside"
    outside.mkdir()
    inner = shadow.write("tree", encode_tree({b"x": Entry(FILE, shadow.write("blob", b"evil"))}))
    link = shadow.write("blob", os.fsencode(outside))
    forged = b"120000 d\0" + bytes.fromhex(link) + b"40000 d\0" + bytes.fromhex(inner)
    made = shadow.write("tree", forged)
    target = tmp_path / "out"
    target.mkdir()

    with pytest.raises(UpstreamError):
        materialise(shadow, made, target)
    assert os.listdir(outside) == []


def test_a_missing_object_is_an_error(shadow: ShadowGit, tmp_path: Path) -> None:
    """Half a checkout is never taken for a whole one."""
    made = shadow.write_tree({b"a": Entry(FILE, "a" * 40)})
    target = tmp_path / "out"
    target.mkdir()

    with pytest.raises(UpstreamError, match="is missing"):
        materialise(shadow, made, target)


def test_the_empty_tree_is_an_empty_folder(shadow: ShadowGit, tmp_path: Path) -> None:
    """A repository without files."""
    target = tmp_path / "out"
    target.mkdir()
    materialise(shadow, EMPTY_TREE, target)
    assert os.listdir(target) == []
    assert shadow.write_tree({}) == EMPTY_TREE


def test_bringing_a_workspace_to_a_commit_changes_tracked_files_alone(tmp_path: Path) -> None:
    """Changed, new, deleted and retyped files; untracked files and unchanged inodes stay."""
    checkout = tmp_path / "work"
    first = make_checkout(
        checkout, {"same": "1\n", "changed": "1\n", "gone/deep/f": "1\n", "file-to-dir": "1\n", "d/f": "1\n"}
    )
    for name in ("gone/deep/f", "file-to-dir", "d/f"):
        (checkout / name).unlink()
    for name in ("gone/deep", "gone", "d"):
        (checkout / name).rmdir()
    (checkout / "file-to-dir").mkdir()
    (checkout / "file-to-dir/x").write_text("2\n")
    (checkout / "d").symlink_to("same")
    (checkout / "changed").write_text("2\n")
    (checkout / "changed").chmod(0o755)
    git(checkout, "add", "-A")
    git(checkout, "commit", "-q", "-m", "second")
    second = git(checkout, "rev-parse", "HEAD")
    wanted = contents(checkout)
    git(checkout, "checkout", "-q", first)
    (checkout / "untracked").write_text("u\n")
    shadow = shadow_of(checkout, tmp_path / "shadow")
    inode = (checkout / "same").stat().st_ino

    names = bring_to(shadow, checkout, first, second)

    git_files = {name for name in wanted if name.startswith(".git/")}
    now = {k: v for k, v in contents(checkout).items() if not k.startswith(".git/")}
    assert now == {**{k: v for k, v in wanted.items() if k not in git_files}, "untracked": (0o644, b"u\n")}
    assert sorted(names) == ["changed", "d", "d/f", "file-to-dir", "file-to-dir/x", "gone/deep/f"]
    assert (checkout / "same").stat().st_ino == inode


def test_bringing_follows_no_link_out(tmp_path: Path) -> None:
    """A tracked folder that is a link now: nothing outside is deleted or written."""
    checkout = tmp_path / "work"
    first = make_checkout(checkout, {"d/f": "1\n"})
    (checkout / "d/f").write_text("2\n")
    git(checkout, "commit", "-q", "-am", "second")
    second = git(checkout, "rev-parse", "HEAD")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "f").write_text("victim\n")
    (checkout / "d/f").unlink()
    (checkout / "d").rmdir()
    (checkout / "d").symlink_to(outside)

    with pytest.raises(UpstreamError):
        bring_to(shadow_of(checkout, tmp_path / "shadow"), checkout, second, first)
    assert (outside / "f").read_text() == "victim\n"


def test_the_work_tree_writes_for_gates(tmp_path: Path) -> None:
    """`WorkTree.materialise` takes uid and gid, as the lifecycle calls it."""
    checkout = tmp_path / "work"
    make_checkout(checkout, {"a": "1\n"})
    worktree = worktree_of(checkout, tmp_path / "shadow")
    target = tmp_path / "out"
    target.mkdir()

    worktree.materialise(worktree.snapshot().tree, target, os.getuid(), os.getgid())

    assert contents(target) == {"a": (0o644, b"1\n")}


@pytest.mark.parametrize("version", [2, 3, 4])
def test_an_index_of_every_version_is_read(tmp_path: Path, version: int) -> None:
    """Names of many lengths, prefix-compressed in version 4; skip bits in version 3."""
    checkout = tmp_path / "work"
    make_checkout(checkout, {f"dir{'x' * n}/file{n}": "1\n" for n in range(30)})
    git(checkout, "update-index", "--index-version", str(min(version, 4)))
    if version == 3:
        git(checkout, "update-index", "--skip-worktree", "dir/file0")
    entries = parse_index((checkout / ".git/index").read_bytes())

    expected = git(checkout, "ls-files", "--stage").splitlines()
    assert [f"{e.mode:o} {e.sha} 0\t{os.fsdecode(p)}" for p, e in sorted(entries.items())] == expected
    assert {p for p, e in entries.items() if e.skip} == ({b"dir/file0"} if version == 3 else set())
    status = (checkout / "dir/file0").stat()
    assert entries[b"dir/file0"].mtime == divmod(status.st_mtime_ns, 10**9)
    assert entries[b"dir/file0"].size == status.st_size


@pytest.mark.parametrize("data", [b"", b"DIRC", b"DIRC\0\0\0\5\0\0\0\1", b"DIRC\0\0\0\2\0\0\0\7short", b"JUNK" * 9])
def test_what_is_no_index_is_an_empty_one(data: bytes) -> None:
    """Then every file is hashed, which is slower and never wrong."""
    assert parse_index(data) == {}
    assert rewrite_index(data, []) is None


def test_a_rewritten_index_is_what_git_would_have(tmp_path: Path) -> None:
    """git reads it, lists the new entries, and finds the work tree clean."""
    checkout = tmp_path / "work"
    first = make_checkout(checkout, {"a": "1\n", "b": "1\n", "c": "1\n"})
    (checkout / "a").write_text("22\n")
    (checkout / "b").unlink()
    (checkout / "d").write_text("4\n")
    git(checkout, "add", "-A")
    git(checkout, "commit", "-q", "-m", "second")
    second = git(checkout, "rev-parse", "HEAD")
    wanted = git(checkout, "ls-files", "--stage")
    git(checkout, "checkout", "-q", first)
    shadow = shadow_of(checkout, tmp_path / "shadow")
    bring_to(shadow, checkout, first, second)

    data = rewrite_index((checkout / ".git/index").read_bytes(), shadow.names_changed(first, second))
    (checkout / ".git/index").write_bytes(data or b"")
    (checkout / ".git/HEAD").write_text(second + "\n")

    assert git(checkout, "ls-files", "--stage") == wanted
    assert git(checkout, "status", "--porcelain") == ""


@pytest.mark.parametrize("name", [b".git", b".GiT", b"git~1", ".gi\u200bt".encode(), b".git ", b".git.", b".git:x"])
def test_spellings_of_git(name: bytes) -> None:
    """Names that some file system takes for `.git`."""
    expected = name != ".gi\u200bt".encode()  # U+200B is kept by HFS+; NFKC keeps it too

    assert is_git_name(name) == expected


@pytest.mark.parametrize("name", [b".gitignore", b"git", b"agit", b".gi", b"gitt~1", b"git~2x", b".github"])
def test_neighbours_of_git_are_ordinary(name: bytes) -> None:
    """Positive control."""
    assert not is_git_name(name)
