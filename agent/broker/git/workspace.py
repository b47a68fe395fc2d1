"""Put the parts together: from a prepared workspace to the run's work tree, at the pinned commit."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from agent.broker.git.index import parse_index, rewrite_index
from agent.broker.git.materialise import Owner, bring_to
from agent.broker.git.objects import Identity
from agent.broker.git.prepare import Prepared
from agent.broker.git.run import SEARCH_PATH
from agent.broker.git.shadow import ShadowGit
from agent.broker.git.snapshot import Snapshotter
from agent.broker.git.snapshot_words import Caps
from agent.broker.git.worktree import WorkTree
from agent.contract.errors import UpstreamError

AUTHOR = Identity("airlock", "airlock@localhost")
"""Of commits in the shadow; at GitHub the owner of the push token is the author."""


def open_shadow(prepared: Prepared, directory: Path, *, search_path: str = SEARCH_PATH) -> ShadowGit:
    """Make the shadow of a prepared workspace.

    Args:
        prepared: what `prepare` gave.
        directory: folder to make, outside the workspace.
        search_path: PATH on which git is found.
    """
    return ShadowGit.create(directory, alternates=prepared.objects, shallow=prepared.shallow, search_path=search_path)


def open_worktree(
    prepared: Prepared,
    shadow: ShadowGit,
    workspace: Path,
    *,
    commit: str | None = None,
    author: Identity = AUTHOR,
    caps: Caps | None = None,
) -> WorkTree:
    """Bring the workspace to its commit and take the first snapshot. Nothing hostile may run yet.

    Args:
        prepared: what `prepare` gave, with a head commit.
        shadow: holds `commit` (fetched before).
        workspace: the checkout.
        commit: commit to work on, such as the pull request's head; None is what is checked out. On
            `pull_request` events the checkout is a merge commit, so the two differ.
        author: of local commits.
        caps: sizes of snapshots.

    Raises:
        UpstreamError: a commit is missing, or a file cannot be written.
    """
    if prepared.head is None:
        raise UpstreamError("open workspace", "nothing is checked out")
    wanted = commit or prepared.head
    data, mtime_ns = b"", 0
    if prepared.index is not None:
        data, mtime_ns = prepared.index.read_bytes(), prepared.index.stat().st_mtime_ns
    if wanted != prepared.head:
        owner = Owner(prepared.uid, prepared.gid) if os.geteuid() == 0 else None
        bring_to(shadow, workspace, prepared.head, wanted, owner)
        _move_throwaway(shadow, workspace / ".git", prepared.head, wanted, data, owner)
    snapshotter = Snapshotter(
        shadow,
        workspace,
        index=parse_index(data),
        index_mtime_ns=mtime_ns,
        caps=caps,
        excluded=prepared.inside,
    )
    worktree = WorkTree(shadow, snapshotter, wanted, author)
    worktree.prime()
    return worktree


def _move_throwaway(shadow: ShadowGit, git: Path, before: str, after: str, index: bytes, owner: Owner | None) -> None:
    """Let the sandbox's git folder stand at `after` too: its objects are copied, its index is adjusted."""
    if not git.is_dir():
        return
    written = []
    for pack in sorted((shadow.directory / "objects/pack").glob("pack-*")):
        written.append(git / "objects/pack" / pack.name)
        shutil.copyfile(pack, written[-1])
    if shallow := shadow.shallow():
        (git / "shallow").write_text("".join(f"{sha}\n" for sha in shallow))
        written.append(git / "shallow")
    (git / "HEAD").write_text(f"{after}\n")
    fresh = rewrite_index(index, shadow.names_changed(before, after))
    if fresh is not None:
        (git / "index").write_bytes(fresh)
    for path in written if owner is not None else ():
        assert owner is not None
        os.chown(path, owner.uid, owner.gid)
