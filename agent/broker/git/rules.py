"""What may be pushed, decided on names and trees alone (S4). Pure: every function returns or raises `Refusal`.

Acceptance rules of `check_branch`, in order; the first that fails answers:
 1. the name is text, not empty, and one that `git check-ref-format --branch` accepts
 2. it is a branch's short name: no `refs/...`, `heads/...`, `HEAD`, object id, or `a:b`
 3. in no spelling (case, composition, invisible characters) it is the default, base or a protected branch
 4. it is exactly the pull request's own head branch, where the run may push there; or
 5. it begins with exactly the prefix and is otherwise made of characters that mean nothing to a shell (F04)

Acceptance rules of `check_changes`:
 6. there are no more changes than the cap, and no larger blobs
 7. no component passes for `.git`, and no mode but file, executable and link occurs
 8. no submodule is added, removed or changed, nor `.gitmodules`
 9. no protected path, no folder above one replaced by a file or link, in any spelling
10. no known secret in a name, a link's target or a file's bytes
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from agent.broker.git.objects import (
    EXECUTABLE,
    FILE,
    GITLINK,
    LINK,
    Change,
    display,
    folded,
    is_git_name,
)
from agent.broker.git.protected import covers, patterns_of, within
from agent.contract.dataclass import dataclass, field
from agent.contract.errors import Refusal
from agent.contract.regex import regex

ALWAYS_PROTECTED = (".git", ".github")

_OWN_NAME = regex(r"[A-Za-z0-9._/@+=-]+")
_LIKE_SHA = regex(r"[0-9a-fA-F]{40}([0-9a-fA-F]{24})?")
_NEVER_IN_REF = set(" ~^:?*[\\\x7f") | {chr(c) for c in range(32)}


@dataclass(frozen=True)
class BranchRules:
    """Which branches this run may push.

    Attributes:
        prefix: own branches begin with exactly this, such as `airlock/`.
        default: default branch of the repository.
        base: base branch of the pull request, or of the fix, where there is one.
        protected: further names that are never pushed.
        head: the pull request's own head branch, only where the maintainer's request asks for it and it is
            in this repository; else None.
        targets: further branches that a pull request of ours may go against, such as the head branch of the
            pull request whose checks failed.
    """

    prefix: str
    default: str
    base: str | None = None
    protected: frozenset[str] = frozenset()
    head: str | None = None
    targets: frozenset[str] = frozenset()


@dataclass(frozen=True)
class TreeRules:
    """What a pushed change may hold.

    Attributes:
        protected: paths or patterns (`*`, `?` within a component, `**` for several) that refuse changes; a
            folder covers what is below it. `ALWAYS_PROTECTED` comes on top unless `allowed` names it.
        allowed: exceptions from trusted configuration (`allowProtectedPaths`); `.git` has none.
        max_files: most changed paths in one commit.
        max_file_bytes: largest blob.
        max_total_bytes: sum over a commit's new blobs.
    """

    protected: tuple[str, ...] = ALWAYS_PROTECTED
    allowed: tuple[str, ...] = ()
    max_files: int = 500
    max_file_bytes: int = 25 << 20
    max_total_bytes: int = 100 << 20


@dataclass(frozen=True)
class Blob:
    """A new file's or link's content for `check_contents`."""

    path: bytes
    data: bytes = field(repr=False)


def is_ref_name(name: str) -> bool:
    """What `git check-ref-format --branch` accepts as a branch's short name."""
    if not name or name == "@" or name.startswith("-") or name.endswith(("/", ".")) or "@{" in name:
        return False
    if ".." in name or "//" in name or any(c in _NEVER_IN_REF for c in name):
        return False
    return all(p and not p.startswith(".") and not p.endswith(".lock") for p in name.split("/"))


def check_branch(name: str, rules: BranchRules) -> None:
    """Decide whether a branch may be pushed.

    Raises:
        Refusal: code `push_branch_refused`, with the rule's reason.
    """
    if not isinstance(name, str) or not is_ref_name(name):
        raise _branch(name, "is no valid branch name")
    parts = folded(name).split("/")
    if parts[0] in ("refs", "heads", "tags", "remotes", "pull", "notes", "head") or _LIKE_SHA.fullmatch(name):
        raise _branch(name, "is not a branch's short name")
    forbidden = {"default": rules.default, "base": rules.base}
    for what, other in forbidden.items():
        if other is not None and folded(other) == folded(name):
            raise _branch(name, f"is the {what} branch, which Airlock never pushes to")
    if any(folded(other) == folded(name) for other in rules.protected):
        raise _branch(name, "is a protected branch")
    if rules.head is not None and name == rules.head:
        return
    if not rules.prefix or not name.startswith(rules.prefix) or name == rules.prefix:
        raise _branch(name, f"does not begin with {rules.prefix!r}; name a branch such as {rules.prefix}fix-tests")
    if _OWN_NAME.fullmatch(name) is None:
        raise _branch(name, "may hold only letters, digits and . _ / @ + = -")


def check_pull(head: str, base: str, rules: BranchRules) -> None:
    """Decide whether a pull request from `head` into `base` may be opened.

    Raises:
        Refusal: code `push_branch_refused`, or `pull_base_refused`.
    """
    check_branch(head, rules)
    if head == rules.head:
        raise _branch(head, "is a pull request's own branch; that pull request shows the commits already")
    targets = {rules.default, *rules.targets} | ({rules.base} if rules.base is not None else set())
    if base not in targets:
        raise Refusal(
            "pull_base_refused",
            f"A pull request of this run goes against one of: {', '.join(sorted(targets))}; not {base[:200]!r}.",
        )


def _branch(name: object, reason: str) -> Refusal:
    return Refusal("push_branch_refused", f"Branch {str(name)[:200]!r} {reason}.")


def check_changes(changes: Sequence[Change], rules: TreeRules, protected: Iterable[str] = ()) -> None:
    """Decide on the paths and modes of one commit (rules 6 to 9).

    Args:
        changes: every path that differs from the parent.
        rules: caps and protected paths.
        protected: further protected paths that `protected_targets` found.

    Raises:
        Refusal: code `push_too_large`, `push_path_refused`, `push_submodule_refused` or
            `push_protected_path`.
    """
    if len(changes) > rules.max_files:
        raise Refusal(
            "push_too_large", f"The commit changes {len(changes)} files; at most {rules.max_files} are allowed."
        )
    patterns = [*patterns_of(rules.protected), *patterns_of(ALWAYS_PROTECTED), *patterns_of(protected)]
    allowed = patterns_of(rules.allowed)
    for change in changes:
        _check_change(change, patterns, allowed)


def _check_change(change: Change, patterns: list[tuple[str, ...]], allowed: list[tuple[str, ...]]) -> None:
    parts = change.path.split(b"/")
    shown = display(change.path)
    if any(part in (b"", b".", b"..") or is_git_name(part) for part in parts) or b"\0" in change.path:
        raise Refusal("push_path_refused", f"{shown} is a name that no checkout may hold.")
    for entry in (change.old, change.new):
        if entry is not None and entry.mode == GITLINK:
            raise Refusal("push_submodule_refused", f"{shown} is a submodule; Airlock leaves submodules as they are.")
    if change.new is not None and change.new.mode not in (FILE, EXECUTABLE, LINK):
        raise Refusal("push_path_refused", f"{shown} has the mode {change.new.mode}.")
    names = tuple(folded(part.decode("utf-8", "surrogateescape")).rstrip(" .") for part in parts)
    if names[-1] == ".gitmodules":
        raise Refusal("push_submodule_refused", f"{shown} says where submodules come from and stays as it is.")
    if any(covers(pattern, names) for pattern in patterns) and not any(within(a, names) for a in allowed):
        raise Refusal("push_protected_path", f"{shown} is a protected path. Take the change to it back.")


def check_contents(blobs: Iterable[Blob], rules: TreeRules, holds_secret: Callable[[bytes], bool]) -> None:
    """Decide on the content of one commit's new files (rules 6 and 10).

    Raises:
        Refusal: code `push_too_large`, or `push_holds_secret`, which names the path and never the value.
    """
    total = 0
    for blob in blobs:
        total += len(blob.data)
        if len(blob.data) > rules.max_file_bytes or total > rules.max_total_bytes:
            raise Refusal(
                "push_too_large",
                f"{display(blob.path)} makes the commit too large: at most {rules.max_file_bytes >> 20} MB a file "
                f"and {rules.max_total_bytes >> 20} MB a commit.",
            )
        if holds_secret(blob.path):
            raise Refusal("push_holds_secret", "The name of a changed file holds a secret of this run.")
        if holds_secret(blob.data):
            raise Refusal("push_holds_secret", f"{display(blob.path)} holds a secret of this run. Take it out.")


def check_text(text: str, what: str, holds_secret: Callable[[bytes], bool]) -> None:
    """Refuse a commit message or branch name that holds a secret of the run.

    Raises:
        Refusal: code `push_holds_secret`.
    """
    if holds_secret(text.encode("utf-8", "replace")):
        raise Refusal("push_holds_secret", f"The {what} holds a secret of this run. Word it without.")
