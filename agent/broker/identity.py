"""Asks GitHub what the gate needs to know. Thin: every doubt becomes an answer that the gate restricts (S6)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeVar
from urllib.parse import quote

from agent.broker.event import Trigger
from agent.broker.gate import Answer, TextNow
from agent.contract.errors import AirlockError, UpstreamError

PATIENCE_S = 10.0  # a permission that has not come by then is none
T = TypeVar("T")
_WORDS = frozenset({"admin", "write", "read", "none"})


class Api(Protocol):
    """The part of `GitHubApi` that is needed."""

    def get(self, path: str, *, step: str, timeout_s: float | None = None) -> Any: ...


def ask_permissions(api: Api, logins: Iterable[str], *, patience_s: float = PATIENCE_S) -> dict[str, Answer]:
    """The permission of each login, asked for side by side; never raises, never waits longer than asked."""
    wanted = tuple(dict.fromkeys(logins))
    late = Answer(None, f"GitHub did not answer within {patience_s:g} seconds")
    found = _side_by_side({login: _permission(api, login, patience_s) for login in wanted}, patience_s)
    return {login: found.get(login, late) for login in wanted}


def read_text(api: Api, trigger: Trigger, *, patience_s: float = PATIENCE_S) -> TextNow:
    """The triggering text as it is now; never raises, never waits longer than asked."""
    paths = {
        "comment": f"issues/comments/{trigger.text_id}",
        "review_comment": f"pulls/comments/{trigger.text_id}",
        "issue": f"issues/{trigger.number}",
    }
    path = paths.get(trigger.text_kind)
    if path is None or (trigger.text_id is None and trigger.text_kind != "issue"):
        return TextNow(None, detail="the event does not say where the text is")
    found = _side_by_side({"text": lambda: _text(api, path, patience_s)}, patience_s)
    return found.get("text", TextNow(None, detail=f"GitHub did not answer within {patience_s:g} seconds"))


def _permission(api: Api, login: str, patience_s: float) -> Callable[[], Answer]:
    def ask() -> Answer:
        path = f"collaborators/{quote(login, safe='')}/permission"
        try:
            data = api.get(path, step="read permission", timeout_s=patience_s)
        except AirlockError as exc:
            return Answer(None, _why(exc))
        word = data.get("permission") if isinstance(data, dict) else None
        if not isinstance(word, str) or word not in _WORDS:
            return Answer(None, "GitHub's answer names no permission")
        user = data.get("user")
        named = user.get("login") if isinstance(user, dict) else None
        if named is not None and (not isinstance(named, str) or named.casefold() != login.casefold()):
            return Answer(None, "GitHub answered about somebody else")
        return Answer(word)

    return ask


def _text(api: Api, path: str, patience_s: float) -> TextNow:
    try:
        data = api.get(path, step="read the triggering text again", timeout_s=patience_s)
    except AirlockError as exc:
        return TextNow(None, detail=_why(exc))
    body = data.get("body") if isinstance(data, dict) else None
    if not isinstance(data, dict) or not isinstance(body, str):
        return TextNow(None, detail="GitHub's answer has no text")
    user, moment = data.get("user"), data.get("updated_at")
    author = user.get("login") if isinstance(user, dict) else None
    return TextNow(
        body.encode("utf-8", "replace").decode(),
        moment if isinstance(moment, str) else None,
        author if isinstance(author, str) else None,
    )


def _why(exc: AirlockError) -> str:
    if isinstance(exc, UpstreamError) and exc.status is not None:
        return f"GitHub answered {exc.status}"
    return "GitHub gave no answer"


def _side_by_side(jobs: dict[str, Callable[[], T]], patience_s: float) -> dict[str, T]:
    """Results of the jobs that end in time. The threads are daemons: a late one holds nothing up."""
    found: dict[str, T] = {}

    def run(name: str, job: Callable[[], T]) -> None:
        found[name] = job()

    threads = [threading.Thread(target=run, args=item, daemon=True) for item in jobs.items()]
    for thread in threads:
        thread.start()
    end = time.monotonic() + patience_s
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    return dict(found)
