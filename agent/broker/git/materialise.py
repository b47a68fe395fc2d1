"""From a tree to files, with our own writer: no checkout, no filters, no link followed.

Used for the separate checkouts on which gates run, and to bring the workspace to the pinned commit.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from agent.broker.git.objects import EXECUTABLE, GITLINK, LINK, Entry, display, is_git_name
from agent.broker.git.shadow import ShadowGit
from agent.contract.dataclass import dataclass
from agent.contract.errors import UpstreamError

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True)
class Owner:
    """Who written files belong to; None where the process's own user is right."""

    uid: int
    gid: int


def materialise(shadow: ShadowGit, tree: str, directory: Path, owner: Owner | None = None) -> None:
    """Write a tree into an empty folder.

    Args:
        shadow: where the objects are.
        tree: id of a tree.
        directory: an existing empty folder that nothing hostile can write to meanwhile.
        owner: of everything written, and of the folder itself.

    Raises:
        UpstreamError: an object is missing, or the tree holds a name that no checkout may have.
    """
    fd = os.open(directory, _FOLDER)
    try:
        with os.scandir(fd) as listing:
            if any(True for _ in listing):
                raise UpstreamError("write checkout", f"{directory} is not empty")
        _own(fd, owner)
        _write(shadow, shadow.entries(tree), fd, owner)
    finally:
        os.close(fd)


def bring_to(shadow: ShadowGit, workspace: Path, before: str, after: str, owner: Owner | None = None) -> list[str]:
    """Change the tracked files of the workspace from one commit to another.

    Only paths that differ are touched, so build caches stay valid; untracked files stay.

    Args:
        shadow: where both commits are.
        workspace: folder to change, before anything hostile runs.
        before, after: commit or tree ids.
        owner: of everything written.

    Returns:
        Paths that were written or deleted, for the report.

    Raises:
        UpstreamError: an object is missing, or a path cannot be written.
    """
    changes = shadow.names_changed(before, after)
    fd = os.open(workspace, _FOLDER)
    try:
        for change in changes:
            if change.old is not None and change.old.mode != GITLINK:
                _delete(fd, change.path, prune=change.new is None)
        _write(shadow, {c.path: c.new for c in changes if c.new is not None}, fd, owner)
    finally:
        os.close(fd)
    return [display(c.path) for c in changes]


def _write(shadow: ShadowGit, files: Mapping[bytes, Entry], root: int, owner: Owner | None) -> None:
    for path in files:
        if any(part in (b"", b".", b"..") or is_git_name(part) for part in path.split(b"/")):
            raise UpstreamError("write checkout", f"the tree holds the name {display(path)}")
    by_blob: dict[str, list[bytes]] = {}
    for path, entry in files.items():
        if entry.mode == GITLINK:
            os.close(open_folder(root, path, owner))
        else:
            by_blob.setdefault(entry.sha, []).append(path)
    path = b""
    last, parent = b"", os.dup(root)  # files of one folder mostly follow each other
    try:
        with shadow.reader() as reader:
            for sha, _, data in reader.read_many(by_blob):
                for path in by_blob[sha]:
                    folder, _, name = path.rpartition(b"/")
                    if folder != last:
                        os.close(parent)
                        parent = os.dup(root)  # so that there is one to close should the next line fail
                        opened = open_folder(root, folder, owner)
                        os.close(parent)
                        last, parent = folder, opened
                    _file(parent, name, files[path].mode, data, owner)
    except OSError as exc:
        raise UpstreamError("write checkout", f"{display(path)}: {exc.strerror}") from exc
    finally:
        os.close(parent)


def open_folder(root: int, path: bytes, owner: Owner | None) -> int:
    """Descriptor of a folder below `root`, made where it is missing; a link on the way is an error."""
    fd = os.dup(root)
    try:
        for part in path.split(b"/") if path else ():
            try:
                child = os.open(part, _FOLDER, dir_fd=fd)
            except FileNotFoundError:
                os.mkdir(part, 0o755, dir_fd=fd)
                child = os.open(part, _FOLDER, dir_fd=fd)
                _own(child, owner)
            os.close(fd)
            fd = child
    except OSError:
        os.close(fd)
        raise
    return fd


def _file(parent: int, name: bytes, mode: str, data: bytes, owner: Owner | None) -> None:
    if mode == LINK:
        os.symlink(data, name, dir_fd=parent)
        if owner is not None:
            os.chown(name, owner.uid, owner.gid, dir_fd=parent, follow_symlinks=False)
        return
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(name, flags, 0o755 if mode == EXECUTABLE else 0o644, dir_fd=parent)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        _own(fd, owner)
    finally:
        os.close(fd)


def _own(fd: int, owner: Owner | None) -> None:
    if owner is not None:
        os.fchown(fd, owner.uid, owner.gid)


def _delete(root: int, path: bytes, *, prune: bool) -> None:
    """Remove a tracked file; with `prune` also the folders that it leaves empty."""
    parts = path.split(b"/")
    fds = [os.dup(root)]
    try:
        for part in parts[:-1]:
            try:
                fds.append(os.open(part, _FOLDER, dir_fd=fds[-1]))
            except (FileNotFoundError, NotADirectoryError):
                return
            except OSError as exc:
                if exc.errno == 40:  # ELOOP: the folder is a link now, so the tracked file is gone
                    return
                raise
        try:
            status = os.stat(parts[-1], dir_fd=fds[-1], follow_symlinks=False)
        except FileNotFoundError:
            return
        if stat.S_ISDIR(status.st_mode):
            raise UpstreamError("write checkout", f"{display(path)} is a folder where the commit has a file")
        os.unlink(parts[-1], dir_fd=fds[-1])
        for depth in range(len(fds) - 1, 0, -1) if prune else ():
            try:
                os.rmdir(parts[depth - 1], dir_fd=fds[depth - 1])
            except OSError:
                return  # not empty
    finally:
        for fd in fds:
            os.close(fd)
