"""The pace towards GitHub: a second between content, 900 points in any minute, objects as fast as that allows."""

from __future__ import annotations

import threading

from hypothesis import given
from hypothesis import strategies as st

from agent.broker.egress.pace import BURST, RATE, Pace

ROOT = "https://api.github.com/repos/acme/widgets"
BLOB, REF, COMMENT = f"{ROOT}/git/blobs", f"{ROOT}/git/refs", f"{ROOT}/issues/7/comments"


class Clock:
    """Time that passes by sleeping alone."""

    def __init__(self) -> None:
        self.time = 1000.0

    def monotonic(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds


def times(requests: list[tuple[str, str]], pause: float = 1.0) -> list[float]:
    """When each request may go, in seconds from the first."""
    clock = Clock()
    pace = Pace(pause, monotonic=clock.monotonic, sleep=clock.sleep)
    found = []
    for method, url in requests:
        pace.wait(method, url)
        found.append(round(clock.time - 1000.0, 3))
    return found


def test_content_is_a_second_apart_whatever_kind_it_is() -> None:
    """Refs, pull requests, comments, edits and labels share one pace; a read in between does not wait."""
    requests = [
        ("POST", REF), ("GET", ROOT), ("PATCH", f"{REF}/heads/airlock/x"), ("POST", COMMENT), ("DELETE", COMMENT),
    ]  # fmt: skip
    assert times(requests) == [0.0, 0.0, 1.0, 2.0, 3.0]


def test_objects_of_a_push_go_at_once_and_the_ref_after_them_without_a_wait() -> None:
    """Forty blobs, a tree and a commit cost no time; that was forty seconds when each was paced like a comment."""
    push = [("POST", BLOB)] * 40 + [("POST", f"{ROOT}/git/trees"), ("POST", f"{ROOT}/git/commits"), ("POST", REF)]
    assert times(push) == [0.0] * 43


def test_a_ref_that_only_looks_like_an_object_is_content() -> None:
    """A branch named git/blobs, or a comment below a path of that name, is paced."""
    requests = [("PATCH", f"{REF}/heads/git/blobs"), ("PATCH", f"{REF}/heads/git/blobs"), ("POST", f"{BLOB}/x")]
    assert times(requests) == [0.0, 1.0, 2.0]


@given(st.lists(st.sampled_from([("GET", ROOT), ("POST", BLOB), ("POST", REF)]), max_size=600))
def test_no_minute_holds_more_than_900_points(requests: list[tuple[str, str]]) -> None:
    """Whatever the mix, in any window of sixty seconds."""
    at = times(requests)
    cost = [1 if method == "GET" else 5 for method, _ in requests]
    assert at == sorted(at)
    first = 0
    held = 0
    for index, moment in enumerate(at):
        held += cost[index]
        while at[first] <= moment - 60:
            held -= cost[first]
            first += 1
        assert held <= BURST + 60 * RATE + 5 <= 900


def test_without_a_pause_there_is_no_pace() -> None:
    """Tests of other things turn it off."""
    assert times([("POST", BLOB)] * 500 + [("POST", REF)] * 3, pause=0.0) == [0.0] * 503


def test_threads_at_once_each_get_their_own_second() -> None:
    """Two that ask at the same moment are not let through together."""
    slept: list[float] = []
    pace = Pace(1.0, monotonic=lambda: 1000.0, sleep=slept.append)
    threads = [threading.Thread(target=pace.wait, args=("POST", COMMENT)) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(slept) == [1.0, 2.0, 3.0, 4.0]
