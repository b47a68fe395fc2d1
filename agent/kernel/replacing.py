"""Replacing one file in an open folder: atomically, and seen to be the file that was read.

Part of `beneath`, which finds the folder; nothing here takes a path apart.
"""

from __future__ import annotations

import os

from agent.kernel.descent import Place
from agent.kernel.file_words import explained


def replace(place: Place, data: bytes, old: os.stat_result | None, path: str) -> None:
    """Write a file beside its place and rename it over what stands there.

    Args:
        place: an open folder and a name in it.
        old: status of what stands there, whose owner and permission bits stay.
        path: as the caller wrote it, for the error.

    Raises:
        ToolInputError: the file cannot be written.
    """
    temporary = f".airlock-{os.urandom(8).hex()}"
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(temporary, flags, 0o666, dir_fd=place.fd)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view) :]
            if old is not None:
                if (old.st_uid, old.st_gid) != (os.geteuid(), os.getegid()) and os.geteuid() == 0:
                    os.fchown(fd, old.st_uid, old.st_gid)
                os.fchmod(fd, old.st_mode & 0o777)  # the execute bit stays, set-uid does not
        finally:
            os.close(fd)
        os.rename(temporary, place.last, src_dir_fd=place.fd, dst_dir_fd=place.fd)
    except OSError as exc:
        try:
            os.unlink(temporary, dir_fd=place.fd)
        except OSError:
            pass  # it was never made
        raise explained(exc, path) from exc


def lstat(place: Place) -> os.stat_result | None:
    """Status of what stands at a place, a link not followed; None where nothing does."""
    try:
        return os.stat(place.last, dir_fd=place.fd, follow_symlinks=False)
    except FileNotFoundError:
        return None


def identity(status: os.stat_result) -> tuple[int, int, int, int]:
    """Equal for two looks at a file that nobody has written between them."""
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
