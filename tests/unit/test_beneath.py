"""Nothing opened beneath a root lies outside it, by openat2 and by the descriptor walk alike."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.contract.errors import Refusal, ToolInputError
from agent.kernel.beneath import DEPTH_CAP, Beneath

SECRET = b"canary-4f9d2c7e81\n"


class World:
    """A workspace and a folder beside it that holds a secret and a victim."""

    def __init__(self, top: Path, *, use_openat2: bool) -> None:
        self.ws = top / "ws"
        self.out = top / "out"
        (self.ws / "docs").mkdir(parents=True)
        self.out.mkdir()
        (self.out / "secret.txt").write_bytes(SECRET)
        (self.out / "victim.txt").write_bytes(b"untouched\n")
        (self.ws / "README.md").write_bytes(b"readme\n")
        self.files = Beneath(str(self.ws), use_openat2=use_openat2)

    def outside_untouched(self) -> bool:
        return {p.name: p.read_bytes() for p in self.out.iterdir()} == {
            "secret.txt": SECRET,
            "victim.txt": b"untouched\n",
        }


@pytest.fixture(params=[True, False], ids=["openat2", "walk"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path, use_openat2=request.param)
    assert made.files.by_kernel is request.param
    yield made
    made.files.close()


def refused(call: object, *args: object) -> str:
    with pytest.raises((Refusal, ToolInputError)) as caught:
        call(*args)  # type: ignore[operator]
    return getattr(caught.value, "code", "tool_input")


@pytest.mark.parametrize(
    "path",
    [
        "../out/secret.txt",
        "docs/../../out/secret.txt",
        "./././../out/./secret.txt",
        "nothing/../../out/secret.txt",
        "/etc/passwd",
        "/proc/self/root/etc/passwd",
        "/proc/self/fd/0",
        "docs/away/../../../etc/hostname",
        "..",
        "/",
    ],
)
def test_spelling_out_is_refused(world: World, path: str) -> None:
    """Every operation refuses a path whose text leaves the root."""
    (world.ws / "docs/away").symlink_to(world.out)
    for call in (world.files.read, world.files.entries, world.files.stat, world.files.delete):
        assert refused(call, path) == "path_outside"
    assert refused(world.files.write, path, b"x") == "path_outside"
    assert world.outside_untouched()
    assert world.files.read("docs/../README.md") == b"readme\n"
    assert world.files.read(str(world.ws / "README.md")) == b"readme\n"


@pytest.mark.parametrize(
    "path", ["", "a\0b.txt", "README.md\0../x", "a" * 5000, "a" * 256, "x/" * 2100 + "y", "\ud800"]
)
def test_paths_that_no_file_has(world: World, path: str) -> None:
    """NUL, over-long and empty paths are errors of the input and leave nothing behind."""
    assert refused(world.files.read, path) == "tool_input"
    assert refused(world.files.write, path, b"x") == "tool_input"
    assert sorted(os.listdir(world.ws)) == ["README.md", "docs"]


def test_tilde_and_scheme_are_plain_names(world: World) -> None:
    """`~` and `file:` mean nothing: the files are simply not there."""
    assert refused(world.files.read, "~/.netrc") == "tool_input"
    assert refused(world.files.read, "file:///etc/passwd") == "tool_input"


def test_links_out_are_refused_and_links_inside_followed(world: World) -> None:
    """Absolute, relative, folder, nested and chained links out fail; links that stay inside work."""
    ws = world.ws
    (ws / "docs/ref.txt").symlink_to(world.out / "secret.txt")
    (ws / "docs/rel.txt").symlink_to("../../out/secret.txt")
    (ws / "out").symlink_to(world.out)
    (ws / "rootfs").symlink_to("/")
    (ws / "chain").symlink_to("docs/ref.txt")
    (ws / "up").symlink_to("..")
    for path in ("docs/ref.txt", "docs/rel.txt", "out/secret.txt", "rootfs/etc/passwd", "chain", "up/out/secret.txt"):
        assert refused(world.files.read, path) == "path_outside", path
        assert refused(world.files.write, path, b"x") == "path_outside", path
    for path in ("out", "rootfs", "up"):
        assert refused(world.files.entries, path) == "path_outside"
        assert refused(world.files.write, path + "/new/deep.txt", b"x") == "path_outside"
    assert world.outside_untouched()

    (ws / "inner.txt").symlink_to("README.md")
    (ws / "inside").symlink_to("docs")
    (ws / "absolute").symlink_to(ws / "docs")
    (ws / "docs/back").symlink_to("../docs/../README.md")
    assert world.files.read("inner.txt") == b"readme\n"
    assert world.files.read("docs/back") == b"readme\n"
    assert world.files.write("inside/ok.txt", b"ok\n") is True
    assert world.files.read("absolute/ok.txt") == b"ok\n"
    assert world.files.write("inner.txt", b"changed\n") is False
    assert (ws / "inner.txt").is_symlink()
    assert (ws / "README.md").read_bytes() == b"changed\n"


def test_dangling_link_writes_nothing_outside(world: World) -> None:
    """A link whose target does not exist yet is no way out, for a file or for a folder."""
    (world.ws / "notes.txt").symlink_to(world.out / "new.txt")
    (world.ws / "docs/away").symlink_to(world.out / "newdir")
    assert refused(world.files.write, "notes.txt", b"x") == "path_outside"
    assert refused(world.files.write, "docs/away/deep/a.txt", b"x") == "path_outside"
    assert world.outside_untouched()
    (world.ws / "later.txt").symlink_to("docs/later.txt")
    assert world.files.write("later.txt", b"y") is True
    assert (world.ws / "docs/later.txt").read_bytes() == b"y"


def test_link_loops_end(world: World) -> None:
    """A loop of links is an error, not a hang."""
    (world.ws / "a").symlink_to("b")
    (world.ws / "b").symlink_to("a")
    assert refused(world.files.read, "a") == "tool_input"
    assert refused(world.files.write, "a/x", b"x") == "tool_input"


def test_link_that_leads_back_to_a_folder(world: World) -> None:
    """A link made of dots only is a folder: listed, never written over."""
    (world.ws / "docs/self").symlink_to("../docs/.")
    (world.ws / "docs/top").symlink_to("..")
    assert [e.name for e in world.files.entries("docs/top")] == ["README.md", "docs"]
    assert refused(world.files.write, "docs/self", b"x") == "tool_input"
    assert refused(world.files.write, "docs/top", b"x") == "tool_input"


def test_special_files_fail_at_once(world: World) -> None:
    """Pipes, sockets and folders are told by kind, and nothing blocks."""
    os.mkfifo(world.ws / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(world.ws / "sock"))
        started = time.monotonic()
        for name in ("pipe", "sock", "docs"):
            assert refused(world.files.read, name) == "tool_input"
            assert refused(world.files.write, name, b"x") == "tool_input"
        assert time.monotonic() - started < 5
        assert stat.S_ISFIFO((world.ws / "pipe").lstat().st_mode)
    assert [(e.name, e.kind) for e in world.files.entries(".")] == [
        ("README.md", "file"),
        ("docs", "folder"),
        ("pipe", "other"),
        ("sock", "other"),
    ]


@pytest.mark.skipif(os.geteuid() != 0, reason="mknod needs root")
def test_device_nodes_are_not_read(world: World) -> None:
    """A device node inside the workspace is refused by kind."""
    os.mknod(world.ws / "zero", 0o666 | stat.S_IFCHR, os.makedev(1, 5))
    assert refused(world.files.read, "zero") == "tool_input"


def test_hard_link_to_outside_keeps_its_bytes(world: World) -> None:
    """Writing replaces the name, so that the other name's file is untouched."""
    os.link(world.out / "victim.txt", world.ws / "hard.txt")
    assert world.files.write("hard.txt", b"changed\n") is False
    assert (world.ws / "hard.txt").read_bytes() == b"changed\n"
    assert world.outside_untouched()


def test_write_is_atomic_keeps_mode_and_makes_parents(world: World) -> None:
    """The execute bit stays, set-uid does not, parents are made, no temporary file remains."""
    script = world.ws / "run.sh"
    script.write_bytes(b"one")
    script.chmod(0o4755)
    held = script.open("rb")
    assert world.files.write("run.sh", b"two") is False
    assert held.read() == b"one"
    held.close()
    assert stat.S_IMODE(script.stat().st_mode) == 0o755
    assert world.files.write("src/new/deep/file.txt", b"fine\n") is True
    assert world.files.write("..hidden..name/ok.txt", b"dots\n") is True
    assert sorted(p.name for p in world.ws.rglob("*")) == [
        "..hidden..name", "README.md", "deep", "docs", "file.txt", "new", "ok.txt", "run.sh", "src",
    ]  # fmt: skip


def test_write_over_a_file_changed_meanwhile_is_refused(world: World) -> None:
    """With the status of an earlier read, a replaced file is not overwritten."""
    before = world.files.stat("README.md")
    (world.ws / "README.md").write_bytes(b"someone else's\n")
    with pytest.raises(ToolInputError, match="changed by something else"):
        world.files.write("README.md", b"mine\n", expect=before)
    assert (world.ws / "README.md").read_bytes() == b"someone else's\n"
    assert world.files.write("README.md", b"mine\n", expect=world.files.stat("README.md")) is False


@pytest.mark.parametrize(
    "path",
    [
        ".git/config",
        ".GIT/config",
        ".git/../.Git/hooks/post-commit",
        "src/.git/config",
        "a/b/.giT",
        "git~1/config",
        "GIT~2/x",
        ".git./config",
        ".git /config",
        ".git::$INDEX_ALLOCATION/config",
        ".g\u200cit/config",
        ".\uff47\uff49\uff54/config",
        "x\\.git\\config",
        ".git",
        "gitlink/config",
    ],
)
def test_git_folders_are_never_written(world: World, path: str) -> None:
    """`.git` in any spelling, at any depth and behind a link is refused, and no folder is made for it."""
    (world.ws / "gitlink").symlink_to(".git")
    (world.ws / ".git").mkdir()
    (world.ws / ".git/config").write_bytes(b"[core]\n")
    before = sorted(str(p) for p in world.ws.rglob("*"))
    assert refused(world.files.write, path, b"x") == "path_git"
    assert refused(world.files.delete, path) in ("path_git", "tool_input")
    assert sorted(str(p) for p in world.ws.rglob("*") if p.name != "gitlink") == [
        p for p in before if not p.endswith("gitlink")
    ]
    assert (world.ws / ".git/config").read_bytes() == b"[core]\n"
    assert world.files.write(".gitignore", b"x\n") is True
    assert world.files.write("docs/legit~1.txt", b"x\n") is True


def test_a_link_into_a_git_folder_reads_nothing(world: World) -> None:
    """What stands in `.git` may be a credential: no link leads to it."""
    (world.ws / ".git").mkdir()
    (world.ws / ".git/config").write_bytes(SECRET)
    (world.ws / "cfg").symlink_to(".git/config")
    (world.ws / "dir").symlink_to("docs/../.git")
    for path in ("cfg", "dir/config"):
        assert refused(world.files.read, path) == "path_git"
    assert refused(world.files.entries, "dir") == "path_git"


@pytest.mark.skipif(os.geteuid() != 0, reason="changing the user needs root")
@pytest.mark.parametrize("use_openat2", [True, False])
def test_it_works_as_another_user(tmp_path: Path, *, use_openat2: bool) -> None:
    """A user without privileges reads, writes and is told what it may not open."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/closed.txt").write_text("x")
    (tmp_path / "docs/closed.txt").chmod(0o600)
    (tmp_path / "own").mkdir()
    os.chown(tmp_path / "own", 65534, 65534)
    code = (
        "import sys\nfrom agent.kernel.beneath import Beneath\nfrom agent.contract.errors import ToolInputError\n"
        f"files = Beneath(sys.argv[1], use_openat2={use_openat2})\n"
        "print(files.write('own/a/b.txt', b'y'), files.read('own/a/b.txt'))\n"
        "for act in (lambda: files.read('docs/closed.txt'), lambda: files.write('docs/new.txt', b'')):\n"
        "    try:\n        act()\n    except ToolInputError as exc:\n        print(exc)\n"
    )
    run = subprocess.run(
        ["/usr/bin/python3", "-c", code, str(tmp_path)],
        cwd=Path(__file__).parents[2],
        user=65534,
        group=65534,
        extra_groups=[],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.stderr == ""
    assert run.stdout.splitlines() == [
        "True b'y'",
        "'docs/closed.txt' may not be opened by this user.",
        "'docs/new.txt' may not be opened by this user.",
    ]
    assert os.listdir(tmp_path / "docs") == ["closed.txt"]


def test_guard_sees_the_true_path_too(world: World) -> None:
    """A protected file behind a link is asked for under its own name, before any folder is made."""
    (world.ws / ".github").mkdir()
    (world.ws / "ci").symlink_to(".github")

    def guard(path: str) -> None:
        if path.startswith(".github"):
            raise Refusal("protected_path", "no")

    with pytest.raises(Refusal) as caught:
        world.files.write("ci/workflows/x.yml", b"x", guard=guard)
    assert caught.value.code == "protected_path"
    assert os.listdir(world.ws / ".github") == []
    assert world.files.write("ci/workflows/x.yml", b"x") is True


def test_delete_takes_the_link_and_not_its_target(world: World) -> None:
    """Deleting a link out removes the link; a folder is refused."""
    (world.ws / "ref").symlink_to(world.out / "victim.txt")
    assert world.files.delete("ref") == "link"
    assert not (world.ws / "ref").is_symlink()
    assert world.outside_untouched()
    assert refused(world.files.delete, "docs") == "tool_input"
    assert refused(world.files.delete, "missing") == "tool_input"
    assert world.files.delete("README.md") == "file"
    assert not (world.ws / "README.md").exists()


def test_walk_lists_everything_below_and_follows_nothing(world: World) -> None:
    """Links and special files are named, never entered; a taken-out folder is not visited."""
    (world.ws / "docs/skip/in").mkdir(parents=True)
    (world.ws / "docs/a.txt").write_bytes(b"")
    (world.ws / "out").symlink_to(world.out)
    (world.ws / "loop").symlink_to(".")
    seen = []
    for folder in world.files.walk():
        seen.append((folder.path, list(folder.folders), folder.files, folder.links))
        if "skip" in folder.folders:
            folder.folders.remove("skip")
    assert seen == [
        ("", ["docs"], ["README.md"], ["loop", "out"]),
        ("docs", ["skip"], ["a.txt"], []),
    ]


def test_very_deep_trees_end(world: World) -> None:
    """A chain of folders past the longest path is walked to the cap on depth, with few descriptors."""
    script = "import os\nfor _ in range(400):\n    os.mkdir('d' * 200); os.chdir('d' * 200)\n"
    subprocess.run(["/usr/bin/python3", "-c", script], cwd=world.ws / "docs", check=True)
    reached = 4096 // 201 + 1 if world.files.by_kernel else DEPTH_CAP + 1
    assert sum(1 for _ in world.files.walk()) == reached + 1
    subprocess.run(["rm", "-rf", "docs"], cwd=world.ws, check=True)


def test_no_descriptor_is_left_open(world: World) -> None:
    """Refusals, errors and successes alike give every descriptor back."""
    (world.ws / "out").symlink_to(world.out)
    (world.ws / "inside").symlink_to("docs")
    os.mkfifo(world.ws / "pipe")
    before = len(os.listdir("/proc/self/fd"))
    for path in (
        "README.md",
        "inside/x",
        "out/secret.txt",
        "../x",
        "pipe",
        "docs",
        "missing/deep",
        ".git/x",
        "d/" * 400 + "x",
    ):
        for act in (world.files.read, world.files.entries, world.files.stat, world.files.delete):
            try:
                act(path)
            except (Refusal, ToolInputError):
                pass
        try:
            world.files.write(path, b"x")
        except (Refusal, ToolInputError):
            pass
        list(world.files.walk())
    assert len(os.listdir("/proc/self/fd")) == before


def test_ten_thousand_swaps_reach_nothing_outside(world: World) -> None:
    """A folder swapped for a link out, 10,000 times, while it is read, listed and written through."""
    (world.ws / "real").mkdir()
    (world.ws / "real/secret.txt").write_bytes(b"readme\n")
    (world.ws / "real/victim.txt").write_bytes(b"readme\n")
    (world.ws / "swap").symlink_to("real")
    swaps = 10_000
    done = threading.Event()
    script = (
        "import os, sys\n"
        f"for i in range({swaps}):\n"
        "    os.symlink('real' if i % 2 else sys.argv[1], 'swap.tmp'); os.rename('swap.tmp', 'swap')\n"
    )
    with subprocess.Popen(["/usr/bin/python3", "-c", script, str(world.out)], cwd=world.ws) as swapper:
        threading.Thread(target=lambda: (swapper.wait(), done.set()), daemon=True).start()
        read = refusals = 0
        while not done.is_set():
            for act in (
                lambda: world.files.read("swap/secret.txt"),
                lambda: str(world.files.write("swap/victim.txt", b"changed")).encode(),
                lambda: b"".join(e.name.encode() for e in world.files.entries("swap")),
            ):
                try:
                    assert SECRET.strip() not in act()
                    read += 1
                except (Refusal, ToolInputError):
                    refusals += 1
    assert swapper.returncode == 0
    assert world.outside_untouched()
    assert read > 0
    assert refusals > 0


def test_file_swapped_for_a_link_or_pipe_while_read(world: World) -> None:
    """The last component swapped between file, link out and pipe never gives the outside's bytes, nor blocks."""
    script = (
        "import os, sys\n"
        "for i in range(3000):\n"
        "    if i % 3 == 0: os.symlink(sys.argv[1], 't')\n"
        "    elif i % 3 == 1: os.mkfifo('t')\n"
        "    else: open('t', 'w').write('plain')\n"
        "    os.rename('t', 'f')\n"
    )
    with subprocess.Popen(["/usr/bin/python3", "-c", script, str(world.out / "secret.txt")], cwd=world.ws) as swapper:
        got = set()
        while swapper.poll() is None:
            try:
                got.add(world.files.read("f"))
            except (Refusal, ToolInputError):
                got.add(None)
    assert got <= {b"plain", b"", None}
    assert None in got


_NAMES = st.sampled_from(["..", ".", "", "docs", "README.md", "out", "lnk", "up", "secret.txt", "d", "~", "...", " "])


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(parts=st.lists(_NAMES, min_size=1, max_size=8), lead=st.sampled_from(["", "/", "./", "//"]))
def test_no_path_ever_opens_outside(world: World, parts: list[str], lead: str) -> None:
    """Random paths over a tree full of links: what opens is what the real path says, and lies inside."""
    for name, target in {"out": str(world.out), "up": "..", "lnk": "docs", "docs/up": "../..", "docs/d": "."}.items():
        if not (world.ws / name).is_symlink():
            (world.ws / name).symlink_to(target)
    path = lead + "/".join(parts)
    try:
        data = world.files.read(path)
    except (Refusal, ToolInputError):
        data = None
    assert data in (None, b"readme\n")
    try:
        world.files.write(path, b"readme\n")
    except (Refusal, ToolInputError):
        pass
    assert world.outside_untouched()
    assert sorted(os.listdir(world.ws.parent)) == ["out", "ws"]
