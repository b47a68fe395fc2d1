"""The live side of a run at GitHub: an early sign that it was seen, one comment that follows it, and its end.

All writing is done by one thread of its own, so that the run never waits for it and two writes never cross. A
write that fails is told to `problem` and costs nothing else. The comment is found again by a later attempt of
the same run (A6), and a mark alone proves nothing: the author decides (R17).
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from agent.broker.report.summary import mark
from agent.broker.report.tracking import Progress, Tracking
from agent.contract.errors import AirlockError
from agent.contract.fingerprint import is_own

OLD_COMMENTS = 3  # pages of comments searched for the one of an earlier attempt
LAST_WRITE_S = 3.0  # waited at the end for a write under way; a cancelled run has six seconds in all

REACTIONS = {
    "comment": "issues/comments/{id}/reactions",
    "review_comment": "pulls/comments/{id}/reactions",
    "issue": "issues/{number}/reactions",
}


class Api(Protocol):
    """What is used of `agent.broker.github.GitHubApi`."""

    def paged(
        self,
        path: str,
        *,
        step: str,
        key: str | None = None,
        query: Mapping[str, Any] | None = None,
        pages: int = ...,
    ) -> Any: ...

    def post(self, path: str, body: Mapping[str, Any], *, step: str) -> Any: ...

    def patch(self, path: str, body: Mapping[str, Any], *, step: str) -> Any: ...


class Live:
    """Acknowledges, follows and ends one run, on the pull request or issue that it is about."""

    def __init__(
        self,
        api: Api,
        tracking: Tracking,
        *,
        number: int,
        name: str,
        text_kind: str = "",
        text_id: int | None = None,
        attempt: int = 1,
        learn: Callable[[str], None],
        problem: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """
        Args:
            number: of the issue or pull request that gets the comment.
            name: of the hidden mark, as in the final report.
            text_kind, text_id: the text that started the run, as `Trigger` has them.
            attempt: above 1 an earlier attempt's comment is looked for first.
            learn: told the login that we write as, once GitHub has named it.
            problem: told what could not be written, as a sentence.
            clock: seconds, monotonic.
        """
        self._api = api
        self._tracking = tracking
        self._number = number
        self._name = name
        self._reaction = REACTIONS.get(text_kind, "").format(id=text_id, number=number)
        self._attempt = attempt
        self._learn = learn
        self._problem = problem
        self._clock = clock
        self._login: str | None = None
        self._comment: int | None = None
        self._looked = attempt <= 1
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._busy = threading.Semaphore(1)
        self._thread = threading.Thread(target=self._serve, name="live", daemon=True)

    def start(self) -> None:
        """Acknowledge the trigger, without waiting for it."""
        self._tracking.start(self._clock())
        self._thread.start()
        self._busy.acquire(blocking=False)
        self._work.put(self._acknowledge)

    def show(self, progress: Progress) -> None:
        """Write the comment anew if it is due; dropped while a write is under way."""
        if not self._busy.acquire(blocking=False):
            return
        body = self._tracking.due(progress, self._clock())
        if body is None:
            self._busy.release()
            return
        self._work.put(lambda: self._write(body))

    def finish(self, body: str, *, wait_s: float = LAST_WRITE_S) -> None:
        """Put the final report in the comment's place.

        Raises:
            AirlockError: it could not be written.
        """
        self._work.put(None)
        if self._thread.ident is not None:
            self._thread.join(wait_s)
        self._put(body, final=True)

    def _serve(self) -> None:
        while (job := self._work.get()) is not None:
            try:
                job()
            except (AirlockError, KeyError, TypeError) as exc:
                self._tell(exc)
            finally:
                self._busy.release()

    def _tell(self, exc: Exception) -> None:
        try:
            self._problem(f"The run's progress could not be shown: {exc}")
        except AirlockError:
            return  # the transcript is closed: the run is over

    def _acknowledge(self) -> None:
        """A reaction says "seen" without a notification to anybody; where there is no text, the comment does."""
        # GitHub's answer to a reaction names who we are, without which a later attempt cannot know its own comment
        path = self._reaction or (f"issues/{self._number}/reactions" if self._attempt > 1 else "")
        if path:
            try:
                self._learned(self._api.post(path, {"content": "eyes"}, step="acknowledge the trigger"))
                if self._reaction:
                    return
            except AirlockError as exc:
                self._tell(exc)
        self._write(self._tracking.start(self._clock()))

    def _write(self, body: str) -> None:
        self._put(body, final=False)

    def _put(self, body: str, *, final: bool) -> None:
        if self._comment is None and not self._looked:
            self._comment = find_report(self._api, self._number, self._name, self._login)
            self._looked = True
        if self._comment is None:
            step = "post the report" if final else "post the run's comment"
            answer = self._api.post(f"issues/{self._number}/comments", {"body": body}, step=step)
            self._comment = int(answer["id"])
            self._learned(answer)
            return
        step = "update the report" if final else "update the run's comment"
        self._learned(self._api.patch(f"issues/comments/{self._comment}", {"body": body}, step=step))

    def _learned(self, answer: Any) -> None:
        user = answer.get("user") if isinstance(answer, Mapping) else None
        login = user.get("login") if isinstance(user, Mapping) else None
        if isinstance(login, str) and login and self._login is None:
            self._login = login
            self._learn(login)


def find_report(api: Api, number: int, name: str, own_login: str | None) -> int | None:
    """Id of the comment that an earlier attempt of this run left, or None."""
    wanted = mark(name)
    for item in api.paged(f"issues/{number}/comments", step="look for an earlier report", pages=OLD_COMMENTS):
        if isinstance(item, dict) and str(item.get("body", "")).startswith(wanted) and is_own(item, own_login):
            return int(item["id"])
    return None
