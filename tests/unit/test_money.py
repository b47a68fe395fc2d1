"""The broker's own count of money: from the provider's bytes, with the price table that the harness uses."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import agent.contract.prices
from agent.broker.limits import Limits
from agent.broker.money import check_cost_cap, cost_of
from agent.broker.usage import Used, used_by, used_or_guessed
from agent.contract.errors import UserError
from agent.contract.prices import find_price
from agent.harness.clients.model import _priced
from agent.harness.loop import Usage

TABLE = Path(agent.contract.prices.__file__).with_name("prices.json")
MODELS = sorted(json.loads(TABLE.read_bytes())["prices"])


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(MODELS), st.sampled_from(["", "-latest", "-20250929", "@20250929"]), st.data())
def test_broker_and_harness_count_the_same_money(model: str, suffix: str, data: st.DataObject) -> None:
    """Two counts of one answer never disagree, whatever part of the input came from a cache."""
    read = data.draw(st.integers(0, 2_000_000))
    cached = data.draw(st.integers(0, read))
    kept = data.draw(st.integers(0, read - cached))
    written = data.draw(st.integers(0, 200_000))
    expected = _priced(Usage(read, cached, kept, written), find_price(model + suffix)).cost
    assert expected is not None or read + written == 0
    assert cost_of(model + suffix, Used(read, cached, kept, written)) == pytest.approx(expected or 0.0)


@pytest.mark.parametrize("model", ["", "gpt", "no-such-model", "claude-sonnet-4-5-from-mallory"])
def test_a_model_that_is_not_known_has_no_price(model: str) -> None:
    """None is guessed: a name that only begins like a known one may cost anything."""
    assert cost_of(model, Used(read=1)) is None


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (
            b'{"usage":{"input_tokens":10,"cache_read_input_tokens":90,"cache_creation_input_tokens":5,"output_tokens":3}}',
            Used(read=105, cached=90, kept=5, written=3),
        ),
        (
            b'{"usage":{"prompt_tokens":100,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":64}}}',
            Used(read=100, cached=64, kept=0, written=3),
        ),
        (
            b'{"usage":{"input_tokens":100,"input_tokens_details":{"cached_tokens":64},"output_tokens":3}}',
            Used(read=100, cached=64, kept=0, written=3),
        ),
        (b'{"usage":{"prompt_tokens":10,"prompt_tokens_details":{"cached_tokens":999}}}', Used(read=10, cached=10)),
    ],
)
def test_cached_input_is_told_apart_in_every_wire_format(answer: bytes, expected: Used) -> None:
    """Anthropic counts it beside the input, the OpenAI formats inside; never more than there was."""
    assert used_by(answer) == expected


TEXT = "\u00e9t\u00e9 " * 100
CUT = {
    "anthropic": [
        {"type": "message_start", "message": {"usage": {"input_tokens": 70, "output_tokens": 1}}},
        {"type": "content_block_delta", "delta": {"type": "thinking_delta", "thinking": TEXT}},
        {"type": "content_block_delta", "delta": {"type": "input_json_delta", "partial_json": TEXT}},
    ],
    "openai-chat": [
        {"choices": [{"delta": {"content": TEXT}, "finish_reason": None}]},
        {"choices": [{"delta": {"tool_calls": [{"function": {"arguments": TEXT}}]}}]},
    ],
    "openai-responses": [
        {"type": "response.output_text.delta", "delta": TEXT},
        {"type": "response.function_call_arguments.delta", "delta": TEXT},
    ],
}
END = {
    "anthropic": [{"type": "message_delta", "usage": {"output_tokens": 9}}, {"type": "message_stop"}],
    "openai-chat": [
        {"choices": [{"delta": {}, "finish_reason": "stop"}]},
        {"usage": {"prompt_tokens": 70, "completion_tokens": 9}},
    ],
    "openai-responses": [
        {"type": "response.completed", "response": {"usage": {"input_tokens": 70, "output_tokens": 9}}}
    ],
}


def sse(events: list[dict[str, object]]) -> bytes:
    return b"".join(b"data: %s\n\n" % json.dumps(event, ensure_ascii=False).encode() for event in events)


@pytest.mark.parametrize("wire", CUT)
def test_what_was_streamed_before_a_cut_is_counted(wire: str) -> None:
    """A cancelled or cut answer was paid for; one that ended is counted as the provider says, and not guessed."""
    sent = 4 * 70
    cut = used_or_guessed(sse(CUT[wire]), sent)

    assert (cut.read, 2 * len(TEXT) // 4 <= cut.written <= 2 * len(TEXT)) == (70, True)
    assert used_or_guessed(sse([*CUT[wire], *END[wire]]), sent) == Used(read=70, written=9)
    assert used_or_guessed(b"", sent) == Used(read=70)


def test_an_answer_without_any_usage_is_guessed() -> None:
    """A server that reports none: budgets still bind. A text that looks like an end is no end."""
    whole = b'{"choices":[{"message":{"content":"%s"},"finish_reason":"stop"}]}' % (b"x" * 400)
    imitated = sse([{"choices": [{"delta": {"content": '"finish_reason":"stop" "type":"message_stop"' + "x" * 400}}]}])

    assert used_or_guessed(whole, 4000) == Used(read=1000, written=100)
    assert used_or_guessed(imitated, 4000).written >= 100


def test_a_cost_cap_needs_prices_or_a_cap_on_tokens() -> None:
    """S7: a cap that nothing would hold is refused at the start, with what to do; every other pair passes."""
    capped = Limits(max_tool_calls=1, max_cost_usd=2.0)
    with pytest.raises(UserError, match=r"price of house-1, house-2 is not known\. Add a cap on tokens"):
        check_cost_cap(["claude-sonnet-4-5", "house-1", "house-2"], capped)
    check_cost_cap(["claude-sonnet-4-5"], capped)
    check_cost_cap(["house-1"], replace(capped, max_tokens=1000))
    check_cost_cap(["house-1"], replace(capped, max_cost_usd=None))
