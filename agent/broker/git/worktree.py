"""The run's view of its work: snapshots, commits and diffs over one workspace and one shadow."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from agent.broker.git.materialise import Owner, materialise
from agent.broker.git.objects import Change, Entry, Identity, display, repository_path
from agent.broker.git.shadow import ShadowGit
from agent.broker.git.snapshot import Snapshotter
from agent.broker.git.snapshot_words import Snapshot
from agent.contract.dataclass import dataclass
from agent.contract.errors import Refusal, ToolInputError

MESSAGE_CAP = 20_000  # characters of a commit message


@dataclass(frozen=True)
class Committed:
    """A commit that was made in the shadow.

    Attributes:
        sha: its local id; the id at GitHub differs, as GitHub sets author and date.
        changes: what it changes against its parent.
        problems: what the snapshot left out.
    """

    sha: str
    tree: str
    message: str
    changes: tuple[Change, ...]
    problems: tuple[str, ...]

    def files(self) -> list[dict[str, str]]:
        """Paths and statuses for a tool result."""
        return [{"path": display(c.path), "status": c.status} for c in self.changes]


class WorkTree:
    """Head commit of the run and the workspace on top of it."""

    def __init__(self, shadow: ShadowGit, snapshotter: Snapshotter, head: str, author: Identity) -> None:
        """Start at commit `head`. Call `prime` before anything hostile runs."""
        self.shadow = shadow
        self.head = head
        self.start = head
        self._snapshotter = snapshotter
        self._author = author

    def prime(self) -> Snapshot:
        """First snapshot: hashes what the index does not vouch for, so that later ones are cheap."""
        return self.snapshot()

    def snapshot(self) -> Snapshot:
        """What the workspace holds now, against the head commit."""
        return self._snapshotter.take(self.shadow.tree_of(self.head))

    def diff(self, base: str | None = None, paths: Sequence[str] = (), budget: int = 200_000) -> str:
        """Unified diff of the workspace against a commit.

        Args:
            base: commit id; None is the run's start commit.
            paths: repository-relative; none means all.
            budget: most bytes.

        Raises:
            ToolInputError: the commit is not known.
        """
        if base is not None and not self.shadow.has(base):
            raise ToolInputError(f"Commit {base} is not known here.")
        tree = self.snapshot().tree
        if base is None and not paths and tree == self.shadow.tree_of(self.start):
            return ""  # most runs only read: no process of git for that
        return self.shadow.diff(base or self.start, tree, paths, budget)

    def materialise(self, tree: str, directory: Path, uid: int, gid: int) -> None:
        """Write a tree into an empty folder; see `materialise.materialise`."""
        owner = Owner(uid, gid) if os.geteuid() == 0 else None
        materialise(self.shadow, tree, directory, owner)

    def commit(self, message: str, paths: Sequence[str] | None = None) -> Committed:
        """Commit the workspace, or only some of its paths, in the shadow.

        Args:
            message: first line is the subject.
            paths: files or folders; None or empty is everything that changed.

        Raises:
            ToolInputError: no message, or no path of the repository.
            Refusal: code `commit_refused`: nothing changed, a path that matches no change, or a workspace over a
                cap, of which only files named one by one can be committed.
        """
        text = message.strip()
        if not text or len(text) > MESSAGE_CAP:
            raise ToolInputError(f"A commit message needs 1 to {MESSAGE_CAP} characters.")
        snapshot = self.snapshot()
        tree, changes = snapshot.tree, snapshot.changes
        if snapshot.over and not (paths and _all_files(changes, paths)):
            raise _refused(f"{snapshot.over} Or name each changed file in `paths`.")
        if paths:
            changes = _select(changes, paths)
            base = self.shadow.tree_of(self.head)
            files = dict(self.shadow.entries(base))
            for change in changes:
                if change.new is None:
                    files.pop(change.path, None)
                else:
                    _make_room(files, change.path)
                    files[change.path] = change.new
            tree = self.shadow.write_tree(files, like=snapshot.tree)
            changes = tuple(self.shadow.names_changed(base, tree))
        if not changes:
            left = " ".join(snapshot.problems)
            raise _refused(f"There is nothing to commit: no file differs from the last commit. {left}".strip())
        self.head = self.shadow.commit(tree, [self.head], text, self._author)
        nested = [f"{name} has a git folder of its own: new files in it are left out." for name in snapshot.nested[:20]]
        return Committed(self.head, tree, text, changes, (*snapshot.problems, *nested))


def _refused(sentence: str) -> Refusal:
    """A sentence that may name files of the workspace: third parties' words, which the harness frames (S1)."""
    return Refusal("commit_refused", sentence)


def _all_files(changes: Sequence[Change], paths: Sequence[str]) -> bool:
    """Whether each path is a changed file: a folder may hold more than was looked at."""
    changed = {c.path for c in changes}
    return all(repository_path(path).encode("utf-8", "surrogateescape") in changed for path in paths)


def _select(changes: Sequence[Change], paths: Sequence[str]) -> tuple[Change, ...]:
    chosen: dict[bytes, Change] = {}
    for path in paths:
        name = repository_path(path).encode("utf-8", "surrogateescape")
        found = [c for c in changes if not name or c.path == name or c.path.startswith(name + b"/")]
        if not found:
            raise _refused(f"No change at {path!r}. Changed: {_list(changes)}.")
        chosen.update((c.path, c) for c in found)
    return tuple(chosen[path] for path in sorted(chosen))


def _list(changes: Sequence[Change]) -> str:
    names = [display(c.path) for c in changes[:20]]
    return ", ".join(names) + (f" and {len(changes) - 20} more" if len(changes) > 20 else "") or "nothing"


def _make_room(files: dict[bytes, Entry], path: bytes) -> None:
    """A path cannot be a file and a folder: drop what the chosen path replaces."""
    parent = path
    while parent := parent.rpartition(b"/")[0]:
        files.pop(parent, None)
    inside = path + b"/"
    for other in [p for p in files if p.startswith(inside)]:
        del files[other]
