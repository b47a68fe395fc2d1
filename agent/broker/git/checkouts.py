"""Checkouts for hooks: a tree in a folder of its own, with the hook's files as the base branch has them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from agent.broker.git.dependencies import Dependencies
from agent.broker.git.materialise import Owner, bring_to, materialise
from agent.broker.git.overlay import overlaid
from agent.broker.git.worktree import WorkTree


class Checkouts:
    """Writes trees for one run."""

    def __init__(self, worktree: WorkTree, workspace: Path, uid: int, gid: int) -> None:
        """Remember where things are; files belong to uid and gid where this process may give them away."""
        self._worktree = worktree
        self._workspace = workspace
        self._owner = Owner(uid, gid) if os.geteuid() == 0 else None
        self._dependencies: Dependencies | None = None

    def keep_ignored(self, folder: Path) -> str:
        """Keep the workspace's ignored folders in a new folder of ours, for each later checkout.

        Call it after setup, and before anything hostile runs.

        Returns:
            Empty, or the sentence why nothing was kept.
        """
        self._dependencies = Dependencies(folder, self._owner)
        return self._dependencies.keep(self._workspace, self._worktree.snapshot().ignored)

    def check_out(self, tree: str, directory: Path, files: Mapping[str, bytes]) -> None:
        """Write a tree into an empty folder, with `files` in place of its own, and what was kept beside it."""
        shadow = self._worktree.shadow
        materialise(shadow, overlaid(shadow, tree, files), directory, self._owner)
        if self._dependencies is not None:
            self._dependencies.place(directory)

    def swap_in(self, files: Mapping[str, bytes]) -> Callable[[], None]:
        """Put `files` into the workspace, before anything hostile runs; the result takes them out again."""
        shadow = self._worktree.shadow
        before = self._worktree.snapshot().tree
        after = overlaid(shadow, before, files)

        def put_back() -> None:
            if after != before:
                bring_to(shadow, self._workspace, after, before, self._owner)

        if after != before:
            bring_to(shadow, self._workspace, before, after, self._owner)
        return put_back
