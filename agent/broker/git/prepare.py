"""The workspace before a run (DESIGN section 4.6): real `.git` out of reach, throwaway in its place, owner right.

Where the composite mounts the real git folder elsewhere and masks `.git` (container shape), `git_dir` names
that place and nothing is moved.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from agent.broker.git.credentials import find_credentials
from agent.broker.git.gitdir import (
    ConfigReader,
    GitDir,
    Shape,
    check_format,
    locate,
    modules,
    nested_git,
    object_folders,
    read_head,
    read_refs,
    read_shallow,
    submodules_apart,
)
from agent.broker.git.journal import JOURNAL, Journal, undo_acts
from agent.broker.git.ownership import hand_over
from agent.broker.git.place import Place, make_place
from agent.broker.git.run import SEARCH_PATH, Git
from agent.broker.git.throwaway import Source, build
from agent.contract.dataclass import dataclass
from agent.contract.errors import UserError


@dataclass(frozen=True)
class Prepared:
    """A workspace that is ready.

    Attributes:
        shape: what stood at `.git`.
        head: commit that is checked out, or None.
        refs: refs of the real repository.
        shallow: its shallow commits.
        objects: its object folders, for the shadow's alternates; they follow each other.
        readable: absolute paths that the sandbox must be able to read.
        index: the real index, None where there is none.
        secrets: credential values found; for the redactor, never printed.
        uid, gid: user that the sandbox and harness run as.
        hidden: absolute paths that the sandbox must neither read nor write, for its probe.
        inside: device and inode of the private place where it lies in the workspace, which no snapshot enters.
    """

    shape: Shape
    head: str | None
    refs: dict[str, str]
    shallow: tuple[str, ...]
    objects: tuple[Path, ...]
    readable: tuple[str, ...]
    index: Path | None
    secrets: tuple[str, ...]
    uid: int
    gid: int
    hidden: tuple[str, ...] = ()
    inside: tuple[int, int] | None = None

    def __repr__(self) -> str:
        return f"Prepared({self.shape}, head={self.head}, {len(self.secrets)} secrets)"


def prepare(
    workspace: Path,
    state_dir: Path,
    *,
    uid: int = 1001,
    gid: int = 1001,
    git_dir: Path | None = None,
    temps: Sequence[Path] = (),
    homes: Sequence[Path] = (),
    search_path: str = SEARCH_PATH,
) -> Prepared:
    """Prepare a workspace; `undo` undoes it, also after a failure or crash in here.

    Args:
        workspace: the checkout, an absolute path without links.
        state_dir: folder for the journal, outside the workspace; survives a crash of this process.
        uid, gid: unprivileged user that gets a workspace of uid 0; otherwise the workspace's owner is used.
        git_dir: real git folder, where it is mounted apart and `.git` is masked by an empty folder.
        temps, homes: see `find_credentials`.
        search_path: PATH on which git is found.

    Raises:
        UserError: the checkout cannot be prepared; the workspace is as it was.
    """
    state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    scratch = state_dir / "scratch"
    scratch.mkdir(mode=0o700)
    git = Git(scratch, search_path=search_path)
    inner = nested_git(workspace)
    journal = Journal(state_dir / JOURNAL, workspace, inner)
    try:
        prepared = _Preparation(workspace, journal, git, uid, gid).run(git_dir, inner, temps, homes)
    except OSError as exc:
        journal.close()
        undo_acts(state_dir / JOURNAL)
        raise UserError(f"The workspace {workspace} cannot be prepared: {exc.strerror}: {exc.filename}.") from exc
    except UserError:
        journal.close()
        undo_acts(state_dir / JOURNAL)
        raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    journal.close()
    return prepared


class _Preparation:
    def __init__(self, workspace: Path, journal: Journal, git: Git, uid: int, gid: int) -> None:
        self._workspace = workspace
        self._journal = journal
        self._reader = ConfigReader(git)
        status = os.lstat(workspace)
        self._given = os.geteuid() == 0 and status.st_uid == 0
        self._uid, self._gid = (uid, gid) if self._given else (status.st_uid, status.st_gid)
        self._group = status.st_gid
        self._place: Place | None = None
        self._count = 0
        self._readable: list[str] = []

    def run(self, git_dir: Path | None, inner: list[Path], temps: Sequence[Path], homes: Sequence[Path]) -> Prepared:
        top = GitDir(Shape.FOLDER, git_dir, git_dir) if git_dir is not None else locate(self._workspace)
        folders = [path for path in inner if path.is_dir() and not path.is_symlink()]
        nested = sorted(path.parent for path in (*folders, *submodules_apart(top, inner)))
        secrets = find_credentials(self._reader, self._configs(top, nested), temps, homes)
        refs: dict[str, str] = {}
        head, shallow, objects, index = None, [], [], None
        if top.path is not None and top.common is not None:
            check_format(self._reader.read(top.common / "config"), top.common / "config")
            refs = read_refs(top.common)
            head = read_head(top.path, refs)[1]
            shallow = read_shallow(top.common)
        if git_dir is None or nested:
            self._place = make_place(self._workspace, self._journal, self._uid)
        if git_dir is not None:
            objects = self._mounted(top)
            real: Path | None = git_dir
        else:
            objects, real = self._replace(self._workspace, top)
        for checkout in nested:
            self._replace(checkout, locate(checkout))
        if real is not None and (real / "index").is_file():
            index = real / "index"
        within = self._place if self._place is not None and self._place.inside else None
        if self._given:
            self._journal.own(self._workspace, self._uid, self._gid, self._group)
            hand_over(self._workspace, 0, self._uid, self._gid, leave=within.path if within else None)
        return Prepared(
            top.shape,
            head,
            refs,
            tuple(shallow),
            tuple(objects),
            tuple(self._readable),
            index,
            secrets,
            self._uid,
            self._gid,
            self._hidden(top),
            within.identity() if within else None,
        )

    def _hidden(self, top: GitDir) -> tuple[str, ...]:
        """Real git folders, with their configuration."""
        paths = [] if self._place is None else [str(self._place.private)]
        if top.common is not None and not top.common.is_relative_to(self._workspace):
            paths.append(str(top.common))  # a linked worktree's repository, or one that is mounted apart
        return tuple(paths)

    def _configs(self, top: GitDir, nested: Sequence[Path]) -> list[Path]:
        found: list[Path] = []
        for git in (top, *(locate(checkout) for checkout in nested)):
            if git.common is None or git.path is None:
                continue
            found += [git.common / "config", git.path / "config.worktree", git.common / "config.worktree"]
            found += sorted(git.common.glob("worktrees/*/config.worktree"))
            for module in modules(git.common):
                found += [module / "config", module / "config.worktree"]
        return found

    def _replace(self, checkout: Path, git: GitDir) -> tuple[list[Path], Path | None]:
        """Move a checkout's `.git` aside and put a throwaway there; gives object folders and the real path."""
        assert self._place is not None
        dot_git = checkout / ".git"
        if git.shape is Shape.ABSENT or git.path is None or git.common is None:
            self._journal.absent(dot_git)
            return [], None
        self._count += 1
        aside = self._place.private / str(self._count)
        real = git
        self._journal.move(dot_git, aside)
        if git.shape is Shape.FOLDER:
            real = GitDir(git.shape, aside, aside)
        assert real.path is not None
        assert real.common is not None
        fresh = self._place.private / f"{self._count}-throwaway"
        objects = self._throwaway(real, fresh, move=git.shape is Shape.FOLDER, worktree=None)
        self._modules(real.common, dot_git, fresh, move=git.shape is Shape.FOLDER)
        self._own(fresh)
        fresh.rename(dot_git)
        return objects, real.path

    def _modules(self, common: Path, dot_git: Path, fresh: Path, *, move: bool) -> None:
        """A throwaway for each submodule: without them git is fatal in the checkout around them."""
        for module in modules(common):
            relative = module.relative_to(common)
            worktree = dict(self._reader.read(module / "config")).get("core.worktree", "")
            if worktree and _inside(dot_git / relative / worktree, self._workspace):
                source = GitDir(Shape.FOLDER, module, module)
                self._throwaway(source, fresh / relative, move=move, worktree=worktree)

    def _throwaway(self, real: GitDir, fresh: Path, *, move: bool, worktree: str | None) -> list[Path]:
        assert real.common is not None
        config = self._reader.read(real.common / "config")
        borrowed = object_folders(real.common / "objects")
        objects = real.common / "objects"
        if move:
            assert self._place is not None
            self._count += 1
            objects = self._place.objects / str(self._count)
            self._journal.move(real.common / "objects", objects)
            if self._place.inside and not self._given:
                self._journal.guard(objects, self._uid, self._gid)
                hand_over(objects, self._uid, 0, 0)
        folders = [objects, *borrowed]
        self._readable += [str(path) for path in folders if str(path) not in self._readable]
        build(Source(real, config, folders, worktree), fresh)
        return folders

    def _own(self, folder: Path) -> None:
        """Give a throwaway to the sandbox's user; it is ours and small, and nothing hostile runs yet."""
        if os.geteuid() == 0:
            for path, _, names in os.walk(folder):
                for name in ("", *names):
                    os.chown(os.path.join(path, name), self._uid, self._gid)

    def _mounted(self, top: GitDir) -> list[Path]:
        """Container shape: the real git folder stays where it is mounted, `.git` is a mask to fill."""
        assert top.common is not None
        target = self._workspace / ".git"
        folders = self._throwaway(top, target, move=False, worktree=None)
        self._modules(top.common, target, target, move=False)
        self._own(target)
        return folders


def _inside(path: Path, workspace: Path) -> bool:
    return Path(os.path.normpath(path)).is_relative_to(workspace)
