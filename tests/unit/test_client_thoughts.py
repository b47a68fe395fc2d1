"""What goes back to a model of what it gave: its thoughts in order and to it alone, no image, no two equal ids."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from agent.harness.clients.fragments import Fragments
from agent.harness.clients.wire import Settings
from agent.harness.clients.wires import wire_named
from agent.harness.loop import AssistantMessage, CallResult, StopReason, ToolCall, ToolMessage, UserMessage
from tests.support.model_run import WIRES, entry, run
from tests.support.model_server import Call, ModelServer, Raw, Recorded, Status, Turn

every_wire = pytest.mark.parametrize("wire", WIRES)
WORK = Turn("Looking.", [Call("read_file", {"path": "a"})], thinking="a thought")
SIGNS = (b"thinking", b"encrypted_content", b"reasoning_content", b"sealed-")


def thoughts(request: Recorded) -> list[bytes]:
    """Words of thoughts in the messages of a request."""
    key = "input" if "input" in request.json else "messages"
    sent = json.dumps(request.json[key]).encode()
    return [sign for sign in SIGNS if sign in sent]


def forgets(server: ModelServer, message: str) -> Callable[[Recorded], Turn]:
    """The server makes a thought, and does not know it when it comes back."""

    def answer(request: Recorded) -> Turn:
        if thoughts(request):
            for dialect in server.dialects:
                dialect.thoughts.clear()
            return Turn(fault=Status(400, message=message))
        return Turn("done") if request.results else WORK

    return answer


@every_wire
@pytest.mark.parametrize("other", ["another model", "another server"])
def test_thoughts_go_to_no_other_model(wire: str, other: str) -> None:
    """After failover in the same format the history is told without the first model's thoughts, calls and all."""
    own = replace(WORK, calls=[Call("read_file", {"path": "b"}, "second_1")])
    name = "claude-haiku-4-5" if other == "another model" else "claude-sonnet-4-5"
    with ModelServer([WORK, WORK, Turn(fault=Status(404))]) as first, ModelServer([own, Turn("done")]) as second:
        origins = {"model": first.url, "model-1": second.url}
        ran = run(first, "", models=[entry(wire), entry(wire, model=name, connection="model-1")], origins=origins)

    assert (ran.result.output, [request.status for request in second.requests]) == ("done", [200, 200])
    assert [bool(thoughts(request)) for request in first.requests] == [False, True, True]
    sent = second.requests[1].raw
    # its own thought goes back to it, once; both of the first model's turns are there, their thoughts are not
    assert (sent.count(b"a thought") or sent.count(b"sealed-")) == 1
    assert thoughts(second.requests[0]) == []
    assert sent.count(b"Looking.") == 3


@every_wire
def test_thoughts_of_another_format_are_not_told(wire: str) -> None:
    """After failover to another format the history is told in the new one, without foreign blocks."""
    other = {"anthropic": "openai-chat", "openai-chat": "openai-responses", "openai-responses": "anthropic"}[wire]
    blocks = ({"type": "thinking", "thinking": "x", "signature": "s", "reasoning_content": "x"},)
    message = AssistantMessage("hi", (ToolCall("fn.a:0", "a", {"n": 1}, '{"n": 1}'),), blocks, f"{other} model m")

    sent = Fragments(wire_named(wire), f"{wire} model m").body(Settings("m"), "s", (), (message,), 9).decode()

    assert [word for word in ("thinking", "reasoning_content", "signature") if word in sent] == []
    assert '"hi"' in sent


@every_wire
def test_calls_of_another_model_are_told_with_ids_that_every_provider_takes(wire: str) -> None:
    """Nine letters and digits, the same in each request, and each result with its call; the model's own stay exact."""
    maker, fragments, ids = f"{wire} model m", Fragments(wire_named(wire), f"{wire} model m"), ["fn.a:0", "x" * 64, "é"]
    theirs = AssistantMessage("", tuple(ToolCall(i, "a", {"n": 1}, '{"n": 1}') for i in ids), (), "another")
    ours = AssistantMessage("", (ToolCall("fn_own_7", "a", {"n": 1}, '{"n": 1}'),), (), maker)
    messages = (
        UserMessage("go"), theirs, ToolMessage(tuple(CallResult(i, "a", f"result of {i}") for i in ids)),
        ours, ToolMessage((CallResult("fn_own_7", "a", "own"),)),
    )  # fmt: skip

    first = fragments.body(Settings("m"), "s", (), messages[:3], 9).decode()
    whole = fragments.body(Settings("m"), "s", (), messages, 9).decode()

    told = re.findall(r"call[0-9]{5}", whole)
    assert told == re.findall(r"call[0-9]{5}", first)
    assert {i: told.count(i) for i in told} == {f"call{n:05}": 2 for n in range(3)}
    assert [i for i in ids if f'"{i}"' in whole] == []
    assert whole.count('"fn_own_7"') == 2


@every_wire
@pytest.mark.parametrize(
    "message",
    ["The encrypted content gAAA could not be verified.",
     "messages.1.content.0: Invalid `signature` in `thinking` block",
     "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified.",
     "'messages.1' : for 'role:assistant' the following must be satisfied[('messages.1' : property "
     "'reasoning_content' is unsupported)]"],
)  # fmt: skip
def test_thoughts_that_a_server_does_not_know_again_are_left_out(wire: str, message: str) -> None:
    """A model that refuses its own thoughts is asked once more without them; a second refusal is an error."""
    with ModelServer([]) as server:
        server.add([forgets(server, message)] * 3)
        ran = run(server, wire)
    with ModelServer([WORK, *[Turn(fault=Status(400, message=message))] * 2]) as server:
        again = run(server, wire)

    assert (ran.result.output, [request.status for request in ran.requests]) == ("done", [200, 400, 200])
    assert ran.requests[2].results == ["read_file {'path': 'a'}"]
    assert (again.result.stop_reason, len(again.requests)) == (StopReason.ERROR, 3)


def stream(events: list[dict[str, Any]]) -> Turn:
    """A turn of exactly these events."""
    return Turn(fault=Raw("".join(f"data: {json.dumps(event)}\n\n" for event in events).encode()))


def blocks_of(blocks: list[dict[str, Any]], stop: str = "tool_use") -> Turn:
    """A turn of the Messages format with these blocks."""
    whole = {"type": "message", "role": "assistant", "model": "m", "content": blocks, "stop_reason": stop}
    return Turn(fault=Raw(json.dumps({**whole, "usage": {"input_tokens": 9, "output_tokens": 9}}).encode(),
                          "application/json"))  # fmt: skip


def items_of(items: list[dict[str, Any]]) -> Turn:
    """A turn of the Responses format with these items."""
    return Turn(fault=Raw(json.dumps({"status": "completed", "model": "m", "output": items}).encode(),
                          "application/json"))  # fmt: skip


def test_blocks_keep_their_order() -> None:
    """Thoughts between calls and texts go back where they were; blank texts and what we do not know do not."""
    use = [{"type": "tool_use", "id": f"t{n}", "name": "read_file", "input": {"path": str(n)}} for n in (1, 2)]
    signed = [{"type": "thinking", "thinking": text, "signature": f"sig{text}"} for text in ("x", "")]
    text, sealed = {"type": "text", "text": "Now."}, {"type": "redacted_thinking", "data": "eHg="}
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
    blocks = [signed[0], {"type": "text", "text": " "}, use[0], image, sealed, text, signed[1], use[1]]
    with ModelServer([blocks_of(blocks), Turn("done")]) as server:
        ran = run(server, "anthropic")

    assert ran.result.ok
    assert ran.requests[1].json["messages"][1]["content"] == [signed[0], use[0], sealed, text, signed[1], use[1]]


def test_items_keep_their_order() -> None:
    """Sealed thoughts go back as they came but for what the API does not take back; those without a seal do not."""
    call = {"type": "function_call", "call_id": "c1", "name": "read_file", "arguments": '{"path":"a"}'}
    sealed = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
    said = {"type": "message", "role": "assistant", "phase": "commentary"}
    items = [
        {**sealed, "status": "completed", "content": None},
        {**said, "id": "m1", "status": "completed", "content": [{"type": "output_text", "text": "Now."}]},
        {"type": "reasoning", "id": "rs_2", "summary": []},
        {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": "iVBORw0KGgo="},
        {**call, "id": "fc_1", "status": "completed"},
    ]  # fmt: skip
    with ModelServer([items_of(items), Turn("done")]) as server:
        ran = run(server, "openai-responses")

    assert ran.result.ok
    assert ran.requests[0].json["store"] is False
    assert ran.requests[1].json["input"][1:] == [
        sealed, {**said, "content": "Now."}, call,
        {"type": "function_call_output", "call_id": "c1", "output": "read_file {'path': 'a'}"},
    ]  # fmt: skip


def test_thoughts_in_pieces_are_put_together() -> None:
    """A router streams a thought in many pieces and wants it back whole: one entry for each run of one kind."""
    text, summary = {"type": "reasoning.text", "format": "f"}, {"type": "reasoning.summary", "format": "f"}
    sealed = {"type": "reasoning.encrypted", "data": "ab", "format": "f"}
    pieces = [
        {**text, "text": "I ", "index": 0}, {**text, "text": "look.", "index": 0},
        {**text, "text": "", "signature": "sig", "index": 0, "id": None}, {**text, "text": "Then", "index": 0},
        {**summary, "summary": "So "}, {**summary, "summary": "on."}, sealed, sealed,
    ]  # fmt: skip
    call = {"index": 0, "id": "c1", "function": {"name": "read_file", "arguments": "{}"}}
    events = [{"choices": [{"delta": {"reasoning": "I look.", "reasoning_details": [piece]}}]} for piece in pieces]
    events.append({"choices": [{"delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]})
    with ModelServer([stream(events), Turn("done")]) as server:
        ran = run(server, "openai-chat")

    assert ran.requests[1].json["messages"][2]["reasoning_details"] == [
        {**text, "text": "I look.", "signature": "sig", "index": 0}, {**text, "text": "Then", "index": 0},
        {**summary, "summary": "So on."}, sealed, sealed,
    ]  # fmt: skip


IMAGE = "data:image/png;base64,iVBORw0KGgo="
IMAGES = {
    "anthropic": blocks_of([{"type": "image", "source": {"type": "url", "url": IMAGE}}], "end_turn"),
    "openai-chat": stream(
        [{"choices": [{"delta": {"content": "", "images": [{"type": "image_url", "image_url": {"url": IMAGE}}]}}]},
         {"choices": [{"delta": {"content": [{"type": "image_url", "image_url": {"url": IMAGE}}]}}]},
         {"choices": [{"delta": {}, "finish_reason": "stop"}]}]),
    "openai-responses": items_of([{"type": "image_generation_call", "id": "i", "result": IMAGE}]),
}  # fmt: skip


@every_wire
def test_an_image_for_an_answer_is_refused_politely(wire: str) -> None:
    """A turn of an image alone says nothing: the model is asked for words, and the image is not sent back."""
    with ModelServer([IMAGES[wire], Turn("In words.")]) as server:
        ran = run(server, wire)

    assert (ran.result.output, ran.result.stop_reason) == ("In words.", StopReason.COMPLETED)
    assert "Your turn was empty" in json.dumps(ran.requests[1].json)
    assert b"iVBOR" not in ran.requests[1].raw


def test_text_beside_an_image_is_the_answer() -> None:
    """Content in parts, as some servers send it, is read for its text."""
    parts = [{"type": "image_url", "image_url": {"url": IMAGE}}, {"type": "text", "text": "A chart."}]
    with ModelServer([stream([{"choices": [{"delta": {"content": parts}, "finish_reason": "stop"}]}])]) as server:
        streamed = run(server, "openai-chat")
    whole = json.dumps({"choices": [{"message": {"content": parts}, "finish_reason": "stop"}]}).encode()
    with ModelServer([Turn(fault=Raw(whole, "application/json"))]) as server:
        at_once = run(server, "openai-chat")

    assert [streamed.result.output, at_once.result.output] == ["A chart.", "A chart."]


def test_ids_of_other_providers_stay_apart() -> None:
    """Ids with signs that the Messages API refuses are replaced, and two of them never by the same."""
    ids = ["read.0", "read:0", "read_0", "é", "è"]
    calls = tuple(ToolCall(one, "a", {}, "{}") for one in ids)
    results = tuple(CallResult(one, "a", one) for one in ids)
    history = (UserMessage("t"), AssistantMessage("", calls), ToolMessage(results))
    wire = wire_named("anthropic")
    body = json.loads(Fragments(wire, "").body(Settings("m"), "s", (), history, 9))

    used = [block["id"] for block in body["messages"][1]["content"]]
    assert used[2] == "read_0"
    assert len(set(used)) == len(ids)
    assert [block["tool_use_id"] for block in body["messages"][2]["content"]] == used
    with ModelServer([]) as server:
        server.dialects[0].check(body, {"anthropic-version": "2023-06-01"})
