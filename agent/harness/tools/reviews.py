"""`review_comment` and `submit_review`: anchors are checked before anything is sent, and nothing is lost (F17).

The verdict is COMMENT; REQUEST_CHANGES where trusted configuration allows it; never APPROVE. The broker holds the
same rule in its route's schema.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from agent.contract.diff import LEFT, RIGHT, Anchor, Hunk, parse_patch, place
from agent.contract.errors import Refusal, ToolInputError, UpstreamError
from agent.contract.fingerprint import Mark, code_is_there, is_own, own_marked, with_mark
from agent.contract.modes import Tier
from agent.contract.neutral import neutralise
from agent.contract.tool import AgentTool, ToolOutput
from agent.harness.tools.context import ToolContext
from agent.harness.tools.github_api import NUMBER, NUMBER_ARG, GitHub, number_of, schema
from agent.harness.tools.github_write import REST, clean, own_login
from agent.harness.tools.reviews_plan import Finding, Placed, Plan, make_plan, review_body, where

COMMENT, REQUEST_CHANGES = "COMMENT", "REQUEST_CHANGES"
_FILES_PAGES = 30  # 3,000 files, all that GitHub lists


def verdict(event: str, *, may_request: bool) -> tuple[str, str]:
    """The event that is sent, and a remark where it is not the one asked for.

    Raises:
        ToolInputError: approving, which no configuration allows, or no event at all.
    """
    if event == COMMENT:
        return COMMENT, ""
    if event == REQUEST_CHANGES:
        if may_request:
            return REQUEST_CHANGES, ""
        return COMMENT, "Sent as COMMENT: the configuration does not allow requesting changes."
    if event == "APPROVE":
        raise ToolInputError("A review never approves. Use COMMENT and say what was checked.")
    raise ToolInputError(f"`event` must be {COMMENT} or {REQUEST_CHANGES}.")


def _finding(args: Mapping[str, Any]) -> Finding:
    body = args.get("body")
    if not isinstance(body, str) or not body.strip():
        raise ToolInputError("A comment's `body` is empty.")
    start = args.get("start_line")
    anchor = Anchor(
        path=str(args["path"]).removeprefix("./"),
        line=int(args["line"]),
        side=str(args.get("side", RIGHT)),
        start_line=None if start is None or int(start) == int(args["line"]) else int(start),
    )
    return Finding(anchor, body)


def _hunks(files: Iterable[Mapping[str, Any]]) -> dict[str, tuple[Hunk, ...]]:
    out: dict[str, tuple[Hunk, ...]] = {}
    for item in files:
        patch = item.get("patch")
        out[str(item.get("filename"))] = parse_patch(patch) if isinstance(patch, str) else ()
    return out


def _diff(api: GitHub, ctx: ToolContext, number: int) -> tuple[str, dict[str, tuple[Hunk, ...]], str]:
    """The commit that is reviewed, its hunks by path, and a remark where the pull request has moved on.

    The workspace holds the commit that the event named. When the head has moved since, line numbers of the new
    head are not the ones that the model read, so hunks and commit are taken from the one it did read.
    """
    pull = api.get(f"/pulls/{number}", "read pull request")
    head = pull.get("head")
    sha = str(head.get("sha")) if isinstance(head, Mapping) else ""
    ours = ctx.facts.head_sha
    if not ours or ours == sha or number != ctx.facts.number:
        files = api.pages(f"/pulls/{number}/files", "list files", cap=_FILES_PAGES).items
        return sha, _hunks(files), ""
    base = pull.get("base")
    base_sha = ctx.facts.base_sha or (str(base.get("sha")) if isinstance(base, Mapping) else "")
    compared = api.find(f"/compare/{base_sha}...{ours}")
    changed = compared.get("files") if compared else None
    if isinstance(changed, list):
        remark = f"The pull request has moved on to {sha[:12]}; this is about {ours[:12]}."
        return ours, _hunks(f for f in changed if isinstance(f, dict)), remark
    return sha, _hunks(api.pages(f"/pulls/{number}/files", "list files", cap=_FILES_PAGES).items), ""


def _wire(item: Placed) -> dict[str, Any]:
    """One comment as the API takes it."""
    body = neutralise(with_mark(item.body, item.mark), keep_mark=True, rest=REST)
    out: dict[str, Any] = {"path": item.anchor.path, "line": item.anchor.line, "side": item.anchor.side, "body": body}
    if item.anchor.start_line is not None:
        out["start_line"], out["start_side"] = item.anchor.start_line, item.anchor.side
    return out


def _review_comment(args: Mapping[str, Any], ctx: ToolContext) -> ToolOutput:
    number = number_of(args, ctx)
    finding = _finding(args)
    api = GitHub(ctx)
    sha, files, remark = _diff(api, ctx, number)
    checked = place(finding.anchor, files)
    if checked.anchor is None:
        raise ToolInputError(
            f"{where(finding.anchor)} cannot hold a comment: {checked.reason}. Take a line that the diff shows "
            "(list_pull_request_files), or put it into submit_review, which folds it into the body."
        )
    listed = api.pages(f"/pulls/{number}/comments", "list line comments", cap=5).items
    plan = make_plan([finding], files, _earlier(listed, ctx))
    if not plan.placed:
        return ToolOutput(f"{where(finding.anchor)}: an earlier comment says this already; none was posted.")
    made = api.write("POST", f"/pulls/{number}/comments", {**_wire(plan.placed[0]), "commit_id": sha}, "review comment")
    parts = [f"Commented on {where(plan.placed[0].anchor)}: {made.get('html_url', 'posted')}", checked.reason, remark]
    return ToolOutput("\n".join(p for p in parts if p))


def _earlier(listed: Iterable[Mapping[str, Any]], ctx: ToolContext) -> list[Any]:
    """Own line comments that still stand."""
    listed = list(listed)
    return [pair for kind in ("finding", "removed") for pair in own_marked(listed, own_login(ctx), kind)]


def _submit(args: Mapping[str, Any], ctx: ToolContext) -> ToolOutput:
    event, remark = verdict(
        str(args.get("event", COMMENT)), may_request=ctx.facts.options.get("request_changes") is True
    )
    number = number_of(args, ctx)
    findings = [_finding(c) for c in args.get("comments", ())]
    text = str(args.get("body") or "").strip()
    if not text and not findings:
        raise ToolInputError("A review needs a `body` or `comments`.")
    api = GitHub(ctx)
    sha, files, moved = _diff(api, ctx, number)
    listed = api.pages(f"/pulls/{number}/comments", "list line comments", cap=5).items
    reviews = api.pages(f"/pulls/{number}/reviews", "list reviews", cap=3).items
    own = [str(r["body"]) for r in reviews if is_own(r, own_login(ctx)) and isinstance(r.get("body"), str)]
    plan = make_plan(findings, files, _earlier(listed, ctx), own)
    gone = _resolve(api, ctx, listed, sha)
    if findings and not plan.placed and not plan.folded:
        done = f"All {len(plan.known)} findings stand on #{number} already; no review was posted."
    else:
        done = _post(api, number, event, text, plan, sha)
    parts = [done, _told(plan), gone, moved, remark]
    return ToolOutput("\n".join(p for p in parts if p))


def _post(api: GitHub, number: int, event: str, text: str, plan: Plan, sha: str) -> str:
    """One review; where GitHub refuses it as a whole, its comments one by one and the rest in the body."""
    lead = text or "Findings:"
    mark = Mark("review", sha)  # what a later run tells its own review by
    body = clean(review_body(lead, plan.folded), mark)
    review: dict[str, Any] = {
        "commit_id": sha,
        "event": event,
        "body": body,
        "comments": [_wire(p) for p in plan.placed],
    }
    reply = api.send("POST", f"/pulls/{number}/reviews", None, review)
    if reply.status != 422 or reply.refused or not plan.placed:
        made = api.checked(reply, "submit review").json()
        url = made.get("html_url", "") if isinstance(made, dict) else ""
        return f"Posted one review ({event}) with {len(plan.placed)} line comments. {url}".rstrip()
    posted: list[Placed] = []
    for item in plan.placed:
        single = api.send("POST", f"/pulls/{number}/comments", None, {**_wire(item), "commit_id": sha})
        if single.ok:
            posted.append(item)
        else:
            plan.folded.append((Finding(item.anchor, item.body), "GitHub refuses the line"))
    plan.placed[:] = posted
    body = clean(review_body(lead, plan.folded), mark)
    api.write("POST", f"/pulls/{number}/reviews", {"commit_id": sha, "event": event, "body": body}, "submit review")
    return f"Posted a review ({event}); GitHub refused it whole, so {len(posted)} line comments were posted singly."


def _told(plan: Plan) -> str:
    lines = [f"{where(f.anchor)}: in the review's body, because {why}." for f, why in plan.folded]
    lines += [f"{where(p.anchor)}: {p.changed}." for p in plan.placed if p.changed]
    lines += [f"{where(f.anchor)}: said before, not repeated." for f in plan.known]
    return "\n".join(lines)


def _resolve(api: GitHub, ctx: ToolContext, listed: Iterable[Mapping[str, Any]], sha: str) -> str:
    """Edit own comments whose code is gone at the reviewed commit to say so.

    Only where the workspace holds exactly that commit and this run cannot write to it.
    """
    if ctx.facts.head_sha != sha or "write_file" in ctx.facts.tools:
        return ""
    done = 0
    for comment, mark in own_marked(listed, own_login(ctx), "finding"):
        path = str(comment.get("path"))
        if not isinstance(comment.get("id"), int) or code_is_there(path, _file(ctx, path), mark):
            continue
        old = str(comment.get("body")).rstrip().rsplit("\n", 1)[0].rstrip()
        said = f"**Resolved in {sha[:12]}:** the code this was about is gone."
        text = f"{said}\n\n<details><summary>Before</summary>\n\n{old}\n\n</details>"
        mark_now = type(mark)("resolved", mark.key, mark.lines)
        body = neutralise(with_mark(text, mark_now), keep_mark=True, rest=REST)
        try:
            api.write("PATCH", f"/pulls/comments/{comment['id']}", {"body": body}, "mark as resolved")
        except (UpstreamError, Refusal):
            break  # a courtesy: the review itself goes on
        done += 1
    return f"{done} earlier findings were marked as resolved." if done else ""


def _file(ctx: ToolContext, path: str) -> str:
    try:
        return ctx.files.read(path, 4 << 20).decode("utf-8", "replace")
    except ToolInputError:
        return ""  # deleted, or no regular file any more


_COMMENT_ARGS: Mapping[str, Any] = {
    "path": {"type": "string"},
    "line": {**NUMBER, "description": "last line of the range"},
    "side": {"enum": [RIGHT, LEFT], "description": "RIGHT (default): after the change"},
    "start_line": NUMBER,
    "body": {"type": "string", "description": "a ```suggestion block replaces the lines"},
}
_REQUIRED = ("path", "line", "body")

TOOLS: tuple[AgentTool, ...] = (
    AgentTool(
        name="review_comment",
        tier=Tier.COMMENT,
        description="Comment on lines of the pull request's diff. For several findings use submit_review once.",
        schema=schema(NUMBER_ARG, _COMMENT_ARGS, required=_REQUIRED),
        run=_review_comment,
    ),
    AgentTool(
        name="submit_review",
        tier=Tier.COMMENT,
        description=(
            "Post one review: a summary and comments on lines. Lines outside the diff are folded into the summary; "
            "findings that stand already are not repeated. It never approves."
        ),
        schema=schema(
            NUMBER_ARG,
            {
                "event": {"type": "string", "description": f"{COMMENT} (default) or {REQUEST_CHANGES}"},
                "body": {"type": "string"},
                "comments": {
                    "type": "array",
                    "maxItems": 100,
                    "items": {**schema(_COMMENT_ARGS, required=_REQUIRED), "additionalProperties": False},
                },
            },
        ),
        run=_submit,
    ),
)
