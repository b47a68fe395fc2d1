"""Give a root-owned workspace to an unprivileged user for the run, and back (DESIGN section 1, act and self-hosted).

Called while nothing of the agent is alive. Links are never followed, and only files of the expected owner
change hands.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path


def entries(root: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Every path below and including `root` with its own stat, without following links."""
    todo = [os.fspath(root)]
    yield os.fspath(root), os.lstat(root)
    while todo:
        try:
            with os.scandir(todo.pop()) as listing:
                for entry in listing:
                    try:
                        status = entry.stat(follow_symlinks=False)
                    except OSError:
                        continue
                    yield entry.path, status
                    if stat.S_ISDIR(status.st_mode):
                        todo.append(entry.path)
        except OSError:
            continue  # deeper than a path can be, or gone


def give(root: Path, uid: int, gid: int) -> None:
    """lchown everything of uid 0 below `root`, but for set-user-id files: those stay as they are."""
    for path, status in entries(root):
        if status.st_uid == 0 and not _set_id(status):
            os.chown(path, uid, gid, follow_symlinks=False)


def take_back(root: Path, uid: int, gid: int) -> None:
    """lchown everything of `uid` below `root` to user 0 and group `gid`.

    Set-user-id bits are cleared, as the kernel does too: a file of the agent must not become a
    set-user-id file of root.
    """
    for path, status in entries(root):
        if status.st_uid == uid:
            os.chown(path, 0, gid, follow_symlinks=False)
            if _set_id(status):
                os.chmod(path, stat.S_IMODE(status.st_mode) & 0o777)


def _set_id(status: os.stat_result) -> bool:
    return stat.S_ISREG(status.st_mode) and bool(status.st_mode & (stat.S_ISUID | stat.S_ISGID))


def findings(root: Path) -> tuple[list[str], list[str]]:
    """Nested `.git` entries and set-user-id or set-group-id files, relative, for the report."""
    nested, setuid = [], []
    for path, status in entries(root):
        name = os.path.relpath(path, root)
        if os.path.basename(path).lower() == ".git" and name.lower() != ".git":
            nested.append(name)
        if _set_id(status):
            setuid.append(name)
    return sorted(nested), sorted(setuid)
