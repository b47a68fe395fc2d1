"""What the wire formats share: JSON as we send it, tool arguments as models write them, the shape of a format.

Pure. A format turns each message into bytes once; a request joins them, so that request N+1 starts with
request N and whatever varies from turn to turn stands after the messages.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any, Protocol

from agent.contract.dataclass import dataclass, field
from agent.harness.loop import LlmReply, LoopTool, Message, Usage

CHARS_PER_TOKEN = 4  # rough, for budgets where a provider reports no usage


@dataclass
class Settings:
    """How to speak to one model. `drop`, `max_output` and `output_field` are learned from what a server refuses.

    Attributes:
        model: name as the provider wants it.
        max_output: most output tokens of one turn.
        drop: optional fields, and other parts of a request, that this server does not take.
        output_field: name of the output limit in Chat Completions, which differs by model.
    """

    model: str
    max_output: int = 16_384
    drop: set[str] = field(default_factory=set)
    output_field: str = "max_tokens"


class Assembler(Protocol):
    """Puts a stream together into the object that the same API gives without streaming."""

    def feed(self, event: str, data: Mapping[str, Any], /) -> None:
        """Take one event. Raises `faults.ProviderError` for an error inside the stream."""
        ...

    @property
    def finished(self) -> bool:
        """The provider said that the turn is complete; a stream that ends before is cut."""
        ...

    def response(self) -> dict[str, Any]:
        """What has arrived."""
        ...


class Wire(Protocol):
    """One provider API. Stateless."""

    name: str
    path: str
    headers: Mapping[str, str]

    def items(self, message: Message) -> tuple[bytes, ...]:
        """JSON of the list entries that carry one message; its blocks, where it has some, are this format's."""
        ...

    def head(self, settings: Settings, system: str, tools: tuple[LoopTool, ...]) -> bytes:
        """The body up to the first message; the same for every turn."""
        ...

    def marked(self, items: list[bytes], settings: Settings, /) -> list[bytes]:
        """The entries with cache marks, where the format has such."""
        ...

    def tail(self, settings: Settings, max_output: int, /) -> bytes:
        """The body after the last message."""
        ...

    def assembler(self) -> Assembler: ...

    def reply(self, response: Mapping[str, Any]) -> LlmReply:
        """A complete response as the loop's reply; raises `faults.ProviderError` when it is an error."""
        ...


def dumps(value: Any) -> bytes:
    """Compact JSON in UTF-8; what UTF-8 cannot carry becomes a question mark rather than a refused request."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def open_object(fields: Mapping[str, Any], list_name: str) -> bytes:
    """`{...fields, "list_name":[` for a body whose list is appended to."""
    inner = dumps(dict(fields))[:-1]
    comma = b"," if len(inner) > 1 else b""
    return inner + comma + dumps(list_name) + b":["


def close_object(fields: Mapping[str, Any]) -> bytes:
    """`], ...fields}`."""
    inner = dumps(dict(fields))
    return b"]" + (b"," + inner[1:] if len(inner) > 2 else b"}")


def loads(text: str | bytes) -> Any:
    """JSON, strictly: no NaN, no infinity, since either in a history would spoil every later request.

    Raises:
        ValueError: not JSON, or nested too deeply.
    """
    try:
        return json.loads(text, parse_constant=_refuse_number, parse_float=_finite)
    except RecursionError as exc:
        raise ValueError("nested too deeply") from exc


def _refuse_number(text: str) -> Any:
    raise ValueError(f"{text} is no JSON number")


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _refuse_number(text[:20])


def safe_name(name: str) -> str:
    """A tool's name as every provider takes it back in a history; a model may have written anything."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64] or "unknown"


def parse_arguments(raw: Any) -> tuple[dict[str, Any] | None, str]:
    """Tool arguments as an object, or None and what is wrong in words for the model.

    Nothing at all is an empty object: that is how several servers call a tool without parameters.
    """
    if isinstance(raw, dict):
        return raw, ""
    if raw is None or (isinstance(raw, str) and not raw.strip()):
        return {}, ""
    try:
        value = loads(raw)
    except (ValueError, TypeError) as exc:
        return None, f"they are not JSON ({exc})"
    if isinstance(value, dict):
        return value, ""
    kind = {str: "a string (encoded twice?)", list: "a list", type(None): "null", bool: "a boolean"}
    return None, f"they are {kind.get(type(value), 'a number')}"


def safe_arguments(arguments: Mapping[str, Any] | None, raw: str) -> dict[str, Any]:
    """An object to replay: servers refuse a history that holds arguments which are none."""
    return dict(arguments) if arguments is not None else {"invalid_arguments": raw}


def text_or(text: str, default: str) -> str:
    """`text`, or the default when it is blank: providers refuse blank text blocks."""
    return text if text.strip() else default


def integer(value: Any) -> int:
    """A count from a foreign object; 0 for anything that is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def mapping(value: Any) -> Mapping[str, Any]:
    """A foreign object, or an empty one when it is none."""
    return value if isinstance(value, dict) else {}


def listing(value: Any) -> list[Mapping[str, Any]]:
    """The objects of a foreign list."""
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def string(value: Any) -> str:
    """A foreign string, or an empty one."""
    return value if isinstance(value, str) else ""


def spoken(content: Any) -> str:
    """Text of a message's content: one string, or parts, of which some are text. An image among them is left out."""
    return content if isinstance(content, str) else "".join(string(part.get("text")) for part in listing(content))


def parameters(tool: LoopTool) -> dict[str, Any]:
    """A tool's schema as OpenAI takes it: an object says which properties it has, also where that is none."""
    return {"properties": {}, **tool.schema}


def estimated(input_bytes: int, output_chars: int) -> Usage:
    """Usage where the provider reported none, so that budgets still bind (S7)."""
    return Usage(input_tokens=input_bytes // CHARS_PER_TOKEN, output_tokens=output_chars // CHARS_PER_TOKEN)
