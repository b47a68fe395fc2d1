"""What may be sent to a model: a conversation, and nothing by which a provider would act for the sender."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.broker.policy.model_body import Conversation, problem

ANTHROPIC = {"model": "m", "messages": [{"role": "user", "content": [{"type": "text", "text": "x"}]}], "max_tokens": 5}
CHAT = {"model": "m", "messages": [{"role": "user", "content": "x"}], "stream": True}
RESPONSES = {
    "model": "m",
    "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "x"}]}],
}
BASE = {"anthropic": ANTHROPIC, "openai-chat": CHAT, "openai-responses": RESPONSES}

ALLOWED: list[tuple[str, dict[str, Any]]] = [
    ("anthropic", {"tools": [{"name": "t", "input_schema": {}}], "system": [{"type": "text", "text": "s"}]}),
    (
        "anthropic",
        {
            "messages": [
                {"role": "assistant", "content": [{"type": "thinking", "thinking": "t", "signature": "s"}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": "r"}]},
            ]
        },
    ),
    (
        "openai-chat",
        {"tools": [{"type": "function", "function": {"name": "t"}}], "stream_options": {"include_usage": True}},
    ),
    ("openai-responses", {"include": ["reasoning.encrypted_content"], "store": False, "tools": [{"type": "function"}]}),
]
REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("anthropic", {"mcp_servers": [{"type": "url", "url": "https://attacker.example"}]}),
    ("anthropic", {"model": "dearer"}),
    ("anthropic", {"service_tier": "auto"}),
    ("openai-responses", {"service_tier": "priority"}),
    ("anthropic", {"tools": [{"type": "web_fetch_20250910", "name": "web_fetch"}]}),
    ("anthropic", {"container": "c"}),
    ("anthropic", {"messages": [{"role": "user", "content": [{"type": "image", "source": {"type": "url"}}]}]}),
    (
        "anthropic",
        {"messages": [{"role": "user", "content": [{"type": "tool_result", "content": [{"type": "document"}]}]}]},
    ),
    ("openai-chat", {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "u"}}]}]}),
    ("openai-chat", {"web_search_options": {}}),
    ("openai-responses", {"tools": [{"type": "mcp", "server_url": "https://attacker.example"}]}),
    ("openai-responses", {"tools": [{"type": "web_search"}]}),
    ("openai-responses", {"include": ["web_search_call.results"]}),
    ("openai-responses", {"previous_response_id": "r"}),
    ("openai-responses", {"input": [{"type": "item_reference", "id": "i"}]}),
]


@pytest.mark.parametrize(("wire", "over"), ALLOWED)
def test_a_conversation_with_tools_of_our_own_passes(wire: str, over: dict[str, Any]) -> None:
    """Positive control: what our own converters send."""
    assert problem(wire, "m", json.dumps(BASE[wire] | over).encode()) is None


@pytest.mark.parametrize(("wire", "over"), REFUSED)
def test_a_body_by_which_the_provider_would_act_is_refused(wire: str, over: dict[str, Any]) -> None:
    """Servers, addresses, searches, code, another model: refused, though the same body without it passes."""
    assert problem(wire, "m", json.dumps(BASE[wire]).encode()) is None
    assert problem(wire, "m", json.dumps(BASE[wire] | over).encode()) is not None


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'"x"', b"[" * 50_000, b"\xff"])
def test_a_body_that_is_no_object_is_refused(body: bytes) -> None:
    """Nothing that cannot be read is sent."""
    assert problem("anthropic", "m", body) is not None


def test_an_unknown_wire_format_is_refused() -> None:
    """Absence is refusal."""
    assert problem("", "m", json.dumps(CHAT).encode()) is not None


@given(st.dictionaries(st.text(max_size=12), st.none() | st.booleans() | st.text(max_size=5), max_size=4))
def test_no_key_of_an_attackers_choice_passes(extra: dict[str, Any]) -> None:
    """Only listed keys, whatever else stands there."""
    listed = {"model", "messages", "max_tokens", "stream", "temperature", "system", "tools", "thinking"}
    verdict = problem("anthropic", "m", json.dumps({**ANTHROPIC, **extra, "evil_key": 1}).encode())
    assert verdict is not None
    assert "evil_key" not in listed


@pytest.mark.parametrize(
    "twice",
    [
        b'{"model":"m","tools":[{"type":"web_search"}],"messages":[],"tools":[],"max_tokens":5}',
        b'{"model":"dearer","model":"m","messages":[]}',
        b'{"model":"m","messages":[{"role":"user","content":[{"type":"image","type":"text","text":"x"}]}]}',
        b'{"model":"m","messages":[{"role":"user","content":"x"}],"messages":[]}',
    ],
)
def test_a_key_that_stands_twice_is_refused(twice: bytes) -> None:
    """A provider may take the first of two where we looked at the last; with one of each the body passes."""
    assert problem("anthropic", "m", b'{"model":"m","messages":[],"tools":[],"max_tokens":5}') is None
    assert problem("anthropic", "m", twice) is not None
    assert Conversation("anthropic", "m").problem(twice) is not None


def entry(text: str) -> str:
    return json.dumps({"role": "user", "content": [{"type": "text", "text": text}]}, ensure_ascii=False)


def body(entries: list[str], tail: str = '],"max_tokens":5}', head: str = '{"model":"m","messages":[') -> bytes:
    return (head + ",".join(entries) + tail).encode()


BAD = json.dumps({"role": "user", "content": [{"type": "document", "source": {"type": "url", "url": "u"}}]})
steps = st.lists(
    st.tuples(
        st.lists(st.text(max_size=4).map(entry) | st.just(BAD) | st.sampled_from(["", " ", "{", "]", '"messages":['])),
        st.integers(0, 3),
        st.sampled_from(
            ['],"max_tokens":5}', "]}", "}", '],"mcp_servers":[]}', '],"messages":[]}', ' ], "stream":true}']
        ),
        st.sampled_from(
            ['{"model":"m","messages":[', '{"model":"x","messages":[', '{"system":"\\"messages\\":[","messages":[']
        ),
    ),
    max_size=6,
)


@given(steps)
def test_a_conversation_that_grows_is_judged_as_each_body_by_itself(rounds: list[Any]) -> None:
    """Whatever was sent before, a body passes exactly when it would pass alone."""
    conversation, entries = Conversation("anthropic", "m"), list[str]()
    for more, back, tail, head in rounds:
        entries = entries[: max(0, len(entries) - back)] + more
        sent = body(entries, tail, head)
        alone = problem("anthropic", "m", sent)
        assert (conversation.problem(sent) is None) == (alone is None)


@pytest.mark.parametrize("cut", [b'{"model":"m","x":[', b'{"model":"m","messages":[', b'["messages":[', b"{"])
def test_a_body_that_ends_early_is_refused(cut: bytes) -> None:
    """Wherever it ends; a whole one after it passes."""
    conversation = Conversation("anthropic", "m")
    assert conversation.problem(cut) is not None
    assert conversation.problem(body([entry("x")])) is None


def test_entries_that_passed_are_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fifty turns: what is read of each request is what it adds, also where cache marks move; a late fault is found."""
    read: list[int] = []
    conversation = Conversation("anthropic", "m")

    class Counted(json.JSONDecoder):
        def raw_decode(self, s: str, idx: int = 0) -> tuple[Any, int]:
            value, end = super().raw_decode(s, idx)
            read[-1] += end - idx
            return value, end

    monkeypatch.setattr("agent.broker.policy.model_body._JSON", Counted())
    entries = ['{"role":"user","content":"Do it."}']
    for turn in range(50):
        read.append(0)
        assert conversation.problem(body(entries)) is None
        entries.append(entry("é" * 500 + str(turn)))
    read.append(0)

    assert max(read) < 2_000
    assert conversation.problem(body([*entries, BAD])) == "content of the kind 'document' is not text of a conversation"
    assert conversation.problem(body([BAD, *entries])) is not None
    assert conversation.problem(body(entries)) is None
