"""Files beneath one root, opened so that no link, swap, device or spelling leads out of it.

A path without links is opened by openat2 in one call. Writes, links, and everything where the call is missing
go by a walk of descriptors: each component is opened with O_NOFOLLOW relative to the one before, a link's
target is read and walked in turn, and `..` in it goes back to a descriptor already held, never to the file
system. So there is no moment between check and use. A file is written beside its place and renamed over it:
what stood there, a hard link to a file elsewhere included, keeps its bytes.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from agent.contract.errors import Refusal, ToolInputError
from agent.contract.paths import has_git_name, repository_relative
from agent.kernel import openat2 as kernel
from agent.kernel.descent import Descent, Guard, Place
from agent.kernel.file_words import KINDS, explained, git_folder, wrong_kind
from agent.kernel.folder import Entry, Folder, scan
from agent.kernel.replacing import identity, lstat, replace

DEPTH_CAP = 256
"""Folders below each other that a walk enters: without openat2 each costs its depth in system calls."""

_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_BENEATH = kernel.RESOLVE_BENEATH | kernel.RESOLVE_NO_MAGICLINKS


class Beneath:
    """Opens paths under one root and never outside. Safe for use from several threads.

    Raises, from every method: `Refusal` with code `path_outside`, `path_git` or what a guard raises; and
    `ToolInputError` for what is missing, of the wrong kind, too long or not permitted.

    Args:
        root: absolute path of an existing folder.
        use_openat2: False takes the descriptor walk for reads as well.
    """

    def __init__(self, root: str, *, use_openat2: bool = True) -> None:
        self.root = os.path.realpath(root)
        self._given = root.rstrip("/") or "/"
        self._fd = os.open(self.root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self.by_kernel = use_openat2 and kernel.available(self._fd)

    def close(self) -> None:
        """Give the root's descriptor back; the object is of no use afterwards."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- names ------------------------------------------------------------------------------------------

    def relative(self, path: str) -> str:
        """First check: the repository-relative form (`agent.contract.paths.repository_relative`)."""
        top = self._given if path.startswith(self._given + "/") or path == self._given else self.root
        return repository_relative(path, top)

    # --- reading ----------------------------------------------------------------------------------------

    def open_file(self, path: str) -> int:
        """Open a regular file for reading; the caller closes the descriptor."""
        rel = self.relative(path)
        fd = self._open(rel, _READ, path)
        mode = os.fstat(fd).st_mode
        if not stat.S_ISREG(mode):
            os.close(fd)
            raise wrong_kind(path, mode)
        return fd

    def read(self, path: str, limit: int = 16 << 20) -> bytes:
        """Bytes of a regular file.

        Raises:
            ToolInputError: also when it is longer than `limit` bytes.
        """
        fd = self.open_file(path)
        try:
            size = os.fstat(fd).st_size
            if size > limit:
                raise ToolInputError(f"{path!r} is {size} bytes long; {limit} is the limit here.")
            return read_up_to(fd, limit)
        finally:
            os.close(fd)

    def stat(self, path: str) -> os.stat_result:
        """Of what the path leads to, links inside followed."""
        fd = self._open(self.relative(path), os.O_PATH | os.O_CLOEXEC, path)
        try:
            return os.fstat(fd)
        finally:
            os.close(fd)

    def exists(self, path: str) -> bool:
        """Something is there and lies beneath the root."""
        try:
            self.stat(path)
        except (Refusal, ToolInputError):
            return False
        return True

    def entries(self, path: str) -> list[Entry]:
        """Names in a folder, sorted."""
        fd = self._open(self.relative(path), _FOLDER, path)
        try:
            folder = scan("", fd)
        finally:
            os.close(fd)
        kinds = {"folder": folder.folders, "file": folder.files, "link": folder.links, "other": folder.others}
        found = [Entry(name, kind) for kind, names in kinds.items() for name in names]
        return sorted(found, key=lambda e: e.name)

    def walk(self, path: str = ".") -> Iterator[Folder]:
        """Every folder below, depth first in the order of names; links are listed and never followed.

        A folder that vanishes, is swapped, may not be read, or lies deeper than `DEPTH_CAP` is left out.
        """
        start = self.relative(path)
        pending: list[str] = [start]
        first = True
        while pending:
            rel = pending.pop()
            try:
                fd = self._open(rel, _FOLDER, path) if first else self._open_plain(rel, _FOLDER)
            except OSError:
                continue
            first = False
            try:
                folder = scan(rel, fd)
                yield folder
                prefix = rel + "/" if rel else ""
                if rel.count("/") < start.count("/") + DEPTH_CAP:
                    pending.extend(prefix + name for name in reversed(folder.folders))
            finally:
                os.close(fd)

    # --- writing ----------------------------------------------------------------------------------------

    def write(
        self, path: str, data: bytes, *, guard: Guard | None = None, expect: os.stat_result | None = None
    ) -> bool:
        """Write a whole file atomically; parents are made, permission bits of an existing file stay.

        Args:
            path: a link that stays inside is followed, and its target is what is replaced.
            data: the file's bytes.
            guard: asked for the path as written and for the true path.
            expect: status from when the file was read; raises when it has been replaced or changed since.

        Returns:
            True when there was no such file before.
        """
        with self._place(path, guard, make_parents=True) as place:
            old = lstat(place)
            if old is not None and not stat.S_ISREG(old.st_mode):
                raise wrong_kind(path, old.st_mode)
            if expect is not None and (old is None or identity(old) != identity(expect)):
                raise ToolInputError(f"{path!r} was changed by something else meanwhile. Read it again.")
            replace(place, data, old, path)
            return old is None

    def delete(self, path: str, *, guard: Guard | None = None) -> str:
        """Remove one file, link or other object that is no folder; a link is removed, not its target.

        Returns:
            the kind that was removed.
        """
        with self._place(path, guard, make_parents=False, follow=False) as place:
            old = lstat(place)
            if old is None:
                raise ToolInputError(f"{path!r} does not exist.")
            if stat.S_ISDIR(old.st_mode):
                raise ToolInputError(f"{path!r} is a folder. Delete its files one by one.")
            try:
                os.unlink(place.last, dir_fd=place.fd)
            except OSError as exc:
                raise explained(exc, path) from exc
            return KINDS.get(stat.S_IFMT(old.st_mode), "file")

    @contextmanager
    def _place(self, path: str, guard: Guard | None, *, make_parents: bool, follow: bool = True) -> Iterator[Place]:
        """Find where a write goes. Git folders and what the guard protects are refused in both forms."""
        rel = self.relative(path)
        if not rel:
            raise ToolInputError(f"{path!r} is the workspace itself, not a file.")
        if path.endswith(("/", "/.")):
            raise ToolInputError(f"{path!r} names a folder, not a file.")
        _check(rel, guard)
        try:
            place = Descent(
                self._fd, self.root, path, make_parents=make_parents, follow=follow, check=lambda p: _check(p, guard)
            ).to(rel)
        except OSError as exc:
            raise explained(exc, path) from exc
        try:
            if not place.last:
                raise wrong_kind(path, stat.S_IFDIR)  # a link that leads back to a folder on its way
            _check(place.path, guard)
            yield place
        finally:
            place.close()

    # --- resolution -------------------------------------------------------------------------------------

    def _open(self, rel: str, flags: int, path: str) -> int:
        """Open what a checked path leads to, links inside followed.

        One system call where no link is on the way; with a link the walk finds the true path, which may not be
        a git folder's either.
        """
        try:
            if self.by_kernel:
                try:
                    return kernel.openat2(self._fd, rel or ".", flags, _BENEATH | kernel.RESOLVE_NO_SYMLINKS)
                except OSError as exc:
                    if exc.errno not in (errno.ELOOP, errno.EXDEV, errno.EAGAIN):
                        raise
            place = Descent(self._fd, self.root, path).to(rel)
            try:
                if place.path != rel and has_git_name(place.path):
                    raise git_folder()
                return os.open(place.last or ".", flags | os.O_NOFOLLOW, dir_fd=place.fd)
            finally:
                place.close()
        except OSError as exc:
            raise explained(exc, path) from exc

    def _open_plain(self, rel: str, flags: int) -> int:
        """Open a path in which no component is a link."""
        if self.by_kernel:
            return kernel.openat2(self._fd, rel, flags, _BENEATH | kernel.RESOLVE_NO_SYMLINKS)
        fd = os.dup(self._fd)
        try:
            names = rel.split("/")
            for name in names[:-1]:
                below = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=fd)
                os.close(fd)
                fd = below
            return os.open(names[-1], flags | os.O_NOFOLLOW, dir_fd=fd)
        finally:
            os.close(fd)


def read_up_to(fd: int, limit: int) -> bytes:
    """Read from a descriptor's place until its end, at most `limit` bytes."""
    parts: list[bytes] = []
    left = limit
    while left > 0:
        part = os.read(fd, min(left, 1 << 20))
        if not part:
            break
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _check(rel: str, guard: Guard | None) -> None:
    if has_git_name(rel):
        raise git_folder()
    if guard is not None:
        guard(rel)
