"""One run of the loop on `ModelClient` against the scripted server, without waiting for real."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agent.harness.clients import ModelClient, Retry
from agent.harness.loop import LlmRequest, LoopResult, LoopTool, ToolResult, run_loop
from tests.support.model_broker import LoopbackBroker
from tests.support.model_server import PATHS, ModelServer, Recorded

WIRES = tuple(PATHS)


def tool(name: str, text: str = "", *, parallel: bool = True) -> LoopTool:
    """A tool that gives `text`, or its own name and arguments, back."""
    schema = {"type": "object", "properties": {"path": {"type": "string"}}}

    def run(arguments: Mapping[str, Any]) -> ToolResult:
        return ToolResult(text or f"{name} {dict(arguments)}")

    return LoopTool(name, f"Does {name}.", schema, run, parallel)


def entry(wire: str, *, connection: str = "model", model: str = "claude-sonnet-4-5", **fields: Any) -> dict[str, Any]:
    """One entry of `RunFacts.models`."""
    return {"connection": connection, "wire": wire, "model": model, "path": PATHS[wire], **fields}


@dataclass
class Ran:
    """A finished run and what it did on the way.

    Attributes:
        result: of the loop.
        waits: seconds of each pause between attempts; none was slept.
        events: what the loop's and the client's logger got.
        requests: what the server got.
    """

    result: LoopResult
    waits: list[float]
    events: list[tuple[str, Mapping[str, Any]]]
    requests: list[Recorded]

    def named(self, name: str) -> list[Mapping[str, Any]]:
        """Fields of the events of one name."""
        return [fields for event, fields in self.events if event == name]


@dataclass
class Log:
    """A LoggerPort that keeps everything."""

    events: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)

    def event(self, name: str, fields: Mapping[str, Any], /) -> None:
        self.events.append((name, fields))


def run(
    server: ModelServer,
    wire: str,
    *,
    models: list[dict[str, Any]] | None = None,
    origins: dict[str, str] | None = None,
    tools: tuple[LoopTool, ...] | None = None,
    retry: Retry | None = None,
    key: str = "",
    idle_s: float = 60.0,
    entry_fields: Mapping[str, Any] | None = None,
    **options: Any,
) -> Ran:
    """Run to the end; `options` go to `run_loop`."""
    waits: list[float] = []
    log = Log()

    def wait(_request: LlmRequest, seconds: float) -> bool:
        waits.append(seconds)
        return False

    client = ModelClient(
        LoopbackBroker(origins or server.url, key=key),
        models or [entry(wire, **(entry_fields or {}))],
        logger=log,
        retry=retry,
        idle_s=idle_s,
        wait=wait,
        jitter=lambda: 0.5,
    )
    given = (tool("read_file"), tool("list_dir"), tool("write_file", parallel=False)) if tools is None else tools
    result = run_loop(client, system="Be brief.", task="Do it.", tools=given, logger=log, **options)
    return Ran(result, waits, log.events, server.requests)
