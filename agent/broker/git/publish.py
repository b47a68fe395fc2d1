"""From a commit in the shadow to a branch at GitHub, by the Git Data API (D4).

Steps of `Publisher.push`, numbered as in the code:
 1. rules on the branch's name and on every commit to be sent, before anything is sent
 2. where the branch stands at GitHub, and whether it is protected there
 3. what to build on: nothing yet, our own earlier commits, or a conflict, which is told
 4. blobs, trees and commits; every id that GitHub returns is compared with ours. Of a large commit small text
    files travel inside the tree, since writes are paced
 5. the ref, last and never forced: a failure before it leaves loose objects that nothing refers to

The caller still owes: the mode's git tier, the prepush gate on `commit`'s tree, pacing.
"""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import quote

from agent.broker.git.objects import EMPTY_TREE, GITLINK, Change, Entry, display, is_sha
from agent.broker.git.rules import (
    Blob,
    BranchRules,
    TreeRules,
    check_branch,
    check_changes,
    check_contents,
    check_pull,
    check_text,
    protected_targets,
)
from agent.broker.git.shadow import Commit, ShadowGit
from agent.contract.errors import Refusal, ToolInputError, UpstreamError

TRAILER = "Airlock-Run"
_TREE_ENTRIES = 500  # per request; GitHub's own limit is 100,000 entries or 7 MB
_TREE_BYTES = 1 << 20  # of file text inside one request
_BLOBS = 12  # blobs sent one by one; writes are paced a second apart, so more go inside the tree
_INLINE_BYTES = 64 << 10  # largest text file that goes inside a tree
_EARLIER_COMMITS = 30  # of a former attempt, looked at to see that all are ours


class Api(Protocol):
    """GitHub's REST API for this repository; paths begin after `/repos/{owner}/{repo}/`."""

    def get(self, path: str, *, step: str, query: Mapping[str, str] | None = None) -> Any: ...

    def post(self, path: str, body: Mapping[str, Any], *, step: str) -> Any: ...

    def patch(self, path: str, body: Mapping[str, Any], *, step: str) -> Any: ...


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


@dataclass(frozen=True)
class Pull:
    """A pull request of ours."""

    number: int
    url: str
    updated: bool


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
        self._shadow = shadow
        self._owner = owner
        self._start = start
        self._branches = branches
        self._trees = trees
        self._holds_secret = holds_secret
        self._run_key = " ".join(run_key.split())
        self._remote = {start: start}  # local commit id to GitHub's
        self._sent: set[str] = set()
        self._checked: set[str] = set()
        self._targets: tuple[str, ...] | None = None
        self._lock = threading.Lock()

    # -- 1. rules ------------------------------------------------------------------------------------

    def check(self, commit: str, branch: str) -> None:
        """Decide on name and content, without asking GitHub anything.

        Raises:
            Refusal: see `rules`.
            ToolInputError: there is no commit to push.
        """
        check_branch(branch, self._branches)
        check_text(branch, "branch name", self._holds_secret)
        chain = self._shadow.chain(self._start, commit)
        if not chain:
            raise ToolInputError("There is no commit to push. Commit first.")
        parent = self._shadow.tree_of(self._start)
        for item in chain:
            if item.sha not in self._checked:
                check_text(item.message, "commit message", self._holds_secret)
                changes = self._shadow.names_changed(parent, item.tree)
                self.check_paths(changes)
                check_contents(self._blobs(changes), self._trees, self._holds_secret)
                self._checked.add(item.sha)
            parent = item.tree

    def check_paths(self, changes: Sequence[Change]) -> None:
        """The part of `check` that a commit can be told of at once: paths, modes and their number.

        Raises:
            Refusal: see `rules.check_changes`.
        """
        check_changes(changes, self._trees, self._protected_targets())
        _check_names(changes)

    def _protected_targets(self) -> tuple[str, ...]:
        if self._targets is None:
            entries = self._shadow.entries(self._shadow.tree_of(self._start))
            self._targets = protected_targets(
                self._trees.protected, entries, lambda entry: self._shadow.read(entry.sha)
            )
        return self._targets

    def _blobs(self, changes: Sequence[Change]) -> Iterator[Blob]:
        wanted = [c for c in changes if c.new is not None]
        sizes = self._shadow.sizes([c.new.sha for c in wanted if c.new is not None])
        with self._shadow.reader() as reader:
            for change in wanted:
                assert change.new is not None
                if sizes.get(change.new.sha, 0) > self._trees.max_file_bytes:
                    raise Refusal(
                        "push_too_large",
                        f"{display(change.path)} is larger than {self._trees.max_file_bytes >> 20} MB.",
                    )
                yield Blob(change.path, reader.read(change.new.sha)[1])

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
        self._send_tree(before, item.tree)
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

    def _send_tree(self, before: str, after: str) -> None:
        changes = self._shadow.names_changed(before, after)
        have = {entry.sha for entry in self._shadow.entries(before).values()} | self._sent
        fresh = {c.new.sha: c for c in changes if c.new is not None and c.new.sha not in have}
        texts = self._inline(list(fresh)) if len(fresh) > _BLOBS else {}
        for sha, change in fresh.items():
            if sha not in texts:
                self._send_blob(change)
        made = self._make_tree(before, changes, texts)
        if made != after and texts:  # some text did not survive as text: send those files byte for byte
            for sha in texts:
                self._send_blob(fresh[sha])
            made = self._make_tree(before, changes, {})
        if made != after:
            raise UpstreamError("create tree", f"GitHub made the tree {made}, not the one checked here, {after}")

    def _make_tree(self, base: str, changes: Sequence[Change], texts: Mapping[str, str]) -> str:
        for entries in _batches(changes, texts):
            body: dict[str, Any] = {"tree": entries}
            if base != EMPTY_TREE:
                body["base_tree"] = base
            answer = self._api.post("git/trees", body, step="create tree")
            base = str(answer.get("sha")) if isinstance(answer, dict) else ""
        return base

    def _inline(self, shas: list[str]) -> dict[str, str]:
        """Text of blobs that a tree can carry; the tree's id, compared below, proves that no byte changed."""
        sizes = self._shadow.sizes(shas)
        texts: dict[str, str] = {}
        with self._shadow.reader() as reader:
            for sha, _, data in reader.read_many([s for s in shas if sizes.get(s, 0) <= _INLINE_BYTES]):
                try:
                    text = data.decode("utf-8")
                except UnicodeDecodeError:
                    continue
                if text and "\0" not in text:
                    texts[sha] = text
        return texts

    def _send_blob(self, change: Change) -> None:
        assert change.new is not None
        sha = change.new.sha
        step = f"create blob {display(change.path)}"
        content = base64.b64encode(self._shadow.read(sha)).decode("ascii")
        answer = self._api.post("git/blobs", {"content": content, "encoding": "base64"}, step=step)
        if not isinstance(answer, dict) or answer.get("sha") != sha:
            raise UpstreamError(step, "GitHub stored something else than was sent")
        self._sent.add(sha)

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
        """Open a pull request, or bring our own open one of this branch up to date.

        Args:
            title, body: neutralised text.
            head: own branch, short name.
            base: the base branch, the default branch, or one of `BranchRules.targets`.

        Raises:
            Refusal: a rule said no.
            UpstreamError: GitHub failed; names the step and, where it is one, the repository's setting.
        """
        check_pull(head, base, self._branches)
        for what, text in (("pull request's title", title), ("pull request's body", body)):
            check_text(text, what, self._holds_secret)
        query = {"head": f"{self._owner}:{head}", "state": "open"}
        found = self._api.get("pulls", query=query, step="find pull request")
        for pull in found if isinstance(found, list) else []:
            if pull.get("head", {}).get("ref") == head and pull.get("base", {}).get("ref") == base:
                changed = {"title": title, "body": body}
                answer = self._api.patch(f"pulls/{pull['number']}", changed, step="update pull request")
                return Pull(int(answer["number"]), str(answer["html_url"]), True)
        fields = {"title": title, "body": body, "head": head, "base": base}
        try:
            answer = self._api.post("pulls", fields, step="create pull request")
        except UpstreamError as exc:
            if exc.status == 403 and "not permitted to create" in str(exc):
                raise UpstreamError(exc.step, _SETTING, 403) from exc
            raise
        return Pull(int(answer["number"]), str(answer["html_url"]), False)


_SETTING = (
    "GitHub Actions is not permitted to create pull requests in this repository. A maintainer can allow it in "
    "Settings, Actions, General, Workflow permissions: Allow GitHub Actions to create and approve pull "
    "requests; or the input push-token can hold an App's token. The branch is pushed."
)


def _conflict(branch: str, reason: str) -> Refusal:
    return Refusal("push_conflict", f"Branch {branch!r} {reason}. Nothing was overwritten; push to another branch.")


def _check_names(changes: Sequence[Change]) -> None:
    """JSON carries no name that is not UTF-8; such files may stay, but not change.

    Raises:
        Refusal: code `push_path_refused`.
    """
    for change in changes:
        try:
            change.path.decode("utf-8")
        except UnicodeDecodeError:
            raise Refusal(
                "push_path_refused",
                f"The name {display(change.path)} is not UTF-8, and GitHub's API takes no other.",
            ) from None


def _batches(changes: Sequence[Change], texts: Mapping[str, str]) -> Iterator[list[dict[str, Any]]]:
    """Tree entries for requests that build on each other.

    Where a file takes the place of a folder or the other way round, deletions go first, in requests of
    their own: GitHub does not say in which order it applies the entries of one request.
    """
    gone = [c for c in changes if c.new is None]
    kept = [c for c in changes if c.new is not None]
    groups = [gone, kept] if _replaces(gone, kept) else [[*gone, *kept]]
    for group in groups:
        batch: list[dict[str, Any]] = []
        size = 0
        for change in group:
            entry = _entry(change.path, change.new, texts)
            size += len(entry.get("content", ""))
            if batch and (len(batch) >= _TREE_ENTRIES or size > _TREE_BYTES):
                yield batch
                batch, size = [], len(entry.get("content", ""))
            batch.append(entry)
        if batch:
            yield batch


def _replaces(gone: Sequence[Change], kept: Sequence[Change]) -> bool:
    def above(changes: Sequence[Change]) -> set[bytes]:
        found = set()
        for change in changes:
            path = change.path
            while path := path.rpartition(b"/")[0]:
                found.add(path)
        return found

    old, new = {c.path for c in gone}, {c.path for c in kept}
    return bool(old & above(kept) or new & above(gone))


def _entry(path: bytes, entry: Entry | None, texts: Mapping[str, str]) -> dict[str, Any]:
    name = path.decode("utf-8")
    if entry is None:
        return {"path": name, "mode": "100644", "type": "blob", "sha": None}
    assert entry.mode != GITLINK  # rule 8
    if (text := texts.get(entry.sha)) is not None:
        return {"path": name, "mode": entry.mode, "type": "blob", "content": text}
    return {"path": name, "mode": entry.mode, "type": "blob", "sha": entry.sha}
