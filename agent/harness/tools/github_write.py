"""Writing to the conversation: `comment` and `file_issue`.

Bodies are neutralised here and once more by the broker. A comment with a `key` is updated when it is posted again,
on the next push or a re-run, instead of repeated; an open issue of ours with the same title is not filed twice.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from agent.contract.errors import ToolInputError, UpstreamError
from agent.contract.fingerprint import Mark, digest, own_marked, with_mark
from agent.contract.modes import Tier
from agent.contract.neutral import neutralise
from agent.contract.tool import AgentTool, ToolOutput
from agent.harness.tools.context import ToolContext
from agent.harness.tools.github_api import NUMBER_ARG, GitHub, number_of, schema

REST = "The rest is in this run's transcript."
TITLE_LIMIT = 256  # characters that GitHub takes


def own_login(ctx: ToolContext) -> str | None:
    """The account this run writes as, where the broker knows it."""
    value = ctx.facts.options.get("own_login")
    return value if isinstance(value, str) and value else None


def clean(body: Any, mark: Mark | None = None) -> str:
    """A body that may be posted.

    Raises:
        ToolInputError: there is no text in it.
    """
    if not isinstance(body, str) or not body.strip():
        raise ToolInputError("`body` is empty: give the text that is to be posted.")
    return neutralise(body if mark is None else with_mark(body, mark), keep_mark=mark is not None, rest=REST)


def _comment(args: Mapping[str, Any], ctx: ToolContext) -> ToolOutput:
    number = number_of(args, ctx)
    key = args.get("key")
    mark = Mark("note", digest(str(key))) if key else None
    body = clean(args["body"], mark)
    api = GitHub(ctx)
    old = _earlier(api, ctx, number, mark) if mark else None
    if old is not None:
        if old.get("body") == body:
            return ToolOutput(f"Comment {old['id']} on #{number} says this already; nothing was changed.")
        api.write("PATCH", f"/issues/comments/{old['id']}", {"body": body}, "update comment")
        return ToolOutput(f"Updated comment {old['id']} on #{number}.")
    made = api.write("POST", f"/issues/{number}/comments", {"body": body}, "comment")
    return ToolOutput(f"Commented on #{number}: {made.get('html_url', 'posted')}{_cut_note(args['body'], body)}")


def _cut_note(asked: str, sent: str) -> str:
    return "\nThe text was too long and was cut; say less in one comment." if len(sent) + 200 < len(asked) else ""


def _earlier(api: GitHub, ctx: ToolContext, number: int, mark: Mark) -> Mapping[str, Any] | None:
    """The newest comment of our own with this mark; a copy of the mark by anyone else is passed over."""
    found = api.pages(f"/issues/{number}/comments", "list comments", cap=10)
    own = [c for c, m in own_marked(found.items, own_login(ctx), mark.kind) if m.key == mark.key]
    return next((c for c in reversed(own) if isinstance(c.get("id"), int)), None)


def _file_issue(args: Mapping[str, Any], ctx: ToolContext) -> ToolOutput:
    title = re.sub(r"\s+", " ", neutralise(str(args["title"]))).strip()[:TITLE_LIMIT]
    if not title:
        raise ToolInputError("`title` is empty.")
    mark = Mark("issue", digest(title.casefold()))
    body = clean(args["body"], mark)
    api = GitHub(ctx)
    try:
        listed = api.pages("/issues", "look for the same issue", query={"state": "open"}, cap=3).items
    except UpstreamError:
        listed = ()  # the look is a courtesy; filing does not depend on it
    for issue, found in own_marked(listed, own_login(ctx), "issue"):
        if found.key == mark.key:
            return ToolOutput(f"Issue #{issue.get('number')} with this title is open already; none was filed.")
    made = api.write("POST", "/issues", {"title": title, "body": body}, "file issue")
    return ToolOutput(f"Filed issue #{made.get('number')}: {made.get('html_url', '')}")


_TEXT = {"type": "string"}

TOOLS: tuple[AgentTool, ...] = (
    AgentTool(
        name="comment",
        tier=Tier.COMMENT,
        description=(
            "Comment on an issue or pull request. With `key` (such as summary) an earlier comment of this key is "
            "updated instead of a new one posted."
        ),
        schema=schema(
            NUMBER_ARG,
            {"body": _TEXT, "key": {"type": "string", "pattern": "^[a-z0-9-]{1,40}$"}},
            required=("body",),
        ),
        run=_comment,
    ),
    AgentTool(
        name="file_issue",
        tier=Tier.COMMENT,
        description="Open an issue in this repository, such as for a failure that could not be mended.",
        schema=schema({"title": _TEXT, "body": _TEXT}, required=("title", "body")),
        run=_file_issue,
    ),
)
