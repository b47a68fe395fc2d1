"""What an answer cost, from the provider's own count and the one price table: the money cap of last resort (S7).

The table is the harness's file, read as data: zones share no code, and two tables would drift apart.
"""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path
from typing import Any

from agent.broker.usage import Used

TABLE = Path(__file__).resolve().parents[1] / "harness/clients/prices.json"

# What may follow a known name and still be that model: a date, `latest`, or a platform's version mark.
_SUFFIX = re.compile(r"(-latest|-\d{8}|-\d{4}-\d{2}-\d{2}|-\d{3}|@\d{8}|-v\d+(:\d+)?)?")


def cost_of(model: str, used: Used) -> float | None:
    """US dollars of one answer, or None where the model's price is not known."""
    rows = _rows(model.rpartition("/")[2].lower())
    if not rows:
        return None
    _, plain, cached, kept, output = [row for row in rows if row[0] <= used.read][-1]
    fresh = max(0, used.read - used.cached - used.kept)
    return float(fresh * plain + used.cached * cached + used.kept * kept + used.written * output) / 1e6


def _rows(name: str) -> list[list[float]] | None:
    """The longest known name that this one begins with, as far as the rest is a mere version."""
    prices = _table()
    for end in range(len(name), 0, -1):
        if name[:end] in prices and _SUFFIX.fullmatch(name[end:]):
            return prices[name[:end]]
    return None


@functools.cache
def _table() -> dict[str, list[list[float]]]:
    data: dict[str, Any] = json.loads(TABLE.read_bytes())
    prices: dict[str, list[list[float]]] = data["prices"]
    return prices
