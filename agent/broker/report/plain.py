"""Untrusted text as plain lines: nothing in it is a workflow command, moves a cursor, or is invisible.

A runner takes `::name…::data` where a line's first visible characters are `::`, and `##[name…]data` anywhere
in a line; names are case-insensitive, a lone CR ends a line, leading Unicode white space is skipped. Both
streams are read that way (runner's `ActionCommandManager`). So: controls and format characters are shown as
escapes, a leading `::` is parted, and so is every `##` before a bracket.
"""

from __future__ import annotations

import re

from agent.contract.regex import regex

LINE_CAP = 4000  # characters; a web log does not show more of a line anyhow

# Cc but TAB and LF; Cf; line and paragraph separators; lone surrogates. A test compares it with unicodedata.
_UNSEEN = regex(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f"
    "\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff\ud800-\udfff]"
)
_OLD_COMMAND = regex(r"##(?=[\w.-]*\[)")
_START = regex(r"(?m)^([^\S\n]*):(?=:)")


def visible(text: str) -> str:
    """Controls and format characters as escapes; TAB and LF stay, CRLF becomes LF."""
    if text.isascii() and text.isprintable():
        return text
    return _UNSEEN.sub(_escape, text.replace("\r\n", "\n"))


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{{{code:x}}}"


def inert(text: str) -> str:
    """Text whose every line a runner and a terminal take as mere text."""
    shown = _OLD_COMMAND.sub("# #", visible(text))
    if "::" in shown:
        shown = _START.sub(r"\1: ", shown)
    return shown


def inert_lines(text: str, *, cap: int = LINE_CAP) -> list[str]:
    """The lines of `inert(text)`, each at most `cap` characters and a note of how many were left out."""
    lines = inert(text).split("\n")
    return [line if len(line) <= cap else f"{line[:cap]} [{len(line) - cap} more characters]" for line in lines]


def one_line(text: str, *, cap: int = 200) -> str:
    """Text as one inert line, such as a title; line breaks become spaces."""
    flat = " ".join(inert(text).split())
    return flat if len(flat) <= cap else flat[: cap - 1] + "…"
