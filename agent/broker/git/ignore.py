"""Which untracked paths .gitignore files leave out, folder by folder."""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Ignore:
    """Patterns in force in one folder: those of the folders above first, so that the last match wins."""

    rules: tuple[tuple[bytes, str, bool, bool, bool], ...] = field(default=())

    @classmethod
    def root(cls) -> Ignore:
        """No pattern."""
        return cls()

    def within(self, prefix: bytes, data: bytes) -> Ignore:
        """The same and the patterns of a .gitignore in the folder `prefix`."""
        added = []
        for line in data.decode("utf-8", "surrogateescape").split("\n"):
            text = line.rstrip("\r").rstrip(" ")
            if not text or text.startswith("#"):
                continue
            negated = text.startswith("!")
            text = text.removeprefix("!")
            folders = text.endswith("/")
            text = text.rstrip("/")
            added.append((prefix, text.lstrip("/"), negated, folders, "/" in text))
        return Ignore(self.rules + tuple(added))

    def ignored(self, path: bytes, *, is_folder: bool) -> bool:
        """The verdict of the last pattern that matches."""
        for prefix, pattern, negated, folders, anchored in reversed(self.rules):
            if folders and not is_folder:
                continue
            rest = path[len(prefix) :].lstrip(b"/").decode("utf-8", "surrogateescape")
            name = rest if anchored else rest.rpartition("/")[2]
            if fnmatch.fnmatchcase(name, pattern):
                return not negated
        return False
