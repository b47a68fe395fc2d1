"""The table of wire formats."""

from __future__ import annotations

from agent.harness.clients.anthropic import AnthropicWire
from agent.harness.clients.chat import ChatWire
from agent.harness.clients.responses import ResponsesWire
from agent.harness.clients.wire import Wire

_WIRES: tuple[Wire, ...] = (AnthropicWire(), ChatWire(), ResponsesWire())
WIRES = {wire.name: wire for wire in _WIRES}


def wire_named(name: str) -> Wire:
    """The format of exactly this name.

    Raises:
        ValueError: there is none.
    """
    if name not in WIRES:
        raise ValueError(f"Unknown wire format {name!r}. Known: {', '.join(WIRES)}.")
    return WIRES[name]
