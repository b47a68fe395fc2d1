"""Paging, the same way in every tool: `offset` is the first line or entry wanted, counted from 1, `limit` how many.

What was shown and how to go on is said in a note of ours after the frame, in one form.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agent.contract.errors import ToolInputError

OFFSET_ARG = {"offset": {"type": "integer", "minimum": 1}}
ARGS = {**OFFSET_ARG, "limit": {"type": "integer", "minimum": 1}}

LIMIT_CAP = 2000
"""Most entries of one page: a larger `limit` gets these, and the note says how to go on."""

PAGE_CHARS = 24_000
"""Characters of a page: about 6,000 tokens, whatever `limit` says."""

LINE_CHARS = 2_000
"""Characters shown of one line."""


def asked(arguments: Mapping[str, Any], default_limit: int) -> tuple[int, int]:
    """Offset from 1 and limit, as the call gave them or by default; at most `LIMIT_CAP`."""
    return int(arguments.get("offset", 1)), min(int(arguments.get("limit", default_limit)), LIMIT_CAP)


def cut_line(line: str) -> str:
    """A line short enough to show, which says when it was not."""
    return line if len(line) <= LINE_CHARS else f"{line[:LINE_CHARS]} [line cut: {len(line)} characters]"


def note(first: int, shown: int, total: int | None, unit: str) -> str:
    """Words for what is shown: `lines 1-200 of 1234; more: offset=201`.

    Args:
        first: number of the first one shown.
        shown: how many.
        total: how many there are, or None when only that there are more is known.
        unit: plural noun.
    """
    last = first + shown - 1
    if total is not None and last >= total:
        return f"{unit} {first}-{last} of {total}" if first > 1 else f"{total} {unit}"
    return f"{unit} {first}-{last} of {'more' if total is None else total}; more: offset={last + 1}"


def past_the_end(offset: int, total: int, unit: str) -> ToolInputError:
    """The error of an offset after the last entry."""
    return ToolInputError(f"offset={offset} is past the end: there are {total} {unit}. Leave it out to begin at 1.")


def page(items: Sequence[str], offset: int, limit: int, unit: str) -> tuple[list[str], str]:
    """One page of a list that is known in full, and its note.

    Raises:
        ToolInputError: the offset lies after the end.
    """
    return window(items[offset - 1 : offset - 1 + limit], offset, len(items), unit)


def window(items: Sequence[str], offset: int, total: int, unit: str) -> tuple[list[str], str]:
    """As `page`, of a list of which only `items`, those from `offset` on, are at hand.

    Raises:
        ToolInputError: the offset lies after the end.
    """
    if offset > max(1, total):
        raise past_the_end(offset, total, unit)
    shown: list[str] = []
    room = PAGE_CHARS
    for item in items:
        line = cut_line(item)
        if shown and len(line) + 1 > room:
            break
        shown.append(line)
        room -= len(line) + 1
    return shown, note(offset, len(shown), total, unit)
