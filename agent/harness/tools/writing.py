"""`write_file`, `edit_file` and `delete_file`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent.contract.errors import Refusal, ToolInputError
from agent.contract.modes import Tier
from agent.contract.paths import DEFAULT_PROTECTED, protected_by
from agent.contract.tool import AgentTool, ToolOutput
from agent.harness.tools.context import NotedOutput, ToolContext, own_words
from agent.harness.tools.edits import NoEdit, edited
from agent.harness.tools.reading import changed_since_seen, remember_written
from agent.harness.tools.text_form import binary_kind, decode, dominant_end, encode
from agent.kernel.descent import Guard

EDIT_CAP = 16 << 20  # bytes of a file that can be edited


def guard(ctx: ToolContext) -> Guard:
    """Refuses protected paths. The gate that counts is the broker's, at commit and push; this one saves a detour."""
    protected = tuple(ctx.facts.options.get("protected_paths", DEFAULT_PROTECTED))
    allowed = tuple(ctx.facts.options.get("allow_protected_paths", ()))

    def check(path: str) -> None:
        entry = protected_by(path, protected, allowed)
        if entry is not None:
            raise Refusal(
                "protected_path",
                f"{path!r} is protected ({entry}): workflows, the agent's configuration and the scripts that judge its "
                "work are for people to change. Do without, and say in the result what should be changed there.",
            )

    return check


def _write_file(args: Mapping[str, Any], ctx: ToolContext) -> ToolOutput:
    path, content = args["path"], args["content"]
    try:
        data = content.encode()
    except UnicodeEncodeError as exc:
        raise ToolInputError("The content holds a lone surrogate, which no text file can.") from exc
    check = guard(ctx)
    rel = ctx.files.relative(path)
    check(rel)
    if changed_since_seen(ctx, rel):
        raise ToolInputError(f"{path!r} was changed by something else since you read it. Read it again, then write.")
    before = _text_before(path, ctx)
    if before is not None and before == content:
        return own_words(f"{path} holds exactly this already; nothing was written.")
    made = ctx.files.write(path, data, guard=check)
    remember_written(ctx, rel)
    said = f"{'Created' if made else 'Replaced'} {path}: {len(data)} bytes, {content.count(chr(10))} lines."
    if before is not None and dominant_end(before) == "\r\n" and "\r\n" not in content:
        said += " It had CRLF line ends and has LF now; use edit_file to keep a file's line ends."
    return own_words(said)


def _text_before(path: str, ctx: ToolContext) -> str | None:
    try:
        return ctx.files.read(path, EDIT_CAP).decode()
    except (ToolInputError, Refusal, UnicodeDecodeError):
        return None  # nothing there, or nothing to compare with; the write itself gives the reason


def _edit_file(args: Mapping[str, Any], ctx: ToolContext) -> ToolOutput:
    path, old, new = args["path"], args["old"], args["new"]
    check = guard(ctx)
    check(ctx.files.relative(path))  # before anything is read: the refusal is the answer
    status = ctx.files.stat(path)
    data = ctx.files.read(path, EDIT_CAP)
    try:
        text, encoding = decode(data)
    except ValueError as exc:
        raise ToolInputError(f"{path!r} is no text that can be edited safely. Use write_file.") from exc
    kind = None if encoding.startswith("utf-16") else binary_kind(data)
    if kind is not None:
        raise ToolInputError(f"{path!r} is {kind}; only text can be edited.")
    try:
        result = edited(text, old, new, replace_all=bool(args.get("replace_all", False)))
    except NoEdit as exc:
        return NotedOutput(exc.lines, is_error=True, note=str(exc)) if exc.lines else own_words(str(exc), is_error=True)
    try:
        out = encode(result.text, encoding)
    except UnicodeEncodeError as exc:
        raise ToolInputError(f"`new` holds characters that {encoding} cannot hold.") from exc
    ctx.files.write(path, out, guard=check, expect=status)
    remember_written(ctx, ctx.files.relative(path))
    where = ", ".join(map(str, result.lines[:10])) + (", …" if len(result.lines) > 10 else "")
    return own_words(f"Edited {path} at line{'s' if len(result.lines) > 1 else ''} {where}.")


def _delete_file(args: Mapping[str, Any], ctx: ToolContext) -> ToolOutput:
    kind = ctx.files.delete(args["path"], guard=guard(ctx))
    return own_words(f"Deleted the {kind} {args['path']}.")


WRITE_FILE = AgentTool(
    name="write_file",
    tier=Tier.WRITE,
    description="Create or replace a whole file; folders are made. To change part of a file use edit_file.",
    schema={
        "type": "object",
        "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
        "required": ["path", "content"],
    },
    run=_write_file,
)

EDIT_FILE = AgentTool(
    name="edit_file",
    tier=Tier.WRITE,
    description="Replace `old`, which must occur exactly once, by `new`. Line ends, encoding and mode are kept. "
    "Give `old` as in the file, without line numbers.",
    schema={
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "old": {"type": "string"},
            "new": {"type": "string"},
            "replace_all": {"type": "boolean"},
        },
        "required": ["path", "old", "new"],
    },
    run=_edit_file,
)

DELETE_FILE = AgentTool(
    name="delete_file",
    tier=Tier.WRITE,
    description="Delete one file or link.",
    schema={"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
    run=_delete_file,
)

TOOLS: tuple[AgentTool, ...] = (WRITE_FILE, EDIT_FILE, DELETE_FILE)
