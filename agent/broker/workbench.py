"""Everything a run works with but words: prepared workspace, shadow git, publisher, hooks, sandboxes.

Called after the manifest is frozen and before the harness is answered, so nothing hostile runs yet.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from agent.broker.config import SandboxConfig
from agent.broker.egress import Egress
from agent.broker.git.fetch import Fetcher
from agent.broker.git.prepare import Prepared, prepare
from agent.broker.git.rules import TreeRules
from agent.broker.git.shadow import ShadowGit
from agent.broker.git.workspace import open_shadow, open_worktree
from agent.broker.git.worktree import WorkTree
from agent.broker.hooks import hook_files as hook_files  # callers build a run from this module
from agent.broker.mounts import refused_mount
from agent.broker.policy.words import Authority, EgressRequest
from agent.contract.dataclass import dataclass
from agent.contract.errors import UpstreamError, UserError
from agent.contract.paths import paths_to_cover
from agent.contract.sandbox import Purpose, SandboxSpec


@dataclass(frozen=True)
class Bench:
    """A prepared workspace.

    Attributes:
        prepared: what was found and moved aside.
        shadow, worktree: None where the workspace is no git repository.
    """

    prepared: Prepared
    shadow: ShadowGit | None
    worktree: WorkTree | None


def open_bench(
    workspace: Path,
    state: Path,
    *,
    owner: tuple[int, int],
    temps: Iterable[Path],
    head_sha: str | None,
    also: Iterable[str],
    needs_git: bool,
    fetch: Callable[[ShadowGit], Fetcher],
    learn: Callable[[Sequence[str]], None],
    git_dir: Path | None = None,
    homes: Iterable[Path] = (),
    settled: Callable[[Prepared], None] = lambda _: None,
) -> Bench:
    """Prepare the workspace and bring it to the commit of the run.

    Args:
        state: launch's folder; its journal is what launch undoes, whatever becomes of the broker.
        owner: uid and gid for a workspace that belongs to uid 0.
        temps: folders in which checkout may have left credential files.
        head_sha: commit to work on; None is what is checked out.
        also: further commits to have, such as the base.
        needs_git: the mode writes, so a workspace without git is an error.
        learn: told the credential values that were found.
        git_dir: the real git folder where it is mounted apart and `.git` is covered.
        homes: home folders of the job, in which earlier steps may have left credentials.
        settled: told once the workspace and our folders are as a sandbox will find them, which may be before all
            else is done.

    Raises:
        UserError: the workspace cannot be used; the text says what to do.
    """
    if not workspace.is_dir():
        raise UserError(
            f"The workspace {workspace} does not exist. Add a step `uses: actions/checkout` before this one."
        )
    prepared = prepare(
        workspace, state / "prepare", uid=owner[0], gid=owner[1], git_dir=git_dir, temps=list(temps), homes=list(homes)
    )
    learn(prepared.secrets)
    if prepared.head is None:
        if needs_git:
            raise UserError(
                f"The workspace {workspace} is no git checkout. Add a step `uses: actions/checkout` before this one."
            )
        return Bench(prepared, None, None)
    shadow = open_shadow(prepared, state / "shadow.git")
    head = head_sha or prepared.head
    if head == prepared.head:
        settled(prepared)  # a sandbox can be started beside the rest: no file comes or goes
    wanted = [sha for sha in dict.fromkeys([head, *also]) if not shadow.has(sha)]
    if wanted:
        try:
            fetch(shadow).fetch(wanted, haves=[prepared.head])
        except UpstreamError as exc:
            raise UserError(
                f"The commit {wanted[0][:12]} of this run is not in the checkout and could not be fetched ({exc}). "
                "Check it out with `fetch-depth: 0`, or give the job `contents: read`."
            ) from exc
    worktree = open_worktree(prepared, shadow, workspace, commit=head)
    if head != prepared.head:
        settled(prepared)
    return Bench(prepared, shadow, worktree)


def git_post(egress: Egress) -> Callable[[str, bytes, Mapping[str, str]], Iterable[bytes]]:
    """A transport for `Fetcher` over the declared connection `git`."""

    def post(path: str, body: bytes, headers: Mapping[str, str]) -> Iterable[bytes]:
        answer = egress.stream(EgressRequest("git", "POST", path, {}, headers, body), Authority.broker())
        if answer.status != 200:
            answer.close()
            raise UpstreamError("fetch", answer.message or f"the git server answered {answer.status}", answer.status)
        return answer.chunks

    return post


def spec_maker(
    prepared: Prepared, sandbox: SandboxConfig, tool_caches: Iterable[str], private: Iterable[str], trees: TreeRules
) -> Callable[[Purpose, str], SandboxSpec]:
    """Specs of this run's sandboxes.

    Args:
        sandbox: `ai.agent.sandbox` of the trusted configuration.
        tool_caches: folders of earlier setup-* steps, readable.
        private: folders of this run and of the runner that no mount may show.
        trees: what no change may touch; commands find it read-only where it can be shown so.

    Raises:
        UserError: configuration names a mount that may not be; the text says why.
    """
    readable = (*prepared.readable, *(p for p in tool_caches if os.path.isdir(p)))
    closed = [*private, *prepared.hidden]
    for path in sandbox.mounts:
        reason = None if path in readable else refused_mount(path, closed)
        if reason is not None:
            raise UserError(f"`ai.agent.sandbox.mounts` names {path}, which {reason}.")
    mounts = tuple(dict.fromkeys(path for path in sandbox.mounts if path not in readable))

    protected = paths_to_cover(trees.protected, trees.allowed)

    def make(purpose: Purpose, root: str) -> SandboxSpec:
        # setup has a network, and gates never have one, whatever `open` says: they judge what is there
        network = purpose is Purpose.SETUP or (purpose is Purpose.MAIN and sandbox.network == "open")
        return SandboxSpec(
            purpose=purpose,
            root=root,
            network=network,
            readable=readable,
            mounts=mounts,
            protected=protected,
            env=dict(sandbox.env),
            memory_mb=sandbox.memory_mb,
            pids=sandbox.pids,
            backend=sandbox.backend,
            image=sandbox.image or "",
        )

    return make
