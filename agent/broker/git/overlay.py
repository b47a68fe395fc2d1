"""A tree with some files replaced: how a gate gets its hook's files from the base branch (E12)."""

from __future__ import annotations

from collections.abc import Mapping

from agent.broker.git.objects import EXECUTABLE, Entry
from agent.broker.git.shadow import ShadowGit


def overlaid(shadow: ShadowGit, tree: str, files: Mapping[str, bytes]) -> str:
    """The tree with these files in it, executable, whatever stood at their paths.

    A link or file where a folder of the path must be is dropped, so that nothing leads elsewhere.
    """
    if not files:
        return tree
    entries = dict(shadow.entries(tree))
    for path, data in files.items():
        name = path.encode("utf-8", "surrogateescape")
        parent = name
        while parent := parent.rpartition(b"/")[0]:
            entries.pop(parent, None)
        for below in [known for known in entries if known.startswith(name + b"/")]:
            del entries[below]
        entries[name] = Entry(EXECUTABLE, shadow.write("blob", data))
    return shadow.write_tree(entries, like=tree)
