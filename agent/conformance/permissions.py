"""What a model may call: tools that are offered, and hooks that are asked before each batch."""

from __future__ import annotations

from agent.conformance.bench import Bench, call, expect, say, use
from agent.conformance.suite import behaviour, unanswered
from agent.harness.loop import LoopResult, PermitAll, StopReason, ToolCall


class Denies:
    """Hooks that deny one name, or fail."""

    def __init__(self, name: str = "", error: Exception | None = None) -> None:
        self._name, self._error = name, error

    def before_call(self, call: ToolCall, /) -> str | None:
        if self._error is not None:
            raise self._error
        return "not on a Friday" if call.name == self._name else None

    def before_stop(self, _result: LoopResult, /) -> str | None:
        return None


@behaviour
def denied_tools_are_not_offered(bench: Bench) -> None:
    """A denied tool is never shown to the model, also when it is allowed by name."""
    tools = [bench.tool("a"), bench.tool("b"), bench.tool("c")]
    bench.run(say(), tools=tools, allow=["a", "b"], deny=["b"])
    expect([tool.name for tool in bench.requests[0].tools], ["a"], "tools on offer")


@behaviour
def denied_call_blocks_the_run(bench: Bench) -> None:
    """Calling a denied tool ends the run as blocked, and nothing of its batch runs."""
    tools = [bench.tool("a"), bench.tool("b")]
    result = bench.run(use(call("a", 1), call("b", 2)), say(), tools=tools, deny=["b"])
    expect(result.stop_reason, StopReason.BLOCKED, "stop reason")
    expect((bench.done, result.ok, unanswered(result)), ([], False, []), "runs, success, calls without a result")
    denied = [(fields["name"], fields["code"]) for name, fields in bench.events if name == "tool.denied"]
    expect(denied, [("b", "tool_permission")], "denials in the record")


@behaviour
def call_outside_the_allowed_blocks_the_run(bench: Bench) -> None:
    """Calling a tool that exists but is not on the allow list ends the run as blocked."""
    result = bench.run(use(call("b", 1)), say(), tools=[bench.tool("a"), bench.tool("b")], allow=["a"])
    expect((result.stop_reason, bench.done), (StopReason.BLOCKED, []), "stop reason, and runs")


@behaviour
def forbidden_name_blocks_the_run(bench: Bench) -> None:
    """Calling a forbidden name for which no tool was handed in ends the run as blocked."""
    result = bench.run(use(call("git_push", 1)), say(), tools=[bench.tool("a")], forbidden=["git_push"])
    expect((result.stop_reason, result.turns), (StopReason.BLOCKED, 1), "stop reason, and turns")


@behaviour
def hook_denial_cancels_the_batch(bench: Bench) -> None:
    """A hook's denial of one call cancels the whole batch with error results, and the run goes on."""
    tools = [bench.tool("a"), bench.tool("b")]
    result = bench.run(use(call("a", 1), call("b", 2)), use(call("a", 3)), say(), tools=tools, hooks=Denies("b"))
    expect(bench.texts(result), [
        ("Not run: another call of this batch was denied.", True), ("Denied: not on a Friday", True), ("a 3", False),
    ], "results")  # fmt: skip
    expect((bench.done, result.stop_reason), ([("a", 3)], StopReason.COMPLETED), "runs, and stop reason")


@behaviour
def hooks_may_extend_the_default(bench: Bench) -> None:
    """Hooks that extend the permitting default and deny one name are asked like any others."""

    class DeniesB(PermitAll):
        def before_call(self, call: ToolCall, /) -> str | None:
            return "not b" if call.name == "b" else super().before_call(call)

    tools = [bench.tool("a"), bench.tool("b")]
    result = bench.run(use(call("a", 1)), use(call("b", 2)), say(), tools=tools, hooks=DeniesB())
    expect(bench.texts(result), [("a 1", False), ("Denied: not b", True)], "results")
    expect(bench.done, [("a", 1)], "runs")


@behaviour
def failing_hook_denies(bench: Bench) -> None:
    """A hook that fails denies the batch."""
    result = bench.run(use(call("a", 1)), say(), tools=[bench.tool("a")], hooks=Denies(error=OSError("no")))
    expect(bench.texts(result), [("Denied: the check before the call failed", True)], "results")
    expect(bench.done, [], "runs")
