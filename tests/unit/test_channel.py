"""The framed channel: any bytes give a frame, a clean end or ChannelError, within bounded memory."""

from __future__ import annotations

import json
import socket
import struct
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.kernel.channel import (
    HEADER_CAP,
    HELD_CAP,
    PAYLOAD_CAP,
    Caller,
    CallFailed,
    Channel,
    ChannelError,
    Frame,
)


def pair() -> tuple[Channel, socket.socket]:
    ours, theirs = socket.socketpair()
    ours.settimeout(10)
    return Channel(ours), theirs


def test_a_frame_arrives_whole() -> None:
    """Header and payload survive the wire, large and empty payloads too."""
    ours, theirs = socket.socketpair()
    sender, receiver = Channel(ours), Channel(theirs)
    frames = [Frame({"id": 1, "op": "x", "t": "é\n"}, b""), Frame({"id": 2}, b"\0" * 300_000)]
    thread = threading.Thread(target=lambda: [sender.send(f.header, f.payload) for f in frames])
    thread.start()

    received = [receiver.recv(), receiver.recv()]

    thread.join()
    assert received == frames
    sender.close()
    assert receiver.recv() is None


@given(st.binary(max_size=400))
def test_any_bytes_give_a_frame_an_end_or_a_channel_error(data: bytes) -> None:
    """No other exception comes out of `recv`, whatever a hostile peer sends."""
    channel, peer = pair()
    peer.sendall(data)
    peer.close()
    try:
        while (frame := channel.recv()) is not None:
            assert isinstance(frame.header, dict)
    except ChannelError:
        pass
    finally:
        channel.close()


@pytest.mark.parametrize(
    ("head", "payload"), [(HEADER_CAP + 1, 0), (0xFFFFFFFF, 0), (2, PAYLOAD_CAP + 1), (2, 0xFFFFFFFF)]
)
def test_a_length_over_the_cap_is_refused_before_anything_is_read(head: int, payload: int) -> None:
    """The peer's word for a length is never allocated unchecked."""
    channel, peer = pair()
    peer.sendall(struct.pack(">II", head, payload))

    with pytest.raises(ChannelError, match="over the cap"):
        channel.recv()


@pytest.mark.parametrize("header", [b"[]", b"1", b'"x"', b"{", b"\xff", b"[" * 100_000])
def test_a_header_that_is_no_object_is_refused(header: bytes) -> None:
    """JSON of another kind, no JSON, and nesting that exhausts the parser."""
    channel, peer = pair()
    peer.sendall(struct.pack(">II", len(header), 0) + header)

    with pytest.raises(ChannelError):
        channel.recv()


def test_sending_over_the_cap_is_an_error_and_sends_nothing() -> None:
    """The own side cannot break the stream either."""
    channel, peer = pair()
    with pytest.raises(ChannelError, match="too large"):
        channel.send({"x": "a" * (HEADER_CAP + 1)})
    channel.send({"id": 1})
    assert peer.recv(8) == struct.pack(">II", len(json.dumps({"id": 1}, separators=(",", ":"))), 0)


def answer_all(channel: Channel) -> None:
    """A peer that answers `echo`, streams `count`, fails `bad`, and hangs up on `die`."""
    while (frame := channel.recv()) is not None:
        number, op = frame.header["id"], frame.header["op"]
        if op == "echo":
            channel.send({"id": number, "ok": True, "said": frame.header.get("say")}, frame.payload)
        elif op == "count":
            for n in range(3):
                channel.send({"id": number, "more": True, "n": n}, str(n).encode())
            channel.send({"id": number, "ok": True})
        elif op == "bad":
            channel.send({"id": number, "ok": False, "error": {"code": "no", "message": "never", "why": 1}})
        elif op == "die":
            channel.close()
            return


@pytest.fixture
def caller() -> Caller:
    ours, theirs = socket.socketpair()
    threading.Thread(target=answer_all, args=(Channel(theirs),), daemon=True).start()
    return Caller(Channel(ours))


def test_calls_from_many_threads_each_get_their_own_answer(caller: Caller) -> None:
    """Answers are told apart by id."""
    got: dict[int, Frame] = {}

    def ask(n: int) -> None:
        got[n] = caller.call("echo", str(n).encode(), say=n)

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {n: (f.header["said"], f.payload) for n, f in got.items()} == {n: (n, str(n).encode()) for n in range(20)}


def test_a_streamed_answer_is_yielded_in_order_and_joined_by_call(caller: Caller) -> None:
    """Every `more` frame, then the final one."""
    assert [f.payload for f in caller.stream("count")] == [b"0", b"1", b"2", b""]
    assert caller.call("count").payload == b"012"


def test_an_error_answer_raises_with_its_code(caller: Caller) -> None:
    """The code and the rest of the error object reach the caller."""
    with pytest.raises(CallFailed, match="never") as caught:
        caller.call("bad")
    assert (caught.value.code, caught.value.data["why"]) == ("no", 1)


def test_a_peer_that_goes_away_ends_every_waiting_call(caller: Caller) -> None:
    """Nobody waits for ever, and later calls fail at once."""
    with pytest.raises(ChannelError):
        caller.call("die")
    with pytest.raises(ChannelError):
        caller.call("echo")


class Broken(BaseException):
    """What a signal's handler may raise in whatever thread it finds."""


def test_a_reader_that_is_broken_off_leaves_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a frame may be read by then: those whose answers it would have read are told, and later calls too."""
    ours, theirs = socket.socketpair()
    channel = Channel(ours)
    caller, reads, errors = Caller(channel), threading.Event(), []

    def recv() -> Frame | None:
        reads.set()
        while len(caller._pending) < 2:
            time.sleep(0.001)
        raise Broken

    def wait() -> None:
        reads.wait(10)
        try:
            caller.call("other")
        except ChannelError as exc:
            errors.append(str(exc))

    monkeypatch.setattr(channel, "recv", recv)
    other = threading.Thread(target=wait, daemon=True)
    other.start()
    with pytest.raises(Broken):
        caller.call("first")
    other.join(10)

    assert errors == ["the reading was broken off"]
    with pytest.raises(ChannelError, match="broken off"):
        caller.call("later")
    theirs.close()


def test_a_frame_that_was_half_sent_ends_the_channel(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next frame would be taken for the rest of it."""

    class Half:
        def sendall(self, data: bytes) -> None:
            ours.sendall(data[:9])
            raise Broken

        def shutdown(self, how: int) -> None:
            ours.shutdown(how)

    ours, theirs = socket.socketpair()
    channel = Channel(ours)
    channel.send({"n": 1})
    with monkeypatch.context() as patch:
        patch.setattr(channel, "_sock", Half())
        with pytest.raises(Broken):
            channel.send({"n": 2})

    with pytest.raises(ChannelError):
        channel.send({"n": 3})
    receiver = Channel(theirs)
    assert receiver.recv() == Frame({"n": 1})
    with pytest.raises(ChannelError, match="cut off"):
        receiver.recv()


def test_a_held_frame_goes_with_the_next_and_before_it() -> None:
    """Each write wakes the peer: what may wait does, in order, and never longer than until the next frame."""
    channel, peer = pair()
    receiver = Channel(peer)
    channel.send({"n": 1}, b"a", hold=True)
    channel.send({"n": 2}, hold=True)
    assert not receiver.ready(0.1)

    channel.send({"n": 3}, b"c")

    assert [receiver.recv() for _ in range(3)] == [Frame({"n": 1}, b"a"), Frame({"n": 2}), Frame({"n": 3}, b"c")]


@pytest.mark.parametrize("payload", [HELD_CAP - 10, HELD_CAP, HELD_CAP * 3])
def test_what_is_too_large_to_be_held_goes_at_once_with_all_that_was(payload: int) -> None:
    """A bound for what waits in memory, and the order stays."""
    channel, peer = pair()
    receiver = Channel(peer)
    channel.send({"n": 1}, hold=True)
    threading.Thread(target=channel.send, args=({"n": 2}, b"x" * payload), kwargs={"hold": True}).start()

    assert receiver.recv() == Frame({"n": 1})
    assert receiver.recv() == Frame({"n": 2}, b"x" * payload)


class Impatient(Exception):
    pass


def test_whoever_waits_is_asked_whether_it_still_does() -> None:
    """What `waiting` raises ends the wait; the answer that comes all the same is nobody's, and the next call works."""
    ours, theirs = socket.socketpair()
    peer, caller, asked = Channel(theirs), Caller(Channel(ours)), 0

    def waiting() -> None:
        nonlocal asked
        asked += 1
        if asked == 3:
            raise Impatient

    with pytest.raises(Impatient):
        list(caller.stream("slow", waiting=waiting))
    assert peer.recv() == Frame({"id": 1, "op": "slow"})
    peer.send({"id": 1, "ok": True}, b"late")
    threading.Thread(target=answer_all, args=(peer,), daemon=True).start()
    assert caller.call("echo", b"now").payload == b"now"
    assert asked == 3


def test_one_thread_reads_for_all_and_hands_the_reading_on() -> None:
    """Answers in the opposite order of the questions: each waits for its own, whoever reads them."""
    ours, theirs = socket.socketpair()
    peer, caller = Channel(theirs), Caller(Channel(ours))
    got: dict[str, bytes] = {}

    def ask(name: str) -> None:
        got[name] = caller.call(name).payload

    threads = []
    numbers = {}
    for name in "abc":
        threads.append(threading.Thread(target=ask, args=(name,), daemon=True))
        threads[-1].start()
        frame = peer.recv()
        assert frame is not None
        numbers[name] = frame.header["id"]
    for name in "cba":
        peer.send({"id": numbers[name], "ok": True}, name.encode())
    for thread in threads:
        thread.join(10)
    assert got == {"a": b"a", "b": b"b", "c": b"c"}
