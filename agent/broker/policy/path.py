"""One canonical form of a request path; any other form of the same path is refused, not tidied.

House rules (R09, F03):
* What is decided on is what will be on the wire. Two readers (this module, a proxy, GitHub) that decode a
  path differently must have nothing to differ on.
* So no dot segments, empty segments, backslashes, control characters, matrix parameters, queries,
  fragments, absolute addresses; no encoding of a character that needs none, none of a slash, dot,
  percent, question mark or semicolon; no text that Unicode's compatibility forms turn into one of these.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from urllib.parse import quote, unquote_to_bytes

from agent.contract.dataclass import dataclass
from agent.contract.regex import regex

PATH_CAP = 4096

_RAW_SEGMENT = regex(r"(?:[A-Za-z0-9._~!$&'()*+,=:@-]|%[0-9A-F]{2})+")
_ENCODED = regex(r"%([0-9A-F]{2})")
_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_MEANINGFUL = frozenset("/\\%?;")
# Kept as they are on the wire; everything else that is allowed is sent percent-encoded.
_WIRE_SAFE = "!$&'()*+,=:@-._~"


@dataclass(frozen=True)
class BadPath:
    """Why a path was refused."""

    reason: str


@lru_cache(maxsize=256)  # a model's path comes with every turn
def split_path(path: str) -> tuple[str, ...] | BadPath:
    """The decoded segments of a path, or why it has no single meaning."""
    if not path.startswith("/"):
        return BadPath("a path begins with a slash and names no host")
    if len(path) > PATH_CAP:
        return BadPath(f"a path has at most {PATH_CAP} characters")
    segments = []
    for raw in path[1:].split("/"):
        segment = _decode(raw)
        if isinstance(segment, BadPath):
            return segment
        segments.append(segment)
    return tuple(segments)


def join_path(segments: tuple[str, ...]) -> str:
    """The wire form of decoded segments; `split_path` gives them back."""
    return "".join("/" + quote(segment, safe=_WIRE_SAFE) for segment in segments)


def _decode(raw: str) -> str | BadPath:
    if raw == "":
        return BadPath("an empty segment (double or trailing slash)")
    if not _RAW_SEGMENT.fullmatch(raw):
        return BadPath("a character or an encoding that has no single meaning in a path")
    if any(int(code, 16) in _UNRESERVED for code in _ENCODED.findall(raw)):
        return BadPath("an encoding of a character that needs none")
    try:
        text = unquote_to_bytes(raw).decode("utf-8")
    except UnicodeDecodeError:
        return BadPath("an encoding that is not UTF-8")
    folded = unicodedata.normalize("NFKC", text)
    if _MEANINGFUL & set(text) or _MEANINGFUL & set(folded):
        return BadPath("a slash, backslash, percent, question mark or semicolon inside a segment")
    if any(unicodedata.category(char) in {"Cc", "Cf", "Zl", "Zp"} for char in text):
        return BadPath("a control or invisible character")
    if not folded.strip().strip("."):
        return BadPath("a segment of dots or blanks alone")
    return text
