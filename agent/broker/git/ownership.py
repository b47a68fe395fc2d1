"""Give a root-owned workspace to an unprivileged user for the run, and back (DESIGN section 1, act and self-hosted).

Called while nothing of the agent is alive. Links are never followed, and only files of the expected owner
change hands.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from agent.contract.dataclass import dataclass

_LONGEST = 2000  # characters of a relative path; the kernel takes 4,095 bytes


class _Anchor:
    """An open folder that paths are given relative to, closed when the last of them is done."""

    def __init__(self, path: str, above: int | None = None) -> None:
        self.fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)

    def __del__(self) -> None:
        os.close(self.fd)


@dataclass(frozen=True)
class Found:
    """One path below a root.

    Attributes:
        anchor, path: what to give to `dir_fd=` and as name; a chain of folders may be longer than any path.
        name: relative to the root, for people.
        status: its own stat.
    """

    anchor: _Anchor
    path: str
    name: str
    status: os.stat_result

    @property
    def set_id(self) -> bool:
        """A regular file with a set-user-id or set-group-id bit."""
        mode = self.status.st_mode
        return stat.S_ISREG(mode) and bool(mode & (stat.S_ISUID | stat.S_ISGID))


def entries(root: Path) -> Iterator[Found]:
    """Every path below and including `root`, without following links."""
    top = _Anchor(os.fspath(root))
    yield Found(top, ".", ".", os.fstat(top.fd))
    todo = [(top, ".", "")]
    while todo:
        anchor, path, name = todo.pop()
        try:
            if len(path) > _LONGEST:
                anchor, path = _Anchor(path, anchor.fd), "."
            fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=anchor.fd)
        except OSError:
            continue  # gone, or unreadable for a user who is not root
        try:
            with os.scandir(fd) as listing:
                for entry in listing:
                    try:
                        status = entry.stat(follow_symlinks=False)
                    except OSError:
                        continue
                    below, shown = f"{path}/{entry.name}", f"{name}{entry.name}"
                    yield Found(anchor, below, shown, status)
                    if stat.S_ISDIR(status.st_mode):
                        todo.append((anchor, below, shown + "/"))
        finally:
            os.close(fd)


def hand_over(root: Path, old: int, uid: int, gid: int, *, leave: Path | None = None) -> None:
    """lchown everything of `old` below `root`, but for set-user-id files: those stay as they are.

    Args:
        root: folder.
        old: present owner.
        uid, gid: new owner.
        leave: a folder directly below `root` that stays as it is.
    """
    kept = "" if leave is None else leave.name
    for found in entries(root):
        if kept and (found.name == kept or found.name.startswith(kept + "/")):
            continue
        if found.status.st_uid == old and not found.set_id:
            os.chown(found.path, uid, gid, dir_fd=found.anchor.fd, follow_symlinks=False)


def take_back(root: Path, uid: int, gid: int) -> None:
    """lchown everything of `uid` below `root` to user 0 and group `gid`.

    Set-user-id bits are cleared, as the kernel does too: a file of the agent must not become a
    set-user-id file of root.
    """
    for found in entries(root):
        if found.status.st_uid == uid:
            os.chown(found.path, 0, gid, dir_fd=found.anchor.fd, follow_symlinks=False)
            if found.set_id:
                os.chmod(found.path, stat.S_IMODE(found.status.st_mode) & 0o777, dir_fd=found.anchor.fd)


def findings(root: Path, since_ns: int) -> tuple[list[str], list[str]]:
    """What a later step should be warned of.

    Args:
        root: the workspace.
        since_ns: start of the run. A file's ctime cannot be set back, so an older one was there before.

    Returns:
        Nested `.git` folders, and set-user-id or set-group-id files that are new, relative, sorted.
    """
    nested, setuid = [], []
    for found in entries(root):
        name = found.name.rpartition("/")[2]
        if name.lower() == ".git" and "/" in found.name:
            nested.append(found.name)
        if found.set_id and found.status.st_ctime_ns >= since_ns:
            setuid.append(found.name)
    return sorted(nested), sorted(setuid)


def discard(folder: Path) -> None:
    """Delete a folder of whatever a command left in it; what cannot be deleted stays.

    Folders are moved up into `folder` before they are emptied, so a chain of thousands costs neither
    recursion nor descriptors.
    """
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    todo, count = os.listdir(fd), 0
    try:
        while todo:
            name = todo.pop()
            try:
                os.unlink(name, dir_fd=fd)
                continue
            except IsADirectoryError:
                pass
            except OSError:
                continue
            with suppress(OSError):
                child = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
                try:
                    for inner in os.listdir(child):
                        count += 1
                        moved = f"discarded-{count}"
                        os.rename(inner, moved, src_dir_fd=child, dst_dir_fd=fd)
                        todo.append(moved)
                finally:
                    os.close(child)
                os.rmdir(name, dir_fd=fd)
    finally:
        os.close(fd)
    with suppress(OSError):  # something in it cannot be deleted, such as a mount
        folder.rmdir()
