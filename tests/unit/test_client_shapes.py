"""Message shapes on each wire: what models really send, and what providers refuse to take back."""

from __future__ import annotations

import json

import pytest

from agent.harness.clients import ModelClient
from agent.harness.loop import (
    AssistantMessage,
    CallResult,
    LlmRequest,
    LoopTool,
    StopReason,
    ToolCall,
    ToolMessage,
    ToolResult,
    Usage,
    UserMessage,
)
from tests.support.model_broker import LoopbackBroker
from tests.support.model_run import WIRES, Ran, entry, run, tool
from tests.support.model_server import Call, ModelServer, Raw, Recorded, Turn

every_wire = pytest.mark.parametrize("wire", WIRES)


def statuses(ran: Ran) -> list[int]:
    return [request.status for request in ran.requests]


def results(ran: Ran) -> list[tuple[str, str, bool]]:
    batches = [message.results for message in ran.result.messages if isinstance(message, ToolMessage)]
    return [(one.name, one.text, one.is_error) for batch in batches for one in batch]


@every_wire
def test_arguments_that_are_no_object_can_be_mended(wire: str) -> None:
    """Empty arguments run; null, a list, half JSON and JSON in a string are errors that name the schema (F20)."""
    calls = [
        Call("list_dir", ""),
        Call("read_file", "null"),
        Call("open_file", '{"path":"a"}'),
        Call("read_file", '["a"]'),
        Call("read_file", '{"path":'),
        Call("read_file", '"{\\"path\\":\\"a\\"}"'),
        Call("read_file", "[" * 100_000),
    ]
    with ModelServer([Turn(calls=calls), Turn("done")]) as server:
        ran = run(server, wire)

    got = results(ran)
    assert statuses(ran) == [200, 200]
    assert got[0] == ("list_dir", "list_dir {}", False)
    assert got[2] == (
        "open_file",
        "There is no tool 'open_file'. The tools are: read_file, list_dir, write_file.",
        True,
    )
    problems = ["null", "a list", "not JSON", "a string (encoded twice?)", "nested too deeply"]
    for problem, (name, text, is_error) in zip(problems, [got[1], *got[3:]], strict=True):
        assert (name, is_error) == ("read_file", True)
        assert problem in text
        assert '"type": "object"' in text
    assert ran.result.stop_reason is StopReason.COMPLETED


@every_wire
@pytest.mark.parametrize("args", ['{"path": NaN}', '{"path": [1e999]}', '{"path": -Infinity}', '{"path": "\\ud800"}'])
def test_arguments_that_json_cannot_carry_spoil_nothing(wire: str, args: str) -> None:
    """Numbers that are none, and half characters, in one call do not make every later request invalid."""
    calls = [Call("read_file", args), Call("read file;rm", {"path": "a"}), Call("", {}), Call("é" * 300, {})]
    with ModelServer([Turn(calls=calls), Turn("done")]) as server:
        ran = run(server, wire)

    assert (statuses(ran), ran.result.ok) == ([200, 200], True)
    assert [is_error for _, _, is_error in results(ran)] == ["ud800" not in args, True, True, True]
    assert max(len(text) for _, text, _ in results(ran)) < 400


@every_wire
def test_same_id_twice_and_an_empty_one(wire: str) -> None:
    """Repeated and empty ids become unique, with a result each, and the provider is content (F21)."""
    same = [Call("read_file", {"path": "a.txt"}, "same"), Call("read_file", {"path": "b.txt"}, "same")]
    with ModelServer([Turn(calls=same), Turn(calls=[Call("list_dir", {}, "")]), Turn("done")]) as server:
        ran = run(server, wire)

    assert statuses(ran) == [200, 200, 200]
    assert [text for _, text, _ in results(ran)] == [
        "read_file {'path': 'a.txt'}",
        "read_file {'path': 'b.txt'}",
        "list_dir {}",
    ]
    sent = json.dumps(ran.requests[-1].json)
    assert sent.count('"same"') == 2  # the call and its result


@every_wire
@pytest.mark.parametrize("args", ['{"path":"README.md","content":"# Title\\n\\nPart one', '{"path":"README.md"}'])
def test_half_a_call_is_never_run(wire: str, args: str) -> None:
    """A call cut at the output limit is not run, parseable or not; the model is told; twice ends the run (F22)."""
    cut = Turn(calls=[Call("write_file", args)], stop="max_tokens", usage={"output": 4096})
    with ModelServer([cut, Turn("done")]) as server:
        once = run(server, wire)
    with ModelServer([cut, cut, Turn("done")]) as server:
        twice = run(server, wire)

    assert (results(once), once.result.stop_reason) == ([], StopReason.COMPLETED)
    assert "4096 output tokens" in json.dumps(once.requests[1].json)
    assert (results(twice), twice.result.stop_reason, twice.result.ok) == ([], StopReason.ERROR, False)


@every_wire
def test_thoughts_come_back_as_they_were(wire: str) -> None:
    """Thinking, signed or sealed, is replayed with its call, and no blank text is sent (F23)."""
    turns = [Turn(thinking="look", calls=[Call("list_dir", {}, "t1")]), Turn("done")]
    with ModelServer(turns) as server:
        ran = run(server, wire, tools=(tool("list_dir", " "),))

    assert statuses(ran) == [200, 200]  # the server answers 400 to a thought that is left out or changed
    body = ran.requests[1].json
    if wire == "anthropic":
        assert body["messages"][1]["content"] == [
            {"type": "thinking", "thinking": "look", "signature": "sig-4=="},
            {"type": "redacted_thinking", "data": "eHg="},
            {"type": "tool_use", "id": "t1", "name": "list_dir", "input": {}},
        ]
        assert body["messages"][2]["content"][0]["content"] == "(no output)"
    elif wire == "openai-chat":
        assert body["messages"][2]["reasoning_content"] == "look"
    else:
        assert [item["type"] for item in body["input"]][1:] == ["reasoning", "function_call", "function_call_output"]
    assert "look" not in ran.result.output


@every_wire
def test_refusal_ends_with_its_words(wire: str) -> None:
    """Refusal content is an honest end, never an empty success."""
    with ModelServer([Turn(refusal="I can't help with that.")]) as server:
        ran = run(server, wire)

    assert (ran.result.stop_reason, ran.result.output) == (StopReason.ERROR, "I can't help with that.")


def test_answer_that_a_filter_cut_off_is_a_refusal() -> None:
    """What a content filter left of an answer is no success."""
    body = b'data: {"choices": [{"delta": {"content": "Half of"}, "finish_reason": "content_filter"}]}\n\n'
    with ModelServer([Turn(fault=Raw(body))]) as server:
        ran = run(server, "openai-chat")

    assert (ran.result.stop_reason, ran.result.output, len(ran.requests)) == (StopReason.ERROR, "Half of", 1)


@every_wire
def test_usage_with_cached_and_reasoning_tokens(wire: str) -> None:
    """Cached tokens are part of the input, reasoning tokens part of the output, on every wire."""
    usage = {"input": 1000, "cached": 600, "cache_write": 100, "output": 90, "reasoning": 40}
    with ModelServer([Turn("done", usage=usage)]) as server:
        got = run(server, wire).result.usage

    cost = (300 * 3 + 600 * 0.3 + 100 * 3.75 + 90 * 15) / 1e6
    assert got == Usage(1000, 600, 100, 90, 40, pytest.approx(cost))


@every_wire
def test_no_usage_is_estimated(wire: str) -> None:
    """A server that reports no usage still counts against the budgets (S7)."""
    with ModelServer([Turn("x" * 400, no_usage=True)]) as server:
        ran = run(server, wire)

    assert ran.result.usage.output_tokens == 100
    assert ran.result.usage.input_tokens == len(ran.requests[0].raw) // 4


@every_wire
def test_server_that_does_not_stream(wire: str) -> None:
    """A server that answers in one JSON object instead of a stream is understood."""

    def whole(request: Recorded) -> Turn:
        dialect = {"anthropic": 0, "openai-chat": 1, "openai-responses": 2}[wire]
        answer = server.dialects[dialect].whole(Turn("done"), [], "m", 400)
        return Turn(fault=Raw(json.dumps(answer).encode(), "application/json"))

    with ModelServer(whole) as server:
        ran = run(server, wire)

    assert (ran.result.output, ran.result.stop_reason) == ("done", StopReason.COMPLETED)


def test_stream_that_is_labelled_json() -> None:
    """A stream whose content type says JSON is read as the stream that it is."""
    chunk = {"choices": [{"delta": {"content": "done"}, "finish_reason": "stop"}]}
    body = f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode()
    with ModelServer([Turn(fault=Raw(body, "application/json"))]) as server:
        ran = run(server, "openai-chat")

    assert (ran.result.output, len(ran.requests)) == ("done", 1)


def test_event_that_ends_with_the_stream() -> None:
    """The last event counts without the blank line that should follow it."""
    body = b'data: {"choices": [{"delta": {"content": "done"}, "finish_reason": "stop"}]}'
    with ModelServer([Turn(fault=Raw(body))]) as server:
        ran = run(server, "openai-chat")

    assert (ran.result.output, len(ran.requests)) == ("done", 1)


@every_wire
def test_a_failed_call_is_told_as_one(wire: str) -> None:
    """By the flag where the format has one, in words where it has none; a result that is none is not marked."""
    bad = LoopTool("bad", "Fails.", {"type": "object"}, lambda _: ToolResult("no such file", is_error=True))
    with ModelServer([Turn(calls=[Call("bad", {}, "b"), Call("read_file", {}, "r")]), Turn("done")]) as server:
        ran = run(server, wire, tools=(bad, tool("read_file", "text")))

    sent = ran.requests[1]
    if wire == "anthropic":
        results = sent.json["messages"][2]["content"]
        assert [(one["content"], one.get("is_error", False)) for one in results] == [
            ("no such file", True),
            ("text", False),
        ]
    else:
        assert sent.results == ["Error: no such file", "text"]


@every_wire
def test_no_blank_text_is_ever_sent(wire: str) -> None:
    """Whatever a history holds, blank texts are told in words or left out; the server answers 400 to one (F23)."""
    one = ToolCall("c", "read_file", {}, " ")
    history = (
        UserMessage(" "),
        AssistantMessage("\n"),
        UserMessage(""),
        AssistantMessage(" ", (one,)),
        ToolMessage((CallResult("c", "read_file", "\n"),)),
    )
    with ModelServer([Turn("done")]) as server:
        client = ModelClient(LoopbackBroker(server.url), [entry(wire)])
        reply = client.complete(LlmRequest(" ", history, ()))

    assert (reply.text, [request.status for request in server.requests]) == ("done", [200])
    assert server.requests[0].results == ["(no output)"]


@every_wire
def test_text_that_utf8_cannot_carry(wire: str) -> None:
    """Half a surrogate pair in a tool's output does not make the request invalid."""
    with ModelServer([Turn(calls=[Call("list_dir")]), Turn("done")]) as server:
        ran = run(server, wire, tools=(tool("list_dir", "caf\ud83d é"),))

    assert ran.requests[1].results == ["caf? é"]


@every_wire
def test_tool_without_parameters(wire: str) -> None:
    """A schema that names no properties is sent with none: OpenAI refuses an object that does not say."""
    bare = LoopTool("look", "Looks.", {"type": "object"}, lambda _: ToolResult("seen"))
    with ModelServer([Turn(calls=[Call("look", "")]), Turn("done")]) as server:
        ran = run(server, wire, tools=(bare,))

    assert (statuses(ran), ran.result.ok) == ([200, 200], True)
    assert results(ran) == [("look", "seen", False)]


def test_output_limit_by_the_name_the_model_wants() -> None:
    """`max_tokens` or `max_completion_tokens`: known by the model's name, learned from a refusal otherwise."""
    for wanted, model in (
        ("max_completion_tokens", "gpt-5.2"),
        ("max_tokens", "gpt-4o"),
        ("max_completion_tokens", "my-gpt"),
        ("max_tokens", "o3-clone"),
    ):
        with ModelServer([Turn("done")], output_field=wanted) as server:
            ran = run(server, "openai-chat", entry_fields={"model": model})
        assert ran.result.ok
        assert wanted in ran.requests[-1].json
        assert len(ran.requests) == (1 if model in ("gpt-5.2", "gpt-4o") else 2)


def test_stream_pieces_put_together_by_server_habit() -> None:
    """Calls without an index, with index 0 for all, without ids, or with arguments as an object, are told apart."""

    def chunk(*calls: dict[str, object], finish: str | None = None) -> str:
        return f"data: {json.dumps({'choices': [{'delta': {'tool_calls': list(calls)}, 'finish_reason': finish}]})}\n\n"

    def piece(call_id: str, args: object, **more: object) -> dict[str, object]:
        return {"id": call_id, "function": {"name": "read_file", "arguments": args}, **more}

    streams = [
        chunk(piece("a", '{"path":"1"}')) + chunk(piece("b", '{"path":"2"}')) + chunk(finish="stop"),
        chunk(piece("", '{"path":"1"}', index=0), piece("", '{"path":"2"}', index=0)) + chunk(finish="stop"),
        chunk(piece("same", '{"path":"1"}', index=0), piece("same", '{"path":"2"}', index=1)) + chunk(finish="stop"),
        chunk(piece("a", "", index=0)) + chunk(piece("a", '{"path":"1"}', index=0))
        + chunk(piece("b", '{"path":"2"}', index=0)) + chunk(finish="stop"),
        chunk(piece("a", '{"pa', index=0)) + chunk({"index": 0, "function": {"arguments": 'th":"1"}'}})
        + chunk(piece("b", {"path": "2"}, index=0)) + chunk(finish="tool_calls"),
    ]  # fmt: skip
    for stream in streams:
        with ModelServer([Turn(fault=Raw(stream.encode())), Turn("done")]) as server:
            ran = run(server, "openai-chat")
        assert [text for _, text, _ in results(ran)] == ["read_file {'path': '1'}", "read_file {'path': '2'}"]


def test_signed_thought_on_a_call_comes_back() -> None:
    """Gemini's compatible endpoint signs a thought on the call itself; the signature is replayed."""
    extra = {"google": {"thought_signature": "c2ln"}}
    call = {"index": 0, "id": "a", "extra_content": extra, "function": {"name": "read_file", "arguments": "{}"}}
    stream = f"data: {json.dumps({'choices': [{'delta': {'tool_calls': [call]}, 'finish_reason': 'tool_calls'}]})}\n\n"
    with ModelServer([Turn(fault=Raw(stream.encode())), Turn("done")]) as server:
        ran = run(server, "openai-chat")

    assert ran.requests[1].json["messages"][2]["tool_calls"][0]["extra_content"] == extra
