"""Step 1 of a push: the rules held against a branch's name and every commit, before GitHub is asked anything."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from agent.broker.git.objects import Change, display
from agent.broker.git.protected import protected_targets
from agent.broker.git.rules import (
    Blob,
    BranchRules,
    TreeRules,
    check_branch,
    check_changes,
    check_contents,
    check_text,
)
from agent.broker.git.shadow import ShadowGit
from agent.contract.errors import Refusal, ToolInputError


class CommitRules:
    """The rules of one run, and which commits have passed them."""

    def __init__(
        self,
        shadow: ShadowGit,
        start: str,
        branches: BranchRules,
        trees: TreeRules,
        holds_secret: Callable[[bytes], bool],
    ) -> None:
        """Remember the run; arguments as `Publisher` has them."""
        self._shadow = shadow
        self._start = start
        self._branches = branches
        self._trees = trees
        self._holds_secret = holds_secret
        self._checked: set[str] = set()
        self._targets: tuple[str, ...] | None = None

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
