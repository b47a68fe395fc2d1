"""Room on the disk that is kept for the report: a run that meets a full disk still says what it did (B8).

The file has no name, so that nothing is left of it whatever ends the process, and no artifact holds it.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

RESERVE = 4 << 20  # bytes: outputs (500,000 characters each), a summary of 1 MiB, the run's diff as JSON escapes


class Reserve:
    """Space of the results folder's file system that nobody else can take until `release`."""

    def __init__(self, folder: Path) -> None:
        """Take the space; where there is none even now, there is none to give back.

        Args:
            folder: exists and can be written.
        """
        self._fd = -1
        place = folder / ".reserve"
        with suppress(OSError):
            self._fd = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            place.unlink()
            os.posix_fallocate(self._fd, 0, RESERVE)

    def release(self) -> None:
        """Give it back; a second time does nothing."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)
