"""Caps, clock and cancel: the run stops, says so, and keeps what it has."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from typing import Any

from agent.conformance.bench import Bench, Clock, call, expect, say, use
from agent.conformance.suite import behaviour, unanswered
from agent.harness.loop import (
    CancelledError,
    CancelToken,
    Limits,
    LlmPort,
    LlmReply,
    LlmRequest,
    LoopResult,
    StopReason,
    ToolCall,
    ToolResult,
    Usage,
)


class Stuck:
    """An adapter that does not come back until `free` is set; does `first` before it hangs."""

    def __init__(self, free: threading.Event, first: Any = lambda: None) -> None:
        self._free, self._first = free, first

    def complete(self, _request: LlmRequest, /) -> LlmReply:
        self._first()
        self._free.wait(30)
        return LlmReply("late")


class StuckHooks:
    """Hooks that cancel the run and then hang."""

    def __init__(self, cancel: CancelToken, free: threading.Event) -> None:
        self._cancel, self._free = cancel, free

    def before_call(self, _call: ToolCall, /) -> str | None:
        self._cancel.cancel()
        self._free.wait(30)
        return None

    def before_stop(self, _result: LoopResult, /) -> str | None:
        return None


@behaviour
def turns_are_capped(bench: Bench) -> None:
    """No more requests are made than `max_turns`."""
    steps = [use(call("a", n)) for n in range(5)]
    result = bench.run(*steps, tools=[bench.tool("a")], limits=Limits(max_turns=3))
    expect((result.stop_reason, result.turns, len(bench.requests)), (StopReason.MAX_TURNS, 3, 3), "end")
    expect((result.tool_calls, unanswered(result)), (3, []), "calls, and calls without a result")


@behaviour
def calls_are_capped_within_a_batch(bench: Bench) -> None:
    """Calls over `max_tool_calls` are not run, have a result that says so, and end the run."""
    calls = [call("a", n) for n in range(3)]
    result = bench.run(use(*calls), say(), tools=[bench.tool("a")], limits=Limits(max_tool_calls=2))
    expect(result.stop_reason, StopReason.MAX_TOOL_CALLS, "stop reason")
    expect(bench.texts(result), [("a 0", False), ("a 1", False), ("Not run: the cap on tool calls is reached.", True)],
           "results")  # fmt: skip
    expect((result.tool_calls, bench.done), (2, [("a", 0), ("a", 1)]), "calls, and runs")


@behaviour
def slips_over_the_cap_keep_their_message(bench: Bench) -> None:
    """A slip among the calls over the cap keeps the error that says what was wrong with it."""
    result = bench.run(use(call("a", 0), call("nope", 1)), tools=[bench.tool("a")], limits=Limits(max_tool_calls=1))
    expect([text for text, _ in bench.texts(result)], ["a 0", "There is no tool 'nope'. The tools are: a."], "results")
    expect(result.stop_reason, StopReason.MAX_TOOL_CALLS, "stop reason")


@behaviour
def last_call_may_be_answered(bench: Bench) -> None:
    """A run that uses its calls up exactly may still conclude."""
    result = bench.run(use(call("a", 1)), say("Enough."), tools=[bench.tool("a")], limits=Limits(max_tool_calls=1))
    expect((result.stop_reason, result.output), (StopReason.COMPLETED, "Enough."), "end")


@behaviour
def tokens_are_capped_before_the_call(bench: Bench) -> None:
    """A request that would overrun the token budget is not made: history only grows."""
    step = use(call("a", 1), usage=Usage(50_000, output_tokens=100))
    result = bench.run(step, say(), tools=[bench.tool("a")], limits=Limits(max_tokens=90_000))
    expect((result.stop_reason, len(bench.requests)), (StopReason.BUDGET, 1), "end")
    expect((result.usage.total_tokens, result.ok, len(bench.done)), (50_100, False, 1), "usage, success, runs")


@behaviour
def adapter_knows_what_is_left(bench: Bench) -> None:
    """Each request says what is left of tokens, money and time, so that an adapter can cap its output."""

    class Costs:
        def __init__(self, llm: LlmPort) -> None:
            self._llm = llm

        def complete(self, request: LlmRequest, /) -> LlmReply:
            return replace(self._llm.complete(request), usage=Usage(1_000, output_tokens=100, cost=0.25))

    clock = Clock()

    def work(_: Any) -> ToolResult:
        clock.now = 20.0
        return ToolResult("ok")

    limits = Limits(max_tokens=90_000, max_cost=1.0, timeout_s=50)
    bench.run(use(call("a", 1)), say(), tools=[bench.tool("a", work)], limits=limits, wrap=Costs, clock=clock)
    left = [(request.tokens_left, request.cost_left, request.timeout_s) for request in bench.requests]
    expect(left, [(90_000, 1.0, 50.0), (88_900, 0.75, 30.0)], "tokens, dollars and seconds left")


@behaviour
def money_is_capped(bench: Bench) -> None:
    """When the money is spent no further request is made."""
    step = use(call("a", 1), usage=Usage(1_000_000, output_tokens=100, cost=3.0))
    result = bench.run(step, say(), tools=[bench.tool("a")], limits=Limits(max_cost=0.05))
    expect((result.stop_reason, len(bench.requests)), (StopReason.BUDGET, 1), "end")


@behaviour
def time_is_up_between_turns(bench: Bench) -> None:
    """No request is made after the time limit."""
    clock = Clock()

    def work(_: Any) -> ToolResult:
        clock.now = 100.0
        return ToolResult("ok")

    result = bench.run(
        use(call("a", 1)), say(), tools=[bench.tool("a", work)], limits=Limits(timeout_s=60), clock=clock
    )
    expect((result.stop_reason, len(bench.requests), unanswered(result)), (StopReason.TIMEOUT, 1, []), "end")


@behaviour
def time_is_up_while_a_tool_runs(bench: Bench) -> None:
    """A tool that runs past the time limit is left behind, and every call has a result."""
    free, clock = threading.Event(), Clock()

    def work(_: Any) -> ToolResult:
        clock.now = 100.0
        free.wait(30)
        return ToolResult("late")

    tools = [bench.tool("a", work), bench.tool("b")]
    result = bench.run(use(call("a", 1), call("b", 2)), tools=tools, limits=Limits(timeout_s=60), clock=clock)
    free.set()
    expect((result.stop_reason, unanswered(result)), (StopReason.TIMEOUT, []), "end")
    expect([text for text, _ in bench.texts(result)],
           ["Stopped: the run's time is up.", "Not run: the run is being stopped."], "results")  # fmt: skip


@behaviour
def time_is_up_while_the_model_thinks(bench: Bench) -> None:
    """A model that does not answer within the time limit ends the run as timeout."""
    free, clock = threading.Event(), Clock()

    def wrap(_: LlmPort) -> LlmPort:
        return Stuck(free, clock.late)

    result = bench.run(wrap=wrap, limits=Limits(timeout_s=60), clock=clock)
    free.set()
    expect((result.stop_reason, result.ok), (StopReason.TIMEOUT, False), "end")


@behaviour
def cancelled_before_the_start(bench: Bench) -> None:
    """A run that is cancelled before it starts asks nothing."""
    cancel = CancelToken()
    cancel.cancel()
    result = bench.run(say(), cancel=cancel)
    expect((result.stop_reason, bench.requests, cancel.wait(0)), (StopReason.CANCELLED, [], True), "end")


@behaviour
def cancelled_while_the_model_thinks(bench: Bench) -> None:
    """A cancel ends the wait for the model."""
    cancel, free = CancelToken(), threading.Event()

    def wrap(_: LlmPort) -> LlmPort:
        return Stuck(free, cancel.cancel)

    result = bench.run(wrap=wrap, cancel=cancel)
    free.set()
    expect((result.stop_reason, result.ok, unanswered(result)), (StopReason.CANCELLED, False, []), "end")


@behaviour
def cancelled_in_the_middle_of_an_answer(bench: Bench) -> None:
    """What an adapter says that its half answer has cost is counted, when it notices a cancel soon."""
    cancel = CancelToken()

    class Notices:
        def complete(self, _request: LlmRequest, /) -> LlmReply:
            time.sleep(0.1)
            cancel.cancel()
            time.sleep(0.1)  # until the loop waits no more
            raise CancelledError("cancelled", Usage(100, output_tokens=7))

    result = bench.run(wrap=lambda _: Notices(), cancel=cancel)
    expect((result.stop_reason, result.usage), (StopReason.CANCELLED, Usage(100, output_tokens=7)), "end and usage")


@behaviour
def cancelled_while_a_tool_runs(bench: Bench) -> None:
    """A cancel ends the wait for a tool; what was done keeps its result, and every call has one."""
    cancel, free = CancelToken(), threading.Event()

    def work(_: Any) -> ToolResult:
        cancel.cancel()
        free.wait(30)
        return ToolResult("late")

    tools = [bench.tool("a"), bench.tool("b", work), bench.tool("c")]
    result = bench.run(use(call("a", 1), call("b", 2), call("c", 3)), tools=tools, cancel=cancel)
    free.set()
    expect((result.stop_reason, unanswered(result)), (StopReason.CANCELLED, []), "end")
    expect([text for text, _ in bench.texts(result)],
           ["a 1", "Cancelled while running.", "Not run: the run is being stopped."], "results")  # fmt: skip


@behaviour
def cancelled_between_two_calls(bench: Bench) -> None:
    """A cancel that comes with a tool's result keeps the result and runs nothing more."""
    cancel = CancelToken()

    def work(_: Any) -> ToolResult:
        cancel.cancel()
        return ToolResult("ok")

    result = bench.run(use(call("a", 1), call("b", 2)), tools=[bench.tool("a", work), bench.tool("b")], cancel=cancel)
    expect((result.stop_reason, bench.texts(result)[0], unanswered(result)),
           (StopReason.CANCELLED, ("ok", False), []), "end")  # fmt: skip
    expect(bench.done, [("a", 1)], "runs")


@behaviour
def cancelled_while_a_hook_thinks(bench: Bench) -> None:
    """A cancel while a hook is asked runs nothing."""
    cancel, free = CancelToken(), threading.Event()
    hooks = StuckHooks(cancel, free)
    result = bench.run(use(call("a", 1)), tools=[bench.tool("a")], cancel=cancel, hooks=hooks)
    free.set()
    expect((result.stop_reason, bench.done, unanswered(result)), (StopReason.CANCELLED, [], []), "end")
