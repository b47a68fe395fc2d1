"""A hostile model against the loop: whatever it says, the rules hold and the history stays consistent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from agent.conformance import Scripted
from agent.conformance.suite import unanswered
from agent.harness.loop import (
    AssistantMessage,
    BlockedError,
    CancelToken,
    Limits,
    LlmError,
    LlmReply,
    LlmRequest,
    LoopResult,
    LoopTool,
    PermitAll,
    ReplyStop,
    StopReason,
    ToolCall,
    ToolMessage,
    ToolResult,
    Usage,
    run_loop,
)

NAMES = ["read", "write", "denied", "forbidden", "raises", "blocks", "nope", "", "read\x00", "Read"]
calls = st.builds(
    ToolCall,
    id=st.sampled_from(["", "a", "b", "call_0"]) | st.text(max_size=4),
    name=st.sampled_from(NAMES) | st.text(max_size=6),
    arguments=st.none() | st.dictionaries(st.text(max_size=3), st.integers(0, 3), max_size=2),
    raw=st.text(max_size=6),
    problem=st.text(max_size=6),
)
replies = st.builds(
    LlmReply,
    text=st.sampled_from(["", " ", "done"]) | st.text(max_size=5),
    calls=st.lists(calls, max_size=5).map(tuple),
    stop=st.sampled_from(ReplyStop),
    usage=st.builds(Usage, st.integers(0, 400), output_tokens=st.integers(0, 400), cost=st.none() | st.just(0.1)),
)
steps = st.lists(replies | st.just(LlmError("down")), max_size=12)


@settings(max_examples=100, deadline=None)
@given(steps, st.integers(0, 8), st.integers(1, 10), st.integers(100, 5_000))
def test_rules_hold_whatever_the_model_says(script: list[Any], calls_cap: int, turns_cap: int, tokens: int) -> None:
    """Closed tools never run, caps hold, every call has one result with a unique id, and nothing escapes."""
    ran: list[str] = []

    def tool(name: str, *, parallel: bool = False) -> LoopTool:
        def run(_arguments: Mapping[str, Any]) -> ToolResult:
            ran.append(name)
            if name == "raises":
                raise RecursionError("deep")
            if name == "blocks":
                raise BlockedError("no")
            return ToolResult(f"{name} {len(ran)}")

        return LoopTool(name, "", {"type": "object"}, run, parallel)

    tools = [tool("read", parallel=True), *map(tool, ("write", "denied", "raises", "blocks"))]
    result = run_loop(
        Scripted(script), system="s", task="t", tools=tools, allow=["read", "write", "denied", "raises", "blocks"],
        deny=["denied"], forbidden=["forbidden"],
        limits=Limits(max_tool_calls=calls_cap, max_turns=turns_cap, max_tokens=tokens, max_cost=0.5),
    )  # fmt: skip

    turns = [message for message in result.messages if isinstance(message, AssistantMessage)]
    ids = [call.id for message in turns for call in message.calls]
    results = [one for message in result.messages if isinstance(message, ToolMessage) for one in message.results]
    assert set(ran) <= {"read", "write", "raises", "blocks"}
    assert len(ran) <= calls_cap
    assert result.tool_calls <= calls_cap
    assert result.turns <= turns_cap
    assert unanswered(result) == []
    assert len(set(ids)) == len(ids) == len(results)
    assert "" not in ids
    assert all(one.text.strip() for one in results)
    closed = any(call.name in ("denied", "forbidden") for message in turns for call in message.calls)
    assert not closed or result.stop_reason is StopReason.BLOCKED
    assert result.ok is (result.stop_reason is StopReason.COMPLETED)
    assert result.reason


class Counted(Scripted):
    """Notes what each answer cost, and how many were asked for after a cancel."""

    def __init__(self, script: list[Any]) -> None:
        super().__init__(script)
        self.given, self.late = Usage(), 0

    def complete(self, request: LlmRequest, /) -> LlmReply:
        self.late += request.cancel.cancelled
        reply = super().complete(request)
        self.given += reply.usage
        return reply


class CancelsAt:
    """A logger that cancels the run at one of its events, and notes the calls that began after that."""

    def __init__(self, number: int) -> None:
        self.cancel, self._left = CancelToken(), number
        self.results: list[str] = []

    def event(self, name: str, fields: Mapping[str, Any], /) -> None:
        self._left -= 1
        if self._left == 0:
            self.cancel.cancel()
        if name == "tool.result":
            self.results.append(fields["id"])


@settings(max_examples=60, deadline=None)
@given(steps, st.integers(1, 25), st.booleans())
def test_a_cancel_at_any_event_leaves_a_consistent_history(script: list[Any], number: int, verify: bool) -> None:
    """Wherever it comes: each call has one result, in history and record; all answers are counted; no tool starts."""
    log, llm, after = CancelsAt(number), Counted(script), []

    class Verifies(PermitAll):
        def before_stop(self, _result: LoopResult, /) -> str | None:
            return "go on" if verify else None

    def run(_arguments: Mapping[str, Any]) -> ToolResult:
        if log.cancel.cancelled:
            after.append(1)
        return ToolResult(f"read {len(log.results)}")

    tools = [LoopTool("read", "", {"type": "object"}, run, True), LoopTool("write", "", {"type": "object"}, run)]
    result = run_loop(llm, system="s", task="t", tools=tools, hooks=Verifies(), logger=log, cancel=log.cancel)

    calls = [call.id for message in result.messages if isinstance(message, AssistantMessage) for call in message.calls]
    assert unanswered(result) == []
    assert sorted(log.results) == sorted(calls)
    assert result.usage == llm.given
    assert after == []
    assert llm.late <= 1  # one that was announced, and cancelled by its announcement
    if result.stop_reason is StopReason.CANCELLED:
        assert log.cancel.cancelled
        assert not result.ok
