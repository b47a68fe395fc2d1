"""Where a run works: in the workspace itself, or on a clone of it.

* A mode that only reads works in place; nothing is moved, made or given away.
* A mode that writes, on a git checkout, works on a clone, whose changes are brought back at the end.
* A mode that writes, in a folder without git, works in place: there is nothing to compare with, so git tools
  answer that there is no repository.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

from agent.broker.git.gitdir import Shape, locate
from agent.broker.git.materialise import Owner
from agent.broker.git.prepare import Prepared
from agent.broker.git.rules import TreeRules
from agent.broker.git.shadow import ShadowGit
from agent.broker.git.worktree import WorkTree
from agent.broker.workbench import open_bench
from agent.contract.errors import UpstreamError, UserError
from agent.contract.sandbox import unprivileged
from agent.kernel.passable import make_passable
from agent.library.origin import Brought, Origin
from agent.library.words import OfferedCommit

DIFF_CAP = 4 << 20  # bytes of the whole diff in a result


@dataclass
class Place:
    """A place to work in.

    Attributes:
        folder: the workspace that tools see.
        owner: whom commands run as.
        prepared, worktree, origin: None where there is no git, or nothing to prepare.
        base_sha: commit that the work left its base branch at.
        cloned: `folder` is a clone.
        problems: what the clone lacks, one sentence each.
    """

    folder: Path
    owner: Owner
    prepared: Prepared | None = None
    worktree: WorkTree | None = None
    origin: Origin | None = None
    base_sha: str | None = None
    cloned: bool = False
    problems: tuple[str, ...] = ()
    _start: str = field(default="", repr=False)

    def begin(self) -> None:
        """Remember what is here; after setup and before the model's first word."""
        if self.worktree is not None and self.cloned:
            self._start = self.worktree.snapshot().tree

    def commits(self) -> tuple[OfferedCommit, ...]:
        """What the run committed, oldest first."""
        worktree = self.worktree
        if worktree is None or worktree.head == worktree.start:
            return ()
        shadow, found = worktree.shadow, []
        for commit in shadow.chain(worktree.start, worktree.head):
            before = shadow.tree_of(commit.parents[0])
            changes = shadow.names_changed(before, commit.tree)
            files = tuple({"path": os.fsdecode(c.path), "status": c.status} for c in changes)
            found.append(
                OfferedCommit(commit.sha, commit.message, files, shadow.diff(before, commit.tree, budget=DIFF_CAP))
            )
        return tuple(found)

    def diff(self) -> str:
        """All that the run changed, as one unified diff."""
        if self.worktree is None or not self._start:
            return ""
        return self.worktree.shadow.diff(self._start, self.worktree.snapshot().tree, budget=DIFF_CAP)

    def bring_back(self, rules: TreeRules) -> Brought:
        """Bring a clone's changes to the caller's workspace; nothing of the run may be alive any more."""
        if self.worktree is None or self.origin is None or not self._start:
            return Brought()
        end = self.worktree.snapshot()
        brought = self.origin.bring_back(self.worktree.shadow, self._start, end.tree, rules)
        said = (*brought.left_out, *self.problems, *end.problems, *([end.over] if end.over else []))
        return Brought(brought.paths, tuple(dict.fromkeys(said)))


def open_place(
    workspace: Path, state: Path, *, base_branch: str, writes: bool, learn: Callable[[Sequence[str]], None]
) -> Place:
    """Make the place.

    Args:
        state: the run's own folder, searchable by everyone.
        writes: the mode has a tier that changes files.
        learn: told the credentials found in git configuration.

    Raises:
        UserError: the workspace cannot be used; the text says what to do.
        UpstreamError: git failed.
    """
    if not workspace.is_dir():
        raise UserError(f"The workspace {workspace} is no folder.")
    owner = _owner(workspace)
    if locate(workspace).shape is Shape.ABSENT:
        if not writes:
            return Place(workspace, owner)
        bench = _bench(workspace, state, owner, learn)
        return Place(workspace, owner, prepared=bench[0])
    origin = Origin(workspace, state, learn)
    base_sha = origin.fork_point(base_branch)
    if not writes:
        return Place(workspace, owner, worktree=origin.worktree(), origin=origin, base_sha=base_sha)
    above = state / "clone"
    make_passable(above)
    folder = above / (workspace.name or "workspace")
    folder.mkdir(mode=0o755)
    problems = origin.clone_to(folder, owner)
    prepared, worktree = _bench(folder, state, owner, learn)
    return Place(folder, owner, prepared, worktree, origin, base_sha, cloned=True, problems=problems)


def _bench(
    folder: Path, state: Path, owner: Owner, learn: Callable[[Sequence[str]], None]
) -> tuple[Prepared, WorkTree | None]:
    bench = open_bench(
        folder,
        state,
        owner=(owner.uid, owner.gid),
        temps=(),
        head_sha=None,
        also=(),
        needs_git=False,
        fetch=_no_fetch,
        learn=learn,
    )
    return bench.prepared, bench.worktree


def _no_fetch(_: ShadowGit) -> NoReturn:
    raise UpstreamError("fetch", "a run of the library works with the commits that are there")


def _owner(workspace: Path) -> Owner:
    """Who commands run as: the workspace's owner where this process is root, and never root."""
    if os.geteuid() != 0:
        return Owner(os.geteuid(), os.getegid())
    status = workspace.stat()
    return Owner(*unprivileged(status.st_uid, status.st_gid))
