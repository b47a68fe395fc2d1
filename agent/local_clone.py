"""A local run's clone: made from the user's repository, which it never changes, and what the run left in it."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from agent.broker.git.gitdir import read_refs
from agent.broker.git.workspace import AUTHOR
from agent.contract.errors import UpstreamError, UserError
from agent.library.origin import Origin

BRANCH = "airlock/local-run"
DIFF_CAP = 16 << 20  # bytes of the diff that is written down
CLONE_TIMEOUT_S = 600.0

# nothing of the user's configuration: no hook, filter, template or helper of it is started for a run's files
_ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LC_ALL": "C",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_LFS_SKIP_SMUDGE": "1",
}


@dataclass(frozen=True)
class Work:
    """What a run left in its clone.

    Attributes:
        files: changed paths.
        diff: file of the unified diff.
        commit: on `BRANCH` of the clone.
        problems: what could not be taken, as sentences.
    """

    files: tuple[str, ...]
    diff: Path
    commit: str
    problems: tuple[str, ...] = ()


def clone(repository: Path, folder: Path) -> str:
    """Clone with copies of the objects, not links to them; gives the commit that is checked out.

    Raises:
        UserError: not a git repository, or one without a commit.
    """
    command = ["git", "-c", "safe.directory=*", "-c", "core.hooksPath=/dev/null", "clone", "--quiet", "--no-hardlinks"]
    try:
        done = subprocess.run(
            [*command, "--template=", "--", str(repository), str(folder)],
            env=_ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=CLONE_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise UserError(f"{repository} cannot be cloned: {exc}.") from exc
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["no reason given"]
        raise UserError(f"{repository} cannot be cloned: {said[-1]}. Name a git checkout with --repo.")
    if not any(read_refs(folder / ".git")):
        raise UserError(f"{repository} has no commit yet. Make a first commit, then start the run again.")
    return branch_tip(folder, None) or ""


def branch_tip(folder: Path, branch: str | None) -> str | None:
    """Commit of a branch of the cloned repository, or of what is checked out for None."""
    git = folder / ".git"
    refs = read_refs(git)
    if branch is None:
        text = (git / "HEAD").read_text().strip()
        return refs.get(text.removeprefix("ref: ")) if text.startswith("ref: ") else text
    return refs.get(f"refs/heads/{branch}") or refs.get(f"refs/remotes/origin/{branch}")


def take_work(folder: Path, state: Path, start: str | None, results: Path, message: str) -> Work | None:
    """Commit what the run left to `BRANCH` of the clone and write its diff down; None where nothing changed.

    The files are read without following links, and no git command walks them: they are the model's work.

    Args:
        folder: the clone, put back and with nothing of the run alive.
        state: a folder of ours to work in.
        start: commit that the run began at; None is what is checked out.
        results: gets `work.diff`.

    Raises:
        UpstreamError: the commit is not in the clone, or git failed.
    """
    state.mkdir(mode=0o700)
    origin = Origin(folder, state, learn=lambda _: None)
    begin = start or origin.head
    shadow = origin.shadow
    if not shadow.has(begin):
        raise UpstreamError("read the work", f"the run's commit {begin[:12]} was fetched and is not in the clone")
    left = origin.worktree().snapshot()
    changes = shadow.names_changed(shadow.tree_of(begin), left.tree)
    if not changes:
        return None
    diff = results / "work.diff"
    diff.write_text(shadow.diff(begin, left.tree, budget=DIFF_CAP), encoding="utf-8")
    commit = shadow.commit(left.tree, [begin], message, AUTHOR)
    git = folder / ".git"
    for made in (shadow.directory / "objects").glob("??/*"):
        target = git / "objects" / made.parent.name / made.name
        target.parent.mkdir(exist_ok=True)
        if not target.exists():
            shutil.copyfile(made, target)
    reference = git / "refs/heads" / BRANCH
    reference.parent.mkdir(parents=True, exist_ok=True)
    reference.write_text(f"{commit}\n")
    said = (*left.problems, *([left.over] if left.over else ()))
    return Work(tuple(os.fsdecode(change.path) for change in changes), diff, commit, said)
