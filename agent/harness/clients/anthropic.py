"""Anthropic Messages. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any
from zlib import crc32

from agent.harness.clients.faults import Fault, FaultKind, ProviderError, from_error_object
from agent.harness.clients.wire import (
    Settings,
    close_object,
    dumps,
    integer,
    listing,
    mapping,
    open_object,
    parse_arguments,
    safe_arguments,
    safe_name,
    string,
    text_or,
)
from agent.harness.loop import (
    AssistantMessage,
    LlmReply,
    LoopTool,
    Message,
    ReplyStop,
    ToolCall,
    ToolMessage,
    Usage,
)

_MARK = b',"cache_control":{"type":"ephemeral"}'
_THOUGHTS = ("thinking", "redacted_thinking")
_STOPS = {
    "max_tokens": ReplyStop.MAX_TOKENS,
    "tool_use": ReplyStop.TOOL_CALLS,
    "refusal": ReplyStop.REFUSAL,
}
_DELTAS = {  # kind of a piece: the field that holds it, the field of the block that it belongs to
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "signature_delta": ("signature", "signature"),
    "input_json_delta": ("partial_json", "raw"),
}


class AnthropicWire:
    """`POST /v1/messages`."""

    name = "anthropic"
    path = "/v1/messages"
    headers: Mapping[str, str] = {"anthropic-version": "2023-06-01"}

    def items(self, message: Message) -> tuple[bytes, ...]:
        if isinstance(message, AssistantMessage):
            return (dumps({"role": "assistant", "content": self._assistant(message)}),)
        if isinstance(message, ToolMessage):
            content: list[dict[str, Any]] = []
            for result in message.results:
                block = {"type": "tool_result", "tool_use_id": _id(result.call_id)}
                content.append({**block, "content": text_or(result.text, "(no output)")})
                if result.is_error:
                    content[-1]["is_error"] = True
            return (dumps({"role": "user", "content": content}),)
        text = {"type": "text", "text": text_or(message.text, "(empty)")}
        return (dumps({"role": "user", "content": [text]}),)

    def _assistant(self, message: AssistantMessage) -> list[dict[str, Any]]:
        calls = iter(message.calls)
        if message.blocks:
            blocks = []
            for block in message.blocks:
                kind = block.get("type")
                if kind == "tool_use":
                    blocks.append(_tool_use(next(calls)))  # the loop may have given it another id
                elif kind in _THOUGHTS or (kind == "text" and string(block.get("text")).strip()):
                    blocks.append(block)  # thinking and its signature go back as they came, in order
        else:
            blocks = [{"type": "text", "text": message.text}] if message.text.strip() else []
            blocks += [_tool_use(call) for call in calls]
        return blocks or [{"type": "text", "text": "(no text)"}]

    def head(self, settings: Settings, system: str, tools: tuple[LoopTool, ...]) -> bytes:
        fields: dict[str, Any] = {"model": settings.model, "stream": True}
        if tools:
            fields["tools"] = [
                {"name": tool.name, "description": tool.description, "input_schema": tool.schema} for tool in tools
            ]
        block: dict[str, Any] = {"type": "text", "text": text_or(system, "(none)")}
        if _caches(settings):
            block["cache_control"] = {"type": "ephemeral"}
        return open_object({**fields, "system": [block]}, "messages")

    def marked(self, items: list[bytes], settings: Settings) -> list[bytes]:
        """Marks on the last three messages of ours: what is cached now, and what the last request cached.

        That is the second, or the third where a note of ours follows the results. A cache is looked for only some
        twenty blocks before a mark, and a batch may have more. With the one on the instructions that makes the four
        that a request may have.
        """
        if not _caches(settings):
            return items
        marked, left = list(items), 3
        for index in range(len(items) - 1, -1, -1):
            if items[index].startswith(b'{"role":"user"'):
                marked[index] = items[index][:-3] + _MARK + items[index][-3:]  # before the `}]}` of its last block
                left -= 1
            if not left:
                break
        return marked

    def tail(self, _settings: Settings, max_output: int) -> bytes:
        return close_object({"max_tokens": max_output})

    def assembler(self) -> AnthropicAssembler:
        return AnthropicAssembler()

    def reply(self, response: Mapping[str, Any]) -> LlmReply:
        if response.get("type") == "error":
            raise ProviderError(from_error_object(mapping(response.get("error"))))
        stop = string(response.get("stop_reason"))
        if stop == "model_context_window_exceeded":
            raise ProviderError(Fault(FaultKind.CONTEXT, "The model's context window is full."))
        blocks = listing(response.get("content"))
        calls = tuple(_call(block) for block in blocks if block.get("type") == "tool_use")
        text = "".join(string(block.get("text")) for block in blocks if block.get("type") == "text")
        return LlmReply(
            text,
            calls,
            _STOPS.get(stop, ReplyStop.TOOL_CALLS if calls else ReplyStop.END),
            _usage(mapping(response.get("usage"))),
            tuple(blocks),
            self.name,
            string(response.get("model")),
        )


class AnthropicAssembler:
    """Puts `message_start … message_stop` together."""

    def __init__(self) -> None:
        self.finished = False
        self._message: dict[str, Any] = {}
        self._blocks: dict[int, dict[str, Any]] = {}
        self._pieces: dict[tuple[int, str], list[str]] = {}  # joined once: a long answer comes in many

    def feed(self, event: str, data: Mapping[str, Any]) -> None:
        kind = string(data.get("type")) or event
        if kind == "message_start":
            self._message = dict(mapping(data.get("message")))
        elif kind == "content_block_start":
            self._blocks[integer(data.get("index"))] = dict(mapping(data.get("content_block")))
        elif kind == "content_block_delta":
            self._delta(integer(data.get("index")), mapping(data.get("delta")))
        elif kind == "message_delta":
            self._message.update(mapping(data.get("delta")))
            usage = {k: v for k, v in mapping(data.get("usage")).items() if v is not None}
            self._message["usage"] = {**mapping(self._message.get("usage")), **usage}
        elif kind == "message_stop":
            self.finished = True
        elif kind == "error":
            raise ProviderError(from_error_object(mapping(data.get("error"))))

    def _delta(self, index: int, delta: Mapping[str, Any]) -> None:
        source, target = _DELTAS.get(string(delta.get("type")), ("", ""))
        if target:
            self._pieces.setdefault((index, target), []).append(string(delta.get(source)))

    def response(self) -> dict[str, Any]:
        blocks = {index: dict(block) for index, block in self._blocks.items()}
        for (index, target), pieces in self._pieces.items():
            block = blocks.setdefault(index, {})
            block[target] = "".join([string(block.get(target)), *pieces])
        return {**self._message, "content": [blocks[index] for index in sorted(blocks)]}


def _caches(settings: Settings) -> bool:
    return "cache_control" not in settings.drop


def _id(call_id: str) -> str:
    """An id as this API accepts it. Other providers' may have more signs; two of them never become the same."""
    safe = re.sub(r"[^A-Za-z0-9_-]", "_", call_id)
    return safe if safe == call_id else f"{safe}_{crc32(call_id.encode('utf-8', 'backslashreplace')):08x}"


def _tool_use(call: ToolCall) -> dict[str, Any]:
    arguments = safe_arguments(call.arguments, call.raw)
    return {"type": "tool_use", "id": _id(call.id), "name": safe_name(call.name), "input": arguments}


def _call(block: Mapping[str, Any]) -> ToolCall:
    raw = block.get("raw", block.get("input"))
    arguments, problem = parse_arguments(raw)
    text = raw if isinstance(raw, str) else json.dumps(raw, ensure_ascii=False)
    return ToolCall(string(block.get("id")), string(block.get("name")), arguments, text, problem)


def _usage(usage: Mapping[str, Any]) -> Usage:
    read, written = integer(usage.get("cache_read_input_tokens")), integer(usage.get("cache_creation_input_tokens"))
    return Usage(
        input_tokens=integer(usage.get("input_tokens")) + read + written,
        cached_tokens=read,
        cache_write_tokens=written,
        output_tokens=integer(usage.get("output_tokens")),
        reasoning_tokens=integer(mapping(usage.get("output_tokens_details")).get("thinking_tokens")),
    )
