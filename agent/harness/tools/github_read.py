"""Reading pull requests and issues: `get_pull_request` and `get_issue`.

Everything here is words of third parties. Users, bodies, repositories and lists may be null or absent: accounts
and forks get deleted (F15).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent.contract.errors import ToolInputError, UpstreamError
from agent.contract.modes import Tier
from agent.contract.regex import regex
from agent.contract.tool import AgentTool, ToolOutput
from agent.harness.tools.context import ToolContext
from agent.harness.tools.github_api import NUMBER_ARG, GitHub, clip_body, login, number_of, schema
from agent.harness.tools.github_read_comments import LIST_COMMENTS
from agent.harness.tools.github_read_files import LIST_FILES, last_reviewed
from agent.harness.tools.github_write import own_login

_LINKED = regex(
    r"(?i)\b(?:close[sd]?|fix(?:e[sd])?|resolve[sd]?):?\s+"
    r"(?:https?://[^\s/]+/([\w.-]+/[\w.-]+)/issues/|([\w.-]+/[\w.-]+)?#)(\d{1,9})"
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


def linked_issues(repository: str, *texts: Any) -> tuple[int, ...]:
    """Numbers of this repository's issues that closing words name, in order; another repository's are left out."""
    own = repository.casefold()
    found = [m for text in texts if isinstance(text, str) for m in _LINKED.finditer(text)]
    return tuple(dict.fromkeys(int(m[3]) for m in found if (m[1] or m[2] or repository).casefold() == own))


def _read_pull(api: GitHub, number: int) -> dict[str, Any]:
    """The pull request; an issue of this number is told for what it is."""
    try:
        return api.get(f"/pulls/{number}", "read pull request")
    except UpstreamError as exc:
        if exc.status == 404 and api.find(f"/issues/{number}"):
            raise ToolInputError(f"#{number} is an issue and no pull request: get_issue shows it.") from exc
        raise


def _get_pull_request(args: Mapping[str, Any], ctx: ToolContext) -> ToolOutput:
    number = number_of(args, ctx)
    api = GitHub(ctx)
    pull = _read_pull(api, number)
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
    reviews = api.pages(f"/pulls/{number}/reviews", "read reviews")
    latest = {login(r.get("user")): str(r.get("state")) for r in reviews.items if r.get("state") != "COMMENTED"}
    if latest:
        lines.append("reviews: " + ", ".join(f"{who} {what}" for who, what in latest.items()))
    reviewed = last_reviewed(reviews.items, own_login(ctx))
    if reviewed:
        lines.append(f"reviewed by this action last at {reviewed}: list_pull_request_files new_only shows what is new")
    linked = linked_issues(ctx.facts.repository, pull.get("title"), pull.get("body"))
    if linked:
        lines.append("linked issues: " + ", ".join(f"#{n}" for n in linked))
    return ToolOutput("\n".join([*lines, "", clip_body(pull.get("body"))]))


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
    LIST_FILES,
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
