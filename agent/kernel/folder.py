"""What stands in one open folder, sorted by kind. Part of `beneath`."""

from __future__ import annotations

import os

from agent.contract.dataclass import dataclass, field


@dataclass(frozen=True)
class Entry:
    """One name in a folder; `kind` is file, folder, link or other, and a link is not followed."""

    name: str
    kind: str


@dataclass(frozen=True)
class Folder:
    """One folder met by `walk`, its descriptor open until the next is asked for.

    Attributes:
        path: repository-relative, `""` for the root.
        fd: for opening `files` relative to it, with O_NOFOLLOW.
        folders: names of subfolders, sorted; take names out of the list to keep the walk from them.
        files: names of regular files, sorted.
        links: names of links, never followed, sorted.
        others: names of pipes, sockets and devices.
    """

    path: str
    fd: int
    folders: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)


def scan(rel: str, fd: int) -> Folder:
    """List the folder behind a descriptor; links are named and not followed."""
    folder = Folder(rel, fd)
    with os.scandir(fd) as found:
        for entry in found:
            if entry.is_file(follow_symlinks=False):
                folder.files.append(entry.name)
            elif entry.is_dir(follow_symlinks=False):
                folder.folders.append(entry.name)
            elif entry.is_symlink():
                folder.links.append(entry.name)
            else:
                folder.others.append(entry.name)
    folder.folders.sort()
    folder.files.sort()
    folder.links.sort()
    return folder
