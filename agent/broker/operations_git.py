"""Operations of the git tools: diff, log, commit, push, pull request. See `operations`: every field is hostile."""

from __future__ import annotations

from agent.broker.gate_files import note, read_by_gates
from agent.broker.git.objects import display
from agent.broker.git.publish import Publisher
from agent.broker.git.workspace import AUTHOR
from agent.broker.git.worktree import WorkTree
from agent.broker.redact import Redactor
from agent.broker.server import Call, Handler, Reply
from agent.broker.state import RunState
from agent.contract.errors import Refusal, ToolInputError, UpstreamError
from agent.contract.modes import Tier
from agent.contract.neutral import neutralise
from agent.contract.sandbox import Purpose


class GitOperations:
    """Handlers over one run's work tree and publisher."""

    def __init__(self, run: RunState, redactor: Redactor) -> None:
        self._run = run
        self._redactor = redactor

    def handlers(self) -> dict[str, Handler]:
        """By operation, for the server."""
        return {
            "diff": self.diff,
            "log": self.log,
            "commit": self.commit,
            "push": self.push,
            "pull_request": self.pull_request,
        }

    def diff(self, call: Call) -> Reply:
        self._run.require("git_diff", Tier.READ)
        worktree = self._worktree()
        base = call.fields.get("base")
        if base in (None, "", "base"):
            base = self._run.facts.base_sha if base == "base" else None
        elif not isinstance(base, str):
            raise ToolInputError("`base` must be a commit id.")
        with self._run.lock:
            text = worktree.diff(base, call.texts("paths") or ())
        return {}, text.encode("utf-8", "surrogateescape")

    def log(self, call: Call) -> Reply:
        self._run.require("git_log", Tier.READ)
        worktree = self._worktree()
        limit = int(call.number("limit", default=20, low=1, high=200))
        path = call.fields.get("path")
        if path is not None and not isinstance(path, str):
            raise ToolInputError("`path` must be a text.")
        return {}, worktree.shadow.log(worktree.head, limit, path).encode("utf-8", "surrogateescape")

    def commit(self, call: Call) -> Reply:
        run = self._run
        run.require("git_commit", Tier.GIT)
        worktree = self._worktree()
        run.count_act()
        with run.lock:
            before = worktree.head
            made = worktree.commit(call.text("message", cap=20_000), call.texts("paths"))
            try:
                if run.publisher is not None:
                    run.publisher.check_paths(made.changes)
            except Refusal as exc:
                worktree.head = before  # said now, and not only when the push is refused
                raise Refusal(exc.code, f"{exc} Nothing was committed; `paths` can leave it out.") from exc
            run.done.commits.append(made.sha)
        run.record("git.commit", commit=made.sha, tree=made.tree, message=made.message, files=made.files())
        return {"commit": made.sha, "files": made.files(), "problems": list(made.problems)}, b""

    def push(self, call: Call) -> Reply:
        run = self._run
        run.require("git_push", Tier.GIT)
        worktree, publisher = self._worktree(), self._publisher()
        branch = call.text("branch", cap=1000)
        run.count_act()
        with run.lock:
            if worktree.head == worktree.start:
                self._nothing_committed(branch)
            publisher.check(worktree.head, branch)  # the rules first: a refused name needs no gate
            verdict = run.judge(Purpose.PREPUSH, worktree.shadow.tree_of(worktree.head))
            if not verdict.passed:
                raise Refusal("gate_prepush", f"The prepush script did not pass ({verdict.ended}).\n{verdict.output}")
            pushed = publisher.push(worktree.head, branch)
            run.done.pushed[pushed.branch] = pushed
            run.done.tips[pushed.branch] = worktree.head
        run.record("git.push", branch=pushed.branch, sha=pushed.sha, commits=pushed.commits, created=pushed.created)
        return {"branch": pushed.branch, "sha": pushed.sha, "gate": verdict.ended}, b""

    def _nothing_committed(self, branch: str) -> None:
        """Say what stands in the way of a push without a commit: a rule, if one would refuse it, comes first."""
        worktree, publisher = self._worktree(), self._publisher()
        snapshot = worktree.snapshot()
        if snapshot.changes:
            shadow = worktree.shadow
            publisher.check(shadow.commit(snapshot.tree, [worktree.head], "not pushed", AUTHOR), branch)
        raise ToolInputError(
            "The push is refused: there is no commit. Call git_commit first; commits that git makes inside "
            "run_command stay in the sandbox's own repository."
        )

    def pull_request(self, call: Call) -> Reply:
        run = self._run
        run.require("create_pull_request", Tier.GIT)
        publisher = self._publisher()
        title = neutralise(self._redactor.outside(call.text("title", cap=256)))
        body = call.text("body", default="", cap=100_000)
        head, base = call.text("head", cap=1000), call.text("base", cap=1000)
        run.count_act()
        with run.lock:
            tip = run.done.tips.get(head)
            if tip is None:
                raise ToolInputError(f"Push to {head!r} first: a pull request is opened only for a branch of this run.")
            # what the branch holds is judged, not what was committed since
            verdict = run.judge(Purpose.STOP, self._worktree().shadow.tree_of(tip))
            if not verdict.passed:
                raise Refusal(
                    "gate_stop",
                    f"The stop script does not pass on what was pushed ({verdict.ended}); a pull request would "
                    f"claim a fix. Fix it, or report with comment or file_issue.\n{verdict.output}",
                )
            pull = publisher.create_pull_request(title, self._pull_body(body, tip), head, base)
            run.done.pull = pull
        run.record("pull_request", number=pull.number, url=pull.url, updated=pull.updated, head=head, base=base)
        return {"number": pull.number, "url": pull.url, "updated": pull.updated}, b""

    def _pull_body(self, body: str, tip: str) -> str:
        worktree = self._worktree()
        shadow = worktree.shadow
        changes = shadow.names_changed(shadow.tree_of(worktree.start), shadow.tree_of(tip))
        read = read_by_gates((display(c.path) for c in changes), self._run.gate_files)
        return neutralise(self._redactor.outside(body)) + self._redactor.outside(note(read))

    def _worktree(self) -> WorkTree:
        if self._run.worktree is None:
            raise UpstreamError("git", "the workspace is no git repository, so there is nothing to compare or commit")
        return self._run.worktree

    def _publisher(self) -> Publisher:
        if self._run.publisher is None:
            raise Refusal("publishing_closed", "This run has no repository to push to.")
        return self._run.publisher
