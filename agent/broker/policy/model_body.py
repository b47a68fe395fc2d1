"""What a request to a model may hold. Pure.

A provider can act on its own for whoever sends the request: call a server that the request names, fetch an
address, search the web, run code, answer as a dearer model or at a dearer tier. A harness that is taken over
would carry data out that way past every route of ours. So a body may hold what a conversation with tools of our
own needs, and nothing else: listed keys, the configured model, function tools, and content without addresses. A key
that stands twice in one object is refused: which of the two counts, every reader decides for itself.

A conversation only grows, and reading all of it for every turn would cost time quadratic in turns: `Conversation`
reads the entries that were not in the request before, and the rest of the body where it is not as before.
"""

from __future__ import annotations

import bisect
import json
import threading
from collections.abc import Mapping
from typing import Any

from agent.broker.redact.growing import shared_start

_SAMPLING = frozenset("model stream temperature top_p metadata user stop seed".split())
_KEYS: Mapping[str, frozenset[str]] = {
    "anthropic": _SAMPLING
    | frozenset("system messages tools max_tokens thinking tool_choice stop_sequences cache_control top_k".split()),
    "openai-chat": _SAMPLING
    | frozenset(
        "messages tools stream_options max_tokens max_completion_tokens tool_choice parallel_tool_calls "
        "reasoning_effort reasoning prompt_cache_key store frequency_penalty presence_penalty n".split()
    ),
    "openai-responses": _SAMPLING
    | frozenset(
        "input instructions tools max_output_tokens store include reasoning tool_choice parallel_tool_calls "
        "prompt_cache_key truncation text".split()
    ),
}
_TEXT_BLOCKS = frozenset(
    "text thinking redacted_thinking tool_use tool_result input_text output_text refusal summary_text "
    "reasoning_text reasoning function_call function_call_output message".split()
)
_INCLUDES = frozenset({"reasoning.encrypted_content"})
_CONTENT = ("system", "messages", "input")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ValueError("a key stands twice")
    return fields


_JSON = json.JSONDecoder(object_pairs_hook=_once)


def problem(wire: str, model: str, body: bytes) -> str | None:
    """Why a body may not be sent, or None.

    Args:
        wire: wire format of the connection.
        model: the one model that the connection is for.
        body: as the harness sent it.
    """
    keys = _KEYS.get(wire)
    if keys is None:
        return "the connection's wire format is not known"
    try:
        value = _JSON.decode(body.decode("utf-8"))
    except (ValueError, RecursionError):
        return "it is not JSON in which each key stands once"
    if not isinstance(value, dict):
        return "it is not an object"
    odd = sorted(set(value) - keys)
    if odd:
        return f"{odd[0][:60]!r} is not a key of a conversation"
    if value.get("model") != model:
        return "the model is not the configured one"
    if any(not _function(tool) for tool in _list(value.get("tools"))):
        return "a tool is not a function of ours"
    if not set(_texts(value.get("include"))) <= _INCLUDES:
        return "'include' asks for more than encrypted reasoning"
    for key in _CONTENT:
        bad = _bad_block(value.get(key))
        if bad is not None:
            return _content(bad)
    return None


class Conversation:
    """The bodies of one connection, in order. Safe for several threads; answers as `problem` would."""

    def __init__(self, wire: str, model: str) -> None:
        self._wire, self._model = wire, model
        self._key = "input" if wire == "openai-responses" else "messages"
        self._lock = threading.Lock()
        self._head = b""  # of the last body that passed, up to and with the bracket that opens its entries
        self._last = b""
        self._ends: list[int] = []  # where each entry of it ends
        self._passed = b""  # what is left of it without its entries

    def problem(self, body: bytes) -> str | None:
        """Why a body may not be sent, or None."""
        with self._lock:
            try:
                return self._from_last(body)
            except (ValueError, RecursionError):
                return problem(self._wire, self._model, body)  # of another form than ours; that alone is no fault

    def _from_last(self, body: bytes) -> str | None:
        head = self._head
        if not head or not body.startswith(head):
            head, self._last, self._ends = self._opening(body), b"", []
        ends = self._ends[: bisect.bisect(self._ends, shared_start(self._last, body))]
        start = ends[-1] if ends else len(head)
        text, place = body[start:].decode("utf-8"), 0
        while text[place : place + 1] != "]":
            if ends:
                if text[place : place + 1] != ",":
                    raise ValueError("neither another entry nor the end of them")
                place += 1
            entry, after = _JSON.raw_decode(text, place)
            bad = _bad_block(entry)
            if bad is not None:
                return _content(bad)
            start += len(text[place:after].encode()) + (1 if ends else 0)
            ends.append(start)
            place = after
        # The same body without its entries, all of which have passed: its keys, its model, its tools.
        bare = head + body[start:]
        fault = problem(self._wire, self._model, bare) if bare != self._passed else None
        if fault is None:
            self._head, self._last, self._ends, self._passed = head, body, ends, bare
        return fault

    def _opening(self, body: bytes) -> bytes:
        """The body up to its list of entries; raises ValueError where that is not plain to see."""
        before, opening, _ = body.partition(f'"{self._key}":['.encode())
        head = before + opening
        # It closes like this only where the bracket is a value of the outermost object: not in a string, not deeper.
        value = _JSON.decode((head + b"]}").decode("utf-8"))
        if not isinstance(value, dict) or value.get(self._key) != []:
            raise ValueError("the entries are not where they are looked for")
        return head


def _content(kind: str) -> str:
    return f"content of the kind {kind[:60]!r} is not text of a conversation"


def _function(tool: Any) -> bool:
    return (
        isinstance(tool, dict) and tool.get("type", "function") in ("function", "custom") and "server_url" not in tool
    )


def _bad_block(value: Any) -> str | None:
    """The type of the first block that is neither text nor a call of a function, at any depth of content."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, list):
            stack += item
        elif isinstance(item, dict):
            kind = item.get("type")
            if kind is not None and kind not in _TEXT_BLOCKS:
                return str(kind)
            stack += [item[key] for key in ("content", "output", "summary") if isinstance(item.get(key), list | dict)]
    return None


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _texts(value: Any) -> list[str]:
    return [str(item) for item in _list(value)]
