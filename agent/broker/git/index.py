"""Read git's index file (versions 2 to 4), SHA-1. Pure.

Only the index that checkout left is read, before the model's first command: it says which files were clean
then, so that 20,000 of them need not be hashed, and which a sparse checkout leaves out.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from agent.broker.git.objects import Change

_HEAD = struct.Struct(">10I20s")
_EXTENDED = 0x4000
_SKIP_WORKTREE = 0x4000  # of the second flags word
_STAGE = 0x3000


class IndexEntry(NamedTuple):
    """One path of the index; stat values as git keeps them, 32 bits each.

    Attributes:
        mtime: seconds and nanoseconds.
        ino, mode, size: low 32 bits.
        sha: blob id.
        skip: left out of the work tree by a sparse checkout.
    """

    mtime: tuple[int, int]
    ino: int
    mode: int
    size: int
    sha: str
    skip: bool


def parse_index(data: bytes) -> dict[bytes, IndexEntry]:
    """Entries of stage 0 by path.

    Args:
        data: the whole file.

    Returns:
        Empty for anything that is not an index of a known version, or that is cut off or a split index: the
        caller then hashes every file, which is slower and never wrong.
    """
    try:
        return _parse(data)
    except (struct.error, IndexError, ValueError):
        return {}


class _Row(NamedTuple):
    path: bytes
    head: bytes  # the 60 bytes of stat values and id
    flags: int
    more: int


def _parse(data: bytes) -> dict[bytes, IndexEntry]:
    entries: dict[bytes, IndexEntry] = {}
    for row in _rows(data):
        if not row.flags & _STAGE:
            _, _, seconds, nanoseconds, _, ino, mode, _, _, size, sha = _HEAD.unpack(row.head)
            skip = bool(row.more & _SKIP_WORKTREE)
            entries[row.path] = IndexEntry((seconds, nanoseconds), ino, mode, size, sha.hex(), skip)
    return entries


def _rows(data: bytes) -> Iterator[_Row]:
    magic, version, count = struct.unpack_from(">4sII", data)
    if magic != b"DIRC" or version not in (2, 3, 4):
        return
    position, previous = 12, b""
    for _ in range(count):
        head = data[position : position + 60]
        (flags,) = struct.unpack_from(">H", data, position + 60)
        start, more = position + 62, 0
        if flags & _EXTENDED:
            (more,) = struct.unpack_from(">H", data, start)
            start += 2
        if version == 4:
            strip, start = _offset(data, start)
            end = data.index(b"\0", start)
            path = previous[: len(previous) - strip] + data[start:end]
            position = end + 1
        else:
            end = data.index(b"\0", start)
            path = data[start:end]
            position += ((end - position) // 8 + 1) * 8
        previous = path
        yield _Row(path, head, flags, more)


def _offset(data: bytes, position: int) -> tuple[int, int]:
    """Number in the offset encoding of packs, and the position after it."""
    byte = data[position]
    value = byte & 127
    while byte & 128:
        position += 1
        byte = data[position]
        value = ((value + 1) << 7) | (byte & 127)
    return value, position + 1


def rewrite_index(data: bytes, changes: Sequence[Change]) -> bytes | None:
    """The index with some paths changed, as version 2 without extensions.

    Stat values of the other paths stay, so that git need not hash them again.

    Args:
        data: the whole file.
        changes: against what the index holds.

    Returns:
        None where the index cannot be read, or holds conflicts or sparse entries, which version 2 cannot say.
    """
    try:
        rows = list(_rows(data))
    except (struct.error, IndexError, ValueError):
        return None
    if not rows or any(row.flags & (_STAGE | _EXTENDED) for row in rows):
        return None
    stats = {row.path: row.head for row in rows}
    for change in changes:
        if change.new is None:
            stats.pop(change.path, None)
        else:
            mode, sha = int(change.new.mode, 8), bytes.fromhex(change.new.sha)
            stats[change.path] = struct.pack(">10I20s", *([0] * 6), mode, 0, 0, 0, sha)
    parts = [struct.pack(">4sII", b"DIRC", 2, len(stats))]
    for path, head in sorted(stats.items()):
        entry = head + struct.pack(">H", min(len(path), 0xFFF)) + path
        parts.append(entry + b"\0" * (8 - len(entry) % 8))
    body = b"".join(parts)
    return body + hashlib.sha1(body, usedforsecurity=False).digest()
