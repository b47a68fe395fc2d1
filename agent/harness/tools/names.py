"""Which tool names read as another's: a custom tool may not pass for a built-in one (S5)."""

from __future__ import annotations

from collections.abc import Iterable

from agent.contract.framing import fold

_SHAPES = str.maketrans({"0": "o", "1": "l", "i": "l", "3": "e", "4": "a", "5": "s", "7": "t", "8": "b", "2": "z"})


def skeleton(name: str) -> str:
    """The name as a hurried reader sees it: no case, no underscores, look-alikes and doubled letters as one."""
    shapes = fold(name).translate(_SHAPES).replace("rn", "m").replace("vv", "w")
    kept = [c for c in shapes if c.isalnum()]
    return "".join(c for i, c in enumerate(kept) if i == 0 or c != kept[i - 1])


def imitated(name: str, taken: Iterable[str]) -> str | None:
    """The taken name that `name` equals or imitates, or None."""
    shape = skeleton(name)
    for other in taken:
        if name == other or shape in (skeleton(other), skeleton(other) + "s") or shape + "s" == skeleton(other):
            return other
    return None
