"""Failures of file operations in words for a model: what is wrong, and what to do instead."""

from __future__ import annotations

import errno
import stat

from agent.contract.errors import Refusal, ToolInputError

KINDS = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "folder",
    stat.S_IFLNK: "link",
    stat.S_IFIFO: "named pipe",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
}


def git_folder() -> Refusal:
    """The refusal for git's own folder, whose content git would run and may hold credentials."""
    return Refusal(
        "path_git",
        "Git's own folder is closed to file tools, in every spelling and at every depth: code in it would run. "
        "Use git_commit, git_log and git_diff.",
    )


def wrong_kind(path: str, mode: int) -> ToolInputError:
    """For a path that leads to something else than a regular file."""
    kind = KINDS.get(stat.S_IFMT(mode), "special file")
    advice = "Use list_dir on it." if kind == "folder" else "Only regular files can be read or written."
    return ToolInputError(f"{path[:200]!r} is a {kind}. {advice}")


_WORDS = {
    errno.ENOENT: "does not exist",
    errno.ENOTDIR: "goes through something that is no folder",
    errno.EISDIR: "is a folder",
    errno.ELOOP: "goes through too many links, or was swapped for a link meanwhile",
    errno.EACCES: "may not be opened by this user",
    errno.EPERM: "may not be changed by this user",
    errno.ENAMETOOLONG: "is too long for the file system",
    errno.ENXIO: "is a socket or device; only regular files can be read or written",
    errno.ENODEV: "is a device; only regular files can be read or written",
    errno.ENOSPC: "could not be written: the disk is full",
    errno.EDQUOT: "could not be written: the disk quota is used up",
    errno.EFBIG: "could not be written: it is over the file size limit",
    errno.EROFS: "is on a read-only file system",
}


def explained(exc: OSError, path: str) -> ToolInputError:
    """For what the operating system said of a path."""
    words = _WORDS.get(exc.errno or 0, f"could not be opened ({exc.strerror})")
    return ToolInputError(f"{path[:200]!r} {words}.")
