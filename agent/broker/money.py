"""What an answer cost, from the provider's own count and the one price table: the money cap of last resort (S7)."""

from __future__ import annotations

from collections.abc import Iterable

from agent.broker.limits import Limits
from agent.broker.usage import Used
from agent.contract.errors import UserError
from agent.contract.prices import find_price


def check_cost_cap(models: Iterable[str], limits: Limits) -> None:
    """A cap on cost binds where every model has a price; where one has none, a cap on tokens has to stand beside it.

    Raises:
        UserError: nothing would hold the run's cost. No model was asked.
    """
    if limits.max_cost_usd is None or limits.max_tokens is not None:
        return
    unpriced = [model for model in models if find_price(model) is None]
    if unpriced:
        raise UserError(
            f"The cap on cost (`max-cost`, `ai.maxCostPerRun`) cannot hold: the price of {', '.join(unpriced)} is "
            "not known. Add a cap on tokens (`max-tokens`, `ai.maxTokensPerRun`), or take the cap on cost away."
        )


def cost_of(model: str, used: Used) -> float | None:
    """US dollars of one answer, or None where the model's price is not known."""
    price = find_price(model)
    return None if price is None else price.cost(used.read, used.cached, used.kept, used.written)
