"""A scripted model in neutral words: turns, calls, and faults on demand. Needs nothing but Python."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Call:
    """One tool call. `args` is an object, or the exact text that the model is to write; `id` None numbers it."""

    name: str
    args: Mapping[str, Any] | str = field(default_factory=dict)
    id: str | None = None

    @property
    def raw(self) -> str:
        return self.args if isinstance(self.args, str) else json.dumps(dict(self.args))


@dataclass(frozen=True)
class Status:
    """Answer with this status; without a body, the provider's usual error object."""

    status: int
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    type: str = ""
    message: str = "as scripted"


@dataclass(frozen=True)
class Cut:
    """Close the connection after `events` events; `clean` ends the body properly all the same."""

    events: int = 3
    clean: bool = False


@dataclass(frozen=True)
class Slow:
    """Say nothing for `seconds` after `events` events, or before anything at all with `events=0`."""

    seconds: float
    events: int = 2


@dataclass(frozen=True)
class Inside:
    """A 200 whose stream (or body) is an error."""

    type: str = "overloaded_error"
    message: str = "Overloaded"
    events: int = 2


@dataclass(frozen=True)
class Raw:
    """Exactly these bytes."""

    body: bytes
    content_type: str = "text/event-stream"
    status: int = 200


Fault = Status | Cut | Slow | Inside | Raw


@dataclass(frozen=True)
class Turn:
    """What the model does with one request.

    Attributes:
        text, calls: what it says.
        thinking: text of a thought that must come back with a signature.
        refusal: it refuses, with these words.
        stop: None for the natural one, or `max_tokens`.
        usage: any of input, cached, cache_write, output, reasoning; counted from the texts otherwise.
        no_usage: report none, as some servers do.
        fault: what goes wrong instead, or on the way.
    """

    text: str = ""
    calls: Iterable[Call] = ()
    thinking: str = ""
    refusal: str = ""
    stop: str | None = None
    usage: Mapping[str, int] | None = None
    no_usage: bool = False
    fault: Fault | None = None

    def counts(self, request_bytes: int) -> dict[str, int]:
        said = len(self.text) + len(self.thinking) + sum(len(call.raw) + len(call.name) for call in self.calls)
        usage = {"input": request_bytes // 4, "cached": 0, "cache_write": 0, "output": said // 4 + 1, "reasoning": 0}
        return {**usage, **(self.usage or {})}


@dataclass(frozen=True)
class Recorded:
    """One request as it arrived, with what the script answered."""

    path: str
    query: str
    headers: Mapping[str, str]
    raw: bytes
    json: Mapping[str, Any]
    status: int = 0

    @property
    def tool_names(self) -> list[str]:
        return [tool["name"] if "name" in tool else tool["function"]["name"] for tool in self.json.get("tools", [])]

    @property
    def results(self) -> list[str]:
        """Texts of the tool results after the model's last turn."""
        texts: list[str] = []
        for entry in self.json.get("messages") or self.json.get("input") or []:
            if entry.get("role") == "assistant" or entry.get("type") in ("function_call", "reasoning"):
                texts = []
            elif entry.get("role") == "tool":
                texts.append(entry["content"])
            elif entry.get("type") == "function_call_output":
                texts.append(entry["output"])
            elif isinstance(entry.get("content"), list):
                texts += [block["content"] for block in entry["content"] if block.get("type") == "tool_result"]
        return texts


Script = Iterable[Turn | Callable[[Recorded], Turn]] | Callable[[Recorded], Turn]
