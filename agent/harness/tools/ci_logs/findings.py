"""What the readers of one step's lines find, and places relative to the repository."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum

from agent.contract.dataclass import dataclass, field
from agent.contract.regex import regex
from agent.harness.tools.ci_logs.trouble import suspects

FIRST, SECOND, THIRD = 1, 2, 3
"""Worth of a kept line: the failure itself, what explains it, what surrounds it. The last go first."""

_CHECKOUT = regex(
    r"(?i)^(?:file://)?(?:/private)?(?:/home/[^/]+/work|/Users/[^/]+/work|/__w|(?:/[^/\s]+)*/_work|[a-z]:[\\/]a|[a-z]:[\\/].*_work)"
    r"[\\/]([^\\/]+)[\\/]\1[\\/]"
)
_BUNDLED = regex(r"^webpack(?:-internal)?://[^/\s]*/")  # a bundler's name for a source file
_FOREIGN = regex(
    r"(?:^|[\\/])(?:node_modules|site-packages|dist-packages|\.cargo|\.rustup|vendor[\\/]bundle|\.gradle|\.m2|\.venv|\.tox|"
    r"hostedtoolcache|DerivedData|\.yarn|\.pnpm)(?:[\\/]|$)|^node:|^internal/(?:process|modules|main|timers|streams)/|^<"
)


class Kind(StrEnum):
    """What sort of failure it is."""

    TEST = "test_failure"
    COMPILE = "compile_error"
    LINT = "lint"
    DEPENDENCY = "dependency"
    INFRASTRUCTURE = "infrastructure"
    CONFIGURATION = "configuration"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Place:
    """A place in the repository; line and column count from 1, None where the log has none."""

    file: str
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        return ":".join(str(p) for p in (self.file, self.line, self.column) if p is not None)


@dataclass
class FailedTest:
    """One failed test; `at` is where it failed, as near to the test as the log says."""

    name: str
    at: Place | None = None
    number: int = 0


class Checkout:
    """Turns paths of a log into paths of the repository."""

    def __init__(self, root: str | None = None) -> None:
        self._root = root.rstrip("/\\") if root else None

    def relative(self, path: str) -> str | None:
        """Path relative to the repository, or None for a file that is not in it."""
        path = _BUNDLED.sub("", path.strip("\"'`"))
        found = _CHECKOUT.match(path)
        if found:
            path = path[found.end() :]
        elif self._root and path.startswith((self._root + "/", self._root + "\\")):
            path = path[len(self._root) + 1 :]
        elif path.startswith(("/github/workspace/", "/workspace/")):
            path = path.split("/", 3)[3] if path.startswith("/github/") else path.split("/", 2)[2]
        elif path.startswith(("/", "~")) or re.match(r"[A-Za-z]:[\\/]", path) or "://" in path:
            return None
        path = path.replace("\\", "/")
        while path.startswith("./"):
            path = path[2:]
        if not path or path.startswith("../") or _FOREIGN.search(path):
            return None
        return path


@dataclass
class Log:
    """The kept lines of a failing step.

    Attributes:
        lines: text of each line.
        numbers: its number in the log.
        checkout: for places.
        repository: the repository's name, for names of modules.
        text: all lines joined.
        suspects: indexes of lines with a word of trouble; readers of single lines look at no others.
    """

    lines: list[str]
    numbers: list[int]
    checkout: Checkout
    repository: str = ""
    text: str = ""
    suspects: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.text = "\n".join(self.lines)
        self.suspects = suspects(self.lines)

    def has(self, *words: str) -> bool:
        """A cheap look before a reader starts."""
        return any(w in self.text for w in words)


@dataclass
class Findings:
    """What was found, by index into the log's lines."""

    kept: dict[int, int] = field(default_factory=dict)
    tests: dict[str, FailedTest] = field(default_factory=dict)
    places: dict[Place, int] = field(default_factory=dict)
    votes: dict[Kind, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def keep(self, index: int, worth: int = FIRST) -> None:
        """Keep a line; the best worth given to it counts."""
        self.kept[index] = min(worth, self.kept.get(index, worth))

    def keep_all(self, indexes: Iterable[int], worth: int) -> None:
        for index in indexes:
            self.keep(index, worth)

    def test(self, name: str, at: Place | None = None, number: int = 0) -> None:
        """Note a failed test; a place fills in a place that was missing."""
        known = self.tests.setdefault(name, FailedTest(name, None, number))
        if known.at is None:
            known.at = at

    def place(self, at: Place | None, index: int) -> None:
        if at is not None:
            self.places.setdefault(at, index)

    def vote(self, kind: Kind, weight: float) -> None:
        self.votes[kind] = self.votes.get(kind, 0.0) + weight


def place_of(log: Log, file: str, line: str | None = None, column: str | None = None) -> Place | None:
    """A place, when the file is in the repository."""
    relative = log.checkout.relative(file)
    if relative is None:
        return None
    return Place(relative, int(line) if line else None, int(column) if column else None)
