"""Operations that no task of the product needs. The simulator obeys them all: the rule under test lives elsewhere."""

from __future__ import annotations

import re

from .routing import Call, Reply

UNDER_REPO = re.compile(
    r"^/repos/[^/]+/[^/]+(/(hooks|keys|releases|merges|merge-upstream|dispatches|actions|environments|collaborators"
    r"|forks|transfer|rulesets|deployments|subscription|topics|pages|import|interactions|invitations|codespaces"
    r"|dependabot|secret-scanning|code-scanning|vulnerability-alerts|autolinks|git/tags|branches/.*/protection"
    r"|pulls/\d+/(update-branch|merge-async|requested_reviewers|reviews/\d+/dismissals)|issues/\d+/(lock|assignees)"
    r"|labels|milestones|stargazers|subscribers|events|traffic)(/.*)?)?$"
)
ELSEWHERE = re.compile(r"^/(user|users|orgs|gists|notifications|search|graphql|enterprises|app|installation)(/.*)?$")
ANSWERS = {"GET": 200, "POST": 201, "PUT": 204, "PATCH": 200, "DELETE": 204}


def obey(call: Call) -> Reply | None:
    """An answer of success, or None where GitHub too has nothing of that name."""
    if not (UNDER_REPO.match(call.path) or ELSEWHERE.match(call.path)):
        return None
    if call.path.startswith("/repos/") and call.repo is None:
        return None
    status = 200 if call.path == "/graphql" else ANSWERS.get(call.method, 200)
    if call.method == "GET" and re.search(r"s(/search/\w+)?$", call.path) and not call.path.startswith("/search"):
        return Reply(status, [])
    if status == 204:
        return Reply(204)
    return Reply(status, {"id": 1, "ok": True, "total_count": 0, "items": []})
