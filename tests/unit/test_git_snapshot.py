"""Snapshots of a hostile workspace, local commits and diffs."""

from __future__ import annotations

import os
import random
import socket
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.broker.git.materialise import materialise
from agent.broker.git.objects import EXECUTABLE, FILE, GITLINK, LINK, Change, Entry, object_id
from agent.broker.git.snapshot import DEPTH_CAP
from agent.broker.git.snapshot_words import Caps
from agent.broker.git.worktree import WorkTree
from agent.contract.errors import Refusal, ToolInputError
from tests.support.checkouts import git, make_checkout, worktree_of

FILES = {"README.md": "# W\n", "src/app.py": "print(1)\n", "src/data.bin": b"\0\xff\r\n", "empty": b""}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    make_checkout(tmp_path / "work", FILES)
    return tmp_path / "work"


def blob(data: bytes, mode: str = FILE) -> Entry:
    return Entry(mode, object_id("blob", data))


def by_path(changes: tuple[Change, ...]) -> dict[str, tuple[str, Entry | None]]:
    return {os.fsdecode(c.path): (c.status, c.new) for c in changes}


def tree_by_git(checkout: Path) -> str:
    """What git itself would commit: the honest comparison, in a workspace that is not hostile."""
    git(checkout, "add", "-A")
    return git(checkout, "write-tree")


def test_every_kind_of_file_gives_the_tree_that_git_would_make(checkout: Path, tmp_path: Path) -> None:
    """Exec bits, links, binary, empty, odd and non-UTF-8 names, deletions: same tree id as git's."""
    worktree = worktree_of(checkout, tmp_path / "shadow")
    (checkout / "src/app.py").chmod(0o755)
    (checkout / "README.md").unlink()
    (checkout / "link").symlink_to("/etc/passwd")
    (checkout / "dangling").symlink_to("nowhere")
    (checkout / "src/dirlink").symlink_to("..")
    (checkout / "a b\tc\n").write_bytes(b"\0" * 5000)
    (checkout / "x").mkdir()
    (checkout / "x-y").write_text("sorts between\n")
    (checkout / "x/z").write_text("")
    (checkout / "x.z").write_text("")
    with open(os.fsencode(checkout) + b"/caf\xe9", "wb") as file:
        file.write(b"latin\n")

    snapshot = worktree.snapshot()

    assert snapshot.tree == tree_by_git(checkout)
    assert (snapshot.problems, snapshot.nested) == ((), ())
    assert by_path(snapshot.changes) == {
        "README.md": ("deleted", None),
        "a b\tc\n": ("added", blob(b"\0" * 5000)),
        "caf\udce9": ("added", blob(b"latin\n")),
        "dangling": ("added", blob(b"nowhere", LINK)),
        "link": ("added", blob(b"/etc/passwd", LINK)),
        "src/app.py": ("modified", blob(b"print(1)\n", EXECUTABLE)),
        "src/dirlink": ("added", blob(b"..", LINK)),
        "x-y": ("added", blob(b"sorts between\n")),
        "x.z": ("added", blob(b"")),
        "x/z": ("added", blob(b"")),
    }


@pytest.mark.parametrize("use_index", [False, True])
def test_an_untouched_workspace_has_no_change(checkout: Path, tmp_path: Path, use_index: bool) -> None:
    """Start and end of a run that writes nothing."""
    worktree = worktree_of(checkout, tmp_path / "shadow", use_index=use_index)

    assert worktree.snapshot() == worktree.snapshot()
    assert worktree.snapshot().changes == ()
    assert worktree.snapshot().tree == worktree.shadow.tree_of(worktree.head)


@pytest.mark.parametrize("use_index", [False, True])
def test_a_change_that_keeps_size_and_mtime_is_seen(checkout: Path, tmp_path: Path, use_index: bool) -> None:
    """A command can set mtime back, but not ctime: the cache does not believe mtime."""
    path = checkout / "src/app.py"
    worktree = worktree_of(checkout, tmp_path / "shadow", use_index=use_index)
    worktree.snapshot()
    before = path.stat()
    path.write_text("print(2)\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    assert by_path(worktree.snapshot().changes) == {"src/app.py": ("modified", blob(b"print(2)\n"))}


def test_writes_in_quick_succession_are_all_seen(checkout: Path, tmp_path: Path) -> None:
    """Within one clock tick of the kernel nothing is remembered, so no write is missed."""
    worktree = worktree_of(checkout, tmp_path / "shadow")
    for number in range(40):
        (checkout / "src/app.py").write_text(f"{number:04}\n")
        assert by_path(worktree.snapshot().changes) == {"src/app.py": ("modified", blob(f"{number:04}\n".encode()))}


def test_ignored_files_are_left_out_unless_tracked(tmp_path: Path) -> None:
    """A .gitignore at any depth counts for untracked files alone, as in git."""
    checkout = tmp_path / "work"
    make_checkout(checkout, {".gitignore": "*.log\nnode_modules/\n/only-top\n", "sub/.gitignore": "!keep.log\n"})
    (checkout / "tracked.log").write_text("1\n")
    git(checkout, "add", "-f", "tracked.log")
    git(checkout, "commit", "-q", "-m", "forced")
    worktree = worktree_of(checkout, tmp_path / "shadow")
    for name in ("a.log", "sub/b.log", "sub/keep.log", "node_modules/x/y.js", "only-top", "sub/only-top"):
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        (checkout / name).write_text("x\n")
    (checkout / "tracked.log").write_text("2\n")

    snapshot = worktree.snapshot()

    assert sorted(by_path(snapshot.changes)) == ["sub/keep.log", "sub/only-top", "tracked.log"]
    assert snapshot.tree == tree_by_git(checkout)


def test_special_files_do_not_block_and_are_named(checkout: Path, tmp_path: Path) -> None:
    """A FIFO, a socket and a device are left out with a sentence; a tracked file one replaces stays."""
    worktree = worktree_of(checkout, tmp_path / "shadow")
    os.mkfifo(checkout / "pipe")
    (checkout / "src/app.py").unlink()
    os.mkfifo(checkout / "src/app.py")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(checkout / "sock"))

        snapshot = worktree.snapshot()

    assert snapshot.changes == ()
    assert sorted(snapshot.problems) == [
        "pipe was left out: is no regular file.",
        "sock was left out: is no regular file.",
        "src/app.py was left out: is no regular file.",
    ]


def test_a_link_to_a_folder_outside_is_a_link_and_is_not_entered(checkout: Path, tmp_path: Path) -> None:
    """A tracked folder that became a link out of the workspace: its files are gone, the link is a link."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "app.py").write_text("print('outside')\n")
    worktree = worktree_of(checkout, tmp_path / "shadow")
    subprocess.run(["rm", "-rf", str(checkout / "src")], check=True)
    (checkout / "src").symlink_to(outside)

    snapshot = worktree.snapshot()

    assert by_path(snapshot.changes) == {
        "src": ("added", blob(os.fsencode(outside), LINK)),
        "src/app.py": ("deleted", None),
        "src/data.bin": ("deleted", None),
    }


def test_names_that_pass_for_git_are_never_taken(checkout: Path, tmp_path: Path) -> None:
    """`.git` in any spelling, at any depth, stays out of every tree; neighbours go in."""
    worktree = worktree_of(checkout, tmp_path / "shadow")
    for name in (".GIT/config", "src/.git/config", "git~1/x", ".g\u200cit/x", ".git./x"):
        (checkout / name).parent.mkdir(parents=True, exist_ok=True)
        (checkout / name).write_text("x\n")
    (checkout / "src/.gitkeep").write_text("")
    (checkout / "fine").mkdir()
    (checkout / "fine/.gitx").write_text("")

    snapshot = worktree.snapshot()

    assert sorted(by_path(snapshot.changes)) == ["fine/.gitx"]
    assert snapshot.nested == ("src",)


def test_a_nested_repository_is_not_entered_but_tracked_files_in_it_are(checkout: Path, tmp_path: Path) -> None:
    """New files beside a planted `.git` are left out and the folder is named; tracked ones are compared."""
    worktree = worktree_of(checkout, tmp_path / "shadow")
    make_checkout(checkout / "vendor", {"a": "a\n"})
    git(checkout / "src", "init", "-q")
    (checkout / "src/app.py").write_text("print(3)\n")
    (checkout / "src/new.py").write_text("x\n")

    snapshot = worktree.snapshot()

    assert by_path(snapshot.changes) == {"src/app.py": ("modified", blob(b"print(3)\n"))}
    assert sorted(snapshot.nested) == ["src", "vendor"]
    assert sorted(worktree.commit("m").problems) == [
        f"{name} has a git folder of its own: new files in it are left out." for name in ("src", "vendor")
    ]


def test_a_submodule_keeps_its_commit_whatever_stands_there(checkout: Path, tmp_path: Path) -> None:
    """Moved, emptied, deleted, or replaced by a file: the gitlink is as in the base."""
    git(checkout, "update-index", "--add", "--cacheinfo", f"160000,{'d' * 40},mods/sub")
    git(checkout, "commit", "-q", "-m", "sub")
    worktree = worktree_of(checkout, tmp_path / "shadow")
    link = {b"mods/sub": Entry(GITLINK, "d" * 40)}
    for content in (None, "folder", "file"):
        if content == "folder":
            make_checkout(checkout / "mods/sub", {"a": "a\n"})
        elif content == "file":
            subprocess.run(["rm", "-rf", str(checkout / "mods/sub")], check=True)
            (checkout / "mods/sub").write_text("no folder\n")

        snapshot = worktree.snapshot()

        assert snapshot.changes == ()
        assert worktree.shadow.entries(snapshot.tree).items() >= link.items()


def test_files_of_a_sparse_checkout_are_not_deleted(checkout: Path, tmp_path: Path) -> None:
    """What git left out of the work tree stays in the tree."""
    git(checkout, "sparse-checkout", "set", "--no-cone", "/README.md")
    assert not (checkout / "src/app.py").exists()
    worktree = worktree_of(checkout, tmp_path / "shadow", use_index=True)
    (checkout / "README.md").write_text("changed\n")

    assert by_path(worktree.snapshot().changes) == {"README.md": ("modified", blob(b"changed\n"))}


def test_line_ends_that_checkout_converted_are_converted_back(tmp_path: Path) -> None:
    """With `eol=crlf` an edit changes its own line in the commit, not every line end; twice in a row too."""
    checkout = tmp_path / "work"
    make_checkout(checkout, {".gitattributes": "*.bat text eol=crlf\n", "run.bat": "one\ntwo\n", "plain": "a\n"})
    (checkout / "run.bat").unlink()
    git(checkout, "checkout", "--", "run.bat")
    assert (checkout / "run.bat").read_bytes() == b"one\r\ntwo\r\n"
    git(checkout, "update-index", "--refresh")
    worktree = worktree_of(checkout, tmp_path / "shadow", use_index=True)
    assert worktree.snapshot().changes == ()
    for text in (b"one\r\n2\r\n", b"1\r\n2\r\n"):
        (checkout / "run.bat").write_bytes(text)
        made = worktree.commit("Edit")
        assert made.tree == tree_by_git(checkout)
    assert worktree.shadow.read(worktree.shadow.entries(made.tree)[b"run.bat"].sha) == b"1\n2\n"


@pytest.mark.parametrize(("kind", "word"), [("lfs", "Git LFS"), ("other", "a filter")])
def test_a_file_behind_a_filter_stays_as_it_is_in_the_commit(tmp_path: Path, kind: str, word: str) -> None:
    """No filter runs here, so its changed bytes are left out with a sentence; a deletion is a deletion."""
    checkout = tmp_path / "work"
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 9000\n"
    blob_text = pointer if kind == "lfs" else "small\n"
    first = make_checkout(checkout, {".gitattributes": "*.big filter=x\n", "a.big": blob_text, "b.big": blob_text})
    (checkout / ".git/info/attributes").write_text("")
    for name in ("a.big", "b.big"):
        (checkout / name).unlink()
    git(checkout, "-c", "filter.x.smudge=cat; printf %09000d 0", "checkout", "-q", first, "--", "a.big", "b.big")
    assert (checkout / "a.big").stat().st_size > 9000
    worktree = worktree_of(checkout, tmp_path / "shadow", use_index=True)
    assert worktree.snapshot().changes == ()
    (checkout / "a.big").write_bytes(b"other")
    (checkout / "b.big").unlink()

    snapshot = worktree.snapshot()

    assert by_path(snapshot.changes) == {"b.big": ("deleted", None)}
    assert len(snapshot.problems) == 1
    assert f"a.big was left out: goes through {word}" in snapshot.problems[0]


def test_sizes_and_numbers_are_capped(checkout: Path, tmp_path: Path) -> None:
    """A large file is left out with a sentence, a sparse one costs nothing; too many new files can be looked at,
    and of them only files named one by one are committed."""
    worktree = worktree_of(checkout, tmp_path / "shadow", caps=Caps(file_bytes=1 << 20, new_files=10))
    with (checkout / "huge").open("wb") as file:
        file.truncate(1 << 40)
    (checkout / "exact").write_bytes(b"x" * (1 << 20))

    snapshot = worktree.snapshot()

    assert by_path(snapshot.changes) == {"exact": ("added", blob(b"x" * (1 << 20)))}
    assert snapshot.problems == ("huge was left out: is larger than 1 MB.",)
    for number in range(11):
        (checkout / f"n{number}").write_text("")
    (checkout / "src/app.py").write_text("changed\n")
    snapshot = worktree.snapshot()
    assert snapshot.over.startswith("The workspace holds more than 10 new files.")
    assert len([c for c in snapshot.changes if c.status == "added"]) == 9  # `huge` counts and is not taken
    head = worktree.head
    for paths in (None, ["."], ["n"], ["src/app.py", "."]):
        (checkout / "n").mkdir(exist_ok=True)
        with pytest.raises(Refusal, match="name each changed file in `paths`"):
            worktree.commit("all", paths)
    assert worktree.head == head
    assert worktree.commit("one", ["src/app.py"]).files() == [{"path": "src/app.py", "status": "modified"}]
    for number in range(11):
        (checkout / f"n{number}").unlink()
    assert worktree.snapshot().over == ""
    assert worktree.commit("rest").files() == [{"path": "exact", "status": "added"}]


def test_what_a_run_stores_is_capped(checkout: Path, tmp_path: Path) -> None:
    """A workspace that changes over and over cannot fill the disk through snapshots."""
    worktree = worktree_of(checkout, tmp_path / "shadow", caps=Caps(stored_bytes=3000))
    for number in range(3):
        (checkout / "f").write_text(f"{number}" * 1000)
        worktree.snapshot()
    (checkout / "f").write_text("x" * 1000)

    stored = sorted(p for p in (tmp_path / "shadow").rglob("*") if p.is_file())
    snapshot = worktree.snapshot()
    assert snapshot.over.startswith("Changed files of this run add up to more than")
    assert by_path(snapshot.changes) == {}
    with pytest.raises(Refusal, match="add up to more than"):
        worktree.commit("all")
    assert sorted(p for p in (tmp_path / "shadow").rglob("*") if p.is_file()) == stored


def test_a_chain_of_folders_ends_at_the_cap(checkout: Path, tmp_path: Path) -> None:
    """Deeper folders are named and left out; no recursion error, no descriptor runs out."""
    worktree = worktree_of(checkout, tmp_path / "shadow")
    fd = os.open(checkout, os.O_RDONLY)
    for _ in range(2000):
        os.mkdir("d", dir_fd=fd)
        child = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = child
    os.close(os.open("deep", os.O_CREAT, dir_fd=fd))
    os.close(fd)
    (checkout / "d/near").write_text("")

    snapshot = worktree.snapshot()
    subprocess.run(["rm", "-rf", str(checkout / "d")], check=False)

    assert sorted(by_path(snapshot.changes)) == ["d/near"]
    assert len(snapshot.problems) == 1
    assert f"more than {DEPTH_CAP} folders deep" in snapshot.problems[0]


def test_many_problems_are_told_in_few_words(checkout: Path, tmp_path: Path) -> None:
    """A folder of FIFOs does not become a report of thousands of lines."""
    worktree = worktree_of(checkout, tmp_path / "shadow")
    for number in range(300):
        os.mkfifo(checkout / f"p{number}")

    assert len(worktree.snapshot().problems) == 50


def test_a_race_of_swaps_never_leaks_a_file_from_outside(checkout: Path, tmp_path: Path) -> None:
    """While files and folders are swapped for links out, no snapshot ever holds the outside file's bytes."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "app.py").write_text("secret outside\n")
    worktree = worktree_of(checkout, tmp_path / "shadow")
    script = f"""cd {checkout}
while :; do
  ln -sfn {outside}/app.py src/t; mv -T src/t src/app.py
  echo x > src/t; mv -T src/t src/app.py
  mv src real; ln -s {outside} src; rm src; mv real src
done"""
    swapper = subprocess.Popen(["sh", "-c", script], stderr=subprocess.DEVNULL)
    try:
        snapshots = [worktree.snapshot() for _ in range(60)]
    finally:
        swapper.kill()
        swapper.wait()

    secret = object_id("blob", b"secret outside\n")
    assert not worktree.shadow.holds_own(secret)
    assert secret not in {c.new.sha for s in snapshots for c in s.changes if c.new is not None}
    assert len({s.tree for s in snapshots}) > 1  # the race did take place


def test_a_commit_of_some_paths_leaves_the_rest_for_later(checkout: Path, tmp_path: Path) -> None:
    """Files and folders may be chosen; what is not chosen stays a change of the workspace."""
    worktree = worktree_of(checkout, tmp_path / "shadow")
    (checkout / "src/app.py").write_text("print(2)\n")
    (checkout / "src/new.py").write_text("new\n")
    (checkout / "README.md").unlink()

    first = worktree.commit("Source", ["src/"])
    rest = worktree.snapshot()
    second = worktree.commit("Rest")

    assert first.files() == [
        {"path": "src/app.py", "status": "modified"},
        {"path": "src/new.py", "status": "added"},
    ]
    assert by_path(rest.changes) == {"README.md": ("deleted", None)}
    assert second.files() == [{"path": "README.md", "status": "deleted"}]
    assert second.tree == tree_by_git(checkout)
    assert worktree.shadow.commit_of(second.sha).parents == (first.sha,)
    assert git(checkout, "log", "--oneline", "--all").count("\n") == 0  # the real repository saw nothing


@pytest.mark.parametrize("order", [["a"], ["a/b"], ["a/b", "a"]])
def test_choosing_a_path_that_changed_its_kind_makes_a_valid_tree(tmp_path: Path, order: list[str]) -> None:
    """A file that became a folder, chosen by either name, is never both in one tree."""
    checkout = tmp_path / "work"
    make_checkout(checkout, {"a": "file\n", "keep": "k\n"})
    worktree = worktree_of(checkout, tmp_path / "shadow")
    (checkout / "a").unlink()
    (checkout / "a").mkdir()
    (checkout / "a/b").write_text("inside\n")

    made = worktree.commit("Kind", order)

    assert sorted(worktree.shadow.entries(made.tree)) in ([b"a/b", b"keep"], [b"keep"])
    target = tmp_path / "out"
    target.mkdir()
    materialise(worktree.shadow, made.tree, target)


@pytest.mark.parametrize(
    ("message", "paths", "text"),
    [
        ("", None, "needs 1 to"),
        (" \n", None, "needs 1 to"),
        ("x" * 20_001, None, "needs 1 to"),
        ("m", ["../x"], "no path in the repository"),
        ("m", ["/etc/passwd"], "no path in the repository"),
        ("m", ["a\0b"], "no path in the repository"),
    ],
)
def test_a_commit_that_cannot_be_made_says_what_to_do(
    checkout: Path, tmp_path: Path, message: str, paths: list[str] | None, text: str
) -> None:
    """The model's mistakes come back as such, and the head stays."""
    worktree = worktree_of(checkout, tmp_path / "shadow")
    (checkout / "src/app.py").write_text("print(2)\n")

    with pytest.raises(ToolInputError, match=text):
        worktree.commit(message, paths)
    assert worktree.head == worktree.start


def test_a_refusal_that_names_files_is_no_sentence_of_ours(checkout: Path, tmp_path: Path) -> None:
    """S1: the harness shows `ToolInputError` bare and frames any other; names are third parties' words."""
    worktree = worktree_of(checkout, tmp_path / "shadow")
    os.mkfifo(checkout / "src/obey me")
    with pytest.raises(Refusal, match=r"nothing to commit.*obey me"):
        worktree.commit("m")
    (checkout / "src/app.py").write_text("print(2)\n")
    with pytest.raises(Refusal, match=r"Changed: src/app\.py"):
        worktree.commit("m", ["nothing-here"])
    assert worktree.head == worktree.start


def test_nothing_to_commit_is_told(checkout: Path, tmp_path: Path) -> None:
    """An empty commit is not made."""
    with pytest.raises(Refusal, match="nothing to commit"):
        worktree_of(checkout, tmp_path / "shadow").commit("m")


def test_a_diff_is_against_the_start_and_keeps_its_budget(checkout: Path, tmp_path: Path) -> None:
    """Commits of the run are in the diff; literal paths choose; beyond the budget it is cut with a sentence."""
    worktree = worktree_of(checkout, tmp_path / "shadow")
    assert worktree.diff() == ""
    (checkout / "src/app.py").write_text("print(2)\n")
    worktree.commit("One")
    (checkout / "src/data.bin").write_bytes(b"\0\1")
    (checkout / "*").write_text("star\n")

    assert "-print(1)\n+print(2)\n" in worktree.diff()
    assert "Binary files a/src/data.bin and b/src/data.bin differ" in worktree.diff()
    assert "print" not in worktree.diff(worktree.head)
    star = worktree.diff(None, ["*"])
    assert "+star" in star
    assert "print" not in star
    assert "data.bin" in worktree.diff(None, ["src"])
    cut = worktree.diff(None, (), 100)
    assert cut[100:] == "\n[cut after 100 bytes; name paths to see the rest]\n"
    with pytest.raises(ToolInputError, match="not known"):
        worktree.diff("--output=/tmp/x")


def test_attributes_of_the_workspace_do_not_steer_the_diff(checkout: Path, tmp_path: Path) -> None:
    """A textconv or an external driver named in .gitattributes is not used: there is none in our configuration."""
    worktree = worktree_of(checkout, tmp_path / "shadow")
    (checkout / ".gitattributes").write_text("*.py -diff filter=x diff=y\n")
    (checkout / "src/app.py").write_text("print(2)\n")

    assert "+print(2)" in worktree.diff(None, ["src/app.py"])


def test_the_log_shows_own_and_older_commits(checkout: Path, tmp_path: Path) -> None:
    """Newest first, limited, and by path."""
    worktree = worktree_of(checkout, tmp_path / "shadow")
    (checkout / "src/app.py").write_text("print(2)\n")
    sha = worktree.commit("Second\n\nBody").sha

    lines = worktree.shadow.log(worktree.head, 5).splitlines()

    assert [line.strip() for line in (lines[0], lines[2], lines[5])] == [sha, "Second", "first"]
    assert worktree.shadow.log(worktree.head, 1).count("\n") == 3
    assert "Second" not in worktree.shadow.log(worktree.head, 5, "README.md")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(st.characters(exclude_categories=()), max_size=30))
def test_any_text_of_the_model_is_used_or_told_as_its_mistake(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    """As path of a diff, a log or a commit, or as a base: an answer or a refusal, nothing else."""
    if not SHARED:
        folder = tmp_path_factory.mktemp("shared")
        make_checkout(folder / "work", FILES)
        SHARED.append(worktree_of(folder / "work", folder / "shadow"))
    worktree = SHARED[0]
    for act in (
        lambda: worktree.diff(None, [text]),
        lambda: worktree.diff(text or "x"),
        lambda: worktree.shadow.log(worktree.head, 1, text),
        lambda: worktree.commit("m", [text]),
        lambda: worktree.commit(text),
    ):
        try:
            act()
        except (ToolInputError, Refusal):
            continue


SHARED: list[WorkTree] = []


def test_a_message_of_any_text_is_a_commit_that_git_reads(checkout: Path, tmp_path: Path) -> None:
    """Half a surrogate pair, NUL and control characters do not break the commit object."""
    worktree = worktree_of(checkout, tmp_path / "shadow")
    (checkout / "new").write_text("")

    made = worktree.commit("a\ud800b\0c\r\n\ndone\x1b[31m")

    assert worktree.shadow.commit_of(made.sha).message == "a?bc\r\n\ndone\x1b[31m\n"
    assert "a?bc" in worktree.shadow.log(made.sha, 1)


def _scramble(worktree: WorkTree, checkout: Path, seed: int) -> None:
    """Random honest changes."""
    rng = random.Random(seed)
    folders = [checkout, checkout / "src", checkout / "n1", checkout / "n1/n2"]
    for _ in range(12):
        folder = rng.choice(folders)
        path = folder / rng.choice(["a", "a.b", "a-b", "README.md", "app.py", "é", "B"])
        if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
            continue
        folder.mkdir(parents=True, exist_ok=True)
        act = rng.randrange(4)
        if act == 0 and path.exists() and not path.is_dir():
            path.unlink()
        elif act == 1 and not path.is_symlink() and not path.exists():
            path.symlink_to(rng.choice(["a", "../x"]))
        elif not path.is_dir() and not path.is_symlink():
            path.write_bytes(rng.randbytes(rng.randrange(200)))
            path.chmod(rng.choice([0o644, 0o755]))


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10**6))
def test_any_honest_change_gives_gits_own_tree_and_comes_back_from_it(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    """The snapshot equals git's tree, and materialising it and taking it again gives the same tree."""
    folder = tmp_path_factory.mktemp("any")
    checkout = folder / "work"
    make_checkout(checkout, FILES)
    worktree = worktree_of(checkout, folder / "shadow")
    _scramble(worktree, checkout, seed)

    snapshot = worktree.snapshot()
    target = folder / "out"
    target.mkdir()
    materialise(worktree.shadow, snapshot.tree, target)

    assert snapshot.tree == tree_by_git(checkout)
    git(target, "init", "-q")
    assert tree_by_git(target) == snapshot.tree
