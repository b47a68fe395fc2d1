"""The broker's server loop against a hostile harness: a typed answer or a closed channel, never an exception."""

from __future__ import annotations

import socket
import threading
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.broker.server import IN_FLIGHT, Call, Reply, Server
from agent.contract.errors import Refusal, ToolInputError, UpstreamError
from agent.kernel.channel import Caller, CallFailed, Channel, ChannelError


def refuse(_: Call) -> Reply:
    raise Refusal("egress_path_blocked", "no")


def slip(call: Call) -> Reply:
    return {"n": call.number("n", default=5, low=1, high=10), "t": call.text("t", default="x")}, b""


def upstream(_: Call) -> Reply:
    raise UpstreamError("create tree", "boom", 502)


def bug(_: Call) -> Reply:
    raise KeyError("secret detail")


def stream(call: Call) -> Reply:
    call.more({"status": 200}, b"")
    call.more({}, b"ab")
    return {}, b"c"


HANDLERS = {"refuse": refuse, "slip": slip, "upstream": upstream, "bug": bug, "stream": stream}


class Running:
    def __init__(self, handlers: dict[str, Any]) -> None:
        ours, self.raw = socket.socketpair()
        self.faults: list[tuple[str, BaseException]] = []
        self.server = Server(Channel(ours), handlers, on_fault=lambda op, exc: self.faults.append((op, exc)))
        self.ended: list[str] = []
        self.thread = threading.Thread(target=lambda: self.ended.append(self.server.serve()), daemon=True)
        self.thread.start()


@pytest.fixture
def running() -> Running:
    return Running(HANDLERS)


@pytest.mark.parametrize(
    ("op", "code"),
    [
        ("refuse", "egress_path_blocked"),
        ("upstream", "upstream"),
        ("bug", "error"),
        ("no such", "bad_request"),
    ],
)
def test_every_failure_is_a_typed_answer(running: Running, op: str, code: str) -> None:
    """And the server goes on serving."""
    caller = Caller(Channel(running.raw))
    with pytest.raises(CallFailed) as caught:
        caller.call(op)
    assert caught.value.code == code
    assert "secret detail" not in str(caught.value)
    assert caller.call("slip").header["n"] == 5
    assert [name for name, _ in running.faults] == (["bug"] if op == "bug" else [])


@pytest.mark.parametrize("fields", [{"n": "3"}, {"n": True}, {"n": None}, {"n": [1]}, {"t": 3}, {"t": "a" * 70_000}])
def test_a_field_of_the_wrong_kind_is_told(running: Running, fields: dict[str, Any]) -> None:
    """The caller can mend it."""
    with pytest.raises(CallFailed) as caught:
        Caller(Channel(running.raw)).call("slip", **fields)
    assert caught.value.code == "tool_input"


def test_a_streamed_answer_keeps_its_order(running: Running) -> None:
    """More frames first, the final one last."""
    assert [f.payload for f in Caller(Channel(running.raw)).stream("stream")] == [b"", b"ab", b"c"]


@settings(deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_leave_the_server_standing_or_closed(data: bytes) -> None:
    """Raw bytes end the loop with a reason; they never raise out of it."""
    running = Running(HANDLERS)
    running.raw.sendall(data)
    running.raw.shutdown(socket.SHUT_WR)
    running.thread.join(10)
    assert len(running.ended) == 1
    assert running.faults == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(["id", "op", "n", "t", "x"]), JSON | st.sampled_from(list(HANDLERS))))
def test_any_header_gives_an_answer_that_is_no_bug(header: dict[str, Any]) -> None:
    """Whatever stands in the fields, no handler's bug is reached but the one that is planted."""
    running = Running({k: v for k, v in HANDLERS.items() if k != "bug"})
    channel = Channel(running.raw)
    channel.send(header)
    running.raw.shutdown(socket.SHUT_WR)
    running.thread.join(10)
    assert running.faults == []
    assert len(running.ended) == 1


def test_requests_under_way_are_bounded() -> None:
    """A flood waits in the socket instead of becoming threads."""
    entered = threading.Semaphore(0)
    gate = threading.Event()
    most = [0, 0]
    lock = threading.Lock()

    def slow(_: Call) -> Reply:
        with lock:
            most[0] += 1
            most[1] = max(most)
        entered.release()
        gate.wait(10)
        with lock:
            most[0] -= 1
        return {}, b""

    running = Running({"slow": slow})
    channel = Channel(running.raw)
    for n in range(1, IN_FLIGHT * 3 + 1):
        channel.send({"id": n, "op": "slow"})
    for _ in range(IN_FLIGHT):
        entered.acquire()
    assert not entered.acquire(timeout=0.3)
    gate.set()
    answers = {channel.recv().header["id"] for _ in range(IN_FLIGHT * 3)}  # type: ignore[union-attr]
    assert answers == set(range(1, IN_FLIGHT * 3 + 1))
    assert most[1] == IN_FLIGHT


def test_requests_are_done_one_after_another_where_no_thread_is_to_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    """A harness that takes all threads the machine has must not leave its channel, and launch's, without a reader."""
    running = Running({"echo": lambda call: ({"n": call.fields["n"]}, b"")})

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    running.raw.settimeout(10)
    channel = Channel(running.raw)
    channel.send({"id": 9, "op": "none"})
    assert channel.recv() is not None, "control: it serves"
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        for n in (1, 2, 3):
            channel.send({"id": n, "op": "echo", "n": n})
        answers = [channel.recv().header for _ in range(3)]  # type: ignore[union-attr]
    assert answers == [{"id": n, "ok": True, "n": n} for n in (1, 2, 3)]
    channel.send({"id": 4, "op": "echo", "n": 4})
    assert channel.recv() is not None, "control: with threads it goes on"


def test_a_harness_that_hangs_up_ends_the_loop(running: Running) -> None:
    """The reason is there for the record."""
    running.raw.close()
    running.thread.join(10)
    assert running.ended == ["closed"]


@pytest.mark.parametrize("requests", [1, IN_FLIGHT, IN_FLIGHT + 5])
def test_a_harness_that_is_gone_is_not_waited_for(requests: int) -> None:
    """However many requests hang, the run goes on to its report; what had not been read is never done."""
    gate, begun = threading.Event(), threading.Semaphore(0)
    count: list[int] = []

    def hang(_: Call) -> Reply:
        count.append(1)
        begun.release()
        gate.wait(30)
        return {}, b""

    running = Running({"hang": hang})
    channel = Channel(running.raw)
    for n in range(1, requests + 1):
        channel.send({"id": n, "op": "hang"})
    for _ in range(min(requests, IN_FLIGHT)):
        assert begun.acquire(timeout=10)
    assert running.thread.is_alive()
    running.server.end()
    running.thread.join(10)
    assert not running.thread.is_alive()
    gate.set()
    time.sleep(0.1)
    assert len(count) == min(requests, IN_FLIGHT)


def test_tool_input_error_is_the_models_to_mend() -> None:
    """The root of an error decides who is told."""

    def handler(_: Call) -> Reply:
        raise ToolInputError("`path` is empty.")

    with pytest.raises(CallFailed, match="`path` is empty") as caught:
        Caller(Channel(Running({"x": handler}).raw)).call("x")
    assert caught.value.code == "tool_input"
    with pytest.raises(ChannelError):
        raise ChannelError("positive control: the two are different errors")
