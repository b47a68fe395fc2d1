"""Protected paths read-only at their place in a sandbox: depth before the gate that counts, at commit and push.

A mount point cannot be renamed or removed by whoever lives in its mount namespace, but a folder above one can be,
and takes it along. So each folder on the way to a protected path is made a mount point of its own too, writable
as before; the path itself is the read-only one.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable

from agent.sandbox.policy import Mount


def covers_of(root: str, protected: Iterable[str], at: str = "") -> tuple[Mount, ...]:
    """The mounts that keep what exists of these paths as it is, folders before what is in them.

    A path that does not exist, or that leads over a link, gets none: a mount would show something else there.

    Args:
        root: writable root of the sandbox, in which nothing hostile runs now.
        protected: paths relative to it, from `paths_to_cover`.
        at: where the sandbox shows the root, by default at its own path.
    """
    made: dict[str, Mount] = {}
    shown = at or root
    for path in sorted(protected, key=lambda p: p.count("/")):
        places = [root]
        for part in path.split("/"):
            places.append(f"{places[-1]}/{part}")
        way, place = places[1:-1], places[-1]
        if any(made.get(folder, _NONE).kind == "ro" for folder in way):
            continue
        if not all(_is_plain(folder, folder=True) for folder in way) or not _is_plain(place, folder=False):
            continue
        for folder in way:
            made.setdefault(folder, Mount("rw", folder, shown + folder[len(root) :]))
        made[place] = Mount("ro", place, shown + place[len(root) :])
    return tuple(sorted(made.values(), key=lambda m: m.target.count("/")))


_NONE = Mount("", "", "")


def _is_plain(path: str, *, folder: bool) -> bool:
    """A folder, or (where not asked for one) a regular file; never a link or device."""
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return False
    return stat.S_ISDIR(mode) or (not folder and stat.S_ISREG(mode))
