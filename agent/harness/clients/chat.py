"""OpenAI Chat Completions and the servers compatible with it. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from agent.harness.clients.faults import Fault, FaultKind, ProviderError, from_error_object
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

# Thoughts that a server gave and may want back: DeepSeek and vLLM, OpenRouter, OpenRouter's signed form.
_THOUGHTS = ("reasoning_content", "reasoning", "reasoning_details")
_PIECES = {"reasoning.text": "text", "reasoning.summary": "summary"}  # kinds that are streamed, and what grows
_BROKEN_OFF = Fault(FaultKind.RETRY, "The model's provider broke its answer off with an error that it did not name.")
_STOPS = {"length": ReplyStop.MAX_TOKENS, "content_filter": ReplyStop.REFUSAL}


class ChatWire:
    """`POST /v1/chat/completions`."""

    name = "openai-chat"
    path = "/v1/chat/completions"
    headers: Mapping[str, str] = {}

    def items(self, message: Message) -> tuple[bytes, ...]:
        if isinstance(message, AssistantMessage):
            return (dumps(self._assistant(message)),)
        if isinstance(message, ToolMessage):
            entries = []
            for result in message.results:
                text = text_or(result.text, "(no output)")
                content = f"Error: {text}" if result.is_error else text  # this API has no error flag
                entries.append(dumps({"role": "tool", "tool_call_id": result.call_id, "content": content}))
            return tuple(entries)
        return (dumps({"role": "user", "content": text_or(message.text, "(empty)")}),)

    def _assistant(self, message: AssistantMessage) -> dict[str, Any]:
        entry: dict[str, Any] = {"role": "assistant"}
        known = mapping(message.blocks[0]) if message.blocks else {}
        extras = known.get("tool_extras", [])
        entry["content"] = message.text if message.text.strip() else (None if message.calls else "(no text)")
        entry.update({key: known[key] for key in _THOUGHTS if key in known})
        if message.calls:
            entry["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": safe_name(call.name), "arguments": _replayed(call)},
                    **(extras[index] if index < len(extras) else {}),
                }
                for index, call in enumerate(message.calls)
            ]
        return entry

    def head(self, settings: Settings, system: str, tools: tuple[LoopTool, ...]) -> bytes:
        fields: dict[str, Any] = {"model": settings.model, "stream": True}
        if "stream_options" not in settings.drop:
            fields["stream_options"] = {"include_usage": True}
        if tools:
            fields["tools"] = [
                {
                    "type": "function",
                    "function": {"name": tool.name, "description": tool.description, "parameters": parameters(tool)},
                }
                for tool in tools
            ]
        opening = dumps({"role": "system", "content": text_or(system, "(none)")})
        return open_object(fields, "messages") + opening + b","

    def marked(self, items: list[bytes], _settings: Settings) -> list[bytes]:
        return items

    def tail(self, settings: Settings, max_output: int) -> bytes:
        return close_object({settings.output_field: max_output})

    def assembler(self) -> ChatAssembler:
        return ChatAssembler()

    def reply(self, response: Mapping[str, Any]) -> LlmReply:
        choices = listing(response.get("choices"))
        choice = choices[0] if choices else {}
        if error := mapping(response.get("error")) or mapping(choice.get("error")):
            raise ProviderError(from_error_object(error))
        if choice.get("finish_reason") == "error":
            raise ProviderError(_BROKEN_OFF)
        message = mapping(choice.get("message"))
        entries = listing(message.get("tool_calls"))
        calls = tuple(_call(entry) for entry in entries)
        text, refusal = spoken(message.get("content")), string(message.get("refusal"))
        stop = _STOPS.get(string(choice.get("finish_reason")), ReplyStop.TOOL_CALLS if calls else ReplyStop.END)
        return LlmReply(
            text or refusal,
            calls,
            ReplyStop.REFUSAL if refusal and not text else stop,
            _usage(mapping(response.get("usage"))),
            self._kept(message, entries),
            self.name,
            string(response.get("model")),
        )

    @staticmethod
    def _kept(message: Mapping[str, Any], entries: list[Mapping[str, Any]]) -> tuple[dict[str, Any], ...]:
        kept: dict[str, Any] = {key: message[key] for key in _THOUGHTS if message.get(key)}
        # Gemini signs its thoughts on the call itself.
        extras = [{"extra_content": e["extra_content"]} if e.get("extra_content") else {} for e in entries]
        if any(extras):
            kept["tool_extras"] = extras
        return (kept,) if kept else ()


class ChatAssembler:
    """Puts `chat.completion.chunk` objects together."""

    def __init__(self) -> None:
        self.finished = False
        self._top: dict[str, Any] = {}
        self._pieces: dict[str, list[str]] = {}  # joined once: a long answer comes in many
        self._details: list[Mapping[str, Any]] = []
        self._calls: list[dict[str, Any]] = []
        self._by_index: dict[int, dict[str, Any]] = {}
        self._finish_reason = ""

    def feed(self, _event: str, data: Mapping[str, Any]) -> None:
        if error := data.get("error"):
            raise ProviderError(from_error_object(mapping(error) or {"message": str(error)}))
        self._top.update({key: data[key] for key in ("model", "usage") if data.get(key)})
        for choice in listing(data.get("choices"))[:1]:
            if error := mapping(choice.get("error")):
                raise ProviderError(from_error_object(error))
            self._delta(mapping(choice.get("delta")))
            if choice.get("finish_reason") == "error":
                raise ProviderError(_BROKEN_OFF)
            if reason := string(choice.get("finish_reason")):
                self._finish_reason, self.finished = reason, True

    def _delta(self, delta: Mapping[str, Any]) -> None:
        for key in ("content", "refusal", "reasoning_content", "reasoning"):
            if text := spoken(delta.get(key)):
                self._pieces.setdefault(key, []).append(text)
        self._details += listing(delta.get("reasoning_details"))
        for piece in listing(delta.get("tool_calls")):
            self._piece(piece)

    def _piece(self, piece: Mapping[str, Any]) -> None:
        function, new_id = mapping(piece.get("function")), string(piece.get("id"))
        index = piece.get("index")
        known = self._by_index.get(index) if isinstance(index, int) else (self._calls[-1] if self._calls else None)
        # Some servers leave the index out or always send 0, and the id with it: what has a name of its own is a new
        # call where its id is another, or where the arguments so far are whole.
        if known is None or (function.get("name") and _another(known, new_id)):
            known = {"id": "", "name": "", "arguments": []}
            self._calls.append(known)
            if isinstance(index, int):
                self._by_index[index] = known
        known["id"] = known["id"] or new_id
        known["name"] = known["name"] or string(function.get("name"))
        arguments = function.get("arguments")
        if isinstance(arguments, dict):
            known["arguments"] = [json.dumps(arguments, ensure_ascii=False)]
        else:
            known["arguments"].append(string(arguments))
        if piece.get("extra_content"):
            known["extra_content"] = piece["extra_content"]

    def response(self) -> dict[str, Any]:
        calls = [
            {
                **{key: value for key, value in call.items() if key == "extra_content"},
                "id": call["id"],
                "type": "function",
                "function": {"name": call["name"], "arguments": "".join(call["arguments"])},
            }
            for call in self._calls
        ]
        message: dict[str, Any] = {key: "".join(pieces) for key, pieces in self._pieces.items()}
        if self._details:
            message["reasoning_details"] = _joined(self._details)
        message["tool_calls"] = calls
        return {**self._top, "choices": [{"message": message, "finish_reason": self._finish_reason}]}


def _another(known: Mapping[str, Any], new_id: str) -> bool:
    if new_id and known["id"]:
        return bool(new_id != known["id"])
    arguments = "".join(known["arguments"])
    return bool(arguments.strip()) and parse_arguments(arguments)[0] is not None


def _joined(details: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Thoughts as the server gives them without streaming, and wants them back: pieces of one kind are one entry."""
    whole: list[dict[str, Any]] = []
    for piece in details:
        key = _PIECES.get(string(piece.get("type")))
        last = whole[-1] if whole else {}
        if key is None or last.get("type") != piece["type"] or last.get("signature"):  # a signature ends its thought
            whole.append({**piece, key: [string(piece.get(key))]} if key else dict(piece))
            continue
        last.update({name: value for name, value in piece.items() if name != key and value is not None})
        last[key].append(string(piece.get(key)))
    return [{name: "".join(v) if isinstance(v, list) else v for name, v in entry.items()} for entry in whole]


def _replayed(call: ToolCall) -> str:
    if call.arguments is None:
        return json.dumps(safe_arguments(None, call.raw), ensure_ascii=False)
    return call.raw.strip() or json.dumps(call.arguments, ensure_ascii=False)


def _call(entry: Mapping[str, Any]) -> ToolCall:
    function = mapping(entry.get("function"))
    raw = function.get("arguments")
    arguments, problem = parse_arguments(raw)
    text = raw if isinstance(raw, str) else json.dumps(raw if raw is not None else {}, ensure_ascii=False)
    return ToolCall(string(entry.get("id")), string(function.get("name")), arguments, text, problem)


def _usage(usage: Mapping[str, Any]) -> Usage:
    return Usage(
        input_tokens=integer(usage.get("prompt_tokens")),
        cached_tokens=integer(mapping(usage.get("prompt_tokens_details")).get("cached_tokens")),
        cache_write_tokens=integer(mapping(usage.get("prompt_tokens_details")).get("cache_write_tokens")),
        output_tokens=integer(usage.get("completion_tokens")),
        reasoning_tokens=integer(mapping(usage.get("completion_tokens_details")).get("reasoning_tokens")),
    )
