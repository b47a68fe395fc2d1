"""Tool calls: what runs, in which order, and what the model is told."""

from __future__ import annotations

import sys
import threading
from typing import Any

from agent.conformance.bench import Bench, Clock, broken, call, expect, say, use
from agent.conformance.suite import behaviour, unanswered
from agent.harness.loop import (
    BlockedError,
    Limits,
    StopReason,
    ToolCall,
    ToolMessage,
    ToolResult,
)


@behaviour
def every_call_gets_its_result_in_call_order(bench: Bench) -> None:
    """Each call of a turn gets one result, and the next request carries them in call order with their ids."""
    tools = [bench.tool("a"), bench.tool("b")]
    result = bench.run(use(call("b", 1), call("a", 2)), say(), tools=tools)
    last = bench.requests[1].messages[-1]
    expect(isinstance(last, ToolMessage), True, "the last message of the second request holds results")
    expect([(one.name, one.text, one.is_error) for one in bench.results(result)],
           [("b", "b 1", False), ("a", "a 2", False)], "results")  # fmt: skip
    expect(unanswered(result), [], "calls without a result")
    expect((result.turns, result.tool_calls), (2, 2), "turns and calls")


@behaviour
def parallel_calls_run_side_by_side(bench: Bench) -> None:
    """Neighbouring calls marked parallel run at the same time."""
    meet = threading.Barrier(2, timeout=5)

    def together(_: Any) -> ToolResult:
        meet.wait()
        return ToolResult("met")

    tools = [bench.tool("read", together, parallel=True)]
    result = bench.run(use(call("read", 1), call("read", 2)), say(), tools=tools)
    expect(bench.texts(result), [("met", False), ("met", False)], "results")


@behaviour
def slow_first_call_keeps_its_place(bench: Bench) -> None:
    """Results stand in call order also when a later parallel call is done first."""
    second_done = threading.Event()

    def work(arguments: Any) -> ToolResult:
        if arguments["n"] == 1:
            second_done.wait(5)
        else:
            second_done.set()
        return ToolResult(str(arguments["n"]))

    tools = [bench.tool("read", work, parallel=True)]
    result = bench.run(use(call("read", 1), call("read", 2)), say(), tools=tools)
    expect(bench.texts(result), [("1", False), ("2", False)], "results")


@behaviour
def other_calls_run_one_after_another(bench: Bench) -> None:
    """A call that is not marked parallel starts after all before it and ends before all after it."""
    running, met, lock, pause = set[int](), set[frozenset[int]](), threading.Lock(), threading.Event()

    def work(arguments: Any) -> ToolResult:
        with lock:
            running.add(arguments["n"])
            met.update(frozenset({one, arguments["n"]}) for one in running)
        pause.wait(0.02)
        with lock:
            running.discard(arguments["n"])
        return ToolResult("ok")

    names = {1: "read", 2: "read", 3: "write", 4: "read", 5: "write", 6: "write", 7: "read", 8: "read"}
    tools = [bench.tool("read", work, parallel=True), bench.tool("write", work)]
    bench.run(use(*(call(name, n) for n, name in names.items())), say(), tools=tools)
    side_by_side = sorted(sorted(pair) for pair in met if len(pair) == 2)
    expect([pair for pair in side_by_side if pair not in ([1, 2], [7, 8])], [], "calls that ran beside another")
    expect([n for name, n in bench.done if name == "write"], [3, 5, 6], "order")


@behaviour
def no_more_side_by_side_than_allowed(bench: Bench) -> None:
    """No more calls run side by side than `max_parallel`."""
    running, most, lock = [0], [0], threading.Lock()
    pause = threading.Event()

    def work(_: Any) -> ToolResult:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        pause.wait(0.02)
        with lock:
            running[0] -= 1
        return ToolResult("ok")

    calls = [call("read", n) for n in range(5)]
    bench.run(use(*calls), say(), tools=[bench.tool("read", work, parallel=True)], limits=Limits(max_parallel=2))
    expect((len(bench.done), most[0] <= 2), (5, True), "runs, and at most two at once")


@behaviour
def unknown_name_is_a_slip(bench: Bench) -> None:
    """A name that no tool has is answered with an error that lists the tools, and the run goes on."""
    result = bench.run(use(call("open_file", 1), call("a", 2)), say(), tools=[bench.tool("a"), bench.tool("b")])
    text = "There is no tool 'open_file'. The tools are: a, b."
    expect(bench.texts(result), [(text, True), ("a 2", False)], "results")
    expect(result.stop_reason, StopReason.COMPLETED, "stop reason")


@behaviour
def bad_arguments_are_a_slip(bench: Bench) -> None:
    """Arguments that are no JSON object are answered with an error that names the schema; nothing runs."""
    result = bench.run(use(broken("a", '["x"]'), broken("b", '"{}"')), say(), tools=[bench.tool("a"), bench.tool("b")])
    for one in bench.results(result):
        told = (one.is_error, '"type": "object"' in one.text, one.name in one.text)
        expect(told, (True, True, True), "error that names tool and schema")
    expect((bench.done, result.ok), ([], True), "runs, and success")


@behaviour
def no_arguments_are_an_empty_object(bench: Bench) -> None:
    """A call without arguments runs with none."""
    result = bench.run(use(ToolCall("id-1", "a", {}, "")), say(), tools=[bench.tool("a")])
    expect(bench.texts(result), [("a None", False)], "results")


@behaviour
def repeated_ids_are_told_apart(bench: Bench) -> None:
    """A repeated or empty call id is replaced, so that each result belongs to one call."""
    names = iter(["new-1", "new-2"])
    result = bench.run(
        use(call("a", 1, call_id="same"), call("a", 2, call_id="same")), use(call("a", 3, call_id="")), say(),
        tools=[bench.tool("a")], ids=lambda: next(names),
    )  # fmt: skip
    ids = [(one.call_id, one.text) for one in bench.results(result)]
    expect(ids, [("same", "a 1"), ("new-1", "a 2"), ("new-2", "a 3")], "ids and results")
    expect(unanswered(result), [], "calls without a result")


@behaviour
def default_ids_are_unique(bench: Bench) -> None:
    """Without an injected source of ids, replaced ids are unique all the same."""
    same = [call("a", n, call_id="same") for n in range(4)]
    result = bench.run(use(*same), say(), tools=[bench.tool("a")])
    expect(len({one.call_id for one in bench.results(result)}), 4, "distinct ids")


@behaviour
def tool_that_raises_is_told(bench: Bench) -> None:
    """A tool that raises gives an error result with the error's type and not its words, and the run goes on."""

    def work(_: Any) -> ToolResult:
        raise KeyError("words of a third party")

    result = bench.run(use(call("a", 1)), say(), tools=[bench.tool("a", work)])
    expect(bench.texts(result), [("a failed (KeyError).", True)], "results")
    expect(result.stop_reason, StopReason.COMPLETED, "stop reason")


@behaviour
def tool_that_exits_is_told(bench: Bench) -> None:
    """A tool that exits the interpreter gives an error result, and the run goes on."""
    result = bench.run(use(call("a", 1)), say(), tools=[bench.tool("a", lambda _: sys.exit(3))])
    expect(bench.texts(result), [("a failed (SystemExit).", True)], "results")
    expect(result.stop_reason, StopReason.COMPLETED, "stop reason")


@behaviour
def junk_is_told(bench: Bench) -> None:
    """A tool that gives back something that is no result gives an error result."""
    tools = [bench.tool("a", lambda _: {"text": "x"}), bench.tool("b", lambda _: ToolResult(7))]  # type: ignore[arg-type]
    result = bench.run(use(call("a", 1), call("b", 2)), say(), tools=tools)
    texts = [(f"{name} gave back something that is no result.", True) for name in ("a", "b")]
    expect(bench.texts(result), texts, "results")


@behaviour
def empty_output_is_said(bench: Bench) -> None:
    """A tool without output gives `(no output)`, since providers refuse blank text."""
    result = bench.run(use(call("a", 1)), say(), tools=[bench.tool("a", lambda _: ToolResult(" \n"))])
    expect(bench.texts(result), [("(no output)", False)], "results")


@behaviour
def hanging_tool_is_left_behind(bench: Bench) -> None:
    """A tool that does not come back within its cap is left behind with an error result, and the run goes on."""
    hang, clock = threading.Event(), Clock()

    def work(_: Any) -> ToolResult:
        clock.late()
        hang.wait(30)
        return ToolResult("late")

    tools = [bench.tool("a", work), bench.tool("b")]
    result = bench.run(
        use(call("a", 1), call("b", 2)), say(), tools=tools, limits=Limits(tool_timeout_s=9), clock=clock
    )
    expect(bench.texts(result), [("a did not come back within 9 s and was left behind.", True), ("b 2", False)],
           "results")  # fmt: skip
    hang.set()
    expect(result.stop_reason, StopReason.COMPLETED, "stop reason")


@behaviour
def tool_can_block_the_run(bench: Bench) -> None:
    """A tool that raises BlockedError ends the run as blocked, and later calls of the batch do not run."""

    def work(_: Any) -> ToolResult:
        raise BlockedError("The rule says no.")

    tools = [bench.tool("a", work), bench.tool("b")]
    result = bench.run(use(call("a", 1), call("b", 2)), tools=tools)
    expect((result.stop_reason, result.reason), (StopReason.BLOCKED, "The rule says no."), "end")
    expect((bench.done, unanswered(result)), ([], []), "runs, and calls without a result")
