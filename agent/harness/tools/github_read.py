"""Reading pull requests and issues: `get_pull_request`, `list_pull_request_files`, `get_issue`.

Everything here is words of third parties. Users, bodies, repositories and lists may be null or absent: accounts
and forks get deleted (F15).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from agent.contract.diff import numbered, parse_patch, ranges
from agent.contract.fingerprint import is_own
from agent.contract.modes import Tier
from agent.contract.tool import AgentTool, ToolOutput
from agent.harness.tools.context import NotedOutput, ToolContext
from agent.harness.tools.github_api import NUMBER_ARG, PAGE_ARG, GitHub, clip_body, login, number_of, schema
from agent.harness.tools.github_read_comments import LIST_COMMENTS

FILES_PAGE = 30
PATCH_SHOWN = 12_000  # characters of one file's hunks; a page of files stays below the belt's cap
PAGE_SHOWN = 40_000
_LINKED = re.compile(
    r"(?i)\b(?:close[sd]?|fix(?:e[sd])?|resolve[sd]?):?\s+(?:https?://\S+/issues/|([\w.-]+/[\w.-]+)?#)(\d{1,9})"
)


def _names(items: Any, key: str) -> str:
    found = [str(i[key]) for i in items if isinstance(i, dict) and i.get(key)] if isinstance(items, list) else []
    return ", ".join(found) or "none"


def _side(side: Any, repository: str) -> str:
    """`branch at sha in repository`, also when the fork behind it is gone."""
    if not isinstance(side, dict):
        return "unknown"
    repo = side.get("repo")
    if not isinstance(repo, dict):
        where = "a fork that was deleted: fetched by the pull request's own ref, never pushed to"
    elif repo.get("full_name") == repository:
        where = "this repository"
    else:
        where = f"fork {repo.get('full_name')}"
    return f"{side.get('ref')} at {side.get('sha')} ({where})"


def linked_issues(*texts: Any) -> tuple[int, ...]:
    """Numbers that closing words name, in order."""
    found = [int(m[2]) for text in texts if isinstance(text, str) for m in _LINKED.finditer(text)]
    return tuple(dict.fromkeys(found))


def _get_pull_request(args: Mapping[str, Any], ctx: ToolContext) -> ToolOutput:
    number = number_of(args, ctx)
    api = GitHub(ctx)
    pull = api.get(f"/pulls/{number}", "read pull request")
    state = "merged" if pull.get("merged") else "draft" if pull.get("draft") else str(pull.get("state"))
    lines = [
        f"#{number} {pull.get('title')}",
        f"state: {state}; author: {login(pull.get('user'))} ({pull.get('author_association', 'unknown')})",
        f"base: {_side(pull.get('base'), ctx.facts.repository)}",
        f"head: {_side(pull.get('head'), ctx.facts.repository)}",
        f"size: {pull.get('commits')} commits, {pull.get('changed_files')} files, "
        f"+{pull.get('additions')} -{pull.get('deletions')}; mergeable: {pull.get('mergeable_state', 'unknown')}",
        f"labels: {_names(pull.get('labels'), 'name')}",
        f"review asked of: {_names(pull.get('requested_reviewers'), 'login')}",
    ]
    reviews = api.pages(f"/pulls/{number}/reviews", "read reviews", cap=2)
    latest = {login(r.get("user")): str(r.get("state")) for r in reviews.items if r.get("state") != "COMMENTED"}
    if latest:
        lines.append("reviews: " + ", ".join(f"{who} {what}" for who, what in latest.items()))
    login_of_run = ctx.facts.options.get("own_login")
    own = [r for r in reviews.items if is_own(r, login_of_run if isinstance(login_of_run, str) else None)]
    if own and own[-1].get("commit_id"):
        lines.append(f"reviewed by this action last at {own[-1]['commit_id']}: git_diff from there shows what is new")
    linked = linked_issues(pull.get("title"), pull.get("body"))
    if linked:
        lines.append("linked issues: " + ", ".join(f"#{n}" for n in linked))
    return ToolOutput("\n".join([*lines, "", clip_body(pull.get("body"))]))


_UNCHANGED = {"renamed": "only its name changed", "changed": "only its mode changed"}


def _file_text(item: Mapping[str, Any]) -> str:
    status = str(item.get("status"))
    was = f" (was {item['previous_filename']})" if item.get("previous_filename") else ""
    head = f"### {item.get('filename')}{was}: {status}, +{item.get('additions')} -{item.get('deletions')}"
    patch = item.get("patch")
    if not isinstance(patch, str):
        unchanged = not item.get("changes") and status in _UNCHANGED
        why = _UNCHANGED[status] if unchanged else "binary, empty, or too large to be shown"
        return f"{head}\nno hunks: {why}. A review comment on it goes into the review's body."
    hunks = parse_patch(patch)
    text = numbered(hunks)
    if len(text) > PATCH_SHOWN:
        cut = text.rfind("\n", 0, PATCH_SHOWN)
        text = f"{text[:cut]}\n[cut: {len(text) - cut} more characters; git_diff with this path shows them]"
    right, left = ranges(hunks, "RIGHT") or "none", ranges(hunks, "LEFT") or "none"
    return f"{head}\ncommentable RIGHT: {right}; LEFT: {left}\n{text}"


def _list_files(args: Mapping[str, Any], ctx: ToolContext) -> ToolOutput:
    number, page = number_of(args, ctx), int(args.get("page", 1))
    api = GitHub(ctx)
    query = {"per_page": FILES_PAGE, "page": page}
    value = api.checked(api.send("GET", f"/pulls/{number}/files", query), "list files").json()
    files = [f for f in value if isinstance(f, dict)] if isinstance(value, list) else []
    if not files:
        return ToolOutput("The pull request changes no files." if page == 1 else f"Page {page} is empty.")
    parts: list[str] = []
    room = PAGE_SHOWN
    for index, item in enumerate(files):
        text = _file_text(item)
        if len(text) > room:
            rest = "\n".join(
                f"- {f.get('filename')}: {f.get('status')}, +{f.get('additions')} -{f.get('deletions')}"
                for f in files[index:]
            )
            parts.append(f"### Hunks of these are left out here; git_diff with the path shows them\n{rest}")
            break
        parts.append(text)
        room -= len(text)
    legend = "A line: old number, new number, kind, text. Cite new numbers with side RIGHT, deleted lines' with LEFT."
    note = f"{len(files)} files on page {page}." + (f" More: page={page + 1}." if len(files) >= FILES_PAGE else "")
    return NotedOutput("\n\n".join(parts), note=f"{legend} {note}")


def _get_issue(args: Mapping[str, Any], ctx: ToolContext) -> ToolOutput:
    number = number_of(args, ctx)
    issue = GitHub(ctx).get(f"/issues/{number}", "read issue")
    kind = "pull request" if issue.get("pull_request") else "issue"
    reason = f" ({issue['state_reason']})" if issue.get("state_reason") else ""
    milestone = issue.get("milestone")
    lines = [
        f"#{number} {issue.get('title')}",
        f"{kind}, state: {issue.get('state')}{reason}; author: {login(issue.get('user'))} "
        f"({issue.get('author_association', 'unknown')}); comments: {issue.get('comments', 0)}",
        f"labels: {_names(issue.get('labels'), 'name')}; assigned: {_names(issue.get('assignees'), 'login')}",
    ]
    if isinstance(milestone, dict):
        lines.append(f"milestone: {milestone.get('title')}")
    if issue.get("locked"):
        lines.append("The conversation is locked.")
    return ToolOutput("\n".join([*lines, "", clip_body(issue.get("body"))]))


TOOLS: tuple[AgentTool, ...] = (
    AgentTool(
        name="get_pull_request",
        tier=Tier.READ,
        description="Title, state, branches, size, reviews, linked issues and description of a pull request.",
        schema=schema(NUMBER_ARG),
        run=_get_pull_request,
        parallel=True,
    ),
    AgentTool(
        name="list_pull_request_files",
        tier=Tier.READ,
        description="Changed files of a pull request with their hunks and the line numbers a review comment can cite.",
        schema=schema(NUMBER_ARG, PAGE_ARG),
        run=_list_files,
        parallel=True,
    ),
    AgentTool(
        name="get_issue",
        tier=Tier.READ,
        description="Title, state, labels and text of an issue.",
        schema=schema(NUMBER_ARG),
        run=_get_issue,
        parallel=True,
    ),
    LIST_COMMENTS,
)
