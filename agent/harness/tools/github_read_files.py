"""`list_pull_request_files`: what a pull request changes, with the lines that a review comment can cite.

With `new_only` it is what changed since this action's last review. That review is known by our own mark in a review
of our own account, never by a mark that somebody copied (R17) nor by a review of another workflow of the repository,
which writes as the same bot: taking either for ours would hide code that nobody has read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from agent.contract.diff import Hunk, numbered, parse_patch, ranges
from agent.contract.errors import ToolInputError
from agent.contract.fingerprint import own_marked
from agent.contract.modes import Tier
from agent.contract.tool import AgentTool, ToolOutput
from agent.harness.tools import paging
from agent.harness.tools.context import NotedOutput, ToolContext, own_words
from agent.harness.tools.github_api import NUMBER_ARG, GitHub, number_of, schema
from agent.harness.tools.github_write import own_login

FILES_PAGE = 30
PATCH_SHOWN = 12_000  # characters of one file's hunks; a page of files stays below the belt's cap
PAGE_SHOWN = 40_000
_ALL_PAGES = 30  # 3,000 files, all that GitHub lists
_COMPARED = 300  # files of one comparison, after which GitHub leaves out the rest without a word
_LEGEND = "A line: old number, new number, kind, text. Cite new numbers with side RIGHT"
_UNCHANGED = {"renamed": "only its name changed", "changed": "only its mode changed"}


def last_reviewed(reviews: Iterable[Mapping[str, Any]], login: str | None) -> str:
    """Commit of our own last review, or the empty text."""
    found = own_marked(reviews, login, "review")
    return str(found[-1][0].get("commit_id") or "") if found else ""


def _file_text(item: Mapping[str, Any], whole: tuple[Hunk, ...] | None = None) -> str:
    """One file.

    Args:
        whole: the pull request's own hunks, where `item` holds a part of the change alone.
    """
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
    right = ranges(hunks if whole is None else whole, "RIGHT") or "none"
    left = f"; LEFT: {ranges(hunks, 'LEFT') or 'none'}" if whole is None else ""
    return f"{head}\ncommentable RIGHT: {right}{left}\n{text}"


def _shown(texts: Iterable[str], offset: int, total: int | None, remark: str) -> ToolOutput:
    """As many files as fit into one page; the note says how to go on. Without a total there may be more."""
    parts: list[str] = []
    room = PAGE_SHOWN
    for text in texts:
        if parts and len(text) > room:
            break
        parts.append(text)
        room -= len(text)
    return NotedOutput("\n\n".join(parts), note=f"{remark} {paging.note(offset, len(parts), total, 'files')}.")


def _list_files(args: Mapping[str, Any], ctx: ToolContext) -> ToolOutput:
    number, offset = number_of(args, ctx), paging.asked(args, FILES_PAGE)[0]
    api = GitHub(ctx)
    if args.get("new_only"):
        return _new_files(api, ctx, number, offset)
    return _all_files(api, number, offset)


def _all_files(api: GitHub, number: int, offset: int, why: str = "") -> ToolOutput:
    page, skip = divmod(offset - 1, FILES_PAGE)
    query = {"per_page": FILES_PAGE, "page": page + 1}
    value = api.checked(api.send("GET", f"/pulls/{number}/files", query), "list files").json()
    listed = [f for f in value if isinstance(f, dict)] if isinstance(value, list) else []
    if offset == 1 and not listed:
        return own_words("The pull request changes no files.")
    last = len(listed) < FILES_PAGE  # a full page may be the last one too; then the next call says so
    total = page * FILES_PAGE + len(listed) if last else None
    if not listed[skip:]:
        raise ToolInputError(f"offset={offset} is past the end. Leave it out to begin at 1.")
    return _shown(map(_file_text, listed[skip:]), offset, total, f"{why}{_LEGEND}, deleted lines' with LEFT.")


def _new_files(api: GitHub, ctx: ToolContext, number: int, offset: int) -> ToolOutput:
    """What changed since our last review; everything where that cannot be told, and the note says so."""
    reviewed = last_reviewed(api.pages(f"/pulls/{number}/reviews", "read reviews").items, own_login(ctx))
    if not reviewed:
        return _all_files(api, number, offset, "No review of this action stands yet: everything is new. ")
    head = ctx.facts.head_sha if number == ctx.facts.number else None
    if not head:
        pull = api.get(f"/pulls/{number}", "read pull request")
        head = str((pull.get("head") or {}).get("sha"))
    if head == reviewed:
        return own_words(f"Nothing has changed since the last review, of {reviewed}.")
    compared = api.find(f"/compare/{reviewed}...{head}") or {}
    changed = compared.get("files")
    # a rewritten branch is compared from where the two parted, and of very many files GitHub shows a part
    if compared.get("status") != "ahead" or not isinstance(changed, list) or len(changed) >= _COMPARED:
        why = f"The change since the last review, of {reviewed[:12]}, cannot be told apart: this is all of it. "
        return _all_files(api, number, offset, why)
    whole = {
        str(f.get("filename")): parse_patch(f["patch"]) if isinstance(f.get("patch"), str) else ()
        for f in api.pages(f"/pulls/{number}/files", "list files", cap=_ALL_PAGES).items
    }
    # a merge of the base brings files that are no part of the pull request
    new = [f for f in changed if isinstance(f, dict) and f.get("filename") in whole]
    if not new:
        return own_words(f"Nothing of the pull request has changed since the last review, of {reviewed}.")
    if offset > len(new):
        raise paging.past_the_end(offset, len(new), "files")
    texts = (_file_text(f, whole[str(f["filename"])]) for f in new[offset - 1 :])
    return _shown(texts, offset, len(new), f"Changed since the last review, of {reviewed[:12]}. {_LEGEND} alone.")


LIST_FILES = AgentTool(
    name="list_pull_request_files",
    tier=Tier.READ,
    description="Changed files of a pull request with hunks and the line numbers a review comment can cite.",
    schema=schema(
        NUMBER_ARG,
        paging.OFFSET_ARG,
        {"new_only": {"type": "boolean", "description": "what changed since this action's last review"}},
    ),
    run=_list_files,
    parallel=True,
)
