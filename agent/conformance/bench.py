"""What one behaviour runs on: an adapter made by the host, spied on, and tools that note what they did."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from agent.conformance.scripted import Step
from agent.harness.loop import (
    CallResult,
    Limits,
    LlmPort,
    LlmReply,
    LlmRequest,
    LoopResult,
    LoopTool,
    ReplyStop,
    ToolCall,
    ToolMessage,
    ToolResult,
    Usage,
    run_loop,
)

Factory = Callable[[Sequence[Step]], Any]
"""Makes an LlmPort that plays the given steps; may be a context manager that gives one."""

PATIENCE_S = 20.0  # of one run, so that an adapter which does not come back is a finding

SCHEMA: Mapping[str, Any] = {"type": "object", "properties": {"n": {"type": "integer"}}}


class NotConforming(Exception):
    """A behaviour was not what its sentence says."""


def expect(actual: object, expected: object, what: str) -> None:
    """Compare whole values.

    Raises:
        NotConforming: they differ.
    """
    if actual != expected:
        raise NotConforming(f"{what}: expected {expected!r}, got {actual!r}")


def say(text: str = "done", **fields: Any) -> LlmReply:
    """A turn that makes no call."""
    return LlmReply(text, **{"usage": Usage(100, output_tokens=10), **fields})


def use(
    *calls: ToolCall, text: str = "", stop: ReplyStop = ReplyStop.TOOL_CALLS, usage: Usage | None = None
) -> LlmReply:
    """A turn that makes calls."""
    return LlmReply(text, calls, stop, usage or Usage(100, output_tokens=10))


def call(name: str, n: int | None = None, *, call_id: str | None = None) -> ToolCall:
    """A call with a unique id unless one is given."""
    arguments = {} if n is None else {"n": n}
    raw = "{}" if n is None else f'{{"n": {n}}}'
    return ToolCall(f"id-{name}-{n}" if call_id is None else call_id, name, arguments, raw)


def broken(name: str, raw: str) -> ToolCall:
    """A call whose arguments are no object."""
    return ToolCall(f"id-{name}-broken", name, None, raw, "they are no object")


class Clock:
    """A clock that moves when told, so that no behaviour depends on how fast the machine is."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def late(self) -> None:
        """Move past any limit."""
        self.now += 1_000.0


class Spy:
    """An LlmPort that notes each request on its way to the adapter."""

    def __init__(self, llm: LlmPort) -> None:
        self._llm = llm
        self.requests: list[LlmRequest] = []

    def complete(self, request: LlmRequest, /) -> LlmReply:
        self.requests.append(request)
        return self._llm.complete(request)


class Bench:
    """One run. `requests`, `events` and `done` are what happened.

    Attributes:
        requests: what the adapter was asked, in order.
        events: what the logger got, `(name, fields)`.
        done: `(tool, n)` of every tool run that came to its end, in that order.
    """

    def __init__(self, factory: Factory) -> None:
        self._factory = factory
        self.requests: list[LlmRequest] = []
        self.events: list[tuple[str, Mapping[str, Any]]] = []
        self.done: list[tuple[str, Any]] = []
        self._lock = threading.Lock()

    def event(self, name: str, fields: Mapping[str, Any], /) -> None:
        """This is the run's logger."""
        self.events.append((name, fields))

    def tool(
        self, name: str, work: Callable[[Mapping[str, Any]], Any] | None = None, *, parallel: bool = False
    ) -> LoopTool:
        """A tool that gives `name n` back, or what `work` gives."""

        def run(arguments: Mapping[str, Any]) -> ToolResult:
            result = ToolResult(f"{name} {arguments.get('n')}") if work is None else work(arguments)
            with self._lock:
                self.done.append((name, arguments.get("n")))
            return result  # junk is given back on purpose

        return LoopTool(name, f"does {name}", SCHEMA, run, parallel)

    def run(self, *steps: Step, wrap: Callable[[LlmPort], LlmPort] = lambda llm: llm, **options: Any) -> LoopResult:
        """Run the loop on the adapter that plays `steps`; `wrap` puts something between loop and adapter."""
        with self._adapter(steps) as llm:
            spy = Spy(llm)
            self.requests = spy.requests
            limits = Limits(timeout_s=PATIENCE_S)
            given = {"system": "Be brief.", "task": "Do it.", "logger": self, "limits": limits, **options}
            return run_loop(wrap(spy), **given)

    @contextlib.contextmanager
    def _adapter(self, steps: Sequence[Step]) -> Iterator[LlmPort]:
        made = self._factory(steps)
        if not hasattr(made, "__enter__"):
            yield made
            return
        with made as llm:
            yield llm

    def results(self, result: LoopResult) -> list[CallResult]:
        """All tool results of a history, in order."""
        return [one for message in result.messages if isinstance(message, ToolMessage) for one in message.results]

    def texts(self, result: LoopResult) -> list[tuple[str, bool]]:
        """Text and error flag of all tool results."""
        return [(one.text, one.is_error) for one in self.results(result)]
