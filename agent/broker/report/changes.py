"""Which files a diff changes, and by how many lines. Pure."""

from __future__ import annotations

from agent.broker.report.facts import Change

_STATUS = (("new file mode", "added"), ("deleted file mode", "deleted"), ("rename from", "renamed"))


def changes_of(diff: str) -> tuple[Change, ...]:
    """The files of a unified diff of git, in its order; a binary file has no counts."""
    found: list[Change] = []
    path, status, added, removed = "", "modified", 0, 0
    binary = in_hunk = False

    def close() -> None:
        if path:
            found.append(Change(path, None if binary else added, None if binary else removed, status))

    for line in diff.split("\n"):
        if line.startswith("diff --git "):
            close()
            path, status, added, removed = line.rpartition(" b/")[2], "modified", 0, 0
            binary = in_hunk = False
        elif line.startswith("@@"):
            in_hunk = True
        elif in_hunk:
            added += line.startswith("+")
            removed += line.startswith("-")
        elif line.startswith(("Binary files ", "GIT binary patch")):
            binary = True
        else:
            status = next((word for head, word in _STATUS if line.startswith(head)), status)
    close()
    return tuple(found)
