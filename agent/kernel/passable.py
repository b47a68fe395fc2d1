"""Folders of ours that another user passes through to what is its own below."""

from __future__ import annotations

from pathlib import Path


def make_passable(folder: Path, *, exist_ok: bool = False) -> None:
    """Make a folder that others may pass through and not list, whatever the umask: a job's may be 077.

    Raises:
        FileExistsError: it is there, and may not be.
    """
    folder.mkdir(mode=0o700, exist_ok=exist_ok)
    folder.chmod(0o711)
