"""Path templates: literal segments, `{name}` for one segment, `{name...}` for several, a user's final `/**`.

A parameter's shape is a full match of the decoded text against the pattern of its name; a literal is the
exact text, case included. A template has at most one part of several segments, so matching never branches.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from agent.contract.dataclass import dataclass
from agent.contract.errors import UserError
from agent.contract.regex import regex

_ANY = regex(r"(?s:.+)")
_PARAM = regex(r"\{([a-z_]+)(\.\.\.)?\}")


@dataclass(frozen=True)
class Param:
    """One placeholder."""

    name: str
    pattern: re.Pattern[str]
    several: bool


@dataclass(frozen=True)
class Template:
    """A compiled path template."""

    text: str
    parts: tuple[str | Param, ...]
    several: bool

    def match(self, segments: tuple[str, ...]) -> dict[str, str] | None:
        """Parameters by name, or None."""
        extra = len(segments) - len(self.parts)
        if extra < 0 or (extra > 0 and not self.several):
            return None
        found: dict[str, str] = {}
        at = 0
        for part in self.parts:
            width = 1 + extra if isinstance(part, Param) and part.several else 1
            text = "/".join(segments[at : at + width])
            at += width
            if isinstance(part, str):
                if text != part:
                    return None
            elif part.pattern.fullmatch(text):
                found[part.name] = text
            else:
                return None
        return found


@cache
def _param(name: str, pattern: str, several: bool) -> Param:  # noqa: FBT001 - the key of the cache
    return Param(name, regex(pattern), several)


def compile_template(text: str, patterns: Mapping[str, str]) -> Template:
    """Compile a template.

    Args:
        text: begins with a slash.
        patterns: regular expression of each parameter's decoded text.

    Raises:
        UserError: not a template, a parameter without a pattern, or several parts of several segments.
    """
    if not text.startswith("/") or "//" in text or (text.endswith("/") and text != "/"):
        raise UserError(f"The path template {text!r} must begin with one slash and not end with one.")
    parts: list[str | Param] = []
    several = 0
    for piece in text[1:].split("/"):
        if piece == "**":
            parts.append(Param("rest", _ANY, several=True))
            several += 1
            continue
        found = _PARAM.fullmatch(piece)
        if found is None:
            if set("{}*%?#;\\") & set(piece):
                raise UserError(f"The segment {piece!r} of {text!r} is neither a literal nor one {{name}}.")
            parts.append(piece)
            continue
        name = found[1]
        if name not in patterns:
            raise UserError(f"The parameter {name!r} of {text!r} has no pattern.")
        parts.append(_param(name, patterns[name], bool(found[2])))
        several += bool(found[2])
    if several > 1:
        raise UserError(f"The path template {text!r} has more than one part of several segments.")
    return Template(text, tuple(parts), several == 1)
