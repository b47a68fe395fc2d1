"""Request bodies against the types of the official SDKs, which are test dependencies only."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.model_run import WIRES, run
from tests.support.model_server import Call, ModelServer, Turn

pydantic = pytest.importorskip("pydantic")
anthropic = pytest.importorskip("anthropic")
openai = pytest.importorskip("openai")


def params(wire: str) -> Any:
    """The SDK's type of a streaming request."""
    if wire == "anthropic":
        return anthropic.types.message_create_params.MessageCreateParamsStreaming
    if wire == "openai-chat":
        return openai.types.chat.completion_create_params.CompletionCreateParamsStreaming
    return openai.types.responses.response_create_params.ResponseCreateParamsStreaming


def known(wire: str) -> set[str]:
    return set(params(wire).__annotations__) | {
        key for base in getattr(params(wire), "__orig_bases__", ()) for key in getattr(base, "__annotations__", {})
    }


@pytest.mark.parametrize("wire", WIRES)
def test_bodies_have_the_sdks_types(wire: str) -> None:
    """Bodies with text, calls, results, errors, thoughts and odd arguments are what the SDK's types allow."""
    turns = [
        Turn("Looking.", [Call("read_file", {"path": "a"}), Call("nope", "[1]")], thinking="Hm."),
        Turn(calls=[Call("list_dir", ""), Call("write_file", {"path": "b"})]),
        Turn("half", stop="max_tokens"),
        Turn("done"),
    ]
    with ModelServer(turns) as server:
        ran = run(server, wire)

    adapter = pydantic.TypeAdapter(params(wire), config=None)
    assert [request.status for request in ran.requests] == [200] * 4
    for request in ran.requests:
        body = json.loads(request.raw)
        assert set(body) - known(wire) == set()
        adapter.validate_json(request.raw)
        for message in body.get("messages", []):
            message.pop("reasoning_content", None)  # what compatible servers want back is not OpenAI's own


@pytest.mark.parametrize("wire", WIRES)
def test_type_check_refuses_a_wrong_body(wire: str) -> None:
    """The check finds a body that is wrong."""
    key = "input" if wire == "openai-responses" else "messages"
    with pytest.raises(pydantic.ValidationError):
        pydantic.TypeAdapter(params(wire)).validate_python({"model": "m", "stream": True, key: 7, "max_tokens": 1})


@pytest.mark.parametrize("wire", WIRES)
def test_the_scripted_server_answers_in_the_sdks_types(wire: str) -> None:
    """What the scripted server says is what the real one would: its whole answers are the SDK's objects."""
    with ModelServer([]) as server:
        index = list(WIRES).index(wire)
        turn = Turn("Hi.", [Call("read_file", {"path": "a"})], thinking="Hm.")
        answer = server.dialects[index].whole(turn, ["call_1"], "m", 100)
    model = {
        "anthropic": anthropic.types.Message,
        "openai-chat": openai.types.chat.ChatCompletion,
        "openai-responses": openai.types.responses.Response,
    }[wire]
    if wire == "openai-responses":
        answer = {**answer, "parallel_tool_calls": True, "tool_choice": "auto", "tools": []}

    model.model_validate(answer)
