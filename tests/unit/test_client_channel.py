"""The client over the real framed channel, with a broker's side that streams, refuses, fails and dies."""

from __future__ import annotations

import contextlib
import itertools
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from agent.harness.clients import ModelClient, Retry
from agent.harness.loop import CancelToken, Limits, LoopResult, StopReason, run_loop
from agent.kernel.channel import Caller, Channel, ChannelError, Frame
from tests.support.model_run import Log, entry

EVENTS = [
    {"type": "message_start", "message": {"model": "m", "usage": {"input_tokens": 10, "output_tokens": 1}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hällo."}},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}},
    {"type": "message_stop"},
]
STREAM = b"".join(f"event: {one['type']}\ndata: {json.dumps(one, ensure_ascii=False)}\n\n".encode() for one in EVENTS)
Answer = Callable[[Channel, Frame], None]


def first(channel: Channel, frame: Frame, status: int = 200, **more: object) -> None:
    headers = {"content-type": "text/event-stream" if status == 200 else "application/json"}
    channel.send({"id": frame.header["id"], "more": True, "status": status, "headers": headers, **more})


def whole(channel: Channel, frame: Frame) -> None:
    first(channel, frame)
    for start in range(0, len(STREAM), 7):  # cut inside characters and lines
        channel.send({"id": frame.header["id"], "more": True}, STREAM[start : start + 7])
    channel.send({"id": frame.header["id"], "ok": True, "status": 200})


def refuses(code: str) -> Answer:
    def answer(channel: Channel, frame: Frame) -> None:
        body = json.dumps({"status": 403, "error": {"code": code, "message": "not here"}}).encode()
        first(channel, frame, 403, refused=True)
        channel.send({"id": frame.header["id"], "more": True}, body)
        channel.send({"id": frame.header["id"], "ok": True, "status": 403})

    return answer


def fails(code: str, *, after: bytes = b"") -> Answer:
    def answer(channel: Channel, frame: Frame) -> None:
        if after:
            first(channel, frame)
            channel.send({"id": frame.header["id"], "more": True}, after)
        channel.send({"id": frame.header["id"], "ok": False, "error": {"code": code, "message": "it failed"}})

    return answer


def dies(channel: Channel, _frame: Frame) -> None:
    channel.close()
    raise ChannelError("gone")


@contextlib.contextmanager
def broker(*answers: Answer) -> Iterator[tuple[Caller, list[Frame]]]:
    """A broker that answers each request with the next of `answers`, the last one again and again."""
    ours, theirs = socket.socketpair()
    channel, seen = Channel(theirs), []

    def serve() -> None:
        with contextlib.suppress(ChannelError):
            while (frame := channel.recv()) is not None:
                seen.append(frame)
                answers[min(len(seen), len(answers)) - 1](channel, frame)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    caller_channel = Channel(ours)
    yield Caller(caller_channel), seen
    caller_channel.close()
    thread.join(5)


def run(*answers: Answer) -> tuple[LoopResult, list[Frame], list[str]]:
    log = Log()
    with broker(*answers) as (caller, seen):
        client = ModelClient(
            caller, [entry("anthropic")], logger=log, retry=Retry(attempts=3), wait=lambda _request, _seconds: False
        )
        result = run_loop(client, system="s", task="t", logger=log)
    return result, seen, [name for name, _ in log.events]


class Chatter:
    """An answer without a pause: a word of keep-alive every few milliseconds, `most` times, then the end."""

    def __init__(self, before: bytes = b"", after: bytes = b"", *, most: int = 1000, cancel: CancelToken | None = None):
        self._before, self._after, self._most, self._cancel = before, after, most, cancel
        self.sent = 0

    def __call__(self, channel: Channel, frame: Frame) -> None:
        first(channel, frame)
        channel.send({"id": frame.header["id"], "more": True}, self._before)
        while self.sent < self._most:
            time.sleep(0.002)
            if self.sent == 20 and self._cancel is not None:
                self._cancel.cancel()
            channel.send({"id": frame.header["id"], "more": True}, b": still here\n\n")
            self.sent += 1
        channel.send({"id": frame.header["id"], "more": True}, self._after)
        channel.send({"id": frame.header["id"], "ok": True, "status": 200})


@pytest.mark.parametrize("ends_by", [StopReason.CANCELLED, StopReason.TIMEOUT])
def test_a_provider_that_never_pauses_outlasts_neither_cancel_nor_deadline(ends_by: StopReason) -> None:
    """Silence is not the only thing that may last: each frame of a long answer looks at cancel and clock too."""
    cancelled = ends_by is StopReason.CANCELLED
    cancel, limits = CancelToken(), Limits(timeout_s=None if cancelled else 0.3)
    chatter = Chatter(after=STREAM, cancel=cancel if cancelled else None)
    with broker(chatter) as (caller, _):
        client = ModelClient(caller, [entry("anthropic")])
        result = run_loop(client, system="s", task="t", cancel=cancel, limits=limits)
        sent = chatter.sent

    assert (result.stop_reason, result.output, sent < 900) == (ends_by, "", True)


def test_a_provider_that_chats_on_after_its_turn_is_not_listened_to_for_long() -> None:
    """A finished turn is used though the stream does not end; without a pause, too."""
    clock = itertools.count(0.0, 0.01).__next__
    chatter = Chatter(before=STREAM)
    with broker(chatter) as (caller, _):
        result = run_loop(ModelClient(caller, [entry("anthropic")], clock=clock), system="s", task="t")
        sent = chatter.sent

    assert (result.output, result.ok, sent < 900) == ("Hällo.", True, True)


def test_turn_over_the_channel() -> None:
    """A streamed turn arrives whole, and the request has exactly the fields that the broker's op takes."""
    result, seen, _ = run(whole)

    assert (result.output, result.usage.total_tokens, result.ok) == ("Hällo.", 15, True)
    header = dict(seen[0].header)
    assert (header.pop("id"), json.loads(seen[0].payload)["model"]) == (1, "claude-sonnet-4-5")
    assert header == {
        "op": "egress",
        "connection": "model",
        "method": "POST",
        "path": "/v1/messages",
        "headers": {
            "content-type": "application/json",
            "accept": "text/event-stream",
            "anthropic-version": "2023-06-01",
        },
        "stream": True,
    }


@pytest.mark.parametrize("after", [b"", STREAM[:150]])
def test_upstream_failure_is_tried_again(after: bytes) -> None:
    """An upstream failure, at once or in the middle of the stream, is tried again and the half turn dropped."""
    result, seen, events = run(fails("upstream", after=after), whole)

    assert (result.output, len(seen), events.count("model.retry")) == ("Hällo.", 2, 1)


def test_upstream_failure_after_the_end_is_none() -> None:
    """A turn that the provider had finished counts, whatever happens to the connection afterwards."""
    result, seen, _ = run(fails("upstream", after=STREAM))

    assert (result.output, len(seen)) == ("Hällo.", 1)


@pytest.mark.parametrize(("silence_s", "waited"), [(2.0, True), (4.0, False)])
def test_silence_after_the_end_of_a_turn_is_not_waited_out(silence_s: float, waited: bool) -> None:
    """Usage may follow a turn's end by a moment; a connection that stays open and silent is left."""
    now, seen = [0.0], []

    class Silent:
        def stream(self, *_: object, waiting: Callable[[], None], **__: object) -> Iterator[Frame]:
            yield Frame({"status": 200, "headers": {}}, STREAM[:150])
            now[0] += 100.0
            waiting()  # a model that thinks in the middle of its answer
            yield Frame({}, STREAM[150:])
            now[0] += silence_s
            waiting()
            seen.append("waited")

    client = ModelClient(Silent(), [entry("anthropic")], clock=lambda: now[0])  # type: ignore[arg-type]
    result = run_loop(client, system="s", task="t")

    assert (result.output, seen) == ("Hällo.", ["waited"] if waited else [])


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
def test_answer_without_end_is_refused(kind: str) -> None:
    """A provider that goes on and on does not fill the memory, and is not asked again."""
    piece, sent = b": " + b"x" * 1_000_000 + b"\n\n", []

    class Endless:
        def stream(self, *_: object, **__: object) -> Iterator[Frame]:
            yield Frame({"status": 200, "headers": {"content-type": kind}})
            while len(sent) < 200:
                sent.append(1)
                yield Frame({}, piece)

    result = run_loop(ModelClient(Endless(), [entry("anthropic")]), system="s", task="t")  # type: ignore[arg-type]

    assert (result.stop_reason, "over 64 MiB" in result.reason) == (StopReason.ERROR, True)
    assert len(sent) == (64 << 20) // len(piece) + 1


def test_limit_of_the_broker_ends_as_budget() -> None:
    """The broker's own count of a limit ends the run as budget, without another try."""
    result, seen, _ = run(fails("limit"))

    assert (result.stop_reason, len(seen)) == (StopReason.BUDGET, 1)


@pytest.mark.parametrize(("then", "end"), [(fails("limit"), StopReason.BUDGET), (dies, StopReason.ERROR)])
def test_half_an_answer_before_the_brokers_end_is_counted(then: Answer, end: StopReason) -> None:
    """What an attempt had cost before the broker said that a limit is reached, or was gone, is in the run's usage."""
    result, seen, _ = run(fails("upstream", after=STREAM[:200]), then)

    assert (result.stop_reason, len(seen), result.usage.input_tokens) == (end, 2, 10)


@pytest.mark.parametrize("answer", [refuses("egress_path_blocked"), fails("egress_path_blocked")])
def test_refusal_is_final_and_named(answer: Answer) -> None:
    """A refusal of the policy, as an answer or as an error, is not tried again, and its code is in the reason."""
    result, seen, _ = run(answer)

    assert (result.stop_reason, len(seen)) == (StopReason.ERROR, 1)
    assert "egress_path_blocked" in result.reason


@pytest.mark.parametrize("answer", [refuses("secret_unavailable"), fails("secret_unavailable")])
def test_missing_key_is_said(answer: Answer) -> None:
    """Without a key nothing is sent, and the run says why."""
    result, seen, _ = run(answer)

    assert (result.stop_reason, len(seen)) == (StopReason.ERROR, 1)
    assert "secret_unavailable" in result.reason


def test_broker_that_dies_ends_the_run() -> None:
    """A broker that is gone ends the run as error; it is not asked again."""
    result, seen, _ = run(dies)

    assert (result.stop_reason, len(seen)) == (StopReason.ERROR, 1)
    assert "The broker is gone" in result.reason


def test_junk_as_a_refusal() -> None:
    """A refusal whose body is no JSON is a refusal all the same."""

    def junk(channel: Channel, frame: Frame) -> None:
        first(channel, frame, 409, refused=True)
        channel.send({"id": frame.header["id"], "ok": True}, b"\xff<")

    result, seen, _ = run(junk)

    assert (result.stop_reason, len(seen), "refused" in result.reason) == (StopReason.ERROR, 1, True)


def test_answer_without_frames_is_a_fault() -> None:
    """An answer whose first frame has no status is a fault of the provider's side, not a crash."""

    def bare(channel: Channel, frame: Frame) -> None:
        channel.send({"id": frame.header["id"], "ok": True})

    result, _, _ = run(bare)

    assert result.stop_reason is StopReason.ERROR
