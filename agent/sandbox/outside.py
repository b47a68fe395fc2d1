"""Where the engine finds our paths: a sibling container's mounts are named from the host's side, not from ours.

In the action's container a path of ours lies in one of its mounts, and the engine reported for each where it
comes from. A sibling must see the same tree as we do, so a mount below a bound path is bound again: where the
real `.git` is covered by a volume here, the sibling gets the cover too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from agent.contract.dataclass import dataclass
from agent.contract.errors import UpstreamError

_HOSTNAME = re.compile(r"/([0-9a-f]{64})/hostname /etc/hostname ")


@dataclass(frozen=True)
class Mount:
    """One mount of our own container: its place here, and where the engine finds it."""

    target: str
    source: str


@dataclass(frozen=True)
class Own:
    """Our own container, as the engine describes it.

    Attributes:
        number: its id.
        image: id of its image.
        run: value of its label `airlock.run`, or empty.
        mounts: its bind mounts and volumes.
    """

    number: str
    image: str
    run: str
    mounts: tuple[Mount, ...]

    @classmethod
    def from_inspect(cls, data: Any) -> Own:
        """Read the engine's description of a container."""
        mounts = tuple(
            Mount(m["Destination"].rstrip("/") or "/", m["Source"])
            for m in data.get("Mounts") or ()
            if m.get("Type") in ("bind", "volume") and m.get("Source")
        )
        labels = data["Config"].get("Labels") or {}
        return cls(data["Id"], data["Image"], labels.get("airlock.run", ""), mounts)


def own_number(mountinfo: str) -> str | None:
    """Id of the container whose first process's `/proc/self/mountinfo` this is; the host name may be another's."""
    found = _HOSTNAME.search(mountinfo)
    return found[1] if found else None


def binds(root: str, readable: Sequence[str], own: Sequence[Mount] | None, *, at: str = "") -> list[str]:
    """The engine's `Binds` for a sandbox. Pure.

    Args:
        root: its writable root.
        readable: what it may read.
        own: mounts of our own container, None where we run in none: the paths are the engine's own then.
        at: where the sandbox shows the root, by default at its own path.

    Raises:
        UpstreamError: a path lies in no mount of ours, so the engine cannot know it.
    """
    shown = at or root
    made = [f"{outside(root, own)}:{shown}:rw"]
    made += [f"{m.source}:{shown}{m.target[len(root) :]}:rw" for m in own or () if m.target.startswith(root + "/")]
    made += [f"{outside(path, own)}:{path}:ro" for path in readable]
    return made


def outside(path: str, own: Sequence[Mount] | None) -> str:
    """The engine's name for a path of ours.

    Raises:
        UpstreamError: it lies in no mount of ours.
    """
    if own is None:
        return path
    holding = [m for m in own if path == m.target or path.startswith(m.target.rstrip("/") + "/")]
    if not holding:
        raise UpstreamError("start sandbox container", f"{path} lies in no mount that the engine knows")
    best = max(holding, key=lambda m: len(m.target))
    return best.source + path[len(best.target) :]
