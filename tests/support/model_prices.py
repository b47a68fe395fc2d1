"""Makes `agent/contract/prices.json` from the maintained table of the package `genai-prices` (MIT).

The package itself takes 0.4 s and pydantic to import, so it is used here and never at run time:
`pip install genai-prices && python -m tests.support.model_prices`.
"""

from __future__ import annotations

import datetime
import json
import re
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path
from typing import Any

PROVIDERS = ("anthropic", "openai", "google", "deepseek", "mistral", "x-ai", "moonshotai", "zai", "minimax")
OUT = Path(__file__).parents[2] / "agent" / "contract" / "prices.json"
UNITS = ("input_mtok", "cache_read_mtok", "cache_write_mtok", "output_mtok")


def steps(price: Any) -> list[list[float]] | None:
    """Rows `[from_input_tokens, input, cached, cache_write, output]`, or None when it is not priced by tokens."""
    starts, values = {0}, {}
    for unit in UNITS:
        value = getattr(price, unit, None)
        tiers = getattr(value, "tiers", None)
        rows = [(0, value if tiers is None else value.base)]
        values[unit] = rows = rows + [(tier.start, tier.price) for tier in tiers or ()]
        starts |= {start for start, _ in rows}
    if values["input_mtok"][0][1] is None or values["output_mtok"][0][1] is None:
        return None
    table = []
    for start in sorted(starts):
        now = {unit: [price for at, price in rows if at <= start][-1] for unit, rows in values.items()}
        plain = now["input_mtok"]
        cached = plain if now["cache_read_mtok"] is None else now["cache_read_mtok"]
        written = plain if now["cache_write_mtok"] is None else now["cache_write_mtok"]
        table.append([start, *(float(Decimal(x)) for x in (plain, cached, written, now["output_mtok"]))])
    return table


def main() -> None:
    from genai_prices import data

    when = datetime.datetime.now(datetime.UTC)
    prices, windows = {}, {}
    for provider in data.providers:
        if provider.id not in PROVIDERS:
            continue
        for model in provider.models:
            rows = steps(model.get_prices(when))
            name = re.sub(r"-latest$", "", model.id.lower())
            if rows and name not in prices:
                prices[name] = rows
                if model.context_window:
                    windows[name] = model.context_window
    head = {
        "date": when.date().isoformat(),
        "source": f"genai-prices {version('genai-prices')}, MIT, https://github.com/pydantic/genai-prices",
        "unit": "US dollars per million tokens: [from input tokens, input, cached input, cache write, output]",
        "windows": windows,
    }
    lines = [f"  {json.dumps(name)}: {json.dumps(rows)}" for name, rows in sorted(prices.items())]
    opening = json.dumps(head, indent=1).rstrip("}\n") + "}"
    OUT.write_text(f'{opening},\n "prices": {{\n' + ",\n".join(lines) + "\n }\n}\n")
    print(f"{len(prices)} models")


if __name__ == "__main__":
    main()
