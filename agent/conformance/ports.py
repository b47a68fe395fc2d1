"""What a host plugs in may be wrong: an adapter, tool, logger or optimizer that fails gives a result, never a raise."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from agent.conformance.bench import Bench, call, expect, say, use
from agent.conformance.suite import behaviour, unanswered
from agent.harness.loop import (
    AssistantMessage,
    AuthError,
    BlockedError,
    LlmPort,
    LlmReply,
    LlmRequest,
    Message,
    StopReason,
    ToolCall,
    ToolResult,
    Usage,
)


class Gives:
    """An adapter that makes a call, then gives one reply again and again."""

    def __init__(self, reply: Any) -> None:
        self._replies = [use(call("a", 1))]
        self._last = reply

    def complete(self, _request: LlmRequest, /) -> LlmReply:
        reply: LlmReply = self._replies.pop() if self._replies else self._last
        return reply


def giving(reply: Any) -> Callable[[LlmPort], LlmPort]:
    """For `Bench.run(wrap=)`."""
    return lambda _llm: Gives(reply)


class Twice:
    """An adapter that makes these calls, then is done."""

    def __init__(self, calls: list[ToolCall]) -> None:
        self._calls = calls

    def complete(self, request: LlmRequest, /) -> LlmReply:
        return say() if len(request.messages) > 1 else use(*self._calls)


class Fails:
    """A logger and an optimizer that raise, the logger at one event alone."""

    def __init__(self, event: str = "") -> None:
        self._event = event

    def event(self, name: str, _fields: Mapping[str, Any], /) -> None:
        if name == self._event:
            raise OSError("disk full")

    def optimize(
        self, messages: tuple[Message, ...], _context_tokens: int, /, *, overflow: bool
    ) -> tuple[Message, ...]:
        if len(messages) > 1:
            raise KeyError(overflow)
        return messages


class Text(str):
    """A text whose methods raise."""

    __slots__ = ()

    def strip(self, _chars: str | None = None, /) -> str:
        raise RuntimeError("not to be called")

    __str__ = __repr__ = __eq__ = strip  # type: ignore[assignment]  # no text has such methods: that is the case
    __hash__ = str.__hash__


class Truth:
    """A flag that is neither true nor false."""

    def __bool__(self) -> bool:
        raise RuntimeError("who knows")


class Blocks(BlockedError):
    """An error that cannot be told."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


@behaviour
def reply_of_wrong_types_ends_the_run(bench: Bench) -> None:
    """A reply with a field of a wrong type, such as a null that a provider sent, ends the run as error, work kept."""
    good: dict[str, Any] = {"id": "x", "name": "a", "arguments": {}, "raw": "{}", "problem": ""}
    bad_calls: list[Any] = [good, *(ToolCall(**{**good, name: 7}) for name in good)]
    junk: list[Any] = [None, "text", *(LlmReply("", (one,)) for one in bad_calls)]
    fields: list[dict[str, Any]] = [{name: None} for name in ("text", "calls", "stop", "usage", "blocks", "wire")]
    junk += [LlmReply(**{"text": "x", **wrong}) for wrong in fields]
    for reply in junk:
        result = bench.run(wrap=giving(reply), tools=[bench.tool("a")])
        expect((result.stop_reason, "adapter failed: TypeError" in result.reason), (StopReason.ERROR, True), "end")
        expect((bench.texts(result), unanswered(result)), ([("a 1", False)], []), "what is kept")


@behaviour
def optimizer_that_fails_ends_the_run(bench: Bench) -> None:
    """An optimizer that raises ends the run as error; what was done and what it cost is kept."""
    result = bench.run(use(call("a", 1)), say(), tools=[bench.tool("a")], optimizer=Fails())
    expect((result.stop_reason, "KeyError" in result.reason), (StopReason.ERROR, True), "end")
    expect((bench.texts(result), result.usage.input_tokens, result.turns), ([("a 1", False)], 100, 2), "what is kept")


@behaviour
def logger_that_fails_ends_the_run(bench: Bench) -> None:
    """A run that can no longer be recorded does no more and ends as error, whichever event failed; history whole."""
    ran = {}
    for event in ("agent.rendered", "model.response", "tool.call", "tool.result", "agent.stop"):
        before = len(bench.done)
        result = bench.run(
            use(call("a", 1), call("a", 2)), say(), tools=[bench.tool("a")], logger=Fails(event)
        )  # fmt: skip
        expect((result.stop_reason, result.ok, unanswered(result)), (StopReason.ERROR, False, []), f"end after {event}")
        expect("could not be recorded: OSError" in result.reason, True, "the reason says so")
        ran[event] = len(bench.done) - before
    expect(ran, {"agent.rendered": 0, "model.response": 0, "tool.call": 0, "tool.result": 1, "agent.stop": 2}, "runs")


@behaviour
def arguments_are_the_tools_own(bench: Bench) -> None:
    """A tool that changes its arguments, at any depth, changes neither the history nor another call's."""
    given: dict[str, Any] = {"n": 1, "list": [{"deep": [1]}]}

    def work(arguments: Any) -> ToolResult:
        arguments["list"][0]["deep"].append(2)
        arguments["new"] = arguments.pop("n")
        return ToolResult(str(arguments))

    calls = [ToolCall(f"i{n}", "a", given, "{}") for n in (1, 2)]
    result = bench.run(wrap=lambda _: Twice(calls), tools=[bench.tool("a", work)])
    turn = result.messages[1]
    kept = [one.arguments for one in turn.calls] if isinstance(turn, AssistantMessage) else []
    expect(kept, [{"n": 1, "list": [{"deep": [1]}]}] * 2, "arguments in the history")
    expect(bench.texts(result), [("{'list': [{'deep': [1, 2]}], 'new': 1}", False)] * 2, "results")


@behaviour
def objects_with_methods_of_their_own_harm_nothing(bench: Bench) -> None:
    """A result or error whose text, flag or words raise when they are looked at costs that one call."""

    def blocked(_: Any) -> ToolResult:
        raise Blocks("x")

    tools = [
        bench.tool("a", lambda _: ToolResult(Text("plain"))),
        bench.tool("b", lambda _: ToolResult("x", Truth())),  # type: ignore[arg-type]  # what a host may hand in
        bench.tool("c", blocked),
    ]
    result = bench.run(use(call("a", 1), call("b", 2), call("c", 3)), say(), tools=tools)
    wanted = [("plain", False), ("b failed (RuntimeError).", True), ("c failed (RuntimeError).", True)]
    expect(bench.texts(result), wanted, "results")
    expect((type(bench.results(result)[0].text), result.stop_reason), (str, StopReason.COMPLETED), "text, and end")


@behaviour
def refused_attempts_are_counted(bench: Bench) -> None:
    """What an attempt cost before its credential was refused is counted beside the attempt after the recovery."""
    attempts: list[int] = []

    class Refused:
        def complete(self, _request: LlmRequest, /) -> LlmReply:
            attempts.append(1)
            if len(attempts) == 1:
                raise AuthError("expired", Usage(40))
            return say(usage=Usage(100, output_tokens=7))

    result = bench.run(wrap=lambda _: Refused(), recover_auth=lambda: True)
    expect((result.ok, result.usage), (True, Usage(140, output_tokens=7)), "end and usage")
