"""Where a checkout's real git folder is and what it says, read as files: no git command runs in it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

from agent.broker.git.objects import is_sha
from agent.broker.git.run import Git
from agent.contract.dataclass import dataclass
from agent.contract.errors import UpstreamError, UserError


class Shape(StrEnum):
    """What stands at `.git`."""

    FOLDER = "folder"
    FILE = "file"  # a worktree's or submodule's pointer, or a link
    ABSENT = "absent"


@dataclass(frozen=True)
class GitDir:
    """A real git folder.

    Attributes:
        shape: what stands at `.git` of the checkout.
        path: folder with HEAD and index; None when absent.
        common: folder with objects, refs and config; the same unless the checkout is a linked worktree.
    """

    shape: Shape
    path: Path | None
    common: Path | None


def locate(checkout: Path) -> GitDir:
    """Find the git folder of a checkout without asking git.

    Raises:
        UserError: `.git` is a file that leads nowhere.
    """
    dot_git = checkout / ".git"
    try:
        mode = os.lstat(dot_git).st_mode
    except FileNotFoundError:
        return GitDir(Shape.ABSENT, None, None)
    if stat.S_ISDIR(mode):
        return GitDir(Shape.FOLDER, dot_git, dot_git)
    path = Path(os.path.realpath(dot_git))
    if stat.S_ISREG(mode):
        text = dot_git.read_text(errors="surrogateescape").strip()
        if not text.startswith("gitdir:"):
            raise UserError(f"{dot_git} is a file, but not one that git makes.")
        path = Path(os.path.realpath(checkout / text.removeprefix("gitdir:").strip()))
    if not path.is_dir():
        raise UserError(f"{dot_git} leads to {path}, which is not there; mount it at the same path.")
    common = path
    if (path / "commondir").is_file():
        common = Path(os.path.realpath(path / (path / "commondir").read_text().strip()))
    return GitDir(Shape.FILE, path, common)


class ConfigReader:
    """Parses configuration files with `git config --file`, each file once, also when it moves."""

    def __init__(self, git: Git) -> None:
        """Use any git folder of ours to run git in."""
        self._git = git
        self._known: dict[tuple[int, int, int], list[tuple[str, str]]] = {}

    def read(self, file: Path) -> list[tuple[str, str]]:
        """Keys and values of one file, nothing that it includes; a missing file is empty.

        Raises:
            UserError: git cannot parse it.
        """
        try:
            status = file.stat()
        except OSError:
            return []
        if not stat.S_ISREG(status.st_mode) or not status.st_size:
            return []
        identity = (status.st_dev, status.st_ino, status.st_mtime_ns)
        if identity not in self._known:
            try:
                out = self._git.run("config", "--file", str(file), "--no-includes", "-z", "--list")
            except UpstreamError as exc:
                raise UserError(f"{file} cannot be read: {exc}.") from exc
            text = out.decode("utf-8", "surrogateescape")
            rows = (record.partition("\n") for record in text.split("\0") if record)
            self._known[identity] = [(key, value) for key, _, value in rows]
        return self._known[identity]


def check_format(config: list[tuple[str, str]], file: Path) -> None:
    """Refuse repository formats that GitHub does not host.

    Raises:
        UserError: SHA-256 objects or reftable refs.
    """
    for key, value in config:
        if (key == "extensions.objectformat" and value.lower() != "sha1") or (
            key == "extensions.refstorage" and value.lower() != "files"
        ):
            raise UserError(f"{file} says {key} = {value}; Airlock works with SHA-1 objects and plain refs.")


def read_refs(common: Path) -> dict[str, str]:
    """Every direct ref with its object id; loose ones win over packed ones."""
    refs: dict[str, str] = {}
    packed = common / "packed-refs"
    if packed.is_file():
        for line in packed.read_text(errors="surrogateescape").splitlines():
            sha, _, name = line.partition(" ")
            if is_sha(sha) and name.startswith("refs/"):
                refs[name] = sha
    for path in _files(common / "refs"):
        sha = path.read_text(errors="surrogateescape").strip()
        if is_sha(sha):
            refs[str(path.relative_to(common))] = sha
    return refs


def _files(folder: Path) -> Iterator[Path]:
    if not folder.is_dir():
        return
    for entry in sorted(folder.iterdir()):
        if entry.is_symlink():
            continue
        if entry.is_dir():
            yield from _files(entry)
        elif entry.is_file():
            yield entry


def read_head(path: Path, refs: dict[str, str]) -> tuple[str, str | None]:
    """Text of HEAD (`ref: refs/heads/x` or an id), and the commit it stands for, None when unborn."""
    try:
        text = (path / "HEAD").read_text(errors="surrogateescape").strip()
    except OSError:
        return "ref: refs/heads/main", None
    if text.startswith("ref:"):
        name = text.removeprefix("ref:").strip()
        return f"ref: {name}", refs.get(name)
    return text, text if is_sha(text) else None


def read_shallow(common: Path) -> list[str]:
    """Ids of shallow commits."""
    try:
        return [line for line in (common / "shallow").read_text().split() if is_sha(line)]
    except FileNotFoundError:
        return []


def object_folders(objects: Path, depth: int = 5) -> list[Path]:
    """The folders that `objects` borrows from, in absolute form, nested ones too."""
    found: list[Path] = []
    try:
        lines = (objects / "info/alternates").read_text(errors="surrogateescape").splitlines()
    except FileNotFoundError:
        return found
    for line in lines:
        if line and not line.startswith("#") and depth > 0:
            path = Path(os.path.realpath(objects / line))
            found += [path, *object_folders(path, depth - 1)]
    return found


def modules(common: Path) -> list[Path]:
    """Git folders of absorbed submodules, nested ones too."""
    found: list[Path] = []
    todo = [common / "modules"]
    while todo:
        folder = todo.pop()
        if not folder.is_dir() or folder.is_symlink():
            continue
        if (folder / "HEAD").is_file():
            found.append(folder)
            todo.append(folder / "modules")
        else:
            todo += [entry for entry in folder.iterdir() if entry.is_dir()]  # a module's name may hold slashes
    return sorted(found)


def nested_git(workspace: Path) -> list[Path]:
    """Every `.git` below the workspace's top: folders of second checkouts, files of submodules, links."""
    found: list[Path] = []
    todo = [os.fspath(workspace)]
    while todo:
        folder = todo.pop()
        try:
            with os.scandir(folder) as listing:
                for entry in listing:
                    if entry.name == ".git":
                        found += [Path(entry.path)] if folder != os.fspath(workspace) else []
                    elif entry.is_dir(follow_symlinks=False):
                        todo.append(entry.path)
        except OSError:
            continue  # unreadable: then the sandbox's user, who owns no more than we, cannot read it either
    return sorted(found)


def submodules_apart(top: GitDir, inner: list[Path]) -> list[Path]:
    """Those `.git` files below a checkout which lead to its own submodules' git folders outside of it.

    Where `.git` is a file, as in a linked worktree, the submodules' folders lie beside what it names, and not in
    the checkout.
    """
    if top.shape is not Shape.FILE or top.path is None:
        return []
    found: list[Path] = []
    for file in inner:
        if file.is_file() and not file.is_symlink():
            try:
                path = locate(file.parent).path
            except UserError:
                continue  # it leads nowhere: git does not work there for anybody
            if path is not None and path.is_relative_to(top.path / "modules"):
                found.append(file)
    return found
