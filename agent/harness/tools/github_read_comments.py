"""`list_comments`: the talk on an issue or pull request, newest first, with who may write here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent.contract.dataclass import dataclass
from agent.contract.errors import ToolInputError, UpstreamError
from agent.contract.modes import Tier
from agent.contract.tool import AgentTool, ToolOutput
from agent.harness.tools import paging
from agent.harness.tools.context import NotedOutput, ToolContext, own_words
from agent.harness.tools.github_api import (
    NUMBER,
    NUMBER_ARG,
    PER_PAGE,
    GitHub,
    clip_body,
    login,
    number_of,
    path_segment,
    schema,
    text_of,
)

PAGE = 20
_BODY = 2_000  # characters of one comment in a list
_FOLDED = 160  # characters of a bot's comment in a list
_LOOKUPS = 8  # permission requests a page


@dataclass(frozen=True)
class Comment:
    """One entry of the talk.

    Attributes:
        id: of the comment or review.
        where: `comment`, `review (STATE)`, or `path:line` of a line comment.
        author: login, or `ghost`.
        is_bot: the account's type says so.
        at: ISO time, which sorts as text.
        edited: the text was changed after it was posted.
        body: text, never None.
    """

    id: int
    where: str
    author: str
    is_bot: bool
    at: str
    edited: bool
    body: str


def _comment(item: Mapping[str, Any], where: str) -> Comment:
    user = item.get("user")
    at = str(item.get("created_at") or item.get("submitted_at") or "")
    return Comment(
        id=item["id"] if isinstance(item.get("id"), int) else 0,
        where=where,
        author=login(user),
        is_bot=isinstance(user, dict) and user.get("type") == "Bot",
        at=at,
        edited=bool(item.get("updated_at")) and item.get("updated_at") != at and bool(item.get("created_at")),
        body=text_of(item.get("body"), ""),
    )


def _place(item: Mapping[str, Any]) -> str:
    line = item.get("line")
    place = (
        f"{item.get('path')}:{line}" if line else f"{item.get('path')} (outdated, was line {item.get('original_line')})"
    )
    return f"{place}, reply to {item['in_reply_to_id']}" if item.get("in_reply_to_id") else place


def _all(api: GitHub, number: int, *, is_pull: bool, last_page: int) -> tuple[list[Comment], bool]:
    """Comments newest first, and whether older ones were left out."""
    first = max(1, last_page - 4)
    found: list[Comment] = []
    for page in range(first, last_page + 1):
        reply = api.send("GET", f"/issues/{number}/comments", {"per_page": PER_PAGE, "page": page})
        value = api.checked(reply, "list comments").json()
        found += [_comment(c, "comment") for c in value if isinstance(c, dict)] if isinstance(value, list) else []
    more = first > 1
    if is_pull:
        lines = api.pages(
            f"/pulls/{number}/comments", "list line comments", cap=5, query={"sort": "created", "direction": "desc"}
        )
        found += [_comment(c, _place(c)) for c in lines.items]
        reviews = api.pages(f"/pulls/{number}/reviews", "list reviews", cap=3)
        found += [_comment(r, f"review ({r.get('state')})") for r in reviews.items if text_of(r.get("body"), "")]
        more = more or lines.more or reviews.more
    return sorted(found, key=lambda c: (c.at, c.id), reverse=True), more


def _permissions(api: GitHub, comments: list[Comment]) -> dict[str, str]:
    """What each author may do here, as the gate asks it; unknown counts as an outsider."""
    out: dict[str, str] = {}
    for name in dict.fromkeys(c.author for c in comments if not c.is_bot and " " not in c.author):
        if len(out) >= _LOOKUPS:
            break
        found = api.find(f"/collaborators/{path_segment(name)}/permission")
        out[name] = str(found.get("permission")) if found and found.get("permission") else "unknown"
    return out


def _shown(comment: Comment, permission: str) -> str:
    head = f"[{comment.id}] {comment.where} by {comment.author} ({permission}) at {comment.at}"
    if comment.edited:
        head += ", edited since"
    limit = _FOLDED if comment.is_bot else _BODY
    body = " ".join(comment.body.split()) if comment.is_bot and len(comment.body) > limit else comment.body
    if len(body) > limit:
        body = f"{body[:limit]}… [{len(body) - limit} more characters: comment_id={comment.id}]"
    return f"{head}\n{body}"


def _one(api: GitHub, number: int, comment_id: int) -> ToolOutput:
    for path, where in (
        (f"/issues/comments/{comment_id}", "comment"),
        (f"/pulls/comments/{comment_id}", ""),
        (f"/pulls/{number}/reviews/{comment_id}", "review"),
    ):
        item = api.find(path)
        if item is not None:
            comment = _comment(item, where or _place(item))
            head = f"[{comment.id}] {comment.where} by {comment.author} at {comment.at}"
            return ToolOutput(f"{head}\n{clip_body(comment.body)}")
    raise ToolInputError(
        f"No comment or review {comment_id} is visible. list_comments without comment_id shows the ids."
    )


def _list_comments(args: Mapping[str, Any], ctx: ToolContext) -> ToolOutput:
    number, offset = number_of(args, ctx), paging.asked(args, PAGE)[0]
    api = GitHub(ctx)
    if "comment_id" in args:
        return _one(api, number, number_of(args, ctx, "comment_id"))
    issue = api.get(f"/issues/{number}", "list comments")
    count = issue.get("comments")
    last = max(1, -(-count // PER_PAGE)) if isinstance(count, int) else 1
    try:
        comments, more = _all(api, number, is_pull=bool(issue.get("pull_request")), last_page=last)
    except UpstreamError as exc:
        if exc.status != 404:
            raise
        comments, more = [], False
    if not comments:
        return own_words(f"No comments on #{number}.")
    if offset > len(comments):
        raise paging.past_the_end(offset, len(comments), "comments")
    shown = comments[offset - 1 : offset - 1 + PAGE]
    permissions = _permissions(api, shown)
    text = "\n\n".join(_shown(c, "bot" if c.is_bot else permissions.get(c.author, "unknown")) for c in shown)
    note = f"newest first; {paging.note(offset, len(shown), len(comments), 'comments')}"
    return NotedOutput(text, note=f"{note}; the oldest are not listed" if more else note)


LIST_COMMENTS = AgentTool(
    name="list_comments",
    tier=Tier.READ,
    description=(
        "Comments and reviews of an issue or pull request, newest first, each with its author's permission here. "
        "Long and bot comments are folded; comment_id shows one in full."
    ),
    schema=schema(NUMBER_ARG, paging.OFFSET_ARG, {"comment_id": NUMBER}),
    run=_list_comments,
    parallel=True,
)
