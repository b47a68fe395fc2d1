"""Ignored folders (`node_modules`, `.venv`) for gates: kept before the model's first command, copied to each gate.

House rules. What is kept lies in a folder of ours that no sandbox shows; a gate gets copies, so that nothing that
runs in one gate changes what the next one starts from (attack: the model's own test, run by the stop gate, empties
`node_modules/.bin/check`, and the prepush gate passes). Copies and no hard links: a link that a command cannot
write to breaks what is written in place (cargo's lock file, caches in SQLite). Where the disk can share blocks, a
copy shares them.

The content is the setup script's and that of whatever it installed. Nothing of it is alive, but names, links and
kinds are as hostile as it likes: every folder is opened relative to its parent without following a link, links are
copied as links, what is neither file, folder nor link is left out, and so is whatever git would take for its own.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from agent.broker.git.materialise import Owner, open_folder
from agent.broker.git.objects import display, is_git_name
from agent.contract.dataclass import dataclass
from agent.contract.errors import UpstreamError

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_TAKEN = (errno.EEXIST, errno.ENOTDIR, errno.ELOOP)
_PART = 1 << 30
_NAMED = 5  # folders that a sentence names


@dataclass(frozen=True)
class Bounds:
    """What is kept at most; beyond any of them nothing is.

    Attributes:
        entries: files, links and folders together.
        size: bytes of content. What is kept and one gate's copy of it also never fill half of the free disk.
        depth: folders within each other; one open descriptor each, twice.
    """

    entries: int = 200_000
    size: int = 4 << 30
    depth: int = 128


class _OverError(Exception):
    """A bound was reached."""


class Dependencies:
    """The ignored folders of one run, as they were before the model's first command."""

    def __init__(self, folder: Path, owner: Owner | None, bounds: Bounds | None = None) -> None:
        """
        Args:
            folder: where they are kept; it does not exist yet, and only this user may enter it.
            owner: of the copies that gates get.
            bounds: what is kept at most.
        """
        self._folder = folder
        self._owner = owner
        self._bounds = bounds or Bounds()
        self._kept: dict[bytes, Path] = {}

    def keep(self, workspace: Path, paths: Sequence[bytes]) -> str:
        """Copy these folders of the workspace, in which nothing hostile is alive.

        Args:
            paths: folders relative to the workspace, none within another.

        Returns:
            Empty, or the sentence why nothing was kept and what to do.
        """
        if not paths:
            return ""
        self._folder.mkdir(mode=0o700)
        size = min(self._bounds.size, shutil.disk_usage(self._folder).free // 4)
        copier = _Copier(None, self._bounds, size)
        try:
            for number, path in enumerate(paths):
                kept = self._folder / str(number)
                kept.mkdir()
                with suppress(PermissionError), _opened(workspace) as top, _opened(path, top) as source:
                    with _opened(kept) as target:
                        copier.folder(source, target)
                    self._kept[path] = kept
        except (_OverError, OSError) as exc:
            self._kept.clear()
            shutil.rmtree(self._folder, ignore_errors=True)
            return _sentence(paths, str(exc) if isinstance(exc, _OverError) else exc.strerror or "they cannot be read")
        return ""

    def place(self, checkout: Path) -> None:
        """Copy what was kept to its places in a checkout; what the tree has there itself stays the tree's.

        Raises:
            UpstreamError: it could not be written.
        """
        copier = _Copier(self._owner)
        try:
            with _opened(checkout) as top:
                for path, kept in self._kept.items():
                    with _opened(kept) as source:
                        copier.into(source, top, path)
        except OSError as exc:
            raise UpstreamError("copy ignored folders to a gate", exc.strerror or str(exc)) from exc


def _sentence(paths: Sequence[bytes], reason: str) -> str:
    named = ", ".join(display(path) for path in paths[:_NAMED]) + (", ..." if len(paths) > _NAMED else "")
    return (
        f"Stop and prepush scripts run without the ignored folders of the workspace ({named}): {reason}. Keep them "
        "smaller, or let the scripts install from what setup left in HOME, such as `npm ci --offline`."
    )


class _Copier:
    """Copies folders into folders, and counts where it is given bounds."""

    def __init__(self, owner: Owner | None, bounds: Bounds | None = None, size: int = 0) -> None:
        self._owner = owner
        self._bounds = bounds
        self._size = size
        self._entries = bounds.entries if bounds else 0

    def into(self, source: int, parent: int, path: bytes, depth: int = 0) -> None:
        """Copy a folder to a path, unless the tree has a link or a file there or on the way."""
        try:
            target = open_folder(parent, path, self._owner)
        except OSError as exc:
            if exc.errno in _TAKEN:
                return
            raise
        try:
            self.folder(source, target, depth)
        finally:
            os.close(target)

    def folder(self, source: int, target: int, depth: int = 0) -> None:
        """Copy what is in a folder, but for what is there already."""
        self._count(0)
        if self._bounds and depth > self._bounds.depth:
            raise _OverError(f"they hold folders more than {self._bounds.depth} deep")
        with os.scandir(source) as listing:
            for item in listing:
                name = os.fsencode(item.name)
                if not is_git_name(name):
                    self._entry(source, target, name, item.stat(follow_symlinks=False), depth)

    def _entry(self, source: int, target: int, name: bytes, status: os.stat_result, depth: int) -> None:
        kind = stat.S_IFMT(status.st_mode)
        if kind != stat.S_IFDIR:
            self._count(status.st_size if kind == stat.S_IFREG else 0)
        try:
            if kind == stat.S_IFDIR:
                with _opened(name, source) as below:
                    self.into(below, target, name, depth + 1)
            elif kind == stat.S_IFLNK:
                os.symlink(os.readlink(name, dir_fd=source), name, dir_fd=target)
                if self._owner is not None:
                    os.chown(name, self._owner.uid, self._owner.gid, dir_fd=target, follow_symlinks=False)
            elif kind == stat.S_IFREG:
                self._file(source, target, name, status)
        except FileExistsError:
            return  # the tree's own
        except PermissionError:
            if self._bounds is None:
                raise
            # not ours to read in the workspace, so not its user's either

    def _count(self, size: int) -> None:
        if self._bounds is None:
            return
        self._entries -= 1
        self._size -= size
        if self._entries < 0:
            raise _OverError(f"they hold more than {self._bounds.entries:,} files and folders")
        if self._size < 0:
            raise _OverError(f"they hold more than {self._bounds.size >> 20:,} MB, or than a quarter of the free disk")

    def _file(self, source: int, target: int, name: bytes, status: os.stat_result) -> None:
        mode = stat.S_IMODE(status.st_mode) & 0o777  # a set-user-id bit was another user's
        read = os.open(name, _FILE, dir_fd=source)
        try:
            write = os.open(name, _NEW, mode, dir_fd=target)
            try:
                _content(read, write)
                os.fchmod(write, mode)
                os.utime(write, ns=(status.st_atime_ns, status.st_mtime_ns))  # Python's caches and make go by it
                if self._owner is not None:  # last: the action's container has no CAP_FOWNER over others' files
                    os.fchown(write, self._owner.uid, self._owner.gid)
            finally:
                os.close(write)
        finally:
            os.close(read)


@contextmanager
def _opened(path: Path | bytes, above: int | None = None) -> Iterator[int]:
    """An open folder; no name of its relative path may be a link."""
    if above is None:
        fd = os.open(path, _FOLDER)
    else:
        fd = os.dup(above)
        for name in os.fsencode(path).split(b"/"):
            try:
                below = os.open(name, _FOLDER, dir_fd=fd)
            finally:
                os.close(fd)
            fd = below
    try:
        yield fd
    finally:
        os.close(fd)


def _content(read: int, write: int) -> None:
    """All bytes of a file; the kernel shares blocks where the disk can."""
    try:
        while os.copy_file_range(read, write, _PART):
            pass
    except OSError:
        while part := os.read(read, 1 << 20):  # from where the kernel stopped
            while part:
                part = part[os.write(write, part) :]
