"""Glob patterns and gitignore rules, compiled so that matching is linear in the path for each pattern.

The attack: `*a*a*a*a*b` in a pull request's `.gitignore` makes a naive translation to a regular expression try
every way to share out the stars. Here each part between two stars is an atomic group that takes its first
match and is never tried again, which is all that a glob needs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from agent.contract.dataclass import dataclass, field

PATTERN_CAP = 1000  # characters; git's own limit is the path's length
RULES_CAP = 5000  # rules of one file that are read
_JOINED = 200  # globs that are joined into one expression; with more each is asked

_POSIX = {
    "alnum": "a-zA-Z0-9", "alpha": "a-zA-Z", "blank": " \\t", "cntrl": "\\x00-\\x1f\\x7f", "digit": "0-9",
    "graph": "!-~", "lower": "a-z", "print": " -~", "punct": "!-/:-@\\[-`{-~", "space": " \\t\\n\\r\\f\\v",
    "upper": "A-Z", "xdigit": "0-9a-fA-F",
}  # fmt: skip


class PatternError(ValueError):
    """The pattern is too long or cannot match anything."""


def glob_regex(pattern: str) -> re.Pattern[str]:
    """Compile a glob over whole slash-separated paths.

    `*` and `?` stay within one name, `[...]` is a class, a `**` name is any number of folders, `\\` takes the
    next character literally.

    Raises:
        PatternError: too long, or a class that is never closed.
    """
    if len(pattern) > PATTERN_CAP:
        raise PatternError(f"The pattern is longer than {PATTERN_CAP} characters.")
    names = _split(pattern)
    runs: list[list[str]] = [[]]
    for name in names:
        if name == "**":
            if runs[-1] or len(runs) == 1:
                runs.append([])
        else:
            runs[-1].append(_name_regex(name))
    if len(runs) == 1:
        return re.compile("/".join(runs[0]) + r"\Z", re.DOTALL)
    parts = ["/".join(runs[0]) + "/" if runs[0] else ""]
    for run in runs[1:-1]:
        parts.append(f"(?>(?:[^/]+/)*?{'/'.join(run)}/)")
    if runs[-1]:
        # anchored at the end: so many names from it, whatever stands before
        parts.append(f"(?>(?:[^/]+/)*?(?={'[^/]+/' * (len(runs[-1]) - 1)}[^/]+\\Z)){'/'.join(runs[-1])}")
    else:
        parts.append(".+")
    return re.compile("".join(parts) + r"\Z", re.DOTALL)


def _split(pattern: str) -> list[str]:
    """Names between slashes. A slash in a class separates too; git reads such a class, and nobody writes one."""
    return [name for name in pattern.split("/") if name]


def _name_regex(name: str) -> str:
    """One name's glob. Parts after the first star are atomic, the last part is anchored at the name's end."""
    parts: list[str] = [""]
    i = 0
    while i < len(name):
        char = name[i]
        i += 1
        if char == "*":
            if len(parts) == 1 or parts[-1]:
                parts.append("")
        elif char == "?":
            parts[-1] += "[^/]"
        elif char == "[":
            text, i = _class(name, i)
            parts[-1] += text
        elif char == "\\":
            if i >= len(name):
                raise PatternError("The pattern ends in a lone backslash.")
            parts[-1] += re.escape(name[i])
            i += 1
        else:
            parts[-1] += re.escape(char)
    if len(parts) == 1:
        return parts[0]
    middle = "".join(f"(?>[^/]*?{part})" for part in parts[1:-1])
    return f"(?>{parts[0]}{middle}[^/]*{parts[-1]}(?=/|\\Z))"


def _class(name: str, i: int) -> tuple[str, int]:
    """A bracket expression from after its `[`; returns the regular expression and where it ends."""
    out, first = "", True
    negated = name[i : i + 1] in ("!", "^")
    i += negated
    while i < len(name):
        char = name[i]
        if char == "]" and not first:
            return f"(?!/)[{'^' if negated else ''}{out}]", i + 1
        first = False
        if name.startswith("[:", i) and (end := name.find(":]", i + 2)) > 0:
            if name[i + 2 : end] not in _POSIX:
                raise PatternError(f"Unknown class [:{name[i + 2 : end]}:].")
            out += _POSIX[name[i + 2 : end]]
            i = end + 2
            continue
        low, i = _literal(name, i)
        if name[i : i + 1] == "-" and name[i + 1 : i + 2] not in ("", "]"):
            high, i = _literal(name, i + 1)
            out += _quoted(low)  # in an empty range such as c-a its first character still matches, as in git
            if low < high:
                out += f"{_quoted(low)}-{_quoted(high)}"
        else:
            out += _quoted(low)
    raise PatternError("A [ is never closed; put a backslash before it if it is meant literally.")


def _literal(name: str, i: int) -> tuple[str, int]:
    if name[i] == "\\" and i + 1 < len(name):
        return name[i + 1], i + 2
    return name[i], i + 1


def _quoted(char: str) -> str:
    return "\\" + char if char in "\\]^-[&~|" else char


@dataclass
class Rules:
    """The rules of one ignore file, sorted by how they can be looked up. Later rules win.

    Paths given to `verdict` are relative to the file's own folder.
    """

    negated: list[bool] = field(default_factory=list)
    folder_only: list[bool] = field(default_factory=list)
    names: dict[str, list[int]] = field(default_factory=dict)
    paths: dict[str, list[int]] = field(default_factory=dict)
    endings: list[tuple[str, int]] = field(default_factory=list)
    name_globs: list[tuple[re.Pattern[str], int]] = field(default_factory=list)
    path_globs: list[tuple[re.Pattern[str], int]] = field(default_factory=list)
    path_names: dict[str, set[str]] = field(default_factory=dict)  # folder to names that `paths` speaks of
    _any_ending: tuple[str, ...] = ()
    _globs: tuple[re.Pattern[str] | None, re.Pattern[str] | None] | None = None

    @classmethod
    def parse(cls, text: str) -> Rules:
        """Read an ignore file; what git would not understand is left out."""
        rules = cls()
        for line in text.removeprefix("\ufeff").split("\n"):
            if len(rules.negated) >= RULES_CAP:
                break
            rules._add(line.removesuffix("\r"))
        rules._any_ending = tuple(ending for ending, _ in rules.endings)
        return rules

    def _add(self, line: str) -> None:
        if line.startswith("#"):
            return
        pattern = _without_trailing_spaces(line)
        negated = pattern.startswith("!")
        pattern = pattern[negated:]
        folder_only = pattern.endswith("/") and not pattern.endswith("\\/")
        pattern = pattern.removesuffix("/") if folder_only else pattern
        anchored = "/" in pattern
        pattern = pattern.removeprefix("/")
        if not pattern or "" in pattern.split("/"):
            return  # an empty name matches nothing, in git as here
        number = len(self.negated)
        try:
            if not any(c in pattern for c in "*?[\\"):
                (self.paths if anchored else self.names).setdefault(pattern, []).append(number)
                if anchored:
                    above, _, name = pattern.rpartition("/")
                    self.path_names.setdefault(above, set()).add(name)
            elif anchored:
                self.path_globs.append((glob_regex(pattern), number))
            elif pattern.startswith("*") and len(pattern) > 1 and not any(c in pattern[1:] for c in "*?[\\"):
                self.endings.append((pattern[1:], number))
            else:
                self.name_globs.append((re.compile(_name_regex(pattern) + r"\Z", re.DOTALL), number))
        except PatternError:
            return
        self.negated.append(negated)
        self.folder_only.append(folder_only)

    def verdict(self, path: str, name: str, *, folder: bool) -> bool | None:
        """True: ignored; False: a `!` rule took it back; None: no rule says anything.

        Args:
            path: relative to the ignore file's folder.
            name: the path's last name.
            folder: the path is a folder.
        """
        found = [*self.names.get(name, ()), *self.paths.get(path, ())]
        if self._any_ending and name.endswith(self._any_ending):
            found += [n for ending, n in self.endings if name.endswith(ending)]
        found += [n for glob, n in self.name_globs if glob.match(name)]
        found += [n for glob, n in self.path_globs if glob.match(path)]
        if not folder:
            found = [n for n in found if not self.folder_only[n]]
        return not self.negated[max(found)] if found else None

    def suspects(self, folder: str, names: Iterable[str]) -> set[str]:
        """Those names that some rule may speak of; for the rest there is no need to ask `verdict`.

        Args:
            folder: relative to the ignore file's folder, `""` for itself.
            names: names in that folder.
        """
        every = set(names)
        found = every & self.names.keys()
        found |= every & self.path_names.get(folder, set())
        if self._any_ending:
            found.update(name for name in every if name.endswith(self._any_ending))
        if len(self.name_globs) + len(self.path_globs) > _JOINED:
            return every
        if self._globs is None:
            self._globs = (_joined(self.name_globs), _joined(self.path_globs))
        by_name, by_path = self._globs
        if by_name is not None:
            found.update(name for name in every if by_name.match(name))
        if by_path is not None:
            prefix = folder + "/" if folder else ""
            found.update(name for name in every if by_path.match(prefix + name))
        return found


def _joined(globs: list[tuple[re.Pattern[str], int]]) -> re.Pattern[str] | None:
    return re.compile("|".join(f"(?:{glob.pattern})" for glob, _ in globs), re.DOTALL) if globs else None


def _without_trailing_spaces(line: str) -> str:
    stripped = line.rstrip(" ")
    if len(stripped) < len(line) and (len(stripped) - len(stripped.rstrip("\\"))) % 2:
        return stripped + " "
    return stripped


@dataclass(frozen=True)
class Ignores:
    """The ignore files that hold for one folder: its own and those of the folders above."""

    levels: Sequence[tuple[str, Rules]] = ()

    def below(self, folder: str, text: str) -> Ignores:
        """With the ignore file of `folder`, a repository-relative path, added."""
        return Ignores([*self.levels, (folder + "/" if folder else "", Rules.parse(text))])

    def ignored(self, path: str, *, folder: bool) -> bool:
        """The nearest file that says something decides. Whoever walks must not enter an ignored folder."""
        name = path.rpartition("/")[2]
        for prefix, rules in reversed(self.levels):
            verdict = rules.verdict(path[len(prefix) :], name, folder=folder)
            if verdict is not None:
                return verdict
        return False

    def kept(self, folder: str, names: Iterable[str], *, folders: bool) -> list[str]:
        """Those names in a folder that are not ignored."""
        if not self.levels:
            return list(names)
        names = list(names)
        suspects: set[str] = set()
        for prefix, rules in self.levels:
            suspects |= rules.suspects(folder[len(prefix) :], names)
        if not suspects:
            return names
        above = folder + "/" if folder else ""
        return [n for n in names if n not in suspects or not self.ignored(above + n, folder=folders)]
