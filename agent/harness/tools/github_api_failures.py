"""Failed answers of GitHub in words that say what to do (github-contract section 5). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def explain(status: int, headers: Mapping[str, str], body: Any) -> str:
    """Say in whole sentences what a failed answer means and what to do.

    Args:
        status: HTTP status, 0 where there was none.
        headers: names in lower case.
        body: the parsed JSON body, or None.

    A 403 is told apart in the order of github-contract section 5: retry-after, remaining 0, the words
    "secondary rate limit", else a missing permission.
    """
    said = _message(body)
    quoted = f" GitHub said: {said}" if said else ""
    if status in (403, 429):
        if "retry-after" in headers or "secondary rate limit" in said.lower():
            wait = headers.get("retry-after", "60 or more")
            return f"GitHub's secondary rate limit holds (wait {wait} s). Do other work and ask less often.{quoted}"
        if headers.get("x-ratelimit-remaining") == "0" or status == 429:
            return f"GitHub's hourly rate limit is used up. Finish with what is known already.{quoted}"
        needed = headers.get("x-accepted-github-permissions")
        which = f"`{needed}`" if needed else "the permission that this needs"
        return (
            f"The workflow's token lacks {which} (403). Do not try again; say in the result that the workflow's "
            f"`permissions:` must grant it.{quoted}"
        )
    if status == 404:
        return f"Not there, or the token may not see it (404). Check the number or path.{quoted}"
    if status == 401:
        return f"GitHub refuses the token (401): it is wrong or expired. Nothing on this side can mend it.{quoted}"
    if status == 406:
        return f"Too large for this form (406). Read it by file: list_pull_request_files, git_diff with a path.{quoted}"
    if status == 410:
        return f"Gone (410): deleted, expired, or the feature is switched off.{quoted}"
    if status == 409:
        return f"In conflict with the repository's present state (409). Read it again first.{quoted}"
    if status == 422:
        return f"GitHub does not accept these values (422).{quoted}"
    if status >= 500 or status == 0:
        return f"GitHub has a fault of its own ({status or 'no status'}). Try once more later.{quoted}"
    return f"GitHub answered {status}.{quoted}"


def _message(value: Any) -> str:
    """The message and the errors of a body, objects or plain strings; at most 600 characters."""
    if not isinstance(value, dict):
        return ""
    parts = [str(value.get("message") or "")]
    errors = value.get("errors")
    for error in errors if isinstance(errors, list) else []:
        if isinstance(error, dict):
            words = [error.get(k) for k in ("resource", "field", "code", "message")]
            parts.append(" ".join(str(w) for w in words if w))
        else:
            parts.append(str(error))
    return "; ".join(p for p in parts if p)[:600]
