"""Every fault kind on every wire: the run goes on where it can, and ends honestly where it cannot."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from agent.harness.clients import ModelClient, Retry
from agent.harness.loop import CancelToken, Limits, StopReason, ToolMessage, run_loop
from agent.kernel.channel import Frame
from tests.support.artifacts import PROPERTY
from tests.support.model_broker import LoopbackBroker
from tests.support.model_run import WIRES, Ran, entry, run, tool
from tests.support.model_server import Call, Cut, Inside, ModelServer, Raw, Slow, Status, Turn

WORK = Turn(calls=[Call("read_file", {"path": "a"})])
COMPLETED, ERROR, BUDGET = StopReason.COMPLETED, StopReason.ERROR, StopReason.BUDGET

OVERLOAD = b'{"type":"error","status":"failed","error":{"type":"overloaded_error","message":"Overloaded"}}'

# kind: (turns after one turn of work, how the run ends, requests in all)
FAULTS: Mapping[str, tuple[list[Turn], StopReason, int]] = {
    "429 once": ([Turn(fault=Status(429))], COMPLETED, 3),
    "429 Retry-After": ([Turn(fault=Status(429, headers={"retry-after": "1"}))], COMPLETED, 3),
    "529 twice": ([Turn(fault=Status(529))] * 2, COMPLETED, 4),
    "500": ([Turn(fault=Status(500))], COMPLETED, 3),
    "503 with HTML": ([Turn(fault=Status(503, b"<html>busy</html>"))], COMPLETED, 3),
    "408": ([Turn(fault=Status(408))], COMPLETED, 3),
    "529 for ever": ([Turn(fault=Status(529))] * 9, ERROR, 5),
    "quota used up": ([Turn(fault=Status(429, type="insufficient_quota"))], ERROR, 2),
    "overload inside a 200": ([Turn("part", fault=Inside())], COMPLETED, 3),
    "overload as the whole answer": ([Turn(fault=Raw(OVERLOAD, "application/json"))], COMPLETED, 3),
    "error inside, not retryable": ([Turn("part", fault=Inside("invalid_request_error", "no"))], ERROR, 2),
    "cut stream": ([Turn("x" * 200, fault=Cut(4))], COMPLETED, 3),
    "cut inside a call": ([Turn(calls=[Call("write_file", {"path": "a" * 99})], fault=Cut(5))], COMPLETED, 3),
    "stream ends early, body whole": ([Turn("x" * 200, fault=Cut(4, clean=True))], COMPLETED, 3),
    "nothing at all": ([Turn(fault=Cut(0))], COMPLETED, 3),
    "silence in the stream": ([Turn("x" * 200, fault=Slow(20, 3))], COMPLETED, 3),
    "silence from the start": ([Turn("x", fault=Slow(20, 0))], COMPLETED, 3),
    "stream that is no JSON": ([Turn(fault=Raw(b"data: {oops\n\n"))], COMPLETED, 3),
    "body that is no JSON": ([Turn(fault=Raw(b"<html>", "application/json"))], COMPLETED, 3),
    "401": ([Turn(fault=Status(401))], ERROR, 2),
    "403": ([Turn(fault=Status(403))], ERROR, 2),
    "404 no such model": ([Turn(fault=Status(404))], ERROR, 2),
    "400": ([Turn(fault=Status(400, message="bad"))], ERROR, 2),
    "context too long": ([Turn(fault=Status(400, message="prompt is too long: 9 tokens > 8"))], ERROR, 2),
    "413": ([Turn(fault=Status(413))], ERROR, 2),
    "redirect": ([Turn(fault=Status(302, b"", {"location": "http://127.0.0.1:1/"}))], ERROR, 2),
    "odd ids and names": ([Turn(calls=[Call("x" * 300, {}, "")])], COMPLETED, 3),
}  # fmt: skip


@pytest.mark.parametrize("kind", FAULTS)
def test_fault(kind: str, record_property: Callable[[str, object], None]) -> None:
    """On every wire the run ends as it should, with as many requests, and keeps what was done before the fault."""
    turns, wanted, requests = FAULTS[kind]
    cells = []
    for wire in WIRES:
        with ModelServer([WORK, *turns, Turn("done")]) as server:
            idle_s = 1.0 if "silence" in kind else 60.0
            ran = run(server, wire, retry=Retry(attempts=4), idle_s=idle_s)

        cells.append(f"{wire}: {ran.result.stop_reason}, {len(ran.requests)} requests")
        assert (wire, ran.result.stop_reason, len(ran.requests)) == (wire, wanted, requests)
        assert ran.result.ok is (wanted is COMPLETED)
        done = [message for message in ran.result.messages if isinstance(message, ToolMessage)]
        assert done[0].results[0].text == "read_file {'path': 'a'}"
        assert [one.results[0].name for one in done] == (
            ["read_file"] + (["x" * 300] if kind == "odd ids and names" else [])
        )
        assert ran.result.reason
    record_property(PROPERTY, ("model faults by provider", kind.ljust(32) + "".join(cell.ljust(42) for cell in cells)))


@pytest.mark.parametrize(
    ("wire", "event"),
    [
        ("openai-chat", {"choices": [{"delta": {"content": "half"}, "finish_reason": "error"}]}),
        ("openai-chat", {"choices": [], "error": {"code": 502, "message": "no workers"}}),
        ("openai-chat", {"choices": [{"delta": {}, "error": {"code": 502, "message": "no workers"}}]}),
        ("openai-responses", {"type": "response.failed", "response": {"status": "failed", "error": None}}),
        ("openai-responses", {"type": "response.failed", "response": {"error": {"code": "server_error"}}}),
    ],
)
@pytest.mark.parametrize("whole", [False, True])
def test_an_end_that_is_an_error_is_no_turn(wire: str, event: dict[str, Any], whole: bool) -> None:
    """What a provider ends with an error, named or not, in a stream or as one object, is asked for again."""
    if whole:
        answer = event.get("response", event)
        fault = Raw(json.dumps(answer).replace('"delta"', '"message"').encode(), "application/json")
    else:
        fault = Raw(f"data: {json.dumps(event)}\n\n".encode())
    with ModelServer([Turn(fault=fault), Turn("done")]) as server:
        ran = run(server, wire)

    assert (ran.result.output, len(ran.requests), ran.result.turns) == ("done", 2, 1)


def waits(turns: list[Turn], **options: Any) -> Ran:
    with ModelServer([*turns, Turn("done")]) as server:
        return run(server, "anthropic", **options)


def test_waits_double_and_keep_to_the_providers_wish() -> None:
    """Waits double with jitter; `Retry-After` in seconds, milliseconds or as a date is never undercut."""
    doubling = waits([Turn(fault=Status(529))] * 5)
    asked = waits(
        [Turn(fault=Status(429, headers=headers)) for headers in ({"retry-after": "7"}, {"retry-after-ms": "2500"},
         {"Retry-After": "Fri, 31 Dec 1999 23:59:59 GMT"}, {"retry-after": "soon"})]
    )  # fmt: skip

    assert doubling.waits == [0.375, 0.75, 1.5, 3.0, 6.0]
    assert [round(wait, 3) for wait in asked.waits] == [7.094, 2.688, 0.375, 3.0]
    assert [fields["attempt"] for fields in asked.named("model.retry")] == [1, 2, 3, 4]


def test_no_wait_beyond_the_clock_of_the_run() -> None:
    """A wait that the run's clock does not allow is not begun: the run ends at once with what it has."""
    ran = waits([Turn(fault=Status(429, headers={"retry-after": "90"}))], limits=Limits(timeout_s=60))

    assert (ran.waits, ran.result.stop_reason, len(ran.requests)) == ([], ERROR, 1)
    assert "no time left to wait" in ran.result.reason


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("events", [0, 12])
def test_time_that_is_up_while_the_model_answers_is_a_timeout(wire: str, events: int) -> None:
    """The clock that runs out before or inside an answer is that end, not a provider's fault; what came is counted."""
    with ModelServer([Turn("x" * 400, fault=Slow(20, events))]) as server:
        ran = run(server, wire, limits=Limits(timeout_s=0.6))

    assert (ran.result.stop_reason, ran.waits, len(ran.requests)) == (StopReason.TIMEOUT, [], 1)
    assert (ran.result.usage.output_tokens > 30) is bool(events)


def test_cancel_in_a_wait_keeps_what_was_paid() -> None:
    """A cancel between two attempts ends the run, and its usage has the half answer before it."""
    cancel = CancelToken()

    def wait(_request: Any, _seconds: float) -> bool:
        cancel.cancel()
        return True

    with ModelServer([Turn("x" * 4000, usage={"input": 1000}, fault=Cut(60))]) as server:
        client = ModelClient(LoopbackBroker(server.url), [entry("anthropic")], wait=wait)
        result = run_loop(client, system="s", task="t", cancel=cancel)

    assert (result.stop_reason, len(server.requests)) == (StopReason.CANCELLED, 1)
    assert (result.usage.input_tokens, result.usage.output_tokens > 250) == (1000, True)


def test_wish_for_an_hour_counts_as_down() -> None:
    """A provider that asks for an hour is not waited for."""
    ran = waits([Turn(fault=Status(429, headers={"retry-after": "3600"}))])

    assert (ran.waits, ran.result.stop_reason) == ([], ERROR)


@pytest.mark.parametrize("fault", [Status(529), Status(404), Status(401), Status(400, message="no"), Cut(2)])
def test_failover_along_the_list(fault: Any) -> None:
    """Any fault of one provider moves the run to the next model, which stays in use, and the transcript says so."""
    work = [Turn(fault=fault)] * 3
    with ModelServer([WORK, *work]) as first, ModelServer([WORK, Turn("done")]) as second:
        models = [entry("anthropic"), entry("openai-responses", connection="model-1", model="gpt-5.2")]
        ran = run(
            first, "", models=models, origins={"model": first.url, "model-1": second.url}, retry=Retry(attempts=3)
        )

    assert (ran.result.stop_reason, ran.result.output, ran.result.turns) == (COMPLETED, "done", 3)
    moves = ran.named("model.failover")
    assert [(move["before"], move["after"]) for move in moves] == [("claude-sonnet-4-5", "gpt-5.2")]
    assert [request.status for request in second.requests] == [200, 200]
    assert "read_file {'path': 'a'}" in second.requests[0].results


def test_unknown_connection_is_refused_by_the_broker_and_moves_on() -> None:
    """A broker's refusal is a fault of that model alone; without another model it is the reason of the end."""
    with ModelServer([Turn("done")]) as server:
        models = [entry("anthropic", connection="nowhere"), entry("anthropic")]
        moved = run(server, "", models=models, origins={"model": server.url})
        alone = run(server, "", models=models[:1], origins={"model": server.url})

    assert moved.result.ok
    assert (alone.result.stop_reason, "egress_connection_unknown" in alone.result.reason) == (ERROR, True)


@pytest.mark.parametrize("clean", [False, True])
def test_cut_streams_are_paid_for(clean: bool) -> None:
    """What a cut stream had said already counts against the budgets, in tokens and in money."""
    ran = waits([Turn("x" * 4000, usage={"input": 1000}, fault=Cut(60, clean=clean))])
    clean = waits([])

    assert ran.result.ok
    assert ran.result.usage.input_tokens == 1000 + clean.result.usage.input_tokens
    assert ran.result.usage.output_tokens > 250 + clean.result.usage.output_tokens
    assert ran.result.usage.cost is not None
    assert ran.result.usage.cost > (1000 * 3 + 250 * 15) / 1e6


ENDS: Mapping[str, tuple[Any, Limits, StopReason]] = {
    "too long": (Status(400, message="prompt is too long: 9 tokens > 8"), Limits(), ERROR),
    "no right": (Status(401), Limits(), ERROR),
    "no model": (Status(404), Limits(), ERROR),
    "busy for ever": (Status(529), Limits(), ERROR),
    "busy for an hour": (Status(429, headers={"retry-after": "3600"}), Limits(), ERROR),
    "busy beyond the clock": (Status(429, headers={"retry-after": "90"}), Limits(timeout_s=60), ERROR),
    "no tokens left": (Status(404), Limits(max_tokens=2_300), BUDGET),
    "no money left": (Status(404), Limits(max_cost=0.02), BUDGET),
}


@pytest.mark.parametrize("end", ENDS)
def test_half_an_answer_is_paid_for_however_the_run_ends(end: str) -> None:
    """What a cut stream had said counts where the next attempt ends the run, once, and against its budgets."""
    then, limits, wanted = ENDS[end]
    cut = Turn("x" * 4000, usage={"input": 1000, "output": 1100}, fault=Cut(170))
    with ModelServer([WORK, cut, *[Turn(fault=then)] * 9]) as server:
        ran = run(server, "anthropic", retry=Retry(attempts=3 if "clock" in end else 2), limits=limits)
    with ModelServer([WORK, Turn(fault=Status(404))]) as server:
        without = run(server, "anthropic")

    assert (ran.result.stop_reason, ran.result.turns) == (wanted, 2)
    assert ran.result.usage.input_tokens == 1000 + without.result.usage.input_tokens
    assert ran.result.usage.output_tokens >= 1000 + without.result.usage.output_tokens
    assert len(ran.requests) == (2 if wanted is BUDGET else 3)


def test_time_that_is_up_after_a_wait_keeps_what_was_paid() -> None:
    """A wait that took longer than it should leaves no time for another attempt: a timeout, paid for until then."""
    now = [0.0]

    def wait(_request: Any, _seconds: float) -> bool:
        now[0] = 100.0
        return False

    with ModelServer([Turn("x" * 4000, usage={"input": 1000}, fault=Cut(60))]) as server:
        client = ModelClient(LoopbackBroker(server.url), [entry("anthropic")], wait=wait, clock=lambda: now[0])
        result = run_loop(client, system="s", task="t", limits=Limits(timeout_s=60), clock=lambda: now[0])

    assert (result.stop_reason, len(server.requests)) == (StopReason.TIMEOUT, 1)
    assert (result.usage.input_tokens, result.usage.output_tokens > 250) == (1000, True)


def test_waste_of_one_turn_is_counted_once() -> None:
    """A later turn without a fault does not count the earlier one's waste again."""
    cut = Turn("x" * 4000, usage={"input": 1000}, fault=Cut(60))
    once, clean = waits([cut, WORK, WORK]), waits([WORK, WORK])

    assert once.result.usage.input_tokens == 1000 + clean.result.usage.input_tokens


def test_money_caps_the_output_before_the_request() -> None:
    """The output limit sent is what the money left can pay; a request that it cannot pay at all is not sent."""
    with ModelServer([Turn("done")]) as server:
        some = run(server, "anthropic", limits=Limits(max_cost=0.02))
    with ModelServer([Turn("done")]) as server:
        none = run(server, "anthropic", limits=Limits(max_cost=0.001))

    # at least a tenth of a token's price for each of four bytes of input: what a cache may give it for
    paid = 0.02 - (len(some.requests[0].raw) + 1) // 4 * 0.3 / 1e6
    assert abs(some.requests[0].json["max_tokens"] - paid * 1e6 / 15) <= 1
    assert paid * 1e6 / 15 < 1332  # without the input it would be 1333
    assert (none.result.stop_reason, none.requests) == (BUDGET, [])


def test_tokens_cap_the_output_before_the_request() -> None:
    """The output limit sent is what the token budget leaves; a request that it does not allow is not sent."""
    with ModelServer([Turn("done")]) as server:
        some = run(server, "anthropic", limits=Limits(max_tokens=2000))
    with ModelServer([Turn("done")]) as server:
        none = run(server, "anthropic", limits=Limits(max_tokens=300))

    assert 1000 < some.requests[0].json["max_tokens"] < 2000
    assert (none.result.stop_reason, none.requests) == (BUDGET, [])


def test_cost_of_an_unknown_model_is_unknown() -> None:
    """No price is guessed: the cost is None, not 0."""
    with ModelServer([Turn("done")]) as server:
        ran = run(server, "openai-chat", entry_fields={"model": "house-model-7b"})

    assert (ran.result.ok, ran.result.usage.cost) == (True, None)


def test_stream_that_never_closes_after_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn that the provider has ended counts soon, though the connection stays open and silent."""
    monkeypatch.setattr("agent.harness.clients.exchange._LINGER_S", 0.3)
    with ModelServer([Turn("All done.", fault=Slow(20, 9))]) as server:
        ran = run(server, "anthropic", limits=Limits(timeout_s=15))

    assert ran.result.ok


@pytest.mark.parametrize(
    ("wire", "field", "message"),
    [("openai-responses", b'"include"', "Encrypted content is not supported with this model."),
     ("openai-chat", b'"stream_options"', "Unrecognized request argument supplied: stream_options"),
     ("anthropic", b'"cache_control"', "messages.0.content.0.text.cache_control: Extra inputs are not permitted")],
)  # fmt: skip
def test_field_that_a_server_refuses_is_left_out(wire: str, field: bytes, message: str) -> None:
    """An optional field named in a 400 is left out from then on; named again, it is an error."""
    refusal = Turn(fault=Status(400, message=message))
    with ModelServer([refusal, WORK, Turn("done")]) as server:
        ran = run(server, wire)
    with ModelServer([refusal] * 9) as server:
        again = run(server, wire)

    assert ran.result.ok
    assert [field in request.raw for request in ran.requests] == [True, False, False]
    assert (again.result.stop_reason, len(again.requests)) == (ERROR, 2)


def test_output_limit_that_has_no_right_name_is_an_error() -> None:
    """A server that refuses the limit by either name is not asked for ever."""
    refusal = Turn(fault=Status(400, message="Unsupported parameter: max_tokens or max_completion_tokens."))
    with ModelServer([refusal] * 9) as server:
        ran = run(server, "openai-chat")

    assert (ran.result.stop_reason, len(ran.requests)) == (ERROR, 2)
    assert [set(request.json) & {"max_tokens", "max_completion_tokens"} for request in ran.requests] == [
        {"max_tokens"},
        {"max_completion_tokens"},
    ]


@pytest.mark.parametrize(
    "message",
    ["max_tokens: 16384 > 4096, which is the maximum allowed number of output tokens for claude-3-opus",
     "max_tokens is too large: 16384. This model supports at most 4096 completion tokens"],
)  # fmt: skip
def test_output_limit_that_is_too_high_is_lowered(message: str) -> None:
    """A model that writes less than we ask for says how much, and gets that from then on."""
    with ModelServer([Turn(fault=Status(400, message=message)), WORK, Turn("done")]) as server:
        ran = run(server, "anthropic")

    assert ran.result.ok
    assert [request.json["max_tokens"] for request in ran.requests] == [16384, 4096, 4096]


def test_tool_results_of_a_batch_run_in_threads_do_not_mix() -> None:
    """Twenty parallel calls keep their results apart."""
    calls = [Call("read_file", {"path": str(n)}) for n in range(20)]
    with ModelServer([Turn(calls=calls), Turn("done")]) as server:
        ran = run(server, "anthropic", tools=(tool("read_file"),))

    assert ran.requests[1].results == [f"read_file {{'path': '{n}'}}" for n in range(20)]


@pytest.mark.parametrize("wire", WIRES)
def test_what_a_cancelled_answer_had_streamed_is_counted(wire: str) -> None:
    """A cancel in the middle of an answer: the run ends at once, and its usage holds what was paid for until then."""
    cancel = CancelToken()

    class Cancels(LoopbackBroker):
        def stream(self, op: str, payload: bytes = b"", **fields: Any) -> Iterator[Frame]:
            size = 0
            for frame in super().stream(op, payload, **fields):
                yield frame
                size += len(frame.payload)
                if size > 9_000:
                    cancel.cancel()

    with ModelServer([Turn("word " * 400, fault=Slow(60, 70))]) as server:
        client = ModelClient(Cancels(server.url), [entry(wire)])
        result = run_loop(client, system="s", task="t", cancel=cancel)

    assert result.stop_reason is StopReason.CANCELLED
    assert (result.usage.input_tokens > 0, result.usage.output_tokens >= 50) == (True, True)
