"""`glob` and `grep`: over the whole tree, in order, bounded, without what git ignores, in linear time."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from typing import Any

from agent.contract.errors import ToolInputError
from agent.contract.modes import Tier
from agent.contract.tool import AgentTool, ToolOutput
from agent.harness.tools import paging
from agent.harness.tools.context import NotedOutput, ToolContext
from agent.harness.tools.matches import Matches, required_prefix
from agent.harness.tools.near import explain_path
from agent.harness.tools.reading import PATH_ARG, checked
from agent.harness.tools.tree import OPEN_FILE, kept_folders, path_glob
from agent.kernel.beneath import read_up_to

GLOB_ENTRIES = 200
GREP_LINES = 100
FILES_CAP = 300_000  # files looked at in one call
FILE_CAP = 8 << 20  # bytes of one file that are searched


def _glob(args: Mapping[str, Any], ctx: ToolContext) -> ToolOutput:
    glob = path_glob(args["pattern"])
    path = args.get("path", ".")
    offset, limit = paging.asked(args, GLOB_ENTRIES)
    start = checked(ctx, path)
    skip = len(start) + 1 if start else 0
    found: list[str] = []
    seen = count = 0
    try:
        is_folder = stat.S_ISDIR(ctx.files.stat(path).st_mode)
    except ToolInputError as exc:
        return explain_path(exc, path, ctx)
    if not is_folder:
        raise ToolInputError(f"{path!r} is a file. Give a folder, or leave `path` out for the whole workspace.")
    for folder in kept_folders(ctx, path):
        prefix = folder.path + "/" if folder.path else ""
        names = sorted([*folder.files, *folder.links]) if folder.links else folder.files
        hits = [p for p in (prefix + n for n in names) if glob.match(p[skip:])]
        # only what this page may show is kept: a tree of a million names costs no memory
        first, count = max(0, offset - 1 - count), count + len(hits)
        found += hits[first : first + limit - len(found)]
        seen += len(names)
        if seen > FILES_CAP:
            break
    if not count:
        return NotedOutput(
            "(no files)", untrusted=False, note=f"{seen} files looked at; ignored ones and links out are left out."
        )
    shown, note = paging.window(found, offset, count, "files")
    return NotedOutput("\n".join(shown), note=note + ("; stopped at the cap on files" if seen > FILES_CAP else ""))


def _compiled(args: Mapping[str, Any]) -> Any:
    """The RE2 pattern over bytes: linear time whatever the pattern (the attack: a pattern that never ends)."""
    import re2  # here and not at the top: 30 ms that a run's first request must not wait for

    options = re2.Options()
    options.never_nl = True
    options.log_errors = False
    options.case_sensitive = not args.get("ignore_case", False)
    options.max_mem = 8 << 20
    pattern = args["pattern"]
    if not pattern:
        raise ToolInputError("The pattern is empty.")
    try:
        return re2.compile(f"(?m:{pattern})".encode(), options)
    except (re2.error, UnicodeEncodeError) as exc:
        said = exc.args[0].decode("utf-8", "replace") if exc.args and isinstance(exc.args[0], bytes) else str(exc)
        raise ToolInputError(
            f"The pattern is no valid RE2 expression: {said}. RE2 has no look-around and no back references; put a "
            "backslash before what is meant literally."
        ) from exc


def _grep(args: Mapping[str, Any], ctx: ToolContext) -> ToolOutput:
    regex = _compiled(args)
    path = args.get("path", ".")
    rel = checked(ctx, path)
    only = path_glob(args["glob"]) if args.get("glob") else None
    offset, limit = paging.asked(args, GREP_LINES)
    literal = b"" if args.get("ignore_case") else required_prefix(args["pattern"])
    matches = Matches(regex, literal, offset, limit, int(args.get("context", 0)))
    seen = 1
    try:
        is_folder = stat.S_ISDIR(ctx.files.stat(path).st_mode)
    except ToolInputError as exc:
        return explain_path(exc, path, ctx)
    if is_folder:
        seen = _grep_folder(ctx, path, only, matches)
    else:
        fd = ctx.files.open_file(path)
        try:
            _grep_open(fd, rel, matches)
        finally:
            os.close(fd)
    if offset > 1 and not matches.shown and matches.count:
        raise paging.past_the_end(offset, matches.count, "matching lines")
    notes = [paging.note(offset, len(matches.shown), None if matches.more else matches.count, "matching lines")]
    if not matches.shown:
        notes = [f"no match in {seen} files; ignored ones are left out"]
    if matches.binary:
        notes.append(f"{matches.binary} binary files match and are not shown")
    if matches.cut:
        notes.append(f"{matches.cut} files were searched in their first {FILE_CAP >> 20} MB alone")
    if seen > FILES_CAP or matches.left < 0:
        notes.append("stopped at the cap on files; give a path or a glob")
    text = "\n".join(matches.shown)
    return NotedOutput(text or "(no match)", untrusted=bool(text), note="; ".join(notes))


def _grep_folder(ctx: ToolContext, path: str, only: re.Pattern[str] | None, matches: Matches) -> int:
    seen = 0
    start = checked(ctx, path)
    skip = len(start) + 1 if start else 0
    for folder in kept_folders(ctx, path):
        prefix = folder.path + "/" if folder.path else ""
        for name in folder.files:
            if only is not None and not only.match((prefix + name)[skip:]):
                continue
            seen += 1
            try:
                fd = os.open(name, OPEN_FILE, dir_fd=folder.fd)
            except OSError:
                continue  # gone, swapped for a link, or not ours to read
            try:
                _grep_open(fd, prefix + name, matches)
            finally:
                os.close(fd)
            if matches.more or matches.left < 0 or seen > FILES_CAP:
                return seen
    return seen


def _grep_open(fd: int, path: str, matches: Matches) -> None:
    try:
        data = os.read(fd, 65536)
        if len(data) == 65536 and b"\0" not in data[:8192]:
            data += read_up_to(fd, FILE_CAP - len(data) + 1)
    except OSError:
        return  # swapped for a folder or a device meanwhile
    if len(data) > FILE_CAP:
        matches.cut += 1
        data = data[:FILE_CAP]
    matches.left -= len(data)
    matches.search(path, data)


GLOB = AgentTool(
    name="glob",
    tier=Tier.READ,
    description="Find files by pattern (* ? [..] {a,b} **). Without a / it matches names in every folder.",
    schema={
        "type": "object",
        "properties": {"pattern": {"type": "string"}, "path": PATH_ARG, **paging.ARGS},
        "required": ["pattern"],
    },
    run=_glob,
    parallel=True,
)

GREP = AgentTool(
    name="grep",
    tier=Tier.READ,
    description="Search file contents line by line with an RE2 expression; ignored and binary files are left out.",
    schema={
        "type": "object",
        "properties": {
            "pattern": {"type": "string"},
            "path": PATH_ARG,
            "glob": {"type": "string", "description": "only files that match"},
            "ignore_case": {"type": "boolean"},
            "context": {"type": "integer", "minimum": 0, "maximum": 20},
            **paging.ARGS,
        },
        "required": ["pattern"],
    },
    run=_grep,
    parallel=True,
)

TOOLS: tuple[AgentTool, ...] = (GLOB, GREP)
