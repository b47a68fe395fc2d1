"""A plan as the Python stand-in reads it off the wire."""

from __future__ import annotations

from agent.contract.dataclass import dataclass, field
from agent.sandbox.protocol import split

_ARITY = {"filter": 2, "limit": 2, "rule": 3, "mount": 3}  # values after a key; one for every other key


@dataclass
class Orders:
    """A plan as it came over the wire."""

    single: dict[str, str] = field(default_factory=dict)
    many: dict[str, list[tuple[str, ...]]] = field(default_factory=dict)

    @classmethod
    def parse(cls, body: bytes) -> Orders:
        orders, words = cls(), split(body)
        while words:
            key, *rest = words
            count = _ARITY.get(key, 1)
            if count > 1 or key in ("level", "env", "arg"):
                orders.many.setdefault(key, []).append(tuple(rest[:count]))
            else:
                orders.single[key] = rest[0]
            words = rest[count:]
        return orders

    def number(self, key: str) -> int:
        return int(self.single[key])
