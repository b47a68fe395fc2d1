"""The loop without the rest of Airlock: a model, a tool, a limit, a log, and what comes of it.

    python docs/examples/loop_alone.py

The model is played here; put an adapter of your own in its place (llm_adapter.py is one). The tool's output is
handed to the model as it is: framing what strangers wrote, confining, redacting are the host's business, or
`agent.run_agent`'s.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from agent.harness.loop import (
    Limits,
    LlmReply,
    LlmRequest,
    LoopTool,
    ToolCall,
    ToolMessage,
    ToolResult,
    Usage,
    run_loop,
)


class Played:
    """An `LlmPort` that asks for the stock of two articles, then sums up what it was told."""

    def complete(self, request: LlmRequest, /) -> LlmReply:
        last = request.messages[-1]
        if isinstance(last, ToolMessage):
            said = "; ".join(result.text for result in last.results)
            return LlmReply(f"In stock: {said}.", usage=Usage(300, output_tokens=12, cost=None))
        calls = tuple(
            ToolCall(f"call-{name}", "stock", {"article": name}, json.dumps({"article": name}))
            for name in ("apples", "pears")
        )
        return LlmReply("I look it up.", calls, usage=Usage(200, output_tokens=30, cost=None))


def stock(arguments: Mapping[str, Any]) -> ToolResult:
    """What the model reads; what it raises is told to the model by the error's name alone."""
    counts = {"apples": 12}
    article = arguments.get("article")
    if article not in counts:
        return ToolResult(f"no article {article}", is_error=True)
    return ToolResult(f"{counts[article]} {article}")


class Log:
    """A `LoggerPort`: every event, in order."""

    def event(self, name: str, fields: Mapping[str, Any], /) -> None:
        print(fields["turn"], name, fields.get("name") or fields.get("stop_reason") or "")


def main() -> int:
    """0 when the model came to an end of its own."""
    schema = {"type": "object", "properties": {"article": {"type": "string"}}, "required": ["article"]}
    result = run_loop(
        Played(),
        system="You look after a shop.",
        task="What is in stock?",
        tools=[LoopTool("stock", "How much there is of an article.", schema, stock, parallel=True)],
        logger=Log(),
        limits=Limits(max_turns=10, max_tokens=20_000, timeout_s=60, tool_timeout_s=5),
    )
    print(f"{result.stop_reason}: {result.output} ({result.usage.total_tokens} tokens)")
    return 0 if result.ok else 1


if __name__ == "__main__":
    raise SystemExit(main())
