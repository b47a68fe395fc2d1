"""Files that a hook's command names, as they are when the run starts: what the model writes is never run as a gate."""

from __future__ import annotations

from agent.broker.git.objects import EXECUTABLE, FILE
from agent.broker.git.worktree import WorkTree
from agent.broker.trusted_files import TrustedFiles


class StartFiles(TrustedFiles):
    """Files of one work tree at this moment."""

    def __init__(self, worktree: WorkTree) -> None:
        self._shadow = worktree.shadow
        self._entries_now = dict(worktree.shadow.entries(worktree.snapshot().tree))

    def read(self, path: str) -> bytes | None:
        entry = self._entries_now.get(path.encode("utf-8", "surrogateescape"))
        if entry is None or entry.mode not in (FILE, EXECUTABLE):
            return None
        return self._shadow.read(entry.sha)
