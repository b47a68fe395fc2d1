"""What stands near a path that is not there. Names are third parties' words, so they are framed."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from agent.contract.errors import Refusal, ToolInputError
from agent.contract.paths import has_git_name
from agent.contract.tool import ToolOutput
from agent.harness.tools.context import NotedOutput, ToolContext

if TYPE_CHECKING:
    from collections.abc import Iterator

_SHOWN = 5
_NAMES = 2000  # names of one folder that are compared
_FOLDERS = 2000  # folders that are looked through for the same name


def explain_path(exc: ToolInputError, path: str, ctx: ToolContext) -> ToolOutput:
    """The answer of a tool whose path leads nowhere: what is near, and the next step.

    Args:
        exc: the failure.
        path: as the call gave it.

    Raises:
        ToolInputError: the failure itself, where the path is there and something else is wrong with it.
    """
    if is_there(path, ctx) or not isinstance(exc.__cause__, FileNotFoundError | NotADirectoryError):
        raise exc
    found = list(dict.fromkeys(_near(ctx.files.relative(path), ctx)))[:_SHOWN]
    if not found:
        raise ToolInputError(f"{path!r} does not exist, nor anything like it. list_dir shows what is there.") from exc
    text = "\n".join(found)
    return NotedOutput(text, is_error=True, note=f"{path!r} does not exist. These are near; call it again with one.")


def is_there(path: str, ctx: ToolContext) -> bool:
    """Whether the path leads to anything that tools may see."""
    try:
        ctx.files.stat(path)
    except (ToolInputError, Refusal):
        return False
    return True


def _near(rel: str, ctx: ToolContext) -> Iterator[str]:
    parts = rel.split("/")
    folder = ""
    for index, name in enumerate(parts):
        try:
            names = [e.name for e in ctx.files.entries(folder or ".") if e.kind != "other"][:_NAMES]
        except (ToolInputError, Refusal):
            break
        if name in names:
            folder = f"{folder}/{name}".lstrip("/")
            continue
        close = difflib.get_close_matches(name.casefold(), [n.casefold() for n in names], _SHOWN, 0.6)
        for other in sorted((n for n in names if n.casefold() in close), key=lambda n: close.index(n.casefold())):
            whole = "/".join([*filter(None, [folder]), other, *parts[index + 1 :]])
            if not has_git_name(whole):
                yield whole if is_there(whole, ctx) else f"{folder}/{other}".lstrip("/")
        break
    for count, level in enumerate(ctx.files.walk()):
        if count > _FOLDERS:
            return
        level.folders[:] = [n for n in level.folders if not has_git_name(n)]
        if parts[-1] in level.files or parts[-1] in level.folders:
            yield f"{level.path}/{parts[-1]}".lstrip("/")
