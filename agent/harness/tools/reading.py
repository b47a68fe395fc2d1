"""`read_file` and `list_dir`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

from agent.contract.errors import Refusal, ToolInputError
from agent.contract.modes import Tier
from agent.contract.paths import has_git_name
from agent.contract.regex import regex
from agent.contract.tool import AgentTool, ToolOutput
from agent.harness.tools import paging
from agent.harness.tools.context import NotedOutput, ToolContext
from agent.harness.tools.near import explain_path, is_there
from agent.harness.tools.text_form import binary_kind, encoding_of, shown_text

PATH_ARG = {"type": "string", "description": "relative to the workspace"}
READ_LINES = 500
LIST_ENTRIES = 200
_CHUNK = 1 << 18
_KEPT = paging.LINE_CHARS * 4 + 4  # bytes of one line that can be shown
_PRIVATE_PLACE = regex(r"\.airlock-[0-9a-f]{16}")  # its name, as the broker makes it
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
        return _not_a_file(exc, path, ctx)
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
            step = "run_command can look into it" if "run_command" in ctx.facts.tools else "go on without its content"
            raise ToolInputError(f"{path!r} is {kind}, {size} bytes: only text can be shown; {step}.")
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
        raise paging.past_the_end(offset, total, "lines")
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


def _not_a_file(exc: ToolInputError, path: str, ctx: ToolContext) -> ToolOutput:
    """A folder: its entries. A missing file: what is near."""
    try:
        listing = _list_dir({"path": path}, ctx)
    except ToolInputError:
        return explain_path(exc, path, ctx)
    if listing.is_error:
        return listing
    return NotedOutput(
        listing.text, is_error=True, note="This is a folder; its entries stand above. Name a file in it."
    )


def _is_private_place(name: str, path: str, ctx: ToolContext) -> bool:
    """Where Airlock keeps the real git folder, had it to be in the workspace; it is root's and closed.

    A folder of the repository's own that bears such a name is open, and shown.
    """
    if not _PRIVATE_PLACE.fullmatch(name):
        return False
    try:
        ctx.files.entries(f"{path}/{name}")
    except ToolInputError as exc:
        return isinstance(exc.__cause__, PermissionError)
    return False


def _list_dir(args: Mapping[str, Any], ctx: ToolContext) -> ToolOutput:
    path = args.get("path", ".")
    checked(ctx, path)
    offset, limit = paging.asked(args, LIST_ENTRIES)
    marks = {"folder": "/", "file": "", "link": "@", "other": " (pipe, socket or device)"}
    try:
        found = ctx.files.entries(path)
    except ToolInputError as exc:
        if isinstance(exc.__cause__, NotADirectoryError) and is_there(path, ctx):
            raise ToolInputError(f"{path!r} is a file: read_file shows it.") from exc
        return explain_path(exc, path, ctx)
    entries = [
        e.name + marks[e.kind] for e in found if not has_git_name(e.name) and not _is_private_place(e.name, path, ctx)
    ]
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
        "properties": {"path": PATH_ARG, **paging.ARGS},
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
        "properties": {"path": PATH_ARG, **paging.ARGS},
    },
    run=_list_dir,
    parallel=True,
)

TOOLS: tuple[AgentTool, ...] = (READ_FILE, LIST_DIR)
