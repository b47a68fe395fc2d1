"""Pull requests, their files and commits, reviews and review comments."""

from __future__ import annotations

import re
from typing import Any

from .git import FileDiff
from .routing import BODY_MAX, Call, Reply, invalid, op
from .world import ACTIONS_BOT, ApiError, Issue, Pull, Review, ReviewComment

LINE = (
    "Pull request review thread line must be part of the diff and Pull request review thread diff hunk can't be blank"
)
APPROVE_BY_BOT = "GitHub Actions is not permitted to approve pull requests."
CREATE_BY_BOT = "GitHub Actions is not permitted to create or approve pull requests."


def pull_of(c: Call) -> tuple[Issue, Pull]:
    """The pull request that the path names, its head brought up to date."""
    issue = c.issue(pull=True)
    assert issue.pull is not None
    c.sim.refresh_pull(c.r, issue)
    return issue, issue.pull


def files_of(c: Call, pull: Pull) -> list[FileDiff]:
    base = c.r.git.merge_base(pull.base_sha, pull.head_sha) or pull.base_sha
    return c.r.git.diff(base, pull.head_sha)[:3000]


def commentable(patch: str | None) -> dict[str, list[set[int]]]:
    """Lines that a comment may stand on, one set a hunk: {"LEFT": […], "RIGHT": […]}."""
    out: dict[str, list[set[int]]] = {"LEFT": [], "RIGHT": []}
    left = right = 0
    for row in (patch or "").split("\n"):
        match = re.match(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@", row)
        if match:
            left, right = int(match[1]), int(match[2])
            out["LEFT"].append(set())
            out["RIGHT"].append(set())
        elif row.startswith("\\") or not out["LEFT"]:
            continue
        else:
            if not row.startswith("+"):
                out["LEFT"][-1].add(left)
                left += 1
            if not row.startswith("-"):
                out["RIGHT"][-1].add(right)
                right += 1
    return out


def hunk(patch: str, line: int, side: str) -> str:
    """The part of the patch that GitHub stores with a comment: from the hunk's head to the line."""
    rows, left, right, taken = patch.split("\n"), 0, 0, []
    for row in rows:
        match = re.match(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@", row)
        if match:
            left, right, taken = int(match[1]), int(match[2]), [row]
            continue
        taken.append(row)
        here = (left if side == "LEFT" else right, row[:1] != ("+" if side == "LEFT" else "-"))
        if here == (line, True):
            return "\n".join(taken)
        left += row[:1] != "+"
        right += row[:1] != "-"
    return "\n".join(taken)


def anchor_problem(files: list[FileDiff], data: dict[str, Any]) -> str | None:
    """What GitHub says about a comment's place, or None."""
    entry = next((f for f in files if f.path == data.get("path")), None)
    if entry is None:
        return "Path could not be resolved"
    side = data.get("side", "RIGHT")
    lines = commentable(entry.patch)
    line = data.get("line")
    if line is None and isinstance(data.get("position"), int):
        return None if entry.patch and data["position"] <= entry.patch.count("\n") else LINE
    if not isinstance(line, int) or side not in ("LEFT", "RIGHT"):
        return LINE
    at = next((i for i, block in enumerate(lines[side]) if line in block), None)
    if at is None:
        return "Line could not be resolved" if line < 1 else LINE
    start = data.get("start_line")
    if start is not None:
        if not isinstance(start, int) or start >= line:
            return "Pull request review thread start line must precede the end line."
        if start not in lines[data.get("start_side") or side][at]:
            return "Pull request review thread start line must be part of the same hunk as the line."
    return None


def make_comment(c: Call, pull: Pull, data: dict[str, Any], files: list[FileDiff], review: int) -> ReviewComment:
    entry = next((f for f in files if f.path == data["path"]), None)
    line = data.get("line")
    side = data.get("side", "RIGHT")
    number = c.sim.world.next_id("comment", 50001)
    return ReviewComment(
        id=number,
        user=c.login,
        body=data["body"],
        created_at=c.now,
        updated_at=c.now,
        path=data["path"],
        line=line,
        side=side,
        start_line=data.get("start_line"),
        start_side=data.get("start_side") or (side if data.get("start_line") else None),
        subject_type=data.get("subject_type", "line"),
        commit_id=data.get("commit_id") or pull.head_sha,
        original_commit_id=data.get("commit_id") or pull.head_sha,
        diff_hunk=hunk(entry.patch, line, side) if entry and entry.patch and line else "",
        review_id=review,
    )


# -------------------------------------------------------------------- the pull itself


@op("GET", "~/pulls", "pull_requests:read")
def list_pulls(c: Call) -> Reply:
    state, head, base = c.q("state", "open"), c.q("head"), c.q("base")
    rows = []
    for issue in c.r.issues.values():
        if issue.pull is None:
            continue
        c.sim.refresh_pull(c.r, issue)
        label = f"{issue.pull.head_owner}:{issue.pull.head_ref}"
        if (
            (state == "all" or issue.state == state)
            and (not head or ":" not in head or label.lower() == head.lower())
            and (not base or issue.pull.base_ref == base)
        ):
            rows.append(issue)
    key = "updated_at" if c.q("sort") == "updated" else "number"
    backwards = c.q("direction", "asc" if c.q("sort") else "desc") == "desc"
    rows.sort(key=lambda i: getattr(i, key), reverse=backwards)
    return c.paged(rows, lambda i: c.sim.shapes.pull_simple(c.r, i))


@op("GET", "~/pulls/{n:int}", "pull_requests:read")
def get_pull(c: Call) -> Reply:
    issue, pull = pull_of(c)
    accept = c.headers.get("accept", "")
    if re.search(r"\b(diff|patch)\b", accept):
        base = c.r.git.merge_base(pull.base_sha, pull.head_sha) or pull.base_sha
        text = c.r.git.diff_text(base, pull.head_sha)
        if len(text) > 1_000_000 or text.count("\n") > 20_000 or text.count("\ndiff --git ") >= 300:
            raise ApiError(
                406,
                "Sorry, the diff exceeded the maximum number of lines (20000)",
                [{"resource": "PullRequest", "field": "diff", "code": "too_large"}],
            )
        return Reply(200, text, content_type="application/vnd.github.diff; charset=utf-8")
    return Reply(200, c.sim.shapes.pull(c.r, issue))


@op("POST", "~/pulls", "pull_requests:write")
def create_pull(c: Call) -> Reply:
    data = c.obj()
    for key in ("head", "base"):
        if not isinstance(data.get(key), str) or not data[key]:
            raise invalid("PullRequest", key, "missing_field")
    if c.login == ACTIONS_BOT and not c.r.actions_can_create_pulls:
        raise ApiError(403, CREATE_BY_BOT)
    title, body = c.text("title", "PullRequest"), c.text("body", "PullRequest", required=False)
    owner, _, branch = data["head"].rpartition(":")
    owner = owner or c.r.owner
    head_repo = c.r if owner.lower() == c.r.owner.lower() else c.sim.fork_of(c.r, owner)
    sha = head_repo.branch(branch) if head_repo else None
    base = c.r.branch(data["base"])
    if sha is None or head_repo is None:
        raise invalid("PullRequest", "head", "invalid")
    if base is None:
        raise invalid("PullRequest", "base", "invalid")
    c.sim.bring(c.r, head_repo, sha)
    if not c.r.git.rev_list(sha, "^" + base):
        raise invalid("PullRequest", "", "custom", f"No commits between {data['base']} and {branch}")
    for issue in c.r.issues.values():
        other = issue.pull
        if (
            other
            and issue.state == "open"
            and (other.head_repo, other.head_ref, other.base_ref) == (head_repo.full_name, branch, data["base"])
        ):
            raise invalid("PullRequest", "", "custom", f"A pull request already exists for {head_repo.owner}:{branch}.")
    issue = c.sim.new_pull(
        c.r,
        title,
        body or None,
        c.login,
        head_repo=head_repo.full_name,
        head_ref=branch,
        base_ref=data["base"],
        draft=data.get("draft") is True,
    )
    return Reply(201, c.sim.shapes.pull(c.r, issue))


@op("PATCH", "~/pulls/{n:int}", "pull_requests:write")
def update_pull(c: Call) -> Reply:
    issue, pull = pull_of(c)
    data = c.obj()
    if "title" in data:
        issue.title = c.text("title", "PullRequest")
    if "body" in data:
        issue.body = c.text("body", "PullRequest", required=False)
    if data.get("state") in ("open", "closed"):
        issue.state = data["state"]
        issue.closed_at = c.now if issue.state == "closed" else None
    if "base" in data:
        sha = c.r.branch(str(data["base"]))
        if sha is None:
            raise invalid("PullRequest", "base", "invalid")
        pull.base_ref, pull.base_sha = data["base"], sha
    issue.updated_at = c.now
    return Reply(200, c.sim.shapes.pull(c.r, issue))


@op("PUT", "~/pulls/{n:int}/merge", "contents:write")
def merge_pull(c: Call) -> Reply:
    issue, pull = pull_of(c)
    c.r.git.update_ref(f"refs/heads/{pull.base_ref}", pull.head_sha)
    pull.merged, issue.state, pull.merged_at = True, "closed", c.now
    pull.merge_commit_sha = pull.head_sha
    return Reply(200, {"sha": pull.head_sha, "merged": True, "message": "Pull Request successfully merged"})


@op("GET", "~/pulls/{n:int}/files", "pull_requests:read")
def pull_files(c: Call) -> Reply:
    _, pull = pull_of(c)
    return c.paged(files_of(c, pull), lambda f: c.git.diff_entry(f, pull.head_sha))


@op("GET", "~/pulls/{n:int}/commits", "pull_requests:read")
def pull_commits(c: Call) -> Reply:
    _, pull = pull_of(c)
    shas = c.r.git.rev_list("--reverse", pull.head_sha, "^" + pull.base_sha)[:250]
    return c.paged(shas, lambda sha: c.git.commit(_info(c, sha)))


def _info(c: Call, sha: str) -> Any:
    info = c.r.git.commit_info(sha)
    assert info is not None
    return info


# -------------------------------------------------------------------- reviews


@op("GET", "~/pulls/{n:int}/reviews", "pull_requests:read")
def list_reviews(c: Call) -> Reply:
    issue, pull = pull_of(c)
    return c.paged(pull.reviews, lambda r: c.sim.shapes.review(c.r, issue, r))


def _review(c: Call) -> tuple[Issue, Pull, Review]:
    issue, pull = pull_of(c)
    review = next((r for r in pull.reviews if r.id == int(c.params["id"])), None)
    if review is None:
        raise ApiError(404, "Not Found")
    return issue, pull, review


@op("GET", "~/pulls/{n:int}/reviews/{id:int}", "pull_requests:read")
def get_review(c: Call) -> Reply:
    issue, _, review = _review(c)
    return Reply(200, c.sim.shapes.review(c.r, issue, review))


@op("GET", "~/pulls/{n:int}/reviews/{id:int}/comments", "pull_requests:read")
def review_comments_of(c: Call) -> Reply:
    issue, pull, review = _review(c)
    rows = [x for x in pull.comments if x.review_id == review.id]

    def shape(comment: ReviewComment) -> dict[str, Any]:
        return c.sim.shapes.review_comment(c.r, issue, comment)

    return c.paged(rows, shape)


def _verdict(c: Call, issue: Issue, event: str) -> str:
    if event == "APPROVE" and c.login == ACTIONS_BOT and not c.r.actions_can_approve:
        raise ApiError(422, "Unprocessable Entity", [APPROVE_BY_BOT])
    if event in ("APPROVE", "REQUEST_CHANGES") and (issue.user or "") == c.login:
        what = "approve" if event == "APPROVE" else "request changes on"
        raise ApiError(422, "Unprocessable Entity", [f"Can not {what} your own pull request"])
    states = {"APPROVE": "APPROVED", "REQUEST_CHANGES": "CHANGES_REQUESTED", "COMMENT": "COMMENTED"}
    if event not in states:
        raise ApiError(
            422, "Unprocessable Entity", ["Variable $event of type PullRequestReviewEvent was provided invalid value"]
        )
    return states[event]


@op("POST", "~/pulls/{n:int}/reviews", "pull_requests:write")
def create_review(c: Call) -> Reply:
    issue, pull = pull_of(c)
    data = c.obj()
    body = data.get("body") or ""
    comments = data.get("comments") or []
    if len(body) > BODY_MAX or any(len(x.get("body") or "") > BODY_MAX for x in comments if isinstance(x, dict)):
        raise ApiError(422, "Unprocessable Entity", ["Body is too long (maximum is 65536 characters)"])
    event = data.get("event")
    state = _verdict(c, issue, event) if event else "PENDING"
    if event in ("COMMENT", "REQUEST_CHANGES") and not body.strip() and not comments:
        raise ApiError(422, "Unprocessable Entity", ["Review body can't be blank"])
    if data.get("commit_id") and data["commit_id"] not in c.r.git.rev_list(pull.head_sha, "^" + pull.base_sha):
        raise ApiError(422, "Unprocessable Entity", ["The given commit_id is not part of the pull request"])
    files = files_of(c, pull) if comments else []
    problems = []
    for item in comments:
        if not isinstance(item, dict) or not isinstance(item.get("path"), str) or not item.get("body"):
            raise ApiError(422, "Unprocessable Entity", ["Pull request review comment body can't be blank"])
        problem = "subject_type is not accepted here" if "subject_type" in item else anchor_problem(files, item)
        if problem:
            problems.append(problem)
    if problems:
        raise ApiError(422, "Unprocessable Entity", sorted(set(problems)))
    review = Review(
        c.sim.world.next_id("review", 80001),
        c.login,
        body,
        state,
        data.get("commit_id") or pull.head_sha,
        c.now if event else None,
    )
    pull.reviews.append(review)
    pull.comments += [make_comment(c, pull, x, files, review.id) for x in comments]
    return Reply(200, c.sim.shapes.review(c.r, issue, review))


@op("POST", "~/pulls/{n:int}/reviews/{id:int}/events", "pull_requests:write")
def submit_review(c: Call) -> Reply:
    issue, _, review = _review(c)
    if review.state != "PENDING":
        raise ApiError(422, "Unprocessable Entity", ["Can not submit a review that was submitted before"])
    review.state = _verdict(c, issue, str(c.obj().get("event")))
    review.body = c.obj().get("body") or review.body
    review.submitted_at = c.now
    return Reply(200, c.sim.shapes.review(c.r, issue, review))


# -------------------------------------------------------------------- review comments


@op("GET", "~/pulls/{n:int}/comments", "pull_requests:read")
def list_review_comments(c: Call) -> Reply:
    issue, pull = pull_of(c)
    rows = [x for x in pull.comments if x.updated_at >= c.q("since")]
    rows.sort(key=lambda x: (x.created_at, x.id), reverse=c.q("direction") == "desc")

    def shape(comment: ReviewComment) -> dict[str, Any]:
        return c.sim.shapes.review_comment(c.r, issue, comment)

    return c.paged(rows, shape)


@op("POST", "~/pulls/{n:int}/comments", "pull_requests:write")
def create_review_comment(c: Call) -> Reply:
    issue, pull = pull_of(c)
    body = c.text("body", "PullRequestReviewComment")
    data = c.obj()
    if isinstance(data.get("in_reply_to"), int):
        return _reply(c, issue, pull, data["in_reply_to"], body)
    for key in ("path", "commit_id"):
        if not isinstance(data.get(key), str):
            raise invalid("PullRequestReviewComment", key, "missing_field")
    files = files_of(c, pull)
    if data["commit_id"] not in c.r.git.rev_list(pull.head_sha, "^" + pull.base_sha):
        raise invalid(
            "PullRequestReviewComment",
            "pull_request_review_thread.commit_id",
            "custom",
            "commit_id is not part of the pull request",
        )
    whole_file = data.get("subject_type") == "file" and any(f.path == data["path"] for f in files)
    problem = None if whole_file else anchor_problem(files, data)
    if problem:
        field = "path" if problem.startswith("Path") else "line"
        text = "could not be resolved" if field == "path" else "must be part of the diff"
        name = f"pull_request_review_thread.{field}"
        raise invalid("PullRequestReviewComment", name, "custom", f"{name} {text}")
    review = Review(c.sim.world.next_id("review", 80001), c.login, "", "COMMENTED", pull.head_sha, c.now)
    pull.reviews.append(review)
    comment = make_comment(c, pull, {**data, "body": body}, files, review.id)
    pull.comments.append(comment)
    return Reply(201, c.sim.shapes.review_comment(c.r, issue, comment))


def _reply(c: Call, issue: Issue, pull: Pull, to: int, body: str) -> Reply:
    parent = next((x for x in pull.comments if x.id == to), None)
    if parent is None:
        raise ApiError(404, "Not Found")
    comment = ReviewComment(
        **{
            **parent.__dict__,
            "id": c.sim.world.next_id("comment", 50001),
            "user": c.login,
            "body": body,
            "created_at": c.now,
            "updated_at": c.now,
            "in_reply_to": parent.in_reply_to or parent.id,
        }
    )
    pull.comments.append(comment)
    return Reply(201, c.sim.shapes.review_comment(c.r, issue, comment))


@op("POST", "~/pulls/{n:int}/comments/{id:int}/replies", "pull_requests:write")
def reply_review_comment(c: Call) -> Reply:
    issue, pull = pull_of(c)
    return _reply(c, issue, pull, int(c.params["id"]), c.text("body", "PullRequestReviewComment"))


def _found(c: Call) -> tuple[Issue, ReviewComment]:
    for issue in c.r.issues.values():
        for comment in issue.pull.comments if issue.pull else []:
            if comment.id == int(c.params["id"]):
                return issue, comment
    raise ApiError(404, "Not Found")


@op("GET", "~/pulls/comments/{id:int}", "pull_requests:read")
def get_review_comment(c: Call) -> Reply:
    return Reply(200, c.sim.shapes.review_comment(c.r, *_found(c)))


@op("PATCH", "~/pulls/comments/{id:int}", "pull_requests:write")
def edit_review_comment(c: Call) -> Reply:
    issue, comment = _found(c)
    comment.body = c.text("body", "PullRequestReviewComment")
    comment.updated_at = c.now
    return Reply(200, c.sim.shapes.review_comment(c.r, issue, comment))


@op("DELETE", "~/pulls/comments/{id:int}", "pull_requests:write")
def delete_review_comment(c: Call) -> Reply:
    issue, comment = _found(c)
    assert issue.pull is not None
    issue.pull.comments.remove(comment)
    return Reply(204)
