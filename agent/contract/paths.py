"""Paths in their repository-relative form, and which of them nobody writes. First of two checks (B7).

The second is the kernel's: `agent.kernel.beneath` opens what passed here without following a link out.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from agent.contract.errors import Refusal, ToolInputError
from agent.contract.framing import fold
from agent.contract.gitignore import PatternError, glob_regex
from agent.contract.regex import regex

PATH_CAP = 4095  # bytes, PATH_MAX without its NUL
NAME_CAP = 255  # bytes, NAME_MAX

DEFAULT_PROTECTED = (".git", ".github")

# What some file system or git on some platform takes for `.git`: NTFS drops trailing dots and spaces and knows
# streams (`.git::$INDEX_ALLOCATION`) and short names; HFS+ ignores invisible characters; both ignore case.
_GIT_NAME = regex(r"(?:\.git[. ]*(?::.*)?|gi(?:t|[0-9a-f]{4})~[0-9]+[. ]*(?::.*)?)\Z", re.DOTALL)


def repository_relative(path: str, root: str) -> str:
    """Reduce a path to its form below the root: no `.`, no `..`, no leading slash; the root itself is `""`.

    Dots are resolved as text, before any link is looked at, so that `link/../x` is `x` and nothing else.

    Args:
        path: as the model wrote it; an absolute path below the root is taken as relative.
        root: absolute path of the workspace.

    Raises:
        ToolInputError: empty, holds NUL, or is too long.
        Refusal: `path_outside`, it leaves the root by its spelling.
    """
    if not path:
        raise ToolInputError("The path is empty. Give one relative to the workspace; `.` is its top.")
    if "\0" in path:
        raise ToolInputError("The path holds a NUL character, which no file name can.")
    try:
        size = len(path.encode())
    except UnicodeEncodeError as exc:
        raise ToolInputError("The path holds a character that is no Unicode text.") from exc
    if size > PATH_CAP:
        raise ToolInputError(f"The path is {size} bytes long; {PATH_CAP} is the limit.")
    inside = path
    if path.startswith("/"):
        top = root.rstrip("/")
        if path != top and not path.startswith(top + "/"):
            raise outside(path)
        inside = path[len(top) :]
    parts: list[str] = []
    for part in inside.split("/"):
        if part in ("", "."):
            continue
        if part == "..":
            if not parts:
                raise outside(path)
            parts.pop()
            continue
        if len(part.encode()) > NAME_CAP:
            raise ToolInputError(f"A name in the path is longer than {NAME_CAP} bytes.")
        parts.append(part)
    return "/".join(parts)


def outside(path: str) -> Refusal:
    """The refusal for a path that leaves the workspace."""
    return Refusal(
        "path_outside",
        f"{path[:200]!r} leads out of the workspace. Only files below it can be read or written; "
        "give a path relative to its top.",
    )


def is_git_name(name: str) -> bool:
    """A path component that is `.git` on some file system: any case, width, invisible characters, short name."""
    if name.isascii():
        low = name.lower()
        if "git" not in low and "~" not in low:
            return False
    else:
        low = fold(name)
    return any(_GIT_NAME.match(part) for part in low.split("\\"))


def has_git_name(path: str) -> bool:
    """Some component of the path is a git folder's name, at whatever depth (nested repositories run code too)."""
    return any(is_git_name(part) for part in path.split("/"))


def _plain(path: str) -> str:
    """Case and form folded as a case-insensitive checkout would see the path."""
    text = unicodedata.normalize("NFKC", path).casefold()
    return "/".join(part.rstrip(". ") or part for part in text.strip("/").split("/"))


def protected_by(path: str, protected: Iterable[str], allowed: Iterable[str] = ()) -> str | None:
    """Return the entry that protects this repository-relative path, or None.

    An entry protects what it matches (`*` and `?` within a name, `**` for folders) and everything below it,
    whatever the case: on a case-insensitive checkout `.GitHub/workflows` is `.github/workflows`. An allowed
    entry takes back what it matches, but never a git folder.
    """
    if has_git_name(path):
        return ".git"
    asked = _plain(path)
    if any(_covers(entry, asked) for entry in allowed):
        return None
    return next((entry for entry in protected if _covers(entry, asked)), None)


def _covers(entry: str, asked: str) -> bool:
    key = _plain(entry)
    if not key:
        return False
    if asked == key or asked.startswith(key + "/"):
        return True
    if not _is_pattern(key):
        return False
    try:
        glob = glob_regex(key)
    except PatternError:
        return False  # no path can match it; as a literal name it was tried above
    names = asked.split("/")
    return any(glob.match("/".join(names[: i + 1])) for i in range(len(names)))


def paths_to_cover(protected: Iterable[str], allowed: Iterable[str] = ()) -> tuple[str, ...]:
    """Which protected paths a sandbox can show read-only at their place, as depth before the gate that counts.

    Patterns cannot be shown so, since what they match may be made later. Git folders are not: the real one is out
    of reach already, and the sandbox's own is meant to be written. A path that an allowed entry lies above, at or
    below is left to the gate as a whole.
    """
    taken_back = [_plain(entry) for entry in allowed]
    kept: dict[str, None] = {}
    for path in (entry.strip("/") for entry in protected):
        plain = all(part not in ("", ".", "..") for part in path.split("/")) and not _is_pattern(path)
        if plain and not has_git_name(path) and not any(_meet(_plain(path), entry) for entry in taken_back):
            kept[path] = None
    return tuple(kept)


def _is_pattern(entry: str) -> bool:
    return any(c in entry for c in "*?[")


def _meet(path: str, allowed: str) -> bool:
    """An allowed entry may match something at, above or below a path; of a pattern its plain beginning is compared."""
    names = allowed.split("/")
    plain = "/".join(names[: next((i for i, name in enumerate(names) if _is_pattern(name)), len(names))])
    return not plain or f"{path}/".startswith(f"{plain}/") or f"{plain}/".startswith(f"{path}/")
