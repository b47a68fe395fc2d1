"""What a snapshot is made of and bounded by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from agent.broker.git.objects import Change, Entry
from agent.contract.dataclass import dataclass, field


@dataclass(frozen=True)
class Caps:
    """Sizes beyond which the workspace cannot be committed; what lies beyond is looked at, never stored.

    Attributes:
        file_bytes: one file; GitHub refuses 100 MB, and a blob travels as base64 in one request.
        new_files: untracked files that no .gitignore names.
        stored_bytes: bytes of changed content stored in one run.
    """

    file_bytes: int = 40 << 20
    new_files: int = 20_000
    stored_bytes: int = 1 << 30


@dataclass(frozen=True)
class Snapshot:
    """What the workspace holds.

    Attributes:
        tree: id of the tree, stored in the shadow.
        changes: against the tracked tree, by path.
        problems: one sentence each on what was left out.
        nested: folders with a `.git` of their own that are no submodule of the tracked tree.
        ignored: folders that .gitignore names and that hold nothing tracked, none within another.
        over: empty, or the sentence why this is not the whole workspace: a cap was reached, and the rest is not
            in the tree. Nobody may take such a tree for all that changed.
    """

    tree: str
    changes: tuple[Change, ...]
    problems: tuple[str, ...]
    nested: tuple[str, ...]
    ignored: tuple[bytes, ...] = ()
    over: str = ""


class Seen(NamedTuple):
    """Stat of a file when it was hashed. A command can set mtime but not ctime."""

    ctime_ns: int
    size: int
    ino: int
    mode: int
    entry: Entry


@dataclass
class Walk:
    """One walk over the workspace, while it goes on."""

    tracked: Mapping[bytes, Entry]
    tracked_folders: Mapping[bytes, str]
    started_ns: int
    files: dict[bytes, Entry] = field(default_factory=dict)
    kept: set[bytes] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)
    nested: list[str] = field(default_factory=list)
    ignored: list[bytes] = field(default_factory=list)
    new_files: int = 0
    over: str = ""
