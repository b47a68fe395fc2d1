"""From a commit in the shadow to a branch at GitHub, by the Git Data API (D4).

Steps of `Publisher.push`, numbered as in the code:
 1. rules on the branch's name and on every commit to be sent, before anything is sent
 2. where the branch stands at GitHub, and whether it is protected there
 3. what to build on: nothing yet, our own earlier commits, or a conflict, which is told
 4. blobs and trees (`upload`), and commits; every id that GitHub returns is compared with ours
 5. the ref, last and never forced: a failure before it leaves loose objects that nothing refers to

The caller still owes: the mode's git tier, the prepush gate on `commit`'s tree, pacing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import quote

from agent.broker.git.api import Api
from agent.broker.git.commit_rules import CommitRules
from agent.broker.git.objects import Change, is_sha
from agent.broker.git.pulls import Pull, open_pull
from agent.broker.git.rules import (
    BranchRules,
    TreeRules,
    check_pull,
    check_text,
)
from agent.broker.git.shadow import Commit, ShadowGit
from agent.broker.git.upload import Upload
from agent.contract.dataclass import dataclass
from agent.contract.errors import Refusal, UpstreamError

TRAILER = "Airlock-Run"
_EARLIER_COMMITS = 30  # of a former attempt, looked at to see that all are ours


@dataclass(frozen=True)
class Pushed:
    """A branch after a push.

    Attributes:
        branch: short name.
        sha: commit at GitHub.
        commits: how many were sent by this push; 0 when all were there already.
        created: the branch is new.
    """

    branch: str
    sha: str
    commits: int
    created: bool


class Publisher:
    """Publishes the commits of one run."""

    def __init__(
        self,
        api: Api,
        shadow: ShadowGit,
        *,
        owner: str,
        start: str,
        branches: BranchRules,
        trees: TreeRules,
        holds_secret: Callable[[bytes], bool],
        run_key: str = "",
    ) -> None:
        """Remember the run.

        Args:
            api: authenticated, with the push token; enforces routes on top of what is decided here.
            shadow: where commits are.
            owner: login that owns the repository, for `owner:branch`.
            start: commit that the run started at; GitHub has it.
            branches, trees: what may be pushed.
            holds_secret: True when bytes hold a known value in any of its spellings.
            run_key: same for every attempt of one run, one line; stands in each commit's trailer, by which a
                re-run knows its own branch.
        """
        self._api = api
        self._upload = Upload(api, shadow)
        self._shadow = shadow
        self._owner = owner
        self._start = start
        self._branches = branches
        self._rules = CommitRules(shadow, start, branches, trees, holds_secret)
        self._holds_secret = holds_secret
        self._run_key = " ".join(run_key.split())
        self._remote = {start: start}  # local commit id to GitHub's
        self._lock = threading.Lock()

    def check(self, commit: str, branch: str) -> None:
        """Decide on a branch's name and on each commit to be sent; raises as `CommitRules.check`."""
        self._rules.check(commit, branch)

    def check_paths(self, changes: Sequence[Change]) -> None:
        """What a commit can be told of at once: paths, modes and their number; raises `Refusal`."""
        self._rules.check_paths(changes)

    # -- 2. to 5. ------------------------------------------------------------------------------------

    def push(self, commit: str, branch: str, expected_tip: str | None = None) -> Pushed:
        """Publish `commit` and those before it that GitHub lacks, and point the branch at it.

        Args:
            commit: local id.
            branch: short name.
            expected_tip: where the branch must stand; None is wherever our own commits are.

        Raises:
            Refusal: a rule said no, or `push_conflict`: somebody else's commits are on the branch.
            UpstreamError: GitHub failed; names the step.
        """
        with self._lock:
            self.check(commit, branch)
            tip = self._tip(branch)
            if expected_tip is not None and tip != expected_tip:
                raise _conflict(branch, f"stands at {tip or 'nothing'}, not at {expected_tip}")
            if tip is None and branch == self._branches.head:
                raise _conflict(branch, "is gone at GitHub")
            chain = self._shadow.chain(self._start, commit)
            chain, parent = self._continue(chain, tip, branch)
            for item in chain:
                parent = self._send_commit(item, parent)
            if tip is None:
                self._create_ref(branch, parent)
            elif chain:
                self._update_ref(branch, parent)
            return Pushed(branch, parent, len(chain), tip is None)

    def _tip(self, branch: str) -> str | None:
        """Commit that the branch points at, or None.

        Raises:
            Refusal: the branch is protected.
        """
        name = quote(branch, safe="/")
        answer = self._optional(f"git/ref/heads/{name}", "read branch")
        if answer is None:
            return None
        sha = answer.get("object", {}).get("sha") if isinstance(answer, dict) else None
        if answer.get("ref") != f"refs/heads/{branch}" or not isinstance(sha, str) or not is_sha(sha):
            raise UpstreamError("read branch", f"GitHub's answer is not about {branch}")
        details = self._optional(f"branches/{name}", "read branch protection")
        if details is None or details.get("protected") is not False:
            raise Refusal("push_branch_refused", f"Branch {branch!r} is protected at GitHub.")
        return sha

    def _optional(self, path: str, step: str) -> Any:
        try:
            return self._api.get(path, step=step)
        except UpstreamError as exc:
            if exc.status == 404:
                return None
            raise

    def _continue(self, chain: list[Commit], tip: str | None, branch: str) -> tuple[list[Commit], str]:
        """Commits still to send, and the commit at GitHub that the first of them goes on."""
        if tip is None or tip == self._start:
            return self._rest(chain, self._start)
        for item in reversed(chain):
            if self._remote.get(item.sha) == tip:
                return self._rest(chain, item.sha)
        earlier = self._earlier_attempt(tip)
        if earlier is None:
            raise _conflict(branch, "holds commits that this run did not make")
        if earlier == chain[-1].tree:
            self._remote[chain[-1].sha] = tip
            return [], tip
        return chain, tip

    def _rest(self, chain: list[Commit], after: str) -> tuple[list[Commit], str]:
        rest = chain
        for number, item in enumerate(chain):
            if item.sha == after:
                rest = chain[number + 1 :]
        return rest, self._remote[after]

    def _earlier_attempt(self, tip: str) -> str | None:
        """Tree of the tip when every commit from the start commit on is by an attempt of this run."""
        if not self._run_key:
            return None
        sha, tree = tip, None
        for _ in range(_EARLIER_COMMITS):
            commit = self._api.get(f"git/commits/{sha}", step="read commit")
            parents = [p.get("sha") for p in commit.get("parents", [])]
            if f"{TRAILER}: {self._run_key}" not in str(commit.get("message", "")).splitlines():
                return None
            tree = tree or commit.get("tree", {}).get("sha")
            if len(parents) != 1:
                return None
            if parents[0] == self._start:
                return tree if isinstance(tree, str) else None
            sha = parents[0]
        return None

    def _send_commit(self, item: Commit, parent: str) -> str:
        before = self._shadow.tree_of(item.parents[0])
        self._upload.tree(before, item.tree)
        message = item.message.rstrip("\n")
        if self._run_key:
            message += f"\n\n{TRAILER}: {self._run_key}"
        body = {"message": message, "tree": item.tree, "parents": [parent]}
        answer = self._api.post("git/commits", body, step="create commit")
        sha = answer.get("sha") if isinstance(answer, dict) else None
        if not isinstance(sha, str) or not is_sha(sha):
            raise UpstreamError("create commit", "GitHub returned no commit id")
        self._remote[item.sha] = sha
        return sha

    def _create_ref(self, branch: str, sha: str) -> None:
        try:
            self._api.post("git/refs", {"ref": f"refs/heads/{branch}", "sha": sha}, step="create ref")
        except UpstreamError as exc:
            if exc.status == 422 and "already exists" in str(exc).lower():
                raise _conflict(branch, "was made by somebody else in the meantime") from exc
            raise

    def _update_ref(self, branch: str, sha: str) -> None:
        path = f"git/refs/heads/{quote(branch, safe='/')}"
        try:
            self._api.patch(path, {"sha": sha, "force": False}, step="update ref")
        except UpstreamError as exc:
            if exc.status == 422 and "fast forward" in str(exc).lower().replace("-", " "):
                raise _conflict(branch, "moved in the meantime") from exc
            raise

    # -- pull requests -------------------------------------------------------------------------------

    def create_pull_request(self, title: str, body: str, head: str, base: str) -> Pull:
        """Open a pull request, or bring our own open one of this branch up to date; raises as `open_pull`."""
        check_pull(head, base, self._branches)
        for what, text in (("pull request's title", title), ("pull request's body", body)):
            check_text(text, what, self._holds_secret)
        return open_pull(self._api, self._owner, title=title, body=body, head=head, base=base)


def _conflict(branch: str, reason: str) -> Refusal:
    return Refusal("push_conflict", f"Branch {branch!r} {reason}. Nothing was overwritten; push to another branch.")
