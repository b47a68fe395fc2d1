"""Where a run takes place, as whom and with results where: in the action's container, another, or a bare machine.

Decided by what is mounted, never by a variable: the job's environment has no say in what is trusted.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from agent.contract.dataclass import dataclass
from agent.contract.sandbox import unprivileged

STATE = Path("/var/lib/airlock")  # a volume of the action's container, so that sibling containers can share parts
GIT = Path("/airlock-git")  # the real git folder; `.git` of the workspace is covered by a volume then
ENGINE = Path("/var/run/docker.sock")


@dataclass(frozen=True)
class Place:
    """What the action's script mounted.

    Attributes:
        state: folder in which private state is made.
        git_dir: real git folder mounted apart, or None.
        engine: the Docker engine's socket, or None.
    """

    state: Path | None
    git_dir: Path | None
    engine: Path | None


def find_place(workspace: str) -> Place:
    """Look at our mounts."""
    with open("/proc/self/mountinfo", "rb") as file:
        mounted = mount_points(file.read())
    covered = f"{workspace}/.git" in mounted and str(GIT) in mounted
    return Place(
        state=STATE if str(STATE) in mounted else None,
        git_dir=GIT if covered else None,
        engine=ENGINE if ENGINE.is_socket() and os.access(ENGINE, os.W_OK) else None,
    )


def mount_points(mountinfo: bytes) -> frozenset[str]:
    """Targets of all mounts. (`os.path.ismount` sees no mount of a folder of the same file system.)"""
    found = set()
    for line in mountinfo.splitlines():
        target = re.sub(rb"\\([0-7]{3})", lambda m: bytes([int(m[1], 8)]), line.split(b" ")[4])
        found.add(os.fsdecode(target))
    return frozenset(found)


def unprivileged_owner(workspace: str) -> tuple[int, int]:
    """Who harness and commands run as: the workspace's owner, and never uid 0 where we can choose."""
    if os.geteuid() != 0:
        return os.geteuid(), os.getegid()
    try:
        info = os.stat(workspace)
    except OSError:
        return unprivileged(0, 0)
    return unprivileged(info.st_uid, info.st_gid)


def results_folder(settings: dict[str, Any]) -> str:
    """Where transcript, summary and outputs go: below RUNNER_TEMP, one folder for each attempt of a run."""
    base = settings.get("RUNNER_TEMP") or "/tmp"  # noqa: S108 - by hand, where no runner is
    run = settings.get("GITHUB_RUN_ID", "local")
    attempt = settings.get("GITHUB_RUN_ATTEMPT", "1")
    return os.path.join(base, f"airlock-{run}-{attempt}-{os.getpid()}")
