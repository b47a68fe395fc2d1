"""The three model APIs from the server's side: what they refuse, and how they say a turn."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from tests.support.model_turns import Inside, Turn

Event = tuple[str, Mapping[str, Any] | str]


NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


class Invalid(Exception):
    """The request is one that the real API answers with 400."""

    def __init__(self, message: str, *, code: str = "invalid_request_error", param: str = "") -> None:
        super().__init__(message)
        self.code, self.param = code, param


def pieces(text: str, size: int = 24) -> Iterator[str]:
    for start in range(0, len(text), size):
        yield text[start : start + size]


def need(condition: object, message: str) -> None:
    if not condition:
        raise Invalid(message)


def need_properties(functions: list[Mapping[str, Any]]) -> None:
    for one in functions:
        schema = one["parameters"]
        whole = schema.get("type") == "object" and isinstance(schema.get("properties"), dict)
        need(whole, f"Invalid schema for function '{one['name']}': In context=(), object schema missing properties.")


class Anthropic:
    """Messages."""

    path = "/messages"

    def __init__(self) -> None:
        self.thoughts: dict[str, list[dict[str, Any]]] = {}

    def check(self, body: Mapping[str, Any], headers: Mapping[str, str]) -> None:
        need(headers.get("anthropic-version"), "anthropic-version: header is required")
        need(isinstance(body.get("model"), str) and body["model"], "model: Field required")
        need(isinstance(body.get("max_tokens"), int) and body["max_tokens"] > 0, "max_tokens: Field required")
        messages = body.get("messages")
        need(isinstance(messages, list) and messages, "messages: at least one message is required")
        need(messages[0]["role"] == "user", "messages: first message must use the user role")
        need(json.dumps(body).count('"cache_control"') <= 4, "A maximum of 4 blocks with cache_control may be provided")
        for block in body.get("system", []):
            need(block["text"].strip(), "system: text content blocks must be non-empty")
        for tool in body.get("tools", []):
            need(re.fullmatch(r"[a-zA-Z0-9_-]{1,128}", tool["name"]), f"tools: bad name {tool['name']}")
            need(tool["input_schema"].get("type") == "object", "tools: input_schema.type: Field required")
        self._check_messages(messages)

    def _check_messages(self, messages: list[Mapping[str, Any]]) -> None:
        seen: set[str] = set()
        owed: list[str] = []
        for index, message in enumerate(messages):
            blocks = message["content"]
            need(isinstance(blocks, list) and blocks, f"messages.{index}: content must be non-empty")
            results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
            if owed:
                need(
                    message["role"] == "user" and sorted(results) == sorted(owed),
                    f"messages.{index}: `tool_use` ids without `tool_result` blocks immediately after: {owed}",
                )
            else:
                need(
                    not results, f"messages.{index}: unexpected `tool_use_id` found in `tool_result` blocks: {results}"
                )
            owed = []
            for block in blocks:
                if block["type"] == "text":
                    need(
                        block["text"].strip(), f"messages.{index}: text content blocks must contain non-whitespace text"
                    )
                if block["type"] == "tool_result":
                    need(block["content"], f"messages.{index}: tool_result content must be non-empty")
                if block["type"] == "tool_use":
                    need(message["role"] == "assistant", f"messages.{index}: tool_use in a user message")
                    need(re.fullmatch(r"[a-zA-Z0-9_-]+", block["id"]), f"messages.{index}: tool_use.id: bad pattern")
                    need(NAME.fullmatch(block["name"]), f"messages.{index}: tool_use.name: bad pattern")
                    need(block["id"] not in seen, f"messages.{index}: `tool_use` ids must be unique")
                    need(isinstance(block["input"], dict), f"messages.{index}: tool_use.input: must be an object")
                    seen.add(block["id"])
                    owed.append(block["id"])
            if owed and owed[0] in self.thoughts:
                need(
                    blocks[: len(self.thoughts[owed[0]])] == self.thoughts[owed[0]],
                    f"messages.{index}: thinking blocks cannot be modified or left out",
                )
        need(not owed, f"`tool_use` ids were found without `tool_result` blocks: {owed}")

    def error(self, status: int, kind: str, message: str, param: str = "") -> dict[str, Any]:
        names = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 413: "request_too_large",
                 429: "rate_limit_error", 500: "api_error", 529: "overloaded_error"}  # fmt: skip
        return {
            "type": "error",
            "error": {"type": kind or names.get(status, "invalid_request_error"), "message": message},
        }

    def inside(self, fault: Inside) -> Event:
        return "error", self.error(200, fault.type, fault.message)

    def whole(self, turn: Turn, ids: list[str], model: str, size: int) -> dict[str, Any]:
        content: list[dict[str, Any]] = []
        if turn.thinking:
            thought = {"type": "thinking", "thinking": turn.thinking, "signature": f"sig-{len(turn.thinking)}=="}
            content += [thought, {"type": "redacted_thinking", "data": "eHg="}]
        if turn.text or turn.refusal:
            content.append({"type": "text", "text": turn.text or turn.refusal})
        calls = list(turn.calls)
        if turn.thinking and calls:
            self.thoughts[ids[0]] = list(content)
        for call, call_id in zip(calls, ids, strict=True):
            value: Any = call.raw if isinstance(call.args, str) else dict(call.args)
            content.append({"type": "tool_use", "id": call_id, "name": call.name, "input": value})
        count = turn.counts(size)
        usage = {
            "input_tokens": count["input"] - count["cached"] - count["cache_write"],
            "cache_read_input_tokens": count["cached"],
            "cache_creation_input_tokens": count["cache_write"],
            "output_tokens": count["output"],
            "output_tokens_details": {"thinking_tokens": count["reasoning"]},
        }
        natural = "refusal" if turn.refusal else "tool_use" if calls else "end_turn"
        return {
            "id": "msg_1", "type": "message", "role": "assistant", "model": model, "content": content,
            "stop_reason": turn.stop or natural, "stop_sequence": None, "usage": {} if turn.no_usage else usage,
        }  # fmt: skip

    def events(self, turn: Turn, ids: list[str], model: str, size: int) -> Iterator[Event]:
        whole = self.whole(turn, ids, model, size)
        usage = dict(whole["usage"])
        output = {key: usage.pop(key) for key in ("output_tokens", "output_tokens_details") if key in usage}
        start = {**whole, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1} if usage else {}}
        yield "message_start", {"type": "message_start", "message": start}
        yield "ping", {"type": "ping"}
        for index, block in enumerate(whole["content"]):
            kind = block["type"]
            empty = {"text": {"text": ""}, "thinking": {"thinking": "", "signature": ""}, "tool_use": {"input": {}}}
            opened = {**block, **empty.get(kind, {})}
            yield "content_block_start", {"type": "content_block_start", "index": index, "content_block": opened}
            for delta in self._deltas(block):
                yield "content_block_delta", {"type": "content_block_delta", "index": index, "delta": delta}
            yield "content_block_stop", {"type": "content_block_stop", "index": index}
        ending = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
        yield (
            "message_delta",
            {"type": "message_delta", "delta": ending, "usage": output},
        )
        yield "message_stop", {"type": "message_stop"}

    @staticmethod
    def _deltas(block: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        if block["type"] == "text":
            yield from ({"type": "text_delta", "text": piece} for piece in pieces(block["text"]))
        elif block["type"] == "thinking":
            yield from ({"type": "thinking_delta", "thinking": piece} for piece in pieces(block["thinking"]))
            yield {"type": "signature_delta", "signature": block["signature"]}
        elif block["type"] == "tool_use":
            raw = block["input"] if isinstance(block["input"], str) else json.dumps(block["input"])
            yield {"type": "input_json_delta", "partial_json": ""}
            yield from ({"type": "input_json_delta", "partial_json": piece} for piece in pieces(raw))


class Chat:
    """Chat Completions."""

    path = "/chat/completions"

    def __init__(self, output_field: str = "") -> None:
        self.output_field = output_field  # the one name of the output limit that this model takes
        self.thoughts: dict[str, str] = {}

    def check(self, body: Mapping[str, Any], headers: Mapping[str, str]) -> None:
        need(isinstance(body.get("model"), str) and body["model"], "you must provide a model parameter")
        for name in ("max_tokens", "max_completion_tokens"):
            if self.output_field and name != self.output_field and name in body:
                raise Invalid(
                    f"Unsupported parameter: '{name}' is not supported here. Use '{self.output_field}' instead.",
                    code="unsupported_parameter",
                    param=name,
                )
        need_properties([tool["function"] for tool in body.get("tools", [])])
        seen: set[str] = set()
        owed: list[str] = []
        for index, message in enumerate(body.get("messages") or []):
            role = message["role"]
            if role == "tool":
                need(message["tool_call_id"] in owed, f"messages[{index}]: no preceding tool_calls for this id")
                need(isinstance(message["content"], str) and message["content"].strip(), f"messages[{index}]: empty")
                owed.remove(message["tool_call_id"])
                continue
            need(not owed, f"messages[{index}]: tool_call_ids did not have response messages: {owed}")
            calls = message.get("tool_calls") or []
            said = str(message.get("content") or "")
            need(said.strip() or (calls and not said), f"messages[{index}]: content must not be null or empty")
            for call in calls:
                need(call["id"] and call["id"] not in seen, f"messages[{index}]: duplicate or empty tool call id")
                need(NAME.fullmatch(call["function"]["name"]), f"messages[{index}]: bad function name")
                need(isinstance(json.loads(call["function"]["arguments"]), dict), "arguments must be a JSON object")
                seen.add(call["id"])
                owed.append(call["id"])
            if calls and calls[0]["id"] in self.thoughts:
                need(
                    message.get("reasoning_content") == self.thoughts[calls[0]["id"]],
                    f"messages[{index}]: missing `reasoning_content` in the assistant message",
                )
        need(body.get("messages") and not owed, f"tool_call_ids did not have response messages: {owed}")

    def error(self, status: int, kind: str, message: str, param: str = "") -> dict[str, Any]:
        names = {401: "invalid_api_key", 429: "rate_limit_exceeded", 500: "server_error", 503: "server_error"}
        kind = kind or names.get(status, "invalid_request_error")
        return {"error": {"message": message, "type": kind, "param": param or None, "code": kind}}

    def inside(self, fault: Inside) -> Event:
        return "", self.error(200, fault.type, fault.message)

    def whole(self, turn: Turn, ids: list[str], model: str, size: int) -> dict[str, Any]:
        calls = list(turn.calls)
        message: dict[str, Any] = {"role": "assistant", "content": turn.text or None, "refusal": turn.refusal or None}
        if turn.thinking:
            message["reasoning_content"] = turn.thinking
            if calls:
                self.thoughts[ids[0]] = turn.thinking
        if calls:
            message["tool_calls"] = [
                {"id": call_id, "type": "function", "function": {"name": call.name, "arguments": call.raw}}
                for call, call_id in zip(calls, ids, strict=True)
            ]
        count = turn.counts(size)
        usage = {
            "prompt_tokens": count["input"],
            "completion_tokens": count["output"],
            "total_tokens": count["input"] + count["output"],
            "prompt_tokens_details": {"cached_tokens": count["cached"], "cache_write_tokens": count["cache_write"]},
            "completion_tokens_details": {"reasoning_tokens": count["reasoning"]},
        }
        reason = "length" if turn.stop == "max_tokens" else "tool_calls" if calls else "stop"
        choice = {"index": 0, "message": message, "finish_reason": reason}
        whole = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": model, "choices": [choice]}
        return whole if turn.no_usage else {**whole, "usage": usage}

    def events(self, turn: Turn, ids: list[str], model: str, size: int) -> Iterator[Event]:
        whole = self.whole(turn, ids, model, size)
        base = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": model}

        def chunk(delta: Mapping[str, Any], reason: str | None = None) -> Event:
            return "", {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}

        message = whole["choices"][0]["message"]
        yield chunk({"role": "assistant", "content": ""})
        for key in ("reasoning_content", "content", "refusal"):
            for piece in pieces(message.get(key) or ""):
                yield chunk({key: piece})
        for index, call in enumerate(message.get("tool_calls", [])):
            function = {"name": call["function"]["name"], "arguments": ""}
            yield chunk({"tool_calls": [{"index": index, "id": call["id"], "type": "function", "function": function}]})
            for piece in pieces(call["function"]["arguments"]):
                yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
        yield chunk({}, whole["choices"][0]["finish_reason"])
        if "usage" in whole:
            yield "", {**base, "choices": [], "usage": whole["usage"]}
        yield "", "[DONE]"


class Responses:
    """Responses, without storage."""

    path = "/responses"

    def __init__(self) -> None:
        self.thoughts: dict[str, str] = {}

    def check(self, body: Mapping[str, Any], headers: Mapping[str, str]) -> None:
        need(isinstance(body.get("model"), str) and body["model"], "Missing required parameter: 'model'.")
        need(isinstance(body.get("input"), list) and body["input"], "Missing required parameter: 'input'.")
        need(body.get("instructions", "x").strip(), "Invalid 'instructions': empty string.")
        need_properties(body.get("tools", []))
        need(body.get("max_output_tokens", 16) >= 16, "Invalid 'max_output_tokens': must be at least 16.")
        calls: dict[str, bool] = {}
        before: Mapping[str, Any] = {}
        for index, item in enumerate(body["input"]):
            kind = item.get("type", "message")
            if kind == "function_call":
                need(item["call_id"] and item["call_id"] not in calls, f"input[{index}]: duplicate call_id")
                need(NAME.fullmatch(item["name"]), f"input[{index}]: bad function name")
                need(isinstance(json.loads(item["arguments"]), dict), f"input[{index}]: arguments must be an object")
                calls[item["call_id"]] = False
                if item["call_id"] in self.thoughts:
                    need(
                        before.get("encrypted_content") == self.thoughts[item["call_id"]],
                        f"input[{index}]: 'function_call' was provided without its required 'reasoning' item",
                    )
            elif kind == "function_call_output":
                need(item["call_id"] in calls, f"No tool call found for function call output {item['call_id']}.")
                need(item["output"].strip(), f"input[{index}]: empty output")
                calls[item["call_id"]] = True
            elif kind == "message":
                parts = item["content"] if isinstance(item["content"], list) else [{"text": item["content"]}]
                need(parts and all(part["text"].strip() for part in parts), f"input[{index}]: empty content")
            if kind == "reasoning":
                before = item
        open_calls = [call for call, answered in calls.items() if not answered]
        need(not open_calls, f"No tool output found for function call {open_calls}.")

    error = Chat.error

    def inside(self, fault: Inside) -> Event:
        return "error", {"type": "error", "code": fault.type, "message": fault.message, "param": None}

    def whole(self, turn: Turn, ids: list[str], model: str, size: int) -> dict[str, Any]:
        output: list[dict[str, Any]] = []
        calls = list(turn.calls)
        if turn.thinking:
            sealed = f"sealed-{len(turn.thinking)}"
            summary = [{"type": "summary_text", "text": turn.thinking}]
            output.append({"type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": sealed})
            if calls:
                self.thoughts[ids[0]] = sealed
        if turn.text or turn.refusal:
            part = {"type": "output_text", "text": turn.text, "annotations": []}
            content = [part if turn.text else {"type": "refusal", "refusal": turn.refusal}]
            output.append(
                {"type": "message", "id": "m_1", "role": "assistant", "status": "completed", "content": content}
            )
        for index, (call, call_id) in enumerate(zip(calls, ids, strict=True)):
            output.append(
                {"type": "function_call", "id": f"fc_{index}", "call_id": call_id, "name": call.name,
                 "arguments": call.raw, "status": "completed"}
            )  # fmt: skip
        count = turn.counts(size)
        usage = {
            "input_tokens": count["input"],
            "input_tokens_details": {"cached_tokens": count["cached"], "cache_write_tokens": count["cache_write"]},
            "output_tokens": count["output"],
            "output_tokens_details": {"reasoning_tokens": count["reasoning"]},
            "total_tokens": count["input"] + count["output"],
        }
        cut = turn.stop == "max_tokens"
        return {
            "id": "resp_1", "object": "response", "created_at": 1, "model": model, "output": output, "error": None,
            "status": "incomplete" if cut else "completed",
            "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
            "usage": None if turn.no_usage else usage,
        }  # fmt: skip

    def events(self, turn: Turn, ids: list[str], model: str, size: int) -> Iterator[Event]:
        whole = self.whole(turn, ids, model, size)
        yield (
            "response.created",
            {"type": "response.created", "response": {**whole, "output": [], "status": "in_progress"}},
        )
        for index, item in enumerate(whole["output"]):
            yield (
                "response.output_item.added",
                {"type": "response.output_item.added", "output_index": index, "item": item},
            )
            kind, text = "response.output_text.delta", turn.text
            if item["type"] == "function_call":
                kind, text = "response.function_call_arguments.delta", item["arguments"]
            elif item["type"] == "reasoning":
                text = ""
            for piece in pieces(text):
                yield kind, {"type": kind, "output_index": index, "delta": piece}
            yield (
                "response.output_item.done",
                {"type": "response.output_item.done", "output_index": index, "item": item},
            )
        kind = f"response.{whole['status']}"
        yield kind, {"type": kind, "response": whole}
