"""`git_diff git_log git_commit git_push create_pull_request`: all done by the broker, which holds the repository."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent.contract.modes import Tier
from agent.contract.regex import regex
from agent.contract.tool import AgentTool, ToolOutput
from agent.harness.tools import paging
from agent.harness.tools.context import NotedOutput, ToolContext, own_words
from agent.harness.tools.text_form import shown_text

DIFF_LINES = 800
LOG_ENTRIES = 20
_HEX = regex(r"[0-9a-f]{4,64}\Z")
_URL = regex(r"https?://[A-Za-z0-9.:-]+(?:/[A-Za-z0-9._~-]+)*\Z")


def _lines(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n") if text else []


def _git_diff(args: Mapping[str, Any], ctx: ToolContext) -> ToolOutput:
    fields = {key: args[key] for key in ("base", "paths") if args.get(key)}
    answer = ctx.broker.call("diff", **fields)
    offset, limit = paging.asked(args, DIFF_LINES)
    lines = _lines(shown_text(answer.payload)[0])
    if not lines:
        return NotedOutput("(no difference)", untrusted=False)
    shown, note = paging.page(lines, offset, limit, "lines")
    return NotedOutput("\n".join(shown), note=note)


def _git_log(args: Mapping[str, Any], ctx: ToolContext) -> ToolOutput:
    limit = int(args.get("limit", LOG_ENTRIES))
    fields: dict[str, Any] = {"path": ctx.files.relative(args["path"])} if args.get("path") else {}
    answer = ctx.broker.call("log", limit=limit, **fields)
    return NotedOutput(shown_text(answer.payload)[0].rstrip("\n") or "(no commits)")


def _git_commit(args: Mapping[str, Any], ctx: ToolContext) -> ToolOutput:
    fields: dict[str, Any] = {"message": args["message"]}
    if args.get("paths"):
        fields["paths"] = [ctx.files.relative(p) for p in args["paths"]]
    header = ctx.broker.call("commit", **fields).header
    lines = [f"{f.get('status', '?')} {f.get('path', '?')}" for f in header.get("files", ())]
    shown, _ = paging.page(lines, 1, 100, "files")
    shown += [f"problem: {problem}" for problem in header.get("problems", ())]
    count = f"{len(lines)} file{'' if len(lines) == 1 else 's'}"
    note = f"Committed {_sha(header.get('commit'))}: {count}. Not pushed yet."
    return NotedOutput("\n".join(shown) or "(no files)", untrusted=bool(shown), note=note)


def _git_push(args: Mapping[str, Any], ctx: ToolContext) -> ToolOutput:
    header = ctx.broker.call("push", branch=args["branch"]).header
    said = f"Pushed {_sha(header.get('sha'))} to {header.get('branch')}."
    if header.get("gate"):
        said += f" Prepush script: {header['gate']}."
    return own_words(said)


def _create_pull_request(args: Mapping[str, Any], ctx: ToolContext) -> ToolOutput:
    fields: dict[str, Any] = {key: args.get(key) for key in ("title", "body", "head", "base")}
    header = ctx.broker.call("pull_request", **fields).header
    done = "Updated" if header.get("updated") else "Opened"
    url = str(header.get("url", ""))
    return own_words(f"{done} pull request #{int(header['number'])}{f': {url}' if _URL.match(url) else ''}.")


def _sha(value: object) -> str:
    return value[:12] if isinstance(value, str) and _HEX.match(value) else "(no commit)"


_TEXT = {"type": "string"}
_PATHS = {"type": "array", "items": _TEXT}

GIT_DIFF = AgentTool(
    name="git_diff",
    tier=Tier.READ,
    description="Unified diff of the workspace against the commit that it started at, or against `base`.",
    schema={
        "type": "object",
        "properties": {
            "base": {"type": "string", "description": "a commit, or `base` for where the branch left its base"},
            "paths": _PATHS,
            **paging.ARGS,
        },
    },
    run=_git_diff,
    parallel=True,
)

GIT_LOG = AgentTool(
    name="git_log",
    tier=Tier.READ,
    description="Latest commits, of the whole tree or of one path.",
    schema={
        "type": "object",
        "properties": {"limit": {"type": "integer", "minimum": 1, "maximum": 200}, "path": _TEXT},
    },
    run=_git_log,
    parallel=True,
)

GIT_COMMIT = AgentTool(
    name="git_commit",
    tier=Tier.GIT,
    description="Commit the workspace's changes, or those of `paths`. Hooks of the repository do not run.",
    schema={
        "type": "object",
        "properties": {"message": {"type": "string", "minLength": 1}, "paths": _PATHS},
        "required": ["message"],
    },
    run=_git_commit,
)

GIT_PUSH = AgentTool(
    name="git_push",
    tier=Tier.GIT,
    description="Push the commits to a branch of this run; the prepush script must pass.",
    schema={"type": "object", "properties": {"branch": _TEXT}, "required": ["branch"]},
    run=_git_push,
)

CREATE_PULL_REQUEST = AgentTool(
    name="create_pull_request",
    tier=Tier.GIT,
    description="Open a pull request from a pushed branch, or update the one that is open.",
    schema={
        "type": "object",
        "properties": {"title": {"type": "string", "minLength": 1}, "body": _TEXT, "head": _TEXT, "base": _TEXT},
        "required": ["title", "body", "head", "base"],
    },
    run=_create_pull_request,
)

TOOLS: tuple[AgentTool, ...] = (GIT_DIFF, GIT_LOG, GIT_COMMIT, GIT_PUSH, CREATE_PULL_REQUEST)
