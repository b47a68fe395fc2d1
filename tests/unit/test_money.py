"""The broker's own count of money: from the provider's bytes, with the price table that the harness uses."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.broker.money import TABLE, cost_of
from agent.broker.usage import Used, used_by
from agent.harness.clients.prices import find_price
from agent.harness.loop import Usage

MODELS = sorted(json.loads(TABLE.read_bytes())["prices"])


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(MODELS), st.sampled_from(["", "-latest", "-20250929", "@20250929"]), st.data())
def test_broker_and_harness_count_the_same_money(model: str, suffix: str, data: st.DataObject) -> None:
    """Two counts of one answer never disagree, whatever part of the input came from a cache."""
    read = data.draw(st.integers(0, 2_000_000))
    cached = data.draw(st.integers(0, read))
    kept = data.draw(st.integers(0, read - cached))
    written = data.draw(st.integers(0, 200_000))
    price = find_price(model + suffix)
    assert price is not None
    expected = price.cost(Usage(read, cached, kept, written))
    assert cost_of(model + suffix, Used(read, cached, kept, written)) == pytest.approx(expected)


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
