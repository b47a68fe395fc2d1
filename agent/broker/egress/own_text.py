"""Whether a comment is Airlock's own: the check behind the gate `own_text`.

A token that may write comments may change anybody's. So before a comment is changed the broker reads it, and
goes on only where it carries Airlock's hidden mark *and* its author is the token's own account: a stranger can
write the mark, not the author. The account's login is learnt from GitHub's answers to what this run wrote;
until then any bot's comment with the mark counts, since the login of an App's token is not known beforehand.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable

MARK = "<!-- airlock:"
GATE = "own_text"


class OwnAccount:
    """The logins that this run's tokens write under."""

    def __init__(self, logins: Iterable[str] = ()) -> None:
        self._lock = threading.Lock()
        self._logins = set(logins)

    def learn(self, body: bytes) -> None:
        """Take the author from GitHub's answer to something that was just made."""
        login = _author(_decoded(body))[0]
        if login:
            with self._lock:
                self._logins.add(login)

    def wrote(self, body: bytes) -> bool:
        """Whether the comment in this answer of GitHub is ours."""
        comment = _decoded(body)
        text = comment.get("body")
        login, kind = _author(comment)
        if not isinstance(text, str) or MARK not in text:
            return False
        with self._lock:
            return login in self._logins if self._logins else kind == "Bot"


def _decoded(body: bytes) -> dict[str, object]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _author(comment: dict[str, object]) -> tuple[str | None, str | None]:
    user = comment.get("user")
    if not isinstance(user, dict):
        return None, None
    login, kind = user.get("login"), user.get("type")
    return (login if isinstance(login, str) else None), (kind if isinstance(kind, str) else None)
