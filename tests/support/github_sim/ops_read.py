"""Repositories, users, permissions, issues, comments and labels."""

from __future__ import annotations

from .routing import Call, Reply, invalid, op
from .world import ApiError, Comment, Issue

CONTENT_KINDS = ("+1", "-1", "laugh", "confused", "heart", "hooray", "rocket", "eyes")


@op("GET", "~", "metadata:read")
def get_repo(c: Call) -> Reply:
    body = c.sim.shapes.full_repo(c.r)
    if c.token:
        level = c.token.level("contents")
        body["permissions"] = {
            "admin": False,
            "maintain": False,
            "push": level == "write",
            "triage": level == "write",
            "pull": True,
        }
    return Reply(200, body)


@op("GET", "/users/{login}")
def get_user(c: Call) -> Reply:
    if c.params["login"].lower() not in c.sim.world.users:
        raise ApiError(404, "Not Found")
    return Reply(200, c.sim.shapes.public_user(c.params["login"]))


@op("GET", "/user", "profile:read")
def get_self(c: Call) -> Reply:
    return Reply(200, c.sim.shapes.public_user(c.login))


@op("GET", "/rate_limit")
def rate_limit(c: Call) -> Reply:
    world = c.sim.world
    rate = {
        "limit": world.rate_limit,
        "used": world.rate_used,
        "remaining": max(0, world.rate_limit - world.rate_used),
        "reset": int(world.clock()) + 3600,
        "resource": "core",
    }
    return Reply(200, {"resources": {"core": rate, "search": {**rate, "resource": "search"}}, "rate": rate})


@op("GET", "~/collaborators/{login}/permission", "metadata:read")
def permission(c: Call) -> Reply:
    login = c.params["login"]
    given = c.r.permissions.get(login.lower())
    if given and given.delay:
        c.sim.world.lock.release()
        try:
            c.sim.wait(given.delay)
        finally:
            c.sim.world.lock.acquire()
    if given and given.raw is not None:
        return Reply(given.status, given.raw, content_type="text/html")
    if given and given.status >= 400:
        message = "Must have push access to view collaborator permission." if given.status == 403 else "Server Error"
        raise ApiError(given.status, f"{login} is not a user" if given.status == 404 else message)
    user = c.sim.world.users.get(login.lower())
    if user is None:
        raise ApiError(404, f"{login} is not a user")
    unknown = "none" if user.type == "Bot" or c.r.private else "read"
    level = given.permission if given else unknown
    role = given.role_name if given and given.role_name else level
    shape = {**(c.sim.shapes.user(user.login) or {}), "role_name": role}
    shape["permissions"] = {
        "admin": level == "admin",
        "maintain": level == "admin",
        "push": level in ("admin", "write"),
        "triage": level in ("admin", "write"),
        "pull": level != "none",
    }
    return Reply(200, {"permission": level, "role_name": role, "user": shape})


# -------------------------------------------------------------------- issues


@op("GET", "~/issues", "issues:read")
def list_issues(c: Call) -> Reply:
    state = c.q("state", "open")
    labels = [x for x in c.q("labels").split(",") if x]
    creator = c.q("creator").lower()
    rows = [
        i
        for i in sorted(c.r.issues.values(), key=lambda i: -i.number)
        if (state == "all" or i.state == state)
        and not i.deleted
        and all(x in i.labels for x in labels)
        and (not creator or (i.user or "").lower() == creator)
    ]
    return c.paged(rows, lambda i: c.sim.shapes.issue(c.r, i))


@op("POST", "~/issues", "issues:write")
def create_issue(c: Call) -> Reply:
    title = c.text("title", "Issue")
    body = c.text("body", "Issue", required=False)
    labels = [x if isinstance(x, str) else x.get("name", "") for x in c.obj().get("labels") or []]
    issue = c.sim.new_issue(c.r, title, body or None, c.login, labels=labels)
    return Reply(201, c.sim.shapes.issue(c.r, issue))


@op("GET", "~/issues/{n:int}", "issues:read", "pull_requests:read")
def get_issue(c: Call) -> Reply:
    return Reply(200, c.sim.shapes.issue(c.r, c.issue()))


@op("PATCH", "~/issues/{n:int}", "issues:write", "pull_requests:write")
def update_issue(c: Call) -> Reply:
    issue = c.issue()
    data = c.obj()
    if "title" in data:
        issue.title = c.text("title", "Issue")
    if "body" in data:
        issue.body = c.text("body", "Issue", required=False)
    if data.get("state") in ("open", "closed"):
        issue.state = data["state"]
        issue.closed_at = c.now if issue.state == "closed" else None
    if isinstance(data.get("labels"), list):
        issue.labels = [x if isinstance(x, str) else x["name"] for x in data["labels"]]
    issue.updated_at = c.now
    return Reply(200, c.sim.shapes.issue(c.r, issue))


@op("GET", "~/issues/{n:int}/comments", "issues:read", "pull_requests:read")
def list_comments(c: Call) -> Reply:
    issue = c.issue()
    rows = [x for x in issue.comments if x.updated_at >= c.q("since")]
    return c.paged(rows, lambda x: c.sim.shapes.comment(c.r, issue, x))


@op("POST", "~/issues/{n:int}/comments", "issues:write", "pull_requests:write")
def create_comment(c: Call) -> Reply:
    issue = c.issue()
    comment = c.sim.new_comment(c.r, issue, c.text("body", "IssueComment"), c.login)
    return Reply(201, c.sim.shapes.comment(c.r, issue, comment))


def _comment(c: Call) -> tuple[Issue, Comment]:
    for issue in c.r.issues.values():
        for comment in issue.comments:
            if comment.id == int(c.params["id"]):
                return issue, comment
    raise ApiError(404, "Not Found")


@op("GET", "~/issues/comments/{id:int}", "issues:read", "pull_requests:read")
def get_comment(c: Call) -> Reply:
    return Reply(200, c.sim.shapes.comment(c.r, *_comment(c)))


@op("PATCH", "~/issues/comments/{id:int}", "issues:write", "pull_requests:write")
def edit_comment(c: Call) -> Reply:
    issue, comment = _comment(c)
    comment.body = c.text("body", "IssueComment")
    comment.updated_at = c.now
    return Reply(200, c.sim.shapes.comment(c.r, issue, comment))


@op("DELETE", "~/issues/comments/{id:int}", "issues:write", "pull_requests:write")
def delete_comment(c: Call) -> Reply:
    issue, comment = _comment(c)
    issue.comments.remove(comment)
    return Reply(204)


@op("GET", "~/issues/{n:int}/timeline", "issues:read", "pull_requests:read")
def timeline(c: Call) -> Reply:
    issue = c.issue()
    rows = list(issue.timeline)
    for comment in issue.comments:
        shape = c.sim.shapes.comment(c.r, issue, comment)
        rows.append({**shape, "event": "commented", "actor": shape["user"]})
    if issue.pull:
        for review in issue.pull.reviews:
            if review.state != "PENDING":
                rows.append({**c.sim.shapes.review(c.r, issue, review), "event": "reviewed"})
    rows.sort(key=lambda row: row.get("created_at") or row.get("submitted_at") or "")
    return c.paged(rows, lambda row: row)


# -------------------------------------------------------------------- labels and reactions


@op("GET", "~/labels", "issues:read")
def repo_labels(c: Call) -> Reply:
    return c.paged(sorted(c.r.labels), lambda name: c.sim.shapes.label(c.r, name))


@op("GET", "~/labels/{name...}", "issues:read")
def repo_label(c: Call) -> Reply:
    if c.params["name"] not in c.r.labels:
        raise ApiError(404, "Not Found")
    return Reply(200, c.sim.shapes.label(c.r, c.params["name"]))


@op("DELETE", "~/labels/{name...}", "issues:write")
def delete_repo_label(c: Call) -> Reply:
    c.r.labels.pop(c.params["name"], None)
    for issue in c.r.issues.values():
        issue.labels = [x for x in issue.labels if x != c.params["name"]]
    return Reply(204)


@op("GET", "~/issues/{n:int}/labels", "issues:read", "pull_requests:read")
def issue_labels(c: Call) -> Reply:
    return c.paged(c.issue().labels, lambda name: c.sim.shapes.label(c.r, name))


@op("POST", "~/issues/{n:int}/labels", "issues:write", "pull_requests:write")
def add_labels(c: Call) -> Reply:
    issue = c.issue()
    data = c.body["labels"] if isinstance(c.body, dict) and "labels" in c.body else c.body
    if not isinstance(data, list) or not all(isinstance(x, str) and 0 < len(x) <= 50 for x in data):
        raise invalid("Label", "name", "invalid")
    for name in data:
        if name not in issue.labels:
            issue.labels.append(name)
            c.sim.label_event(c.r, issue, name, c.login)
    return Reply(200, [c.sim.shapes.label(c.r, name) for name in issue.labels])


@op("DELETE", "~/issues/{n:int}/labels/{name...}", "issues:write", "pull_requests:write")
def remove_label(c: Call) -> Reply:
    issue = c.issue()
    if c.params["name"] not in issue.labels:
        raise ApiError(404, "Label does not exist")
    issue.labels.remove(c.params["name"])
    return Reply(200, [c.sim.shapes.label(c.r, name) for name in issue.labels])


def _react(c: Call, kind: str, number: int) -> Reply:
    content = c.obj().get("content")
    if content not in CONTENT_KINDS:
        raise invalid("Reaction", "content", "invalid")
    rows = c.r.reactions.setdefault((kind, number), [])
    for row in rows:
        if row["content"] == content and row["login"] == c.login:
            return Reply(200, {k: v for k, v in row.items() if k != "login"})
    number_id = c.sim.world.next_id("reaction", 900)
    row = {
        "id": number_id,
        "node_id": f"REA_{number_id}",
        "user": c.sim.shapes.user(c.login),
        "content": content,
        "created_at": c.now,
    }
    rows.append({**row, "login": c.login})
    return Reply(201, row)


@op("POST", "~/issues/{n:int}/reactions", "issues:write", "pull_requests:write")
def react_issue(c: Call) -> Reply:
    return _react(c, "issue", c.issue().number)


@op("POST", "~/issues/comments/{id:int}/reactions", "issues:write", "pull_requests:write")
def react_comment(c: Call) -> Reply:
    return _react(c, "comment", _comment(c)[1].id)


@op("POST", "~/pulls/comments/{id:int}/reactions", "pull_requests:write")
def react_review_comment(c: Call) -> Reply:
    return _react(c, "review_comment", int(c.params["id"]))
