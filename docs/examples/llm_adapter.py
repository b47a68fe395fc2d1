"""A model of your own behind the loop, and how to hold it to the loop's contract.

    python -m agent conformance --llm docs.examples.llm_adapter:scripted

`HouseAdapter` is an `LlmPort` over a client that takes and gives plain objects, as most SDKs do. `scripted` is the
factory that the suite calls for each behaviour: it puts a stub in the client's place that plays the given steps.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from agent.conformance import Step
from agent.harness.loop import (
    AssistantMessage,
    AuthError,
    ContextError,
    LlmError,
    LlmReply,
    LlmRequest,
    Message,
    ReplyStop,
    ToolCall,
    ToolMessage,
    Usage,
)

Send = Callable[[dict[str, Any]], dict[str, Any]]
ERRORS = {"unauthorized": AuthError, "too_long": ContextError}


class HouseAdapter:
    """An `LlmPort`: one request in, one finished turn out, and typed errors where the loop can help."""

    def __init__(self, send: Send) -> None:
        self._send = send

    def complete(self, request: LlmRequest, /) -> LlmReply:
        answer = self._send(
            {
                "system": request.system,
                "messages": [_message(message) for message in request.messages],
                "tools": [{"name": tool.name, "schema": tool.schema} for tool in request.tools],
            }
        )
        if error := answer.get("error"):
            raise ERRORS.get(error, LlmError)(answer["text"])
        calls = tuple(_call(call) for call in answer["calls"])
        usage = Usage(input_tokens=answer["read"], output_tokens=answer["written"], cost=answer["cost"])
        return LlmReply(answer["text"], calls, ReplyStop(answer["stop"]), usage)


def _message(message: Message) -> dict[str, Any]:
    if isinstance(message, AssistantMessage):
        calls = [{"id": call.id, "name": call.name, "arguments": call.raw} for call in message.calls]
        return {"role": "assistant", "text": message.text, "calls": calls}
    if isinstance(message, ToolMessage):
        return {"role": "tool", "results": [{"id": one.call_id, "text": one.text} for one in message.results]}
    return {"role": "user", "text": message.text}


def _call(call: dict[str, str]) -> ToolCall:
    try:
        value = json.loads(call["arguments"] or "{}")
    except ValueError as exc:
        return ToolCall(call["id"], call["name"], None, call["arguments"], f"they are not JSON ({exc})")
    arguments, problem = (value, "") if isinstance(value, dict) else (None, "they are no object")
    return ToolCall(call["id"], call["name"], arguments, call["arguments"], problem)


def scripted(steps: Sequence[Step]) -> HouseAdapter:
    """The adapter on a stub that answers with each step in turn, then says that it is done."""
    rest = list(steps)

    def send(_request: dict[str, Any]) -> dict[str, Any]:
        step = rest.pop(0) if rest else LlmReply("done")
        if isinstance(step, LlmError):
            kinds = [name for name, error in ERRORS.items() if isinstance(step, error)]
            return {"error": kinds[0] if kinds else "down", "text": str(step)}
        return {
            "text": step.text,
            "calls": [{"id": call.id, "name": call.name, "arguments": call.raw} for call in step.calls],
            "stop": step.stop.value,
            "read": step.usage.input_tokens,
            "written": step.usage.output_tokens,
            "cost": step.usage.cost,
        }

    return HouseAdapter(send)
