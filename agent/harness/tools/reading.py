"""`read_file` and `list_dir`."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Mapping
from typing import Any

from agent.contract.errors import Refusal, ToolInputError
from agent.contract.modes import Tier
from agent.contract.paths import has_git_name
from agent.contract.tool import AgentTool, ToolOutput
from agent.harness.tools import paging
from agent.harness.tools.context import NotedOutput, ToolContext
from agent.harness.tools.text_form import binary_kind, encoding_of, shown_text

PATH_ARG = {"type": "string", "description": "relative to the workspace"}
READ_LINES = 500
LIST_ENTRIES = 200
_CHUNK = 1 << 18
_KEPT = paging.LINE_CHARS * 4 + 4  # bytes of one line that can be shown
_COUNTED = 64 << 20  # of a longer file the lines after the page are not counted


def checked(ctx: ToolContext, path: str) -> str:
    """Repository-relative form of a path that may be read.

    Raises:
        Refusal: it leads out, or into a git folder.
        ToolInputError: it is no path.
    """
    rel = ctx.files.relative(path)
    if has_git_name(rel):
        raise Refusal("path_git", "Git's own folder is closed to file tools. git_log and git_diff tell the history.")
    return rel


def remember(ctx: ToolContext, rel: str, status: os.stat_result) -> None:
    """Note the state in which the model has seen, or made, a file."""
    ctx.memo.setdefault("seen", {})[rel] = (status.st_ino, status.st_size, status.st_mtime_ns)


def remember_written(ctx: ToolContext, rel: str) -> None:
    """Note the state of a file just written; one that is gone or swapped already is forgotten."""
    try:
        remember(ctx, rel, ctx.files.stat(rel))
    except (ToolInputError, Refusal):
        ctx.memo.get("seen", {}).pop(rel, None)


def changed_since_seen(ctx: ToolContext, rel: str) -> bool:
    """The model has seen this file, and something else has changed it since: a command, a formatter, a checkout."""
    seen = ctx.memo.get("seen", {}).get(rel)
    if seen is None:
        return False
    try:
        now = ctx.files.stat(rel)
    except (ToolInputError, Refusal):
        return False  # gone: there is nothing to lose
    return bool(seen != (now.st_ino, now.st_size, now.st_mtime_ns))


def _lines(fd: int, head: bytes) -> Iterator[tuple[bytes, int]]:
    """Lines without their end, each cut at `_KEPT` bytes, with its full length. Memory stays bounded."""
    kept, length = b"", 0
    chunk = head
    while chunk:
        start = 0
        while (end := chunk.find(b"\n", start)) >= 0:
            length += end - start
            yield kept + chunk[start : min(end, start + _KEPT - len(kept))], length
            kept, length, start = b"", 0, end + 1
        length += len(chunk) - start
        kept += chunk[start : start + _KEPT - len(kept)]
        chunk = os.read(fd, _CHUNK)
    if length:
        yield kept, length


def _read_file(args: Mapping[str, Any], ctx: ToolContext) -> ToolOutput:
    path = args["path"]
    rel = checked(ctx, path)
    offset, limit = paging.asked(args, READ_LINES)
    try:
        fd = ctx.files.open_file(path)
    except ToolInputError as exc:
        return _not_a_file(exc, path, rel, ctx)
    try:
        status = os.fstat(fd)
        remember(ctx, rel, status)
        size = status.st_size
        head = os.read(fd, _CHUNK)
        if not head:
            return NotedOutput("(empty file)", untrusted=False, note="0 lines, 0 bytes")
        encoding = encoding_of(head)
        if encoding.startswith("utf-16"):
            return _wide(fd, head, encoding, offset, limit)
        kind = binary_kind(head)
        if kind is not None:
            raise ToolInputError(f"{path!r} is {kind}, {size} bytes. Only text can be shown.")
        return _page(fd, head, size, offset, limit)
    finally:
        os.close(fd)


def _page(fd: int, head: bytes, size: int, offset: int, limit: int) -> ToolOutput:
    shown: list[str] = []
    total: int | None = 0
    room = paging.PAGE_CHARS
    last = offset + limit
    returns = odd = 0
    if head.startswith(b"\xef\xbb\xbf"):
        head = head[3:]
    for number, (raw, length) in enumerate(_lines(fd, head), 1):
        total = number
        if number < offset:
            continue
        if number < last:
            returns += raw.endswith(b"\r")
            text, bad = shown_text(raw.removesuffix(b"\r"))
            odd += bad
            line = f"{number}\t{text[: paging.LINE_CHARS]}"
            if len(text) > paging.LINE_CHARS or length > _KEPT:
                line += f" [line cut: {length} bytes]"
            if len(line) + 1 <= room or not shown:
                shown.append(line)
                room -= len(line) + 1
                continue
            last = number
        if size > _COUNTED:
            total = None
            break
    if total is not None and offset > total:
        raise ToolInputError(f"offset={offset} is past the end: the file has {total} lines.")
    notes = [paging.note(offset, len(shown), total, "lines")]
    if returns:
        notes.append("CRLF line ends" if returns == len(shown) else "mixed line ends")
    if odd:
        notes.append(r"bytes that are no UTF-8 are shown as \xNN and kept by edit_file")
    return NotedOutput("\n".join(shown), note="; ".join(notes))


def _wide(fd: int, head: bytes, encoding: str, offset: int, limit: int) -> ToolOutput:
    data = head
    while len(data) < 4 << 20 and (more := os.read(fd, _CHUNK)):
        data += more
    lines = data.decode(encoding, "replace").removeprefix("\ufeff").replace("\r\n", "\n").removesuffix("\n").split("\n")
    numbered = [f"{n}\t{line}" for n, line in enumerate(lines, 1)]
    shown, note = paging.page(numbered, offset, limit, "lines")
    return NotedOutput("\n".join(shown), note=f"{note}; {encoding.upper()}")


def _not_a_file(exc: ToolInputError, path: str, rel: str, ctx: ToolContext) -> ToolOutput:
    """A folder: its entries. A missing file: names that are near. Names are third parties' words."""
    try:
        listing = _list_dir({"path": path}, ctx)
    except ToolInputError:
        near = _near(rel, ctx)
        if not near:
            raise exc from None
        return NotedOutput("\n".join(near), is_error=True, note=f"{exc} The names above are near.")
    return NotedOutput(
        listing.text, is_error=True, note="This is a folder; its entries stand above. Name a file in it."
    )


def _near(rel: str, ctx: ToolContext) -> list[str]:
    folder, _, name = rel.rpartition("/")
    found: list[str] = []
    try:
        names = [e.name for e in ctx.files.entries(folder or ".") if e.kind != "other"]
        close = difflib.get_close_matches(name.casefold(), [n.casefold() for n in names[:2000]], 5, 0.6)
        found = [f"{folder}/{n}".lstrip("/") for n in names if n.casefold() in close]
    except (ToolInputError, Refusal):
        pass  # the folder is not there either
    for count, level in enumerate(ctx.files.walk()):
        if count > 2000 or len(found) >= 5:
            break
        if ".git" in level.folders:
            level.folders.remove(".git")
        if name in level.files:
            found.append(f"{level.path}/{name}".lstrip("/"))
    return list(dict.fromkeys(found))


def _list_dir(args: Mapping[str, Any], ctx: ToolContext) -> ToolOutput:
    path = args.get("path", ".")
    checked(ctx, path)
    offset, limit = paging.asked(args, LIST_ENTRIES)
    marks = {"folder": "/", "file": "", "link": "@", "other": " (pipe, socket or device)"}
    entries = [e.name + marks[e.kind] for e in ctx.files.entries(path) if not has_git_name(e.name)]
    if not entries:
        return NotedOutput("(empty folder)", untrusted=False, note="0 entries")
    shown, note = paging.page(entries, offset, limit, "entries")
    return NotedOutput("\n".join(shown), note=f"{note}; / folder, @ link")


READ_FILE = AgentTool(
    name="read_file",
    tier=Tier.READ,
    description="Read a text file with line numbers.",
    schema={
        "type": "object",
        "properties": {"path": PATH_ARG, "offset": paging.OFFSET_ARG, "limit": paging.LIMIT_ARG},
        "required": ["path"],
    },
    run=_read_file,
    parallel=True,
)

LIST_DIR = AgentTool(
    name="list_dir",
    tier=Tier.READ,
    description="List one folder, hidden and ignored names included.",
    schema={
        "type": "object",
        "properties": {"path": PATH_ARG, "offset": paging.OFFSET_ARG, "limit": paging.LIMIT_ARG},
    },
    run=_list_dir,
    parallel=True,
)

TOOLS: tuple[AgentTool, ...] = (READ_FILE, LIST_DIR)
