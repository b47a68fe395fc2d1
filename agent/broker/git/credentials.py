"""Find the git credentials that steps before us persisted, so that they become known secrets (S3).

Every layout of `actions/checkout` v1 to v7 is covered: an extra header in `.git/config` (up to v5), the same
in `$RUNNER_TEMP/git-credentials-*.config` pulled in by `includeIf` (from v6), submodules' and worktrees'
configuration, `insteadOf`, `sshCommand` with a key file, and URLs with a password. Nothing is removed here:
the real git folder is moved out of reach (`prepare`), and `$RUNNER_TEMP` is out of the sandbox's sight.
"""

from __future__ import annotations

import base64
import binascii
import re
import shlex
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from urllib.parse import unquote, urlsplit

from agent.broker.git.gitdir import ConfigReader

_SHORTEST = 8  # a shorter value would be masked all over ordinary text
_FILE_CAP = 64 << 10
_HOST_TEMP = "/github/runner_temp"  # where a container action sees RUNNER_TEMP


def find_credentials(
    reader: ConfigReader, configs: Iterable[Path], temps: Sequence[Path] = (), homes: Sequence[Path] = ()
) -> tuple[str, ...]:
    """Secret values in persisted git configuration.

    Args:
        reader: parses configuration files.
        configs: configuration files of the repository, its worktrees and its submodules.
        temps: folders that may hold `git-credentials-*.config` (RUNNER_TEMP in every form it is mounted).
        homes: home folders with `.netrc`, `.git-credentials`, `.gitconfig`.

    Returns:
        Values, longest first, never logged.
    """
    values: set[str] = set()
    seen: set[Path] = set()
    todo = [*configs]
    for temp in temps:
        todo += sorted(temp.glob("git-credentials-*.config")) if temp.is_dir() else []
    for home in homes:
        todo += [home / ".gitconfig", home / ".config/git/config"]
        values |= _home_values(home)
    while todo:
        file = todo.pop()
        if file in seen:
            continue
        seen.add(file)
        for key, value in reader.read(file):
            values |= secret_values(key, value)
            if _parts(key) in (("include", "path"), ("includeif", "path")):
                todo += _included(file, value, temps, homes)
            elif key == "core.sshcommand":
                values |= _key_files(value, temps)
            elif key == "credential.helper" and (found := re.search(r"--file[ =](\S+)", value)):
                values |= _url_lines(Path(found.group(1).strip("'\"")))
    return tuple(sorted((v for v in values if len(v) >= _SHORTEST), key=lambda v: (-len(v), v)))


def secret_values(key: str, value: str) -> set[str]:
    """Secrets in one configuration entry. Pure."""
    section, name = _parts(key)
    if (section, name) == ("http", "extraheader"):
        return _header_values(value)
    if section == "url" and name in ("insteadof", "pushinsteadof"):
        return _url_values(value) | _url_values(key.split(".", 1)[1].rsplit(".", 1)[0])
    if (section == "remote" and name in ("url", "pushurl")) or (section, name) == ("http", "proxy"):
        return _url_values(value)
    if section in ("credential", "http") and name in ("password", "token"):
        return {value}
    return set()


def _parts(key: str) -> tuple[str, str]:
    """Section and name of a key; between them may be a subsection, which holds anything."""
    return key.partition(".")[0], key.rpartition(".")[2]


def _header_values(header: str) -> set[str]:
    name, _, rest = header.partition(":")
    words = rest.split()
    if not words or name.strip().lower() in ("accept", "user-agent"):
        return set()
    values = {words[-1]}
    if words[0].lower() == "basic":
        try:
            pair = base64.b64decode(words[-1], validate=True).decode("utf-8", "replace")
        except (binascii.Error, ValueError):
            return values
        values |= {pair, pair.partition(":")[2]}
    return values


def _url_values(url: str) -> set[str]:
    try:
        parts = urlsplit(url)
        password, user = parts.password, parts.username
    except ValueError:
        return set()
    if password:
        return {password, unquote(password)}
    # `https://TOKEN@host` is how some tools write it; `git@host` and short names are users
    return {user, unquote(user)} if user and len(user) >= 20 else set()


def _included(file: Path, value: str, temps: Sequence[Path], homes: Sequence[Path]) -> list[Path]:
    if value.startswith("~/"):
        return [home / value[2:] for home in homes]
    path = file.parent / value
    found = [path]
    if path.name.startswith("git-credentials-") or value.startswith(_HOST_TEMP + "/"):
        found += [temp / path.name for temp in temps]
    return found


def _key_files(command: str, temps: Sequence[Path]) -> set[str]:
    try:
        words = shlex.split(command)
    except ValueError:
        return set()
    values = set()
    for option, name in pairwise(words):
        if option == "-i":
            for path in (Path(name), *(temp / Path(name).name for temp in temps)):
                values |= {text} if (text := _text(path).strip()) else set()
    return values


def _home_values(home: Path) -> set[str]:
    values = _url_lines(home / ".git-credentials") | _url_lines(home / ".config/git/credentials")
    for file, form in ((".netrc", r"\bpassword\s+(\S+)"), (".config/gh/hosts.yml", r"oauth_token:\s*(\S+)")):
        if text := _text(home / file):
            values |= set(re.findall(form, text))
    return values


def _url_lines(file: Path) -> set[str]:
    values: set[str] = set()
    for line in _text(file).splitlines():
        values |= _url_values(line.strip())
    return values


def _text(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            return stream.read(_FILE_CAP).decode("utf-8", "replace")
    except OSError:
        return ""
