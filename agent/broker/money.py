"""What an answer cost, from the provider's own count and the one price table: the money cap of last resort (S7)."""

from __future__ import annotations

from agent.broker.usage import Used
from agent.contract.prices import find_price


def cost_of(model: str, used: Used) -> float | None:
    """US dollars of one answer, or None where the model's price is not known."""
    price = find_price(model)
    return None if price is None else price.cost(used.read, used.cached, used.kept, used.written)
