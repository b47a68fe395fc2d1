"""Tokens to money, and context windows, from a dated offline table. An unknown model has no price; none is guessed.

Broker and harness both count, each for itself and from this one table: `prices.json` beside this file, whose head
names date and source. It is read on first use.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import Any

from agent.contract.dataclass import dataclass
from agent.contract.regex import regex

# What may follow a known name and still be that model: a date, `latest`, or a platform's version mark.
_SUFFIX = regex(r"(-latest|-\d{8}|-\d{4}-\d{2}-\d{2}|-\d{3}|@\d{8}|-v\d+(:\d+)?)?")
_FILE = f"{__file__.rpartition('/')[0]}/prices.json"


@dataclass(frozen=True)
class Price:
    """US dollars per million tokens, by steps of a request's input tokens.

    Attributes:
        steps: rows `(from_input_tokens, input, cached, cache_write, output)`, ascending, the first from 0.
    """

    steps: tuple[tuple[float, float, float, float, float], ...]

    @property
    def cached(self) -> float:
        """The least an input token can cost."""
        return min(self.steps[0][1:4])

    @property
    def output(self) -> float:
        """An output token of a short request."""
        return self.steps[0][4]

    def cost(self, read: int, cached: int, kept: int, written: int) -> float:
        """US dollars of one request.

        Args:
            read: input tokens in all, of which `cached` came from a cache and `kept` went into one.
            written: output tokens.
        """
        _, plain, from_cache, into_cache, output = [row for row in self.steps if row[0] <= read][-1]
        fresh = max(0, read - cached - kept)
        return (fresh * plain + cached * from_cache + kept * into_cache + written * output) / 1e6


def find_price(model: str) -> Price | None:
    """Price of a model, or None when it is not known.

    Args:
        model: the provider's name of it; a vendor's prefix (`vendor/name`) is ignored.
    """
    rows = _find(_table()["prices"], model)
    return None if rows is None else Price(tuple((row[0], row[1], row[2], row[3], row[4]) for row in rows))


def find_window(model: str) -> int | None:
    """Context window of a model in tokens, or None when it is not known."""
    window: int | None = _find(_table()["windows"], model)
    return window


def _find(table: Mapping[str, Any], model: str) -> Any:
    name = model.rpartition("/")[2].lower()
    for end in range(len(name), 0, -1):
        if name[:end] in table and _SUFFIX.fullmatch(name[end:]):
            return table[name[:end]]
    return None


@functools.cache
def _table() -> Mapping[str, Mapping[str, Any]]:
    with open(_FILE, "rb") as file:
        table: Mapping[str, Mapping[str, Any]] = json.load(file)
    return table
