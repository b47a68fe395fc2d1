"""Whether this run may push to the pull request's own head branch (S4, DESIGN section 6). Pure.

It may where a maintainer asks for it in the request that started the run, known by provenance and not by content:
the request of somebody with write access, unedited since. Of that request only the maintainer's own lines count,
never a quoted or fenced one, and a line asks by how it begins, so that `do not push to this branch` does not:

    /airlock implement on this branch: rename the flag
    /airlock fix-ci
    push to this branch

And it may never be a fork's branch, the default branch, the base branch, or one that GitHub protects (the
publisher asks GitHub at the push).
"""

from __future__ import annotations

import re

from agent.broker.event import Trigger
from agent.broker.gate import Gate
from agent.broker.mode import Wish
from agent.broker.request import request_of
from agent.contract.regex import regex

_PLACE = r"this (?:branch|pr|pr's branch|pull request|pull request's branch)"
_ON = rf"on {_PLACE}\b"  # anything may follow: `on this branch: rename the flag`
_TO = rf"(?:push|commit) (?:it |directly )?(?:to|on) {_PLACE}\s*(?:$|[.,:;!])"  # not `push to this branch fails`
_ASKS = regex(rf"\s*(?:[-*] )?(?:please )?(?:{_ON}|{_TO})", re.IGNORECASE)
_FENCE = regex(r" {0,3}(?:`{3,}|~{3,})")


def asked_branch(trigger: Trigger, gate: Gate, wish: Wish, never: frozenset[str]) -> str | None:
    """The pull request's head branch where the run may push to it, else None.

    Args:
        never: default and base branch.
    """
    head = trigger.head
    if not trigger.is_pull_request or not head.known or head.is_fork or not head.ref:
        return None
    if head.ref.casefold() in {name.casefold() for name in never}:
        return None
    request = request_of(trigger, gate, wish)
    return head.ref if request is not None and asks(request) else None


def asks(request: str) -> bool:
    """Whether a line of the request's own asks to work on the pull request's branch."""
    fenced = False
    for line in request.splitlines():
        if _FENCE.match(line):
            fenced = not fenced
        elif not fenced and _ASKS.match(line):
            return True
    return False
