"""The task the model is given: our words, numbers and shas; never a title, a branch name or a label (S1)."""

from __future__ import annotations

import json

from agent.contract.errors import UserError
from agent.contract.regex import regex

SMUGGLE_LENGTH = 20  # characters of a payload's text in `task` that cannot be chance


def build_task(
    mode: str,
    *,
    repository: str,
    number: int | None,
    is_pull_request: bool,
    run_id: int | None,
    head_sha: str | None,
    wish: str,
) -> str:
    """Words of the task.

    Args:
        wish: the workflow's own input `task`, already checked by `check_wish`.
    """
    kind = "pull request" if is_pull_request else "issue"
    about = f"{kind} #{number}" if number is not None else "the default branch"
    lines = {
        "review": [f"Review {about} of {repository}."],
        "plan": [f"Plan the work that {about} of {repository} asks for and post the plan as one comment."],
        "fix-ci": [f"A check of {repository} failed. Find the cause, reproduce it, fix it, and open a pull request."],
        "implement": [f"Do what the maintainer asks for in {about} of {repository}, and open a pull request."],
        "restricted": [f"Answer what can be answered about {about} of {repository} by reading alone."],
    }.get(mode, [f"Work on {about} of {repository}."])
    if mode == "fix-ci" and run_id is not None:
        lines.append(f"The failed workflow run is {run_id}.")
    if head_sha:
        lines.append(f"The workspace is at commit {head_sha}.")
    if mode in ("implement", "plan", "restricted", "review"):
        lines.append("Call get_request first: it says what was asked, and by whom.")
    if wish:
        lines.append(f"The workflow's owner adds:\n{wish}")
    return "\n".join(lines)


def check_wish(wish: str, payload_texts: list[str]) -> None:
    """Refuse an input `task` into which the workflow has put text of the event (S1).

    `task: ${{ github.event.comment.body }}` would turn a stranger's words into the operator's.

    Raises:
        UserError: a text of the payload of 20 characters or more stands in the task.
    """
    flat = {_flat(wish), _flat(_unescaped(wish))}
    for text in payload_texts:
        pieces = {_flat(line) for line in (text, *text.splitlines())}
        if any(len(piece) >= SMUGGLE_LENGTH and any(piece in one for one in flat) for piece in pieces):
            raise UserError(
                "Input `task` holds text of the event (a title, body, comment or branch name). Anyone who can "
                "write that text could give orders. Remove the expression: the model reads the event by get_request."
            )


def _unescaped(wish: str) -> str:
    """The wish with JSON's escapes undone: `toJSON(...)` in a workflow gives them."""
    return _ESCAPE.sub(lambda m: _ESCAPED.get(m[1]) or chr(int(m[2], 16)), wish)


_ESCAPE = regex(r'\\(?:(["\\/bfnrt])|u([0-9a-fA-F]{4}))')
_ESCAPED = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def payload_texts(event: bytes) -> list[str]:
    """Texts of a payload that people wrote: titles, bodies, names of branches and labels, at any depth."""
    try:
        value = json.loads(event)
    except (ValueError, RecursionError):
        return []
    found: list[str] = []
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            # a review comment's file name is its author's; a workflow's own path is not
            keys = _WRITTEN | {"path"} if "diff_hunk" in item else _WRITTEN
            found += [v for k, v in item.items() if isinstance(v, str) and k in keys]
            stack += [v for v in item.values() if isinstance(v, dict | list)]
        elif isinstance(item, list):
            stack += [v for v in item if isinstance(v, dict | list)]
    return found


_WRITTEN = frozenset(
    "title body name description ref head_branch message display_title label diff_hunk tag_name".split()
)


def _flat(text: str) -> str:
    return " ".join(text.split()).casefold()
