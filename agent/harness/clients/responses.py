"""OpenAI Responses, without storage at the provider: thoughts travel encrypted and come back as they were. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from agent.harness.clients.faults import ProviderError, from_error_object
from agent.harness.clients.wire import (
    Settings,
    close_object,
    dumps,
    integer,
    listing,
    mapping,
    open_object,
    parameters,
    parse_arguments,
    safe_arguments,
    safe_name,
    spoken,
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

_ENDS = frozenset({"response.completed", "response.incomplete"})


class ResponsesWire:
    """`POST /v1/responses`."""

    name = "openai-responses"
    path = "/v1/responses"
    headers: Mapping[str, str] = {}

    def items(self, message: Message) -> tuple[bytes, ...]:
        if isinstance(message, AssistantMessage):
            return tuple(dumps(item) for item in self._assistant(message))
        if isinstance(message, ToolMessage):
            return tuple(
                dumps(
                    {
                        "type": "function_call_output",
                        "call_id": result.call_id,
                        "output": ("Error: " if result.is_error else "") + text_or(result.text, "(no output)"),
                    }
                )
                for result in message.results
            )
        content = [{"type": "input_text", "text": text_or(message.text, "(empty)")}]
        return (dumps({"type": "message", "role": "user", "content": content}),)

    def _assistant(self, message: AssistantMessage) -> list[dict[str, Any]]:
        calls = iter(message.calls)
        if message.blocks:
            items = []
            for block in message.blocks:
                kind = block.get("type")
                if kind == "function_call":
                    items.append(_function_call(next(calls)))
                elif kind == "reasoning" and block.get("encrypted_content"):
                    items.append({key: value for key, value in block.items() if key != "status" and value is not None})
                elif kind == "message" and (said := spoken(block.get("content"))).strip():
                    phase = {"phase": block["phase"]} if block.get("phase") else {}
                    items.append({"type": "message", "role": "assistant", "content": said, **phase})
        else:
            text = {"type": "message", "role": "assistant", "content": message.text}
            items = [text] if message.text.strip() else []
            items += [_function_call(call) for call in calls]
        return items

    def head(self, settings: Settings, system: str, tools: tuple[LoopTool, ...]) -> bytes:
        fields: dict[str, Any] = {"model": settings.model, "stream": True, "store": False}
        if "include" not in settings.drop:
            fields["include"] = ["reasoning.encrypted_content"]
        if tools:
            fields["tools"] = [
                {
                    "type": "function",
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": parameters(tool),
                    "strict": False,
                }
                for tool in tools
            ]
        return open_object({**fields, "instructions": text_or(system, "(none)")}, "input")

    def marked(self, items: list[bytes], _settings: Settings) -> list[bytes]:
        return items

    def tail(self, _settings: Settings, max_output: int) -> bytes:
        return close_object({"max_output_tokens": max(16, max_output)})

    def assembler(self) -> ResponsesAssembler:
        return ResponsesAssembler()

    def reply(self, response: Mapping[str, Any]) -> LlmReply:
        if mapping(response.get("error")) or response.get("status") in ("failed", "cancelled"):
            raise _failed(response)
        output = listing(response.get("output"))
        calls = tuple(_call(item) for item in output if item.get("type") == "function_call")
        messages = [item for item in output if item.get("type") == "message"]
        text = "".join(spoken(item.get("content")) for item in messages)
        refusal = "".join(string(part.get("refusal")) for item in messages for part in listing(item.get("content")))
        stop = ReplyStop.TOOL_CALLS if calls else ReplyStop.END
        if response.get("status") == "incomplete":
            reason = mapping(response.get("incomplete_details")).get("reason")
            stop = ReplyStop.REFUSAL if reason == "content_filter" else ReplyStop.MAX_TOKENS
        elif refusal and not text:
            stop = ReplyStop.REFUSAL
        usage = _usage(mapping(response.get("usage")))
        return LlmReply(text or refusal, calls, stop, usage, tuple(output), self.name, string(response.get("model")))


class ResponsesAssembler:
    """Takes the finished items and the final response object."""

    def __init__(self) -> None:
        self.finished = False
        self._response: dict[str, Any] = {}
        self._items: list[Mapping[str, Any]] = []
        self._chars = 0

    def feed(self, event: str, data: Mapping[str, Any]) -> None:
        kind = string(data.get("type")) or event
        if kind == "error":
            raise ProviderError(from_error_object(mapping(data.get("error")) or data))
        if kind == "response.failed":
            raise _failed(mapping(data.get("response")))
        if kind == "response.output_item.done":
            self._items.append(mapping(data.get("item")))
        elif kind.endswith(".delta"):
            self._chars += len(string(data.get("delta")))
        elif kind in _ENDS:
            self._response = dict(mapping(data.get("response")))
            self.finished = True

    def response(self) -> dict[str, Any]:
        if not self.finished:  # cut: only its size is of interest
            return {"output": [{"type": "message", "content": [{"text": "x" * self._chars}]}]}
        return {**self._response, "output": listing(self._response.get("output")) or self._items}


def _failed(response: Mapping[str, Any]) -> ProviderError:
    error = mapping(response.get("error")) or {"type": "server_error", "message": "It gave no reason."}
    return ProviderError(from_error_object(error))


def _function_call(call: ToolCall) -> dict[str, Any]:
    arguments = call.raw
    if call.arguments is None or not call.raw.strip():
        arguments = json.dumps(safe_arguments(call.arguments, call.raw), ensure_ascii=False)
    return {"type": "function_call", "call_id": call.id, "name": safe_name(call.name), "arguments": arguments}


def _call(item: Mapping[str, Any]) -> ToolCall:
    raw = item.get("arguments")
    arguments, problem = parse_arguments(raw)
    return ToolCall(string(item.get("call_id")), string(item.get("name")), arguments, string(raw), problem)


def _usage(usage: Mapping[str, Any]) -> Usage:
    return Usage(
        input_tokens=integer(usage.get("input_tokens")),
        cached_tokens=integer(mapping(usage.get("input_tokens_details")).get("cached_tokens")),
        cache_write_tokens=integer(mapping(usage.get("input_tokens_details")).get("cache_write_tokens")),
        output_tokens=integer(usage.get("output_tokens")),
        reasoning_tokens=integer(mapping(usage.get("output_tokens_details")).get("reasoning_tokens")),
    )
