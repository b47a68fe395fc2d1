"""Read git's index file (versions 2 to 4), SHA-1. Pure.

Only the index that checkout left is read, before the model's first command: it says which files were clean
then, so that 20,000 of them need not be hashed, and which a sparse checkout leaves out.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

_ENTRY = struct.Struct(">10I20sH")
_EXTENDED = 0x4000
_SKIP_WORKTREE = 0x4000  # of the second flags word
_STAGE = 0x3000


@dataclass(frozen=True, slots=True)
class IndexEntry:
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


def _parse(data: bytes) -> dict[bytes, IndexEntry]:
    magic, version, count = struct.unpack_from(">4sII", data)
    if magic != b"DIRC" or version not in (2, 3, 4):
        return {}
    entries: dict[bytes, IndexEntry] = {}
    position, previous = 12, b""
    for _ in range(count):
        fields = _ENTRY.unpack_from(data, position)
        start = position + 62
        flags, more = fields[11], 0
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
        if not flags & _STAGE:
            entries[path] = IndexEntry(
                (fields[2], fields[3]),
                fields[5],
                fields[6],
                fields[9],
                fields[10].hex(),
                bool(more & _SKIP_WORKTREE),
            )
    return entries


def _offset(data: bytes, position: int) -> tuple[int, int]:
    """Number in the offset encoding of packs, and the position after it."""
    byte = data[position]
    value = byte & 127
    while byte & 128:
        position += 1
        byte = data[position]
        value = ((value + 1) << 7) | (byte & 127)
    return value, position + 1
