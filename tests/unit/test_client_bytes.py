"""Economy and robustness of the bytes: append-only requests, streams cut at any byte, junk from a provider."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.contract.prices import find_price
from agent.harness.clients.compaction import Compactor
from agent.harness.clients.faults import Fault, FaultKind, ProviderError, from_status, retry_after
from agent.harness.clients.fragments import Fragments
from agent.harness.clients.sse import SseParser
from agent.harness.clients.wire import Settings, parse_arguments
from agent.harness.clients.wires import WIRES, wire_named
from agent.harness.loop import (
    AssistantMessage,
    CallResult,
    LlmReply,
    Message,
    ReplyStop,
    StopReason,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)
from tests.support.model_run import WIRES as WIRE_NAMES
from tests.support.model_run import run, tool
from tests.support.model_server import Call, ModelServer, Recorded, Status, Turn

MARK = b',"cache_control":{"type":"ephemeral"}'
junk = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def prefix(raw: bytes) -> bytes:
    """A request's bytes up to its last message, without cache marks."""
    head, _, tail = raw.rpartition(b"]")
    assert tail.startswith((b",", b"}"))
    return head.replace(MARK, b"")


@pytest.mark.parametrize("wire", WIRE_NAMES)
def test_requests_only_grow_over_fifty_turns(wire: str) -> None:
    """Each of 51 requests starts with the one before byte for byte, cache marks and the output limit apart."""
    turns = [Turn("é" * 9, [Call("read_file", {"path": f"{n}.py"})], thinking="hm") for n in range(50)]
    with ModelServer([*turns, Turn("done")]) as server:
        ran = run(server, wire, tools=(tool("read_file", "x" * 500),), limits=None)

    bodies = [prefix(request.raw) for request in ran.requests]
    # The tool always answers the same: what varies is the path, so this is progress.
    assert (ran.result.stop_reason, len(bodies)) == (StopReason.COMPLETED, 51)
    assert [after.startswith(before) for before, after in itertools.pairwise(bodies)] == [True] * 50
    if wire == "anthropic":
        assert [request.raw.count(MARK) for request in ran.requests[:3]] == [2, 3, 4]
        assert {request.raw.count(MARK) for request in ran.requests[3:]} == {4}


def marked(raw: bytes) -> list[int]:
    """Places of the messages that have a cache mark."""
    messages = json.loads(raw)["messages"]
    assert all("cache_control" not in block for message in messages for block in message["content"][:-1])
    return [place for place, message in enumerate(messages) if "cache_control" in message["content"][-1]]


def test_what_was_written_to_the_cache_is_marked_again() -> None:
    """The last mark of each request is one of the next too, also where a note of ours follows big batches."""
    same = Turn(calls=[Call("nope", {"n": n}) for n in range(30)])
    with ModelServer([same, same, same, same]) as server:
        ran = run(server, "anthropic")

    places = [marked(request.raw) for request in ran.requests]
    assert ran.result.stop_reason is StopReason.NO_PROGRESS
    assert places == [[0], [0, 2], [0, 2, 4], [4, 6, 7]]  # 6 has the third batch's results, 7 our note


def test_each_message_is_encoded_once() -> None:
    """A message that was sent before is not encoded again; after a compaction only what changed is."""
    encoded: list[Message] = []

    class Counting:
        def __getattr__(self, name: str) -> Any:
            return getattr(wire_named("anthropic"), name)

        def items(self, message: Message) -> tuple[bytes, ...]:
            encoded.append(message)
            return wire_named("anthropic").items(message)

    fragments, settings = Fragments(Counting(), ""), Settings("m")  # type: ignore[arg-type]
    messages: tuple[Message, ...] = tuple(UserMessage(str(n)) for n in range(5))
    for end in range(1, 6):
        fragments.body(settings, "s", (), messages[:end], 9)
    assert encoded == list(messages)

    changed = (messages[0], UserMessage("new"), messages[4])
    body = fragments.body(settings, "s", (), changed, 9)

    assert encoded[5:] == list(changed[1:])
    assert [one["content"][0]["text"] for one in json.loads(body)["messages"]] == ["0", "new", "4"]

    body = fragments.body(settings, "s", (), changed[:1], 9)

    assert len(encoded) == 7
    assert [one["content"][0]["text"] for one in json.loads(body)["messages"]] == ["0"]


def stream(events: list[tuple[str, Any]]) -> bytes:
    return b"".join(f"event: {name}\r\ndata: {json.dumps(data)}\r\n\r\n".encode() for name, data in events)


@settings(deadline=None)
@given(st.text(alphabet="aé😀\n", min_size=1, max_size=30), st.lists(st.integers(1, 40), max_size=12))
def test_stream_in_any_pieces_is_the_same(text: str, cuts: list[int]) -> None:
    """Events are the same whatever bytes the stream is cut at, inside a character or a line end too."""
    raw = b"\xef\xbb\xbf: hello\n\ndata: first\ndata: second\n\n" + stream([("a", {"text": text}), ("b", {})])
    whole = SseParser().feed(raw)
    parser, pieces, rest = SseParser(), [], raw
    for cut in cuts:
        pieces += parser.feed(rest[:cut])
        rest = rest[cut:]
    pieces += parser.feed(rest)

    assert pieces == whole
    assert [(name, data) for name, data in whole if name != "a"] == [("", "first\nsecond"), ("b", "{}")]
    assert json.loads(dict(whole)["a"]) == {"text": text}


class Piece(str):
    """A piece of an answer that may be joined, but never be added to what came before it."""

    def __radd__(self, other: str) -> str:
        raise AssertionError(f"{len(other)} characters were copied for a piece of {len(self)}")


def streamed(wire: str, texts: list[str]) -> list[dict[str, Any]]:
    """The events of an answer in pieces: text, thoughts and the arguments of a call."""
    if wire == "anthropic":
        kinds = [("text_delta", "text"), ("thinking_delta", "thinking"), ("input_json_delta", "partial_json")]
        return [
            {"type": "content_block_delta", "index": index, "delta": {"type": kind, field: text}}
            for index, (kind, field) in enumerate(kinds)
            for text in texts
        ]
    deltas: list[dict[str, Any]] = [{key: text} for key in ("content", "reasoning") for text in texts]
    deltas += [{"tool_calls": [{"index": 0, "function": {"arguments": text}}]} for text in texts]
    return [{"choices": [{"delta": delta}]} for delta in deltas]


@pytest.mark.parametrize("wire", ["anthropic", "openai-chat"])
def test_pieces_of_an_answer_are_joined_once(wire: str) -> None:
    """No piece is added to the text before it: 1 MB in 40,000 pieces would copy 20 GB."""
    assembler = WIRES[wire].assembler()
    for event in streamed(wire, [Piece(f"{n};") for n in range(100)]):
        assembler.feed("", event)

    whole = "".join(f"{n};" for n in range(100))
    assert json.dumps(assembler.response()).count(json.dumps(whole)) == 3
    with pytest.raises(AssertionError, match="4 characters were copied"):
        _ = "text" + Piece("more")


def test_counts_that_an_event_leaves_open_stay() -> None:
    """A later event of a stream may say null of what an earlier one has counted."""
    assembler = WIRES["anthropic"].assembler()
    counts = {"input_tokens": 10, "cache_read_input_tokens": 5, "output_tokens": 1}
    assembler.feed("", {"type": "message_start", "message": {"usage": counts}})
    late = {"input_tokens": None, "cache_read_input_tokens": None, "output_tokens": 7}
    assembler.feed("", {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": late})

    assert WIRES["anthropic"].reply(assembler.response()).usage == Usage(15, 5, output_tokens=7)


def test_event_without_end_is_refused() -> None:
    """A provider that never ends an event does not fill the memory."""
    parser = SseParser()
    for _ in range(32):
        assert parser.feed(b"x" * (1 << 20)) == []
    with pytest.raises(ProviderError, match="too large"):
        parser.feed(b"x")


@settings(deadline=None)
@given(st.sampled_from(sorted(WIRES)), st.lists(st.tuples(st.text(max_size=6), junk), max_size=6), junk)
def test_junk_from_a_provider_is_a_fault_or_a_reply(name: str, events: list[tuple[str, Any]], whole: Any) -> None:
    """Whatever JSON a provider sends, decoding gives a reply or a ProviderError, and nothing else."""
    wire = WIRES[name]
    assembler = wire.assembler()
    kinds = ["message_start", "content_block_start", "content_block_delta", "message_delta", "error",
             "response.output_item.done", "response.completed", "response.output_text.delta"]  # fmt: skip
    for index, (event, data) in enumerate(events):
        body = data if isinstance(data, dict) else {"delta": data, "message": data, "response": data, "choices": [data]}
        try:
            assembler.feed(event, {**body, "type": kinds[index % len(kinds)]})
        except ProviderError:
            continue
    for response in (assembler.response(), whole if isinstance(whole, dict) else {}):
        try:
            reply = wire.reply(response)
        except ProviderError:
            continue
        assert isinstance(reply, LlmReply)


@settings(deadline=None)
@given(junk.map(json.dumps) | st.text(max_size=40))
def test_arguments_are_an_object_or_a_problem(raw: str) -> None:
    """Arguments decode to an object without a problem, or to none with one."""
    value, problem = parse_arguments(raw)

    assert (isinstance(value, dict), value is None) == (problem == "", problem != "")


@settings(deadline=None)
@given(st.integers(100, 599), st.binary(max_size=60) | junk.map(lambda value: json.dumps({"error": value}).encode()))
def test_any_error_body_is_a_fault(status: int, body: bytes) -> None:
    """Any status and body is a fault with one line of text; server errors can be retried, 2xx bodies aside."""
    fault = from_status(status, {}, body, 0.0)

    assert "\n" not in fault.message
    if status == 500 and b"quota" not in body:
        assert fault.kind in (FaultKind.RETRY, FaultKind.AUTH)


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (400, {"error": {"code": "context_length_exceeded", "message": "too long"}}, FaultKind.CONTEXT),
        (400, {"message": "This model's maximum context length is 8192 tokens"}, FaultKind.CONTEXT),
        (400, [{"error": {"status": "INVALID_ARGUMENT", "message": "The input token count exceeds the maximum "
               "number of tokens allowed"}}], FaultKind.CONTEXT),
        (429, {"error": {"type": "insufficient_quota", "message": "You exceeded your quota"}}, FaultKind.PERMANENT),
        (400, {"error": {"type": "invalid_request_error", "message": "Your credit balance is too low"}},
         FaultKind.PERMANENT),
        (403, {"error": "forbidden"}, FaultKind.AUTH),
        (400, {"error": {"param": "max_tokens", "message": "x"}}, FaultKind.FIELD),
        (404, {"error": {"message": "The model `x` does not exist"}}, FaultKind.PERMANENT),
        (529, {}, FaultKind.RETRY),
        (413, {}, FaultKind.CONTEXT),
        (429, [{"error": {"type": "insufficient_quota", "message": "no"}}], FaultKind.PERMANENT),
        (400, {"error": {"param": "messages[0]", "message": "messages, max_tokens: bad"}}, FaultKind.PERMANENT),
        (400, {"error": {"code": "invalid_encrypted_content", "message": "x"}}, FaultKind.FIELD),
        (400, {"error": {"message": "property 'reasoning' is unsupported"}}, FaultKind.FIELD),
        (400, {"error": {"message": "Provider returned error", "code": 400, "metadata": {
            "raw": '{"error":{"message":"prompt is too long: 9 tokens > 8 maximum"}}'}}}, FaultKind.CONTEXT),
        (429, {"error": {"type": "tokens", "code": "rate_limit_exceeded", "message": "Request too large for m on "
               "tokens per min (TPM): Limit 30000, Requested 31538."}}, FaultKind.CONTEXT),
        (429, {"error": {"type": "tokens", "code": "rate_limit_exceeded", "message": "Rate limit reached for m on "
               "tokens per min (TPM): Limit 30000, Used 29937, Requested 385."}}, FaultKind.RETRY),
    ],
)  # fmt: skip
def test_what_a_provider_means(status: int, body: Any, kind: FaultKind) -> None:
    """Errors of different providers are told apart: too long, no money, no right, wrong field, busy."""
    assert from_status(status, {}, json.dumps(body).encode(), 0.0).kind is kind


@pytest.mark.parametrize("status", [400, 413, 422, 500])
@pytest.mark.parametrize(
    "text",
    [
        "prompt is too long: 210000 tokens > 200000 maximum",
        "input length and `max_tokens` exceed context limit: 188240 + 16384 > 200000, decrease input length",
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 8545 tokens.",
        "Your input exceeds the context window of this model.",
        "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
        "The decoder prompt (length 40000) is longer than the maximum model length of 32768.",
        "You passed 9 input tokens. However, the model's context length is only 8 tokens",
        "the request exceeds the available context size. try increasing the context size",
        "tokens to keep from the initial prompt is greater than the context length",
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096.",
        "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
        "Your request exceeded model token limit: 131072",
        "Please reduce the length of the messages or completion.",
    ],
)
def test_too_long_in_each_providers_words(text: str, status: int) -> None:
    """Whatever a provider calls it, and with whatever status, a request that is too long is made shorter."""
    assert from_status(status, {}, json.dumps({"error": {"message": text}}).encode(), 0.0).kind is FaultKind.CONTEXT


@pytest.mark.parametrize(
    ("text", "room"),
    [
        ("This model's maximum context length is 16384 tokens. However, you requested 20384 tokens (3000 in the "
         "messages, 1000 in the functions, 16384 in the completion).", 12384),
        ("'max_tokens' or 'max_completion_tokens' is too large: 32000. This model's maximum context length is 16384 "
         "tokens and your request has 500 input tokens (32000 > 16384 - 500).", 15884),
        ("However, your request has 8 input tokens plus 2045 'max_tokens'. The maximum context length is 2048 tokens.",
         2040),
        ("You passed 3 input tokens and requested 2046 output tokens. However, the model's context length is only 2048 "
         "tokens, resulting in a maximum input length of 2 tokens.", 2045),
        ("input length and `max_tokens` exceed context limit: 140000 + 64000 > 200000, decrease input length", 60000),
        ("input length and `max_tokens` exceed context limit: 188240 + 16384 > 200000, decrease input length", 0),
        ("This model's maximum context length is 16384 tokens. However, you requested 122946 tokens (112946 in the "
         "messages, 10000 in the completion).", 0),
        ("This model's maximum context length is 8192 tokens. However, your messages resulted in 8545 tokens.", 0),
        ("prompt is too long: 210000 tokens > 200000 maximum", 0),
    ],
)  # fmt: skip
def test_room_that_a_window_has_left(text: str, room: int) -> None:
    """Where the output limit is what does not fit, the room for it; where the history nearly fills the window, none."""
    assert from_status(400, {}, json.dumps({"error": {"message": text}}).encode(), 0.0).room == room


def test_output_limit_is_lowered_to_what_a_small_window_has_left() -> None:
    """A server with a window of 16k takes our requests, each with the output that fits; nothing is left out."""

    def small(request: Recorded) -> Turn:
        size, output = len(request.raw) // 4, request.json["max_tokens"]
        if size + output > 16_384:
            said = f"maximum context length is 16384 tokens and your request has {size} input tokens"
            return Turn(fault=Status(400, message=f"'max_tokens' is too large: {output}. This model's {said}"))
        return Turn(calls=[Call("read_file", {"path": str(len(request.raw))})]) if size < 2_000 else Turn("done")

    with ModelServer(small) as server:
        ran = run(server, "openai-chat", tools=(tool("read_file", "z" * 2_000),), optimizer=Compactor(128_000))

    sent = [(request.status, request.json["max_tokens"]) for request in ran.requests]
    assert (ran.result.output, ran.named("agent.compacted")) == ("done", [])
    assert sent[0] == (400, 16_384)
    assert [status for status, _ in sent] == [400, 200] * (len(sent) // 2)
    assert [limit for _, limit in sent] == sorted((limit for _, limit in sent), reverse=True)
    assert sent[-1][1] > 13_000


ODD = ("", "-1", "nan", "inf", "x", "Thu, 41 Jan 1970 00:01:00 GMT", "Thu, 01 Foo 1970 00:01:00 GMT")


def test_retry_after_forms() -> None:
    """Seconds, milliseconds, a date; junk and negative values are none."""
    assert retry_after({"Retry-After": "3"}, 0.0) == 3.0
    assert retry_after({"retry-after-ms": "250", "retry-after": "9"}, 0.0) == 0.25
    assert retry_after({"retry-after": "Thu, 01 Jan 1970 00:01:00 GMT"}, 15.0) == 45.0
    assert [retry_after({"retry-after": junk}, 0.0) for junk in ODD] == [None] * len(ODD)


def test_fault_of_the_broker_is_not_the_providers() -> None:
    """A refusal of the broker says that nothing was sent."""
    assert Fault(FaultKind.PERMANENT, "x").sent


def test_prices() -> None:
    """Known names with dates and vendors have a price; steps of long requests hold; near misses have none."""
    sonnet = find_price("claude-sonnet-4-5-20250929")
    assert sonnet is not None
    assert sonnet.cost(10_000, 2_000, 3_000, 1_000) == pytest.approx(
        (5_000 * 3 + 2_000 * 0.3 + 3_000 * 3.75 + 1_000 * 15) / 1e6
    )
    assert sonnet.cost(300_000, 0, 0, 0) == pytest.approx(300_000 * 6 / 1e6)
    assert find_price("anthropic/claude-sonnet-4-5") == sonnet
    assert find_price("gpt-4o-2024-08-06") == find_price("gpt-4o")
    assert [find_price(name) for name in ("gpt-4o-house-tuned", "claude", "", "sonnet")] == [None] * 4


def history(turns: int, size: int) -> tuple[Message, ...]:
    messages: list[Message] = [UserMessage("The task.")]
    for n in range(turns):
        messages.append(AssistantMessage(f"Step {n}.", (ToolCall(f"c{n}", "read_file", {"n": n}, f'{{"n": {n}}}'),)))
        messages.append(ToolMessage((CallResult(f"c{n}", "read_file", "y" * size),)))
    return tuple(messages)


def whole(messages: tuple[Message, ...]) -> bool:
    """Every call is followed by its result, and no result stands alone."""
    owed: list[str] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            if [result.call_id for result in message.results] != owed:
                return False
            owed = []
        elif owed:
            return False
        elif isinstance(message, AssistantMessage):
            owed = [call.id for call in message.calls]
    return not owed


def test_compaction_elides_old_outputs_first() -> None:
    """Old outputs go first, with a note of what they were; the task and the latest turns stay as they are."""
    messages = history(20, 4_000)
    shorter = Compactor(20_000).optimize(messages, 20_000, overflow=False)

    assert len(shorter) == len(messages)
    assert shorter[0] is messages[0]
    assert shorter[-6:] == messages[-6:]
    assert isinstance(shorter[2], ToolMessage)
    note = "[left out to save room: 4000 characters that read_file gave. Call it again if you need them.]"
    assert shorter[2].results[0].text == note
    assert whole(shorter)


def test_compaction_by_the_smallest_window() -> None:
    """The window is the configured one, else the table's, else 128,000; the smallest of the models counts."""
    messages = history(20, 20_000)

    def acts(context: int, *models: dict[str, Any]) -> bool:
        return Compactor.for_models(models).optimize(messages, context, overflow=False) is not messages

    known, unknown, own = {"model": "gpt-4o"}, {"model": "house"}, {"model": "house", "context": 50_000}
    assert [acts(97_000, one) for one in (known, unknown)] == [True, True]
    assert [acts(95_000, one) for one in (known, unknown, own)] == [False, False, True]
    assert [acts(95_000, known, own), acts(149_000, {"model": "claude-sonnet-4-0"})] == [True, False]


def test_no_compaction_without_need() -> None:
    """Below the threshold the history is the same object, so that caches stay warm."""
    messages = history(20, 4_000)

    assert Compactor(40_000).optimize(messages, 20_000, overflow=False) is messages


@settings(deadline=None)
@given(st.integers(0, 30), st.integers(0, 3_000), st.integers(100, 50_000), st.booleans())
def test_compaction_keeps_pairs_whole(turns: int, size: int, window: int, overflow: bool) -> None:
    """Whatever is left out, every call keeps its result, the task stays, and nothing grows much."""
    messages = history(turns, size)
    shorter = Compactor(window).optimize(messages, turns * size // 4, overflow=overflow)

    assert whole(shorter)
    assert shorter[0] == messages[0]
    assert len(str(shorter)) <= len(str(messages)) + 300
    again = Compactor(window).optimize(shorter, 0, overflow=True)
    assert whole(again)


@pytest.mark.parametrize("wire", WIRE_NAMES)
def test_context_error_is_compacted_once_and_goes_on(wire: str) -> None:
    """A request that is too long is made shorter and sent again; the result keeps the whole history."""
    work = [Turn(calls=[Call("read_file", {"path": str(n)})], thinking="hm") for n in range(8)]
    too_long = Turn(fault=Status(400, message="This model's maximum context length is 8192 tokens."))
    with ModelServer([*work, too_long, Turn("done")]) as server:
        ran = run(server, wire, tools=(tool("read_file", "z" * 3_000),), optimizer=Compactor(200_000))

    assert (ran.result.stop_reason, [request.status for request in ran.requests]) == (
        StopReason.COMPLETED,
        [200] * 8 + [400, 200],
    )
    assert len(ran.requests[-1].raw) < len(ran.requests[-2].raw) * 0.7
    assert sum("z" * 3_000 in str(message) for message in ran.result.messages) == 8
    assert ran.named("agent.compacted")[0]["overflow"] is True


def test_unknown_wire_is_an_error() -> None:
    """There is no default format."""
    with pytest.raises(ValueError, match="Unknown wire format"):
        wire_named("openai")


def test_reply_that_only_filled_the_window_is_too_long() -> None:
    """A turn that ended because the window is full is a context error, not an answer."""
    with pytest.raises(ProviderError) as caught:
        wire_named("anthropic").reply({"content": [], "stop_reason": "model_context_window_exceeded"})
    cut = wire_named("openai-responses").reply(
        {"output": [], "status": "incomplete", "incomplete_details": {"reason": "content_filter"}}
    )

    assert (caught.value.fault.kind, cut.stop) == (FaultKind.CONTEXT, ReplyStop.REFUSAL)
