"""The caller's own repository: read as files, copied from, written back to; its `.git` is never touched.

No git command runs in it, so nothing that its configuration names is started.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent.broker.git.credentials import find_credentials
from agent.broker.git.gitdir import (
    ConfigReader,
    GitDir,
    Shape,
    check_format,
    locate,
    modules,
    object_folders,
    read_head,
    read_refs,
    read_shallow,
)
from agent.broker.git.index import parse_index
from agent.broker.git.materialise import Owner, bring_to, materialise
from agent.broker.git.objects import Change, Entry, display
from agent.broker.git.rules import TreeRules, check_changes
from agent.broker.git.run import Git
from agent.broker.git.shadow import ShadowGit
from agent.broker.git.snapshot import Snapshotter
from agent.broker.git.snapshot_words import Snapshot
from agent.broker.git.throwaway import Source, build
from agent.broker.git.workspace import AUTHOR
from agent.broker.git.worktree import WorkTree
from agent.contract.errors import Refusal, UserError

HISTORY = 10_000  # commits looked through for where a branch left its base


@dataclass(frozen=True)
class Brought:
    """What became of a run's changes in the caller's workspace.

    Attributes:
        paths: changed there.
        left_out: sentences.
    """

    paths: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


class Origin:
    """A git checkout of the caller's."""

    def __init__(self, workspace: Path, state: Path, learn: Callable[[Sequence[str]], None]) -> None:
        """Read it.

        Args:
            state: the run's own folder; gets a bare repository that borrows the checkout's objects.
            learn: told the credentials in the repository's configuration, so that they are redacted.

        Raises:
            UserError: a repository that cannot be worked on; the text says why.
        """
        self._workspace = workspace
        self._git = locate(workspace)
        if self._git.path is None or self._git.common is None:
            raise UserError(f"{workspace} is no git checkout.")
        scratch = state / "scratch"
        scratch.mkdir(mode=0o700)
        reader = ConfigReader(Git(scratch))
        common = self._git.common
        self._config = reader.read(common / "config")
        check_format(self._config, common / "config")
        configs = [common / "config", self._git.path / "config.worktree", *(m / "config" for m in modules(common))]
        learn(find_credentials(reader, configs))
        self.refs = read_refs(common)
        head = read_head(self._git.path, self.refs)[1]
        if head is None:
            raise UserError(f"{workspace} has no commit yet. Make a first commit, then start the run again.")
        self.head: str = head
        self._objects = [common / "objects", *object_folders(common / "objects")]
        self._shown: Mapping[bytes, Entry] = {}
        self.shadow = ShadowGit.create(state / "origin.git", alternates=self._objects, shallow=read_shallow(common))
        index = self._git.path / "index"
        found = index.is_file()
        self._snapshotter = Snapshotter(
            self.shadow,
            workspace,
            index=parse_index(index.read_bytes() if found else b""),
            index_mtime_ns=index.stat().st_mtime_ns if found else 0,
        )

    def worktree(self) -> WorkTree:
        """The checkout itself as a run's work tree, for reading."""
        worktree = WorkTree(self.shadow, self._snapshotter, self.head, AUTHOR)
        worktree.prime()
        return worktree

    def fork_point(self, branch: str) -> str | None:
        """Latest commit that the checkout has in common with a branch, local or of a remote; None if unknown."""
        names = (f"refs/heads/{branch}", f"refs/remotes/origin/{branch}")
        tip = next((self.refs[name] for name in names if name in self.refs), None)
        if tip is None or not self.shadow.has(tip):
            return None
        theirs = set(self._history(tip))
        return next((sha for sha in self._history(self.head) if sha in theirs), None)

    def _history(self, tip: str) -> list[str]:
        args = (f"--max-count={HISTORY}", "--format=%H", "--end-of-options", tip)
        return self.shadow.git.run("log", *args).decode("ascii").split()

    def clone_to(self, folder: Path, owner: Owner) -> tuple[str, ...]:
        """Write what the checkout holds now, changes that are not committed included, with a clean git folder.

        Ignored files stay behind: they may be secrets (`.env`), and a setup script makes the rest again. So do
        submodules and repositories inside.

        Args:
            folder: an empty one.
            owner: of everything in it.

        Returns:
            Sentences on what could not be taken along.

        Raises:
            UserError: the checkout holds more than is copied.
        """
        given = owner if os.geteuid() == 0 else None
        now = self._now()
        materialise(self.shadow, now.tree, folder, given)
        git = GitDir(Shape.FOLDER, self._git.path, self._git.common)
        build(Source(git, self._config, self._objects), folder / ".git")
        if given is not None:
            for path, _, names in os.walk(folder / ".git"):
                for name in ("", *names):
                    os.chown(os.path.join(path, name), given.uid, given.gid)
        return now.problems

    def bring_back(self, shadow: ShadowGit, before: str, after: str, rules: TreeRules) -> Brought:
        """Make a run's changes in the checkout's files; index, branches and commits stay as they are.

        A file that has changed here meanwhile, or that a rule protects, is left as it is and named.

        Args:
            shadow: holds both trees.
            before, after: the clone's tree at the start and at the end.
            rules: paths that no run may change.

        Raises:
            UpstreamError: a file cannot be written.
            UserError: the checkout holds by now more than can be compared.
        """
        changes = shadow.names_changed(before, after)
        if not changes:
            return Brought()
        now = self._shown = self.shadow.entries(self._now().tree)
        taken, left_out = [], []
        for change in changes:
            problem = self._problem(change, now.get(change.path), rules)
            if problem is None:
                taken.append(change)
            elif problem:
                left_out.append(problem)
        old = shadow.write_tree({c.path: c.old for c in taken if c.old is not None})
        new = shadow.write_tree({c.path: c.new for c in taken if c.new is not None})
        status = self._workspace.stat()
        owner = Owner(status.st_uid, status.st_gid) if os.geteuid() == 0 else None
        paths = bring_to(shadow, self._workspace, old, new, owner) if taken else []
        return Brought(tuple(paths), tuple(left_out))

    def _now(self) -> Snapshot:
        """The whole checkout; raises UserError where a cap keeps a part of it out of sight."""
        now = self._snapshotter.take(self.shadow.tree_of(self.head))
        if now.over:
            raise UserError(now.over)
        return now

    def _problem(self, change: Change, now: Entry | None, rules: TreeRules) -> str | None:
        """Why a change is not made: a sentence, or the empty text where it is there already."""
        shown = display(change.path)
        if now == change.new:
            return ""
        if now != change.old:
            return f"{shown} was changed in the workspace while the run worked on it."
        try:
            check_changes([change], rules)
        except Refusal as exc:
            return str(exc)
        if now is None and self._is_taken(change.path):
            return f"{shown} is in the workspace already, ignored by git; it stays as it is."
        return None

    def _is_taken(self, path: bytes) -> bool:
        """Something stands at a path, or above it where a folder must be, that the snapshot does not show."""
        root = os.fsencode(self._workspace)
        parts = path.split(b"/")
        for length in range(1, len(parts) + 1):
            place = os.path.join(root, *parts[:length])
            if not os.path.lexists(place):
                return False
            if length < len(parts) and (os.path.islink(place) or not os.path.isdir(place)):
                tracked = self._shown.get(b"/".join(parts[:length]))
                return tracked is None
        return True
