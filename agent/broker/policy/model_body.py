"""What a request to a model may hold. Pure.

A provider can act on its own for whoever sends the request: call a server that the request names, fetch an
address, search the web, run code, answer as a dearer model. A harness that is taken over would carry data out
that way past every route of ours. So a body may hold what a conversation with tools of our own needs, and
nothing else: listed keys, the configured model, function tools, and content without addresses.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

_SAMPLING = frozenset("model stream temperature top_p metadata user service_tier stop seed".split())
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
        value = json.loads(body)
    except (ValueError, RecursionError):
        return "it is not JSON"
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
            return f"content of the kind {bad[:60]!r} is not text of a conversation"
    return None


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
