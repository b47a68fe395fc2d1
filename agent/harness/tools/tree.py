"""The tree as a search sees it: without what git ignores and without git's own folders; and patterns for paths."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from agent.contract.errors import ToolInputError
from agent.contract.gitignore import Ignores, PatternError, glob_regex
from agent.contract.paths import is_git_name
from agent.harness.tools.context import ToolContext
from agent.harness.tools.reading import checked
from agent.kernel.beneath import read_up_to
from agent.kernel.folder import Folder

OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
"""Flags for a name met in a walk: no link is followed, and a pipe or terminal put in its place does not block."""


def kept_folders(ctx: ToolContext, path: str) -> Iterator[Folder]:
    """Folders from `path` down with what git ignores, and git's own folders, taken out of their lists."""
    start = checked(ctx, path)
    chains: dict[str, Ignores] = {}
    above = Ignores()
    so_far = ""
    for name in start.split("/") if start else []:
        above = _with_own(ctx, above, so_far)
        so_far = f"{so_far}/{name}" if so_far else name
        if above.ignored(so_far, folder=True):
            above = Ignores()  # an ignored folder that was asked for by name is searched
            break
    for folder in ctx.files.walk(path):
        chain = chains.pop(folder.path, above)
        if ".gitignore" in folder.files:
            chain = chain.below(folder.path, _ignore_file(folder.fd))
        folder.folders[:] = chain.kept(
            folder.path, [n for n in folder.folders if n != ".git" and not is_git_name(n)], folders=True
        )
        folder.files[:] = chain.kept(folder.path, folder.files, folders=False)
        prefix = folder.path + "/" if folder.path else ""
        for name in folder.folders:
            chains[prefix + name] = chain
        yield folder


def _with_own(ctx: ToolContext, chain: Ignores, folder: str) -> Ignores:
    try:
        text = ctx.files.read(f"{folder or '.'}/.gitignore", 1 << 20).decode("utf-8", "replace")
    except ToolInputError:
        return chain
    return chain.below(folder, text)


def _ignore_file(folder_fd: int) -> str:
    try:
        fd = os.open(".gitignore", OPEN_FILE, dir_fd=folder_fd)
    except OSError:
        return ""
    try:
        return read_up_to(fd, 1 << 20).decode("utf-8", "replace")
    finally:
        os.close(fd)


def path_glob(text: str) -> re.Pattern[str]:
    """A glob for whole paths below the searched folder; without a slash it is meant for names at any depth."""
    if text.startswith("/") or ".." in text.split("/"):
        raise ToolInputError(f"The pattern {text!r} leaves the workspace. Patterns are relative, such as src/**/*.py.")
    text = text.removeprefix("./")
    choices = _braces(text)
    try:
        globs = [glob_regex(c if "/" in c else f"**/{c}") for c in choices]
    except PatternError as exc:
        raise ToolInputError(f"The pattern {text!r} is not valid: {exc}") from exc
    return globs[0] if len(globs) == 1 else re.compile("|".join(f"(?:{g.pattern})" for g in globs), re.DOTALL)


def _braces(text: str) -> list[str]:
    """`*.{ts,tsx}` as two patterns; at most 64, nested ones inside out."""
    done: list[str] = []
    pending = [text]
    while pending:
        one = pending.pop(0)
        match = re.search(r"\{([^{}]*,[^{}]*)\}", one)
        if match is None:
            done.append(one)
        else:
            pending += [one[: match.start()] + choice + one[match.end() :] for choice in match[1].split(",")]
        if len(done) + len(pending) > 64:
            raise ToolInputError("The pattern has too many { } choices; 64 is the limit.")
    return done
