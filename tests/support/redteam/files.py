"""Files of every kind that a case asks for, and what a tree looked like before."""

from __future__ import annotations

import hashlib
import os
import socket
import stat
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .cases import BadCase

KINDS = frozenset(
    "path content bytes_hex symlink hardlink fifo unix_socket mode sparse_bytes one_line_bytes nested_folders "
    "empty_files note".split()
)
GIT_MAX = 1_000_000


def for_git(row: Mapping[str, Any]) -> Any:
    """The value that `Repository.commit` takes for the row, or None where git cannot hold it."""
    unknown = set(row) - KINDS
    if unknown:
        raise BadCase(f"file {row.get('path')!r}: {', '.join(sorted(unknown))} is not understood")
    mode = "100755" if int(str(row.get("mode", "644")), 8) & 0o111 else "100644"
    if "symlink" in row:
        return ("120000", str(row["symlink"]))
    if "bytes_hex" in row:
        return (mode, bytes.fromhex(str(row["bytes_hex"])))
    if "one_line_bytes" in row and int(row["one_line_bytes"]) <= GIT_MAX:
        return (mode, "x" * int(row["one_line_bytes"]))
    if "content" in row:
        return (mode, str(row["content"]).encode("utf-8", "surrogatepass"))
    return None


def plant(root: Path, row: Mapping[str, Any]) -> None:
    """Makes one file (or folder of many) below `root`; an absolute path stands as it is."""
    path = root / str(row["path"])
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_symlink() or path.is_file():
        path.unlink()
    if "symlink" in row:
        path.symlink_to(str(row["symlink"]))
        return
    if "hardlink" in row:
        os.link(str(row["hardlink"]), path)
        return
    if row.get("fifo"):
        os.mkfifo(path)
    elif row.get("unix_socket"):
        server = socket.socket(socket.AF_UNIX)
        server.bind(str(path))
        server.close()
    elif "nested_folders" in row:
        _nest(path, int(row["nested_folders"]))
        return
    elif "empty_files" in row:
        path.mkdir(exist_ok=True)
        for number in range(int(row["empty_files"])):
            os.close(os.open(path / f"f{number:06d}", os.O_CREAT | os.O_WRONLY, 0o644))
        return
    elif "sparse_bytes" in row:
        with path.open("wb") as file:
            file.truncate(int(row["sparse_bytes"]))
    elif "one_line_bytes" in row:
        with path.open("wb") as file:
            left = int(row["one_line_bytes"])
            while left > 0:
                left -= file.write(b"x" * min(left, 1 << 20))
    elif "bytes_hex" in row:
        path.write_bytes(bytes.fromhex(str(row["bytes_hex"])))
    else:
        path.write_bytes(str(row.get("content", "")).encode("utf-8", "surrogatepass"))
    path.chmod(int(str(row.get("mode", "644")), 8))


def _nest(path: Path, depth: int) -> None:
    """A chain of folders named d; deeper than PATH_MAX, so made by descriptor."""
    path.mkdir(exist_ok=True)
    here = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY | os.O_DIRECTORY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)


def own(root: Path, uid: int) -> None:
    """Gives everything below to a user, links themselves and not what they lead to. `chown` bears any depth."""
    subprocess.run(["chown", "-hR", f"{uid}:{uid}", str(root)], check=True, capture_output=True)


def remove(root: Path) -> None:
    """Takes a tree away, however deep."""
    subprocess.run(["rm", "-rf", "--one-file-system", str(root)], check=False, capture_output=True)


def fingerprint(path: Path) -> str:
    """What stands at a path: absent, or its kind with link target or SHA-256 of the content."""
    try:
        info = path.lstat()
    except OSError:
        return "absent"
    if stat.S_ISLNK(info.st_mode):
        return "link " + os.readlink(path)
    if stat.S_ISREG(info.st_mode):
        digest = hashlib.sha256()
        try:
            with path.open("rb") as file:
                while chunk := file.read(1 << 20):
                    digest.update(chunk)
        except OSError as exc:
            return f"unreadable {exc.errno}"
        return "file " + digest.hexdigest()
    return {stat.S_IFDIR: "folder", stat.S_IFIFO: "fifo", stat.S_IFSOCK: "socket"}.get(
        stat.S_IFMT(info.st_mode), "other"
    )


def tree(root: Path) -> dict[str, tuple[int, int, str]]:
    """Path (relative) -> (inode, size, mtime) of every file and link below; enough to see what is new or changed."""
    command = ["find", "-P", str(root), "(", "-type", "f", "-o", "-type", "l", ")", "-printf", "%i %s %T@ %P\\0"]
    out: dict[str, tuple[int, int, str]] = {}
    for row in subprocess.run(command, capture_output=True, check=False).stdout.split(b"\0"):
        if row:
            inode, size, time, path = row.split(b" ", 3)
            out[os.fsdecode(path)] = (int(inode), int(size), time.decode())
    return out


def braces(pattern: str) -> list[str]:
    """`a{b,c}d` as the list `abd acd`."""
    start = pattern.find("{")
    end = pattern.find("}", start)
    if start < 0 or end < 0:
        return [pattern]
    return [
        one
        for middle in pattern[start + 1 : end].split(",")
        for one in braces(pattern[:start] + middle + pattern[end + 1 :])
    ]
