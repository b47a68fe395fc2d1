"""Sums over a transcript, fed one event at a time: by its writer, the report and the viewer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent.contract.dataclass import dataclass, field


@dataclass
class Tally:
    """Calls, errors and time of one tool or model."""

    calls: int = 0
    errors: int = 0
    ms: float = 0.0


@dataclass
class Totals:
    """Sums over a transcript, fed one event at a time.

    Attributes:
        input_tokens: all input tokens, `cached_tokens` of them from a cache.
        cost_usd: US dollars; None once an answer came whose price is unknown.
        tools: by tool name. models: by model name.
        denials: tools, egress, commits and pushes that a rule refused.
        egress_requests: requests that left.
    """

    turns: int = 0
    tool_calls: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = 0.0
    tools: dict[str, Tally] = field(default_factory=dict)
    models: dict[str, Tally] = field(default_factory=dict)
    hooks: dict[str, Tally] = field(default_factory=dict)
    egress_requests: int = 0
    denials: int = 0

    def add(self, kind: str, data: Mapping[str, Any]) -> None:
        """Count one event. Fields of the wrong type count as nothing: the harness is not trusted."""
        if kind == "model.response":
            self.turns += 1
            self._model(data)
        elif kind == "tool.call":
            self.tool_calls += 1
        elif kind == "tool.result":
            _count(self.tools, data.get("name"), data.get("ms"), failed=bool(data.get("is_error")))
        elif kind == "hook.end":
            _count(self.hooks, data.get("purpose"), data.get("duration_ms"), failed=not data.get("passed"))
        elif kind == "egress.request":
            self.egress_requests += 1
        elif kind.endswith(".denied"):
            self.denials += 1

    def _model(self, data: Mapping[str, Any]) -> None:
        _count(self.models, data.get("model") or "model", data.get("ms"), failed=False)
        usage = data.get("usage")
        usage = usage if isinstance(usage, Mapping) else {}
        self.input_tokens += int(_number(usage.get("input_tokens")))
        self.cached_tokens += int(_number(usage.get("cached_tokens")))
        self.output_tokens += int(_number(usage.get("output_tokens")))
        cost = usage.get("cost", 0.0)
        self.cost_usd = None if cost is None or self.cost_usd is None else self.cost_usd + _number(cost)

    def to_json(self) -> dict[str, Any]:
        """As the `totals` of `run.end`: numbers rounded, tallies as objects."""
        data: dict[str, Any] = {
            name: getattr(self, name)
            for name in ("turns tool_calls input_tokens cached_tokens output_tokens egress_requests denials".split())
        }
        data["cost_usd"] = None if self.cost_usd is None else round(self.cost_usd, 6)
        for name in ("tools", "models", "hooks"):
            tallies: dict[str, Tally] = getattr(self, name)
            data[name] = {
                key: {"calls": t.calls, "errors": t.errors, "ms": round(t.ms, 1)} for key, t in tallies.items()
            }
        return data


def _number(value: object) -> float:
    ok = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e15
    return float(value) if ok else 0.0  # type: ignore[arg-type]


def _count(tallies: dict[str, Tally], name: object, ms: object, *, failed: bool) -> None:
    tally = tallies.setdefault(str(name)[:64], Tally())
    tally.calls += 1
    tally.errors += failed
    tally.ms += _number(ms)
