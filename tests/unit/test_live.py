"""The live comment: one writer, throttled, found again by a later attempt, and never anybody else's."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from agent.broker.report.live import Live, find_report
from agent.broker.report.tracking import INTERVAL_S, Progress, Tracking
from agent.contract.errors import UpstreamError

ME = {"login": "airlock-app[bot]", "type": "Bot"}


class Api:
    """GitHub's comments of one issue, in memory."""

    def __init__(self, *comments: dict[str, Any]) -> None:
        self.comments = list(comments)
        self.asked: list[tuple[str, str]] = []
        self.down = False
        self.wrote = threading.Condition()

    def _ask(self, method: str, path: str) -> None:
        with self.wrote:
            self.asked.append((method, path))
            self.wrote.notify_all()
        if self.down:
            raise UpstreamError("write", "GitHub answered 502: no explanation.")

    def paged(self, path: str, **_: Any) -> Iterator[Any]:
        self._ask("GET", path)
        yield from self.comments

    def post(self, path: str, body: Mapping[str, Any], *, step: str) -> Any:
        self._ask("POST", path)
        if path.endswith("/reactions"):
            return {"id": 1, "content": body["content"], "user": ME}
        self.comments.append({"id": 100 + len(self.comments), "body": body["body"], "user": ME})
        return self.comments[-1]

    def patch(self, path: str, body: Mapping[str, Any], *, step: str) -> Any:
        self._ask("PATCH", path)
        (comment,) = [c for c in self.comments if path == f"issues/comments/{c['id']}"]
        comment["body"] = body["body"]
        return comment

    def until(self, count: int) -> None:
        with self.wrote:
            assert self.wrote.wait_for(lambda: len(self.asked) >= count, 10)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def live(api: Api, clock: Clock | None = None, **changes: Any) -> tuple[Live, list[str], list[str]]:
    logins: list[str] = []
    problems: list[str] = []
    made = Live(
        api, Tracking(mode="plan", run_url="https://x/runs/1", name="run-1"), number=7, name="run-1",
        learn=logins.append, problem=problems.append, clock=clock or Clock(), **changes,
    )  # fmt: skip
    return made, logins, problems


def at(turn: int) -> Progress:
    return Progress(turn=turn, calls=turn, max_calls=40, tokens=10, cost_usd=None, left_s=60)


def test_a_text_gets_a_reaction_and_the_comment_comes_only_when_it_is_due() -> None:
    """Short runs leave one comment, the report; long ones are followed in it, at most once an interval."""
    api, clock = Api(), Clock()
    run, logins, problems = live(api, clock, text_kind="comment", text_id=3)
    run.start()
    api.until(1)
    run.show(at(1))
    clock.now = INTERVAL_S + 1
    while len(api.asked) < 2:  # dropped while the reaction is still being written
        run.show(at(2))
    run.show(at(3))
    run.finish("<!-- airlock:run-1 -->\n\nthe end")
    assert api.asked == [
        ("POST", "issues/comments/3/reactions"), ("POST", "issues/7/comments"), ("PATCH", "issues/comments/100"),
    ]  # fmt: skip
    assert [c["body"] for c in api.comments] == ["<!-- airlock:run-1 -->\n\nthe end"]
    assert (logins, problems) == (["airlock-app[bot]"], [])


@pytest.mark.parametrize(("kind", "path"), [("review_comment", "pulls/comments/3"), ("issue", "issues/7")])
def test_each_kind_of_text_has_its_own_reaction(kind: str, path: str) -> None:
    """A comment on a line of a pull request, an issue's own text."""
    api = Api()
    run, _, _ = live(api, text_kind=kind, text_id=3)
    run.start()
    run.finish("end")
    assert api.asked[0] == ("POST", f"{path}/reactions")


def test_a_later_attempt_takes_over_its_own_comment_and_no_other() -> None:
    """The mark can be copied by anyone: the author decides, and the author is learned from our own reaction."""
    mark = "<!-- airlock:run-1 -->\n\n"
    api = Api(
        {"id": 1, "body": mark + "copied", "user": {"login": "mallory", "type": "User"}},
        {"id": 2, "body": "<!-- airlock:run-11 -->\n\nanother run", "user": ME},
        {"id": 3, "body": "quoted " + mark, "user": ME},
        {"id": 4, "body": mark + "of attempt 1", "user": ME},
    )
    run, _, _ = live(api, attempt=2)
    run.start()
    run.finish(mark + "of attempt 2")
    assert [c["body"] for c in api.comments] == [
        mark + "copied", "<!-- airlock:run-11 -->\n\nanother run", "quoted " + mark, mark + "of attempt 2",
    ]  # fmt: skip
    assert find_report(api, 7, "run-1", None) is None


def test_a_github_that_refuses_every_write_is_told_and_costs_nothing_else() -> None:
    """The run goes on; only the end says that the report could not be written."""
    api = Api()
    api.down = True
    run, _, problems = live(api, text_kind="comment", text_id=3)
    run.start()
    api.until(2)
    with pytest.raises(UpstreamError):
        run.finish("end")
    assert [p.partition(":")[0] for p in problems] == ["The run's progress could not be shown"] * 2
    api.down = False


def test_an_answer_of_an_odd_shape_is_no_crash_of_the_writer() -> None:
    """A proxy's 200 with another body: told, and the report is still tried."""
    api = Api()
    api.post = lambda path, body, *, step: ["odd"]  # type: ignore[assignment,method-assign]
    run, _, problems = live(api)
    run.start()
    with pytest.raises((KeyError, TypeError)):
        run.finish("end")
    assert len(problems) == 1
