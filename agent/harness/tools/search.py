"""`glob` and `grep`: over the whole tree, in order, bounded, without what git ignores, in linear time."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from typing import Any

from agent.contract.errors import ToolInputError
from agent.contract.gitignore import Ignores, PatternError, glob_regex
from agent.contract.modes import Tier
from agent.contract.paths import is_git_name
from agent.contract.tool import AgentTool, ToolOutput
from agent.harness.tools import paging
from agent.harness.tools.context import NotedOutput, ToolContext
from agent.harness.tools.reading import PATH_ARG, checked
from agent.harness.tools.text_form import shown_text
from agent.kernel.beneath import Folder, read_up_to

GLOB_ENTRIES = 200
GREP_LINES = 100
FILES_CAP = 300_000  # files looked at in one call
FILE_CAP = 8 << 20  # bytes of one file that are searched
LINE_SHOWN = 300  # characters of a matching line
_OPEN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


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
        fd = os.open(".gitignore", _OPEN, dir_fd=folder_fd)
    except OSError:
        return ""
    try:
        return read_up_to(fd, 1 << 20).decode("utf-8", "replace")
    finally:
        os.close(fd)


def _pattern(text: str) -> re.Pattern[str]:
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


def _glob(args: Mapping[str, Any], ctx: ToolContext) -> ToolOutput:
    glob = _pattern(args["pattern"])
    path = args.get("path", ".")
    offset, limit = paging.asked(args, GLOB_ENTRIES)
    start = checked(ctx, path)
    skip = len(start) + 1 if start else 0
    found: list[str] = []
    seen = 0
    for folder in kept_folders(ctx, path):
        prefix = folder.path + "/" if folder.path else ""
        names = sorted([*folder.files, *folder.links]) if folder.links else folder.files
        found += [p for p in (prefix + n for n in names) if glob.match(p[skip:])]
        seen += len(names)
        if seen > FILES_CAP:
            break
    if not found:
        return NotedOutput(
            "(no files)", untrusted=False, note=f"{seen} files looked at; ignored ones and links out are left out."
        )
    shown, note = paging.page(found, offset, limit, "files")
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


_META = re.compile(r"[\\.\[\]{}()*+?|^$]")


def required_prefix(pattern: str) -> bytes:
    """Bytes that every match begins with, as far as that is plain to see: `in` is faster than any expression."""
    if "|" in pattern or "(?" in pattern:
        return b""
    meta = _META.search(pattern)
    if meta is None:
        return pattern.encode()
    end = meta.start() - 1 if meta[0] in "*?{" else meta.start()
    return pattern[: max(0, end)].encode()


class _Matches:
    """Collects one page of matching lines and knows when to stop."""

    def __init__(self, regex: Any, literal: bytes, offset: int, limit: int, context: int) -> None:
        self.regex = regex
        self.literal = literal  # every match holds it; empty when nothing is known
        self.first, self.context = offset, context
        self.last = offset + limit  # number of the first line that is too many
        self.count = 0
        self.shown: list[str] = []
        self.files = 0
        self.binary = self.cut = 0
        self.room = paging.PAGE_CHARS
        self.more = False

    def search(self, path: str, data: bytes) -> None:
        if self.literal and self.literal not in data:
            return
        found = self.regex.search(data)
        if found is None:
            return
        if b"\0" in data[:8192]:
            self.binary += 1
            return
        self.files += 1
        number, counted = 1, 0
        while found is not None and not self.more:
            at = found.start()
            start = data.rfind(b"\n", 0, at) + 1
            end = data.find(b"\n", at)
            end = len(data) if end < 0 else end
            number += data.count(b"\n", counted, start)
            counted = start
            self._add(path, number, data, start, end, at - start)
            if end >= len(data):
                return
            found = self.regex.search(data, end + 1)

    def _add(self, path: str, number: int, data: bytes, start: int, end: int, at: int) -> None:
        self.count += 1
        if self.count < self.first:
            return
        if self.count >= self.last:
            self.more = True
            return
        block = f"{path}:{number}:{_shown_line(data[start:end], at)}"
        if self.context:
            before = data[:start].split(b"\n")[-self.context - 1 : -1] if start else []
            rest = data[end + 1 : end + 1 + 65536].removesuffix(b"\n")
            after = rest.split(b"\n")[: self.context] if rest else []
            lines = [f"{path}-{number - len(before) + i}-{_shown_line(b, 0)}" for i, b in enumerate(before)]
            lines += [block] + [f"{path}-{number + 1 + i}-{_shown_line(a, 0)}" for i, a in enumerate(after)]
            block = "\n".join([*lines, "--"])
        if self.shown and len(block) + 1 > self.room:
            self.more = True
            return
        self.shown.append(block)
        self.room -= len(block) + 1


def _shown_line(raw: bytes, at: int) -> str:
    """A line, or the part of a long one around the match."""
    raw = raw.removesuffix(b"\r")
    if len(raw) <= LINE_SHOWN:
        return shown_text(raw)[0]
    begin = max(0, at - LINE_SHOWN // 3)
    text = shown_text(raw[begin : begin + LINE_SHOWN])[0]
    return f"{'…' if begin else ''}{text}… [line of {len(raw)} bytes]"


def _grep(args: Mapping[str, Any], ctx: ToolContext) -> ToolOutput:
    regex = _compiled(args)
    path = args.get("path", ".")
    rel = checked(ctx, path)
    only = _pattern(args["glob"]) if args.get("glob") else None
    offset, limit = paging.asked(args, GREP_LINES)
    literal = b"" if args.get("ignore_case") else required_prefix(args["pattern"])
    matches = _Matches(regex, literal, offset, limit, int(args.get("context", 0)))
    seen = 1
    if stat.S_ISDIR(ctx.files.stat(path).st_mode):
        seen = _grep_folder(ctx, path, only, matches)
    else:
        fd = ctx.files.open_file(path)
        try:
            _grep_open(fd, rel, matches)
        finally:
            os.close(fd)
    notes = [paging.note(offset, len(matches.shown), None if matches.more else matches.count, "matching lines")]
    if not matches.shown:
        notes = [f"no match in {seen} files" if matches.count < 1 else f"only {matches.count} lines match"]
    if matches.binary:
        notes.append(f"{matches.binary} binary files match and are not shown")
    if matches.cut:
        notes.append(f"{matches.cut} files were searched in their first {FILE_CAP >> 20} MB alone")
    if seen > FILES_CAP:
        notes.append("stopped at the cap on files")
    text = "\n".join(matches.shown)
    return NotedOutput(text or "(no match)", untrusted=bool(text), note="; ".join(notes))


def _grep_folder(ctx: ToolContext, path: str, only: re.Pattern[str] | None, matches: _Matches) -> int:
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
                fd = os.open(name, _OPEN, dir_fd=folder.fd)
            except OSError:
                continue  # gone, swapped for a link, or not ours to read
            try:
                _grep_open(fd, prefix + name, matches)
            finally:
                os.close(fd)
            if matches.more or seen > FILES_CAP:
                return seen
    return seen


def _grep_open(fd: int, path: str, matches: _Matches) -> None:
    try:
        data = os.read(fd, 65536)
        if len(data) == 65536:
            data += read_up_to(fd, FILE_CAP - len(data) + 1)
    except OSError:
        return  # swapped for a folder or a device meanwhile
    if len(data) > FILE_CAP:
        matches.cut += 1
        data = data[:FILE_CAP]
    matches.search(path, data)


GLOB = AgentTool(
    name="glob",
    tier=Tier.READ,
    description="Find files by pattern (* ? [..] {a,b} **). Without a / it matches names in every folder.",
    schema={
        "type": "object",
        "properties": {"pattern": {"type": "string"}, "path": PATH_ARG, "offset": paging.OFFSET_ARG},
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
            "offset": paging.OFFSET_ARG,
            "limit": paging.LIMIT_ARG,
        },
        "required": ["pattern"],
    },
    run=_grep,
    parallel=True,
)

TOOLS: tuple[AgentTool, ...] = (GLOB, GREP)
