"""From the workspace to a tree, without git and without following a link.

The workspace is hostile: any file may be swapped at any moment. Every folder is opened relative to its
parent's descriptor with O_NOFOLLOW, every file is checked again after it was opened, sizes are capped, and
what cannot be taken is named in `problems` and stays as it was in the tracked tree.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Mapping
from pathlib import Path

from agent.broker.git.converted import Conversion, converted
from agent.broker.git.index import IndexEntry
from agent.broker.git.objects import EXECUTABLE, FILE, GITLINK, LINK, Change, Entry, display, is_git_name, object_id
from agent.broker.git.shadow import ShadowGit
from agent.broker.git.snapshot_words import Caps, Seen, Snapshot, Walk
from agent.contract.gitignore import Ignores

DEPTH_CAP = 128  # folders below the workspace; one open descriptor each
_RACY_NS = 50_000_000  # a file changed this shortly before it was read may change again within one clock tick

_PROBLEMS_CAP = 50  # sentences; a folder of 10,000 FIFOs is one fact, not 10,000


class _OverCapError(Exception):
    """No more content is stored in this run."""


class Snapshotter:
    """Takes snapshots of one workspace; remembers what it hashed."""

    def __init__(
        self,
        shadow: ShadowGit,
        workspace: Path,
        *,
        index: Mapping[bytes, IndexEntry] | None = None,
        index_mtime_ns: int = 0,
        caps: Caps | None = None,
        excluded: tuple[int, int] | None = None,
    ) -> None:
        """Remember the workspace.

        Args:
            shadow: where objects go.
            workspace: folder to read.
            index: entries of the index that checkout left. Believed in the first snapshot alone, which must
                be taken before anything hostile has run: later a command could forge an mtime.
            index_mtime_ns: when that index was written.
            caps: sizes.
            excluded: device and inode of a folder that is never entered, whatever its name is by then.
        """
        self._excluded = excluded
        self._shadow = shadow
        self._workspace = workspace
        self._index = dict(index or {})
        self._index_mtime_ns = index_mtime_ns
        self._sparse = frozenset(path for path, entry in self._index.items() if entry.skip)
        self._caps = caps or Caps()
        self._converted: dict[bytes, Conversion] = {}
        self._seen: dict[bytes, Seen] = {}
        self._stored = 0

    def take(self, tracked_tree: str) -> Snapshot:
        """Read the workspace.

        Args:
            tracked_tree: tree whose paths count as tracked, such as that of the last commit.

        Raises:
            UpstreamError: the tracked tree is not in the shadow.
        """
        tracked = self._shadow.entries(tracked_tree)
        if self._index:
            self._converted = converted(self._shadow, tracked, self._index)
        walk = Walk(tracked, self._shadow.folders(tracked_tree), time.time_ns())
        fd = os.open(self._workspace, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            self._folder(walk, fd, b"", Ignores(), 0)
        finally:
            os.close(fd)
        self._index = {}
        for path, entry in tracked.items():
            if path not in walk.files and self._stays(walk, path, entry):
                walk.files[path] = entry
        for path in [p for p in self._seen if p not in walk.files]:
            del self._seen[path]
        same = walk.files == tracked
        tree = tracked_tree if same else self._shadow.write_tree(walk.files, like=tracked_tree)
        return Snapshot(
            tree,
            _changes(tracked, walk.files),
            tuple(walk.problems),
            tuple(walk.nested),
            tuple(walk.ignored),
            walk.over,
        )

    def _stays(self, walk: Walk, path: bytes, entry: Entry) -> bool:
        """A tracked path that was not read and yet is not deleted."""
        if entry.mode == GITLINK or path in self._sparse:
            return True
        if not walk.kept:
            return False
        while path and path not in walk.kept:
            path = path.rpartition(b"/")[0]
        return path in walk.kept

    def _folder(self, walk: Walk, fd: int, prefix: bytes, ignore: Ignores, depth: int) -> None:
        try:
            with os.scandir(fd) as listing:
                items = list(listing)
        except OSError as exc:
            self._leave(walk, prefix, exc.strerror or "cannot be read")
            return
        names = {item.name.encode("utf-8", "surrogateescape"): item for item in items}
        git_names = {name for name in names if (not name.isascii() or name[:1] in b".gG") and is_git_name(name)}
        own_git = depth > 0 and bool(git_names)
        if own_git:
            walk.nested.append(display(prefix))
            if prefix not in walk.tracked_folders:
                return
        if b".gitignore" in names:
            ignore = ignore.below(os.fsdecode(prefix), self._ignore_file(fd))
        for name, item in names.items():
            if name in git_names:
                continue
            path = prefix + b"/" + name if prefix else name
            entry = walk.tracked.get(path)
            if entry is not None and entry.mode == GITLINK:
                continue  # whatever stands there, the submodule stays as it is
            try:
                status = item.stat(follow_symlinks=False)
            except OSError:
                continue  # gone between listing and look
            is_folder = stat.S_ISDIR(status.st_mode)
            wanted = entry is not None or (is_folder and path in walk.tracked_folders)
            if not wanted and (own_git or ignore.ignored(os.fsdecode(path), folder=is_folder)):
                if is_folder and not own_git and (status.st_dev, status.st_ino) != self._excluded:
                    walk.ignored.append(path)
                continue
            if is_folder:
                self._enter(walk, fd, name, path, ignore, depth)
            else:
                self._file(walk, fd, name, path, status, is_new=entry is None)

    def _enter(self, walk: Walk, fd: int, name: bytes, path: bytes, ignore: Ignores, depth: int) -> None:
        if depth >= DEPTH_CAP:
            self._leave(walk, path, f"lies more than {DEPTH_CAP} folders deep")
            return
        try:
            child = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
        except OSError as exc:
            self._leave(walk, path, exc.strerror or "cannot be opened")
            return
        try:
            if self._excluded is not None:
                status = os.fstat(child)
                if (status.st_dev, status.st_ino) == self._excluded:
                    return
            self._folder(walk, child, path, ignore, depth + 1)
        finally:
            os.close(child)

    def _ignore_file(self, fd: int) -> str:
        """A .gitignore's text; a link is not followed, as git does since 2.32."""
        try:
            return os.fsdecode(_read(fd, b".gitignore", 1 << 20)[0])
        except (OSError, ValueError):
            return ""

    def _file(self, walk: Walk, fd: int, name: bytes, path: bytes, status: os.stat_result, *, is_new: bool) -> None:
        if is_new:
            walk.new_files += 1
            if walk.new_files > self._caps.new_files:
                # looking goes on, so that a folder full of files cannot end a run (R18); committing does not
                walk.over = (
                    f"The workspace holds more than {self._caps.new_files} new files. "
                    "Delete them or name their folder in .gitignore."
                )
                return
        seen = self._seen.get(path)
        if seen is not None and _same(seen, status):
            walk.files[path] = seen.entry
            return
        clean = self._index.get(path)
        if clean is not None and self._was_clean(clean, status):
            mode = LINK if stat.S_ISLNK(status.st_mode) else _mode(status)
            entry = Entry(mode, clean.sha)
        else:
            try:
                entry, status = self._hash(fd, name, path, status, walk.tracked.get(path))
            except _OverCapError as exc:
                walk.over = str(exc)
                self._leave(walk, path, "there is no room for it")
                return
            except (OSError, ValueError) as exc:
                self._leave(walk, path, (exc.strerror if isinstance(exc, OSError) else str(exc)) or "unreadable")
                return
        same = walk.tracked.get(path)
        entry = same if same is not None and same == entry else entry  # one object, so that comparing is cheap
        walk.files[path] = entry
        if status.st_ctime_ns < walk.started_ns - _RACY_NS:
            self._seen[path] = Seen(status.st_ctime_ns, status.st_size, status.st_ino, status.st_mode, entry)

    def _was_clean(self, clean: IndexEntry, status: os.stat_result) -> bool:
        seconds, nanoseconds = divmod(status.st_mtime_ns, 1_000_000_000)
        return (
            clean.mtime in ((seconds & 0xFFFFFFFF, nanoseconds), (seconds & 0xFFFFFFFF, 0))
            and clean.size == status.st_size & 0xFFFFFFFF
            and clean.ino in (status.st_ino & 0xFFFFFFFF, 0)
            and stat.S_IFMT(clean.mode) == stat.S_IFMT(status.st_mode)
            and status.st_mtime_ns < self._index_mtime_ns
        )

    def _hash(
        self, fd: int, name: bytes, path: bytes, status: os.stat_result, tracked: Entry | None
    ) -> tuple[Entry, os.stat_result]:
        if stat.S_ISLNK(status.st_mode):
            data = os.readlink(name, dir_fd=fd)
            return self._store(LINK, data, tracked), status
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("is no regular file")
        conversion = self._converted.get(path)
        if conversion in (Conversion.LFS, Conversion.FILTER):
            what = "Git LFS" if conversion is Conversion.LFS else "a filter"
            raise ValueError(f"goes through {what}, which never runs on this side; it stays as it is in the commit")
        data, status = _read(fd, name, self._caps.file_bytes)
        if conversion is Conversion.CRLF:
            data = data.replace(b"\r\n", b"\n")
        return self._store(_mode(status), data, tracked), status

    def _store(self, mode: str, data: bytes, tracked: Entry | None) -> Entry:
        sha = object_id("blob", data)
        if (tracked is None or tracked.sha != sha) and not self._shadow.holds_own(sha):
            if self._stored + len(data) > self._caps.stored_bytes:
                raise _OverCapError(
                    f"Changed files of this run add up to more than {self._caps.stored_bytes >> 20} MB."
                )
            self._stored += len(data)
            self._shadow.write("blob", data)
        return Entry(mode, sha)

    def _leave(self, walk: Walk, path: bytes, reason: str) -> None:
        walk.kept.add(path)
        if len(walk.problems) < _PROBLEMS_CAP:
            walk.problems.append(f"{display(path) or '.'} was left out: {reason}.")


def _mode(status: os.stat_result) -> str:
    return EXECUTABLE if status.st_mode & stat.S_IXUSR else FILE


def _same(seen: Seen, status: os.stat_result) -> bool:
    return (
        seen.ctime_ns == status.st_ctime_ns
        and seen.size == status.st_size
        and seen.ino == status.st_ino
        and seen.mode == status.st_mode
    )


def _read(fd: int, name: bytes, cap: int) -> tuple[bytes, os.stat_result]:
    """Bytes and stat of a regular file below `fd`; raises ValueError over the cap or for another kind."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    handle = os.open(name, flags, dir_fd=fd)
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("is no regular file")
        parts: list[bytes] = []
        left = cap + 1
        if status.st_size > cap:
            raise ValueError(f"is larger than {cap >> 20} MB")
        while left > 0 and (part := os.read(handle, min(left, 1 << 20))):
            parts.append(part)
            left -= len(part)
        if left <= 0:
            raise ValueError(f"is larger than {cap >> 20} MB")
        return b"".join(parts), status
    finally:
        os.close(handle)


def _changes(before: Mapping[bytes, Entry], after: Mapping[bytes, Entry]) -> tuple[Change, ...]:
    paths = [p for p, e in after.items() if (was := before.get(p)) is not e and was != e]
    paths += [p for p in before if p not in after]
    return tuple(Change(path, before.get(path), after.get(path)) for path in sorted(paths))
