"""Files whose bytes in the work tree are not those of their blob: `eol=crlf`, Git LFS, other filters.

No filter is ever run on the trusted side, so a snapshot that took such a file as it lies there would commit
a changed line end in every line, or a large file in place of its LFS pointer. What checkout did to a file
shows in the index: the size it noted is not the blob's.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from agent.broker.git.index import IndexEntry
from agent.broker.git.objects import Entry
from agent.broker.git.shadow import ShadowGit
from agent.contract.regex import regex

_CONVERTS = regex(rb"eol=crlf|filter=|working-tree-encoding|ident")
_POINTER = b"version https://git-lfs.github.com/spec/"


class Conversion(StrEnum):
    """What was done to a file at checkout."""

    CRLF = "crlf"
    LFS = "lfs"
    FILTER = "filter"


def converted(
    shadow: ShadowGit, entries: Mapping[bytes, Entry], index: Mapping[bytes, IndexEntry]
) -> dict[bytes, Conversion]:
    """Tracked files that checkout wrote other than their blobs.

    Args:
        shadow: where blobs are.
        entries: files of the commit that is checked out.
        index: what checkout noted.

    Returns:
        Empty where no .gitattributes asks for a conversion, which costs one look at each of them.
    """
    attributes = [e.sha for p, e in entries.items() if p.rpartition(b"/")[2] == b".gitattributes"]
    if not attributes or not index:
        return {}
    with shadow.reader() as reader:
        texts = [data for _, _, data in reader.read_many([sha for sha in attributes if shadow.has(sha)])]
    if not any(_CONVERTS.search(text) for text in texts):
        return {}
    sizes = shadow.sizes(list({entry.sha for entry in index.values()}))
    # git notes size 0 for a file that changed in the same tick as the index: that says nothing
    odd = {
        path: entry
        for path, entry in index.items()
        if entry.size and entry.sha in sizes and sizes[entry.sha] & 0xFFFFFFFF != entry.size
    }
    found: dict[bytes, Conversion] = {}
    with shadow.reader() as reader:
        for path, entry in odd.items():
            if sizes[entry.sha] > 16 << 20:
                found[path] = Conversion.FILTER
                continue
            data = reader.read(entry.sha)[1]
            if data.startswith(_POINTER):
                found[path] = Conversion.LFS
            elif len(data) + data.count(b"\n") - data.count(b"\r\n") == entry.size:
                found[path] = Conversion.CRLF
            else:
                found[path] = Conversion.FILTER
    return found
