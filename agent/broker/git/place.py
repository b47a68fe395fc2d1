"""The private place, where real git folders stand while a run works on the workspace.

Beside the workspace, so that one rename moves a git folder whole; in it, owned by root, where the workspace is a
mount of its own as in a `docker://` step:

    .airlock-XXXX/            0711: passed through by name only
        private/N             0700: real git folders, with their configuration and credentials
        objects/N             readable: their object folders, which the sandbox's git borrows from
"""

from __future__ import annotations

import os
import secrets as random
from pathlib import Path

from agent.broker.git.journal import Journal
from agent.contract.dataclass import dataclass
from agent.contract.errors import UserError


@dataclass(frozen=True)
class Place:
    """A private place that is there.

    Attributes:
        path: its absolute path.
        inside: it lies in the workspace, where permissions alone keep it.
    """

    path: Path
    inside: bool

    @property
    def private(self) -> Path:
        """Folder of the real git folders."""
        return self.path / "private"

    @property
    def objects(self) -> Path:
        """Folder of their object folders."""
        return self.path / "objects"

    def identity(self) -> tuple[int, int]:
        """Device and inode."""
        status = self.path.lstat()
        return status.st_dev, status.st_ino


def make_place(workspace: Path, journal: Journal, uid: int) -> Place:
    """Make the place beside the workspace, or in it.

    Args:
        workspace: the checkout.
        journal: notes each act before it is done.
        uid: the sandbox's user. Inside takes root, and a user who is not.

    Raises:
        UserError: neither is possible.
    """
    name = f".airlock-{random.token_hex(8)}"
    beside = Place(workspace.parent / name, inside=False)
    try:
        _fill(beside, journal)
        _try_rename(workspace / f"{name}-probe", beside, journal)
    except OSError as exc:
        if os.geteuid() != 0 or uid == 0:
            raise UserError(
                f"The git folder of {workspace} cannot be moved aside ({exc.strerror}): the workspace is a "
                "mount of its own, or its parent folder cannot be written to. Mount the parent folder too."
            ) from exc
        within = Place(workspace / name, inside=True)
        _fill(within, journal)
        return within
    return beside


def _fill(place: Place, journal: Journal) -> None:
    journal.place(place.path, 0o711)
    place.private.mkdir(mode=0o700)
    place.objects.mkdir()
    place.objects.chmod(0o711)


def _try_rename(probe: Path, place: Place, journal: Journal) -> None:
    """See that a rename from the workspace reaches the place.

    Raises:
        OSError: it does not; what was made is in the journal.
    """
    journal.absent(probe)
    probe.mkdir(mode=0o700)
    try:
        probe.rename(place.private / "probe")
    except OSError:
        probe.rmdir()
        raise
    (place.private / "probe").rmdir()
