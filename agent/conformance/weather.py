"""What fails around the loop: the provider, the credential, the window, the adapter itself."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from agent.conformance.bench import Bench, call, expect, say, use
from agent.conformance.scripted import Step
from agent.conformance.suite import behaviour, unanswered
from agent.harness.loop import (
    AuthError,
    BudgetError,
    CancelledError,
    ContextError,
    DeadlineError,
    LlmError,
    LlmPort,
    LlmReply,
    LlmRequest,
    Message,
    StopReason,
    ToolMessage,
    ToolResult,
    Usage,
    UserMessage,
    run_loop,
)


class Raises:
    """An adapter that raises, or gives junk back."""

    def __init__(self, error: BaseException | None) -> None:
        self._error = error

    def complete(self, _request: LlmRequest, /) -> LlmReply:
        if self._error is not None:
            raise self._error
        return "junk"  # type: ignore[return-value]  # on purpose


class DropsResults:
    """An optimizer that drops all batches when told that the history does not fit."""

    def optimize(
        self, messages: tuple[Message, ...], _context_tokens: int, /, *, overflow: bool
    ) -> tuple[Message, ...]:
        return (messages[0], UserMessage("Earlier work is left out.")) if overflow else messages


def raising(error: BaseException | None) -> Callable[[LlmPort], LlmPort]:
    """For `Bench.run(wrap=)`."""
    return lambda _llm: Raises(error)


@behaviour
def provider_that_fails_ends_the_run(bench: Bench) -> None:
    """A provider that fails for good ends the run as error, and what was done is kept."""
    result = bench.run(use(call("a", 1)), LlmError("no such model"), tools=[bench.tool("a")])
    expect((result.stop_reason, result.ok, result.turns), (StopReason.ERROR, False, 2), "end")
    expect((bench.texts(result), bool(result.reason), unanswered(result)), ([("a 1", False)], True, []), "what is kept")


@behaviour
def adapter_that_breaks_ends_the_run(bench: Bench) -> None:
    """An adapter that raises something of its own, or gives junk back, ends the run as error; nothing escapes."""
    for error in (RuntimeError("bug"), None):
        result = bench.run(wrap=raising(error))
        expect((result.stop_reason, "adapter failed" in result.reason), (StopReason.ERROR, True), "end")


@behaviour
def typed_errors_become_stop_reasons(bench: Bench) -> None:
    """An adapter's budget, deadline and cancel errors are stop reasons, and what they cost is counted."""
    for error, wanted in (
        (BudgetError("too dear", Usage(5)), StopReason.BUDGET),
        (DeadlineError("too late", Usage(5)), StopReason.TIMEOUT),
        (CancelledError("", Usage(5)), StopReason.CANCELLED),
    ):
        result = bench.run(wrap=raising(error))
        expect((result.stop_reason, result.usage.input_tokens), (wanted, 5), "end")


@behaviour
def credential_is_recovered_once(bench: Bench) -> None:
    """A refused credential is recovered and the request made again; a second refusal in the run ends it."""
    recoveries: list[int] = []

    def recover() -> bool:
        recoveries.append(1)
        return True

    steps: list[Step] = [AuthError("expired"), use(call("a", 1)), AuthError("expired again"), say()]
    result = bench.run(*steps, tools=[bench.tool("a")], recover_auth=recover)
    expect((len(recoveries), result.stop_reason, len(bench.done)), (1, StopReason.ERROR, 1), "recoveries, end, runs")


@behaviour
def credential_that_cannot_be_recovered_ends_the_run(bench: Bench) -> None:
    """Without a recovery, or when it fails, a refused credential ends the run as error."""
    for recover in (None, lambda: False):
        result = bench.run(AuthError("bad key"), say(), recover_auth=recover)
        expect((result.stop_reason, result.turns), (StopReason.ERROR, 1), "end")


@behaviour
def recovery_is_shared(bench: Bench) -> None:
    """Two tools whose credential is refused at the same time share one recovery, and both are run again."""
    meet, recoveries, good = threading.Barrier(2, timeout=5), [0], threading.Event()

    def recover() -> bool:
        recoveries[0] += 1
        good.set()
        return True

    def work(_: Any) -> ToolResult:
        if not good.is_set():
            meet.wait()
            raise AuthError("expired")
        return ToolResult("ok")

    tools = [bench.tool("read", work, parallel=True)]
    result = bench.run(use(call("read", 1), call("read", 2)), say(), tools=tools, recover_auth=recover)
    expect((recoveries[0], bench.texts(result)), (1, [("ok", False), ("ok", False)]), "recoveries, and results")


@behaviour
def history_that_does_not_fit_is_compacted_once(bench: Bench) -> None:
    """A history that the provider refuses as too long is compacted and sent again; the full one stays in the result."""
    result = bench.run(
        use(call("a", 1)), ContextError("too long"), say("Done."), tools=[bench.tool("a")], optimizer=DropsResults()
    )
    sent = [len(request.messages) for request in bench.requests]
    expect((sent, result.stop_reason, result.turns), ([1, 3, 2], StopReason.COMPLETED, 2), "sent, and end")
    expect(any(isinstance(message, ToolMessage) for message in result.messages), True, "the history is whole")


@behaviour
def history_that_cannot_be_compacted_ends_the_run(bench: Bench) -> None:
    """A history that does not fit and cannot be made shorter ends the run as error, and says so."""
    result = bench.run(ContextError("too long"), say())
    expect((result.stop_reason, "does not fit" in result.reason), (StopReason.ERROR, True), "end")


@behaviour
def compacted_history_grows_again(bench: Bench) -> None:
    """After a compaction the next requests extend the compacted history."""
    steps: list[Step] = [use(call("a", 1)), ContextError("too long"), use(call("a", 2)), say()]
    bench.run(*steps, tools=[bench.tool("a")], optimizer=DropsResults())
    last, before = bench.requests[-1].messages, bench.requests[-2].messages
    expect(last[: len(before)], before, "the last request extends the compacted one")


@behaviour
def optimizer_is_told_what_a_history_held(bench: Bench) -> None:
    """An optimizer gets the tokens of the last turn, 0 where there is no turn of what it is asked about."""
    seen: list[tuple[int, int, bool]] = []

    class Shortens:
        def optimize(
            self, messages: tuple[Message, ...], context_tokens: int, /, *, overflow: bool
        ) -> tuple[Message, ...]:
            seen.append((len(messages), context_tokens, overflow))
            return messages if len(messages) == 1 else (messages[0], UserMessage(f"Left out, overflow: {overflow}."))

    steps: list[Step] = [use(call("a", 1)), ContextError("too long"), say("Done.")]
    result = bench.run(*steps, tools=[bench.tool("a")], optimizer=Shortens())
    expect(seen, [(1, 0, False), (3, 110, False), (2, 0, True)], "messages, tokens, overflow")
    compacted = [fields["overflow"] for name, fields in bench.events if name == "agent.compacted"]
    expect((result.output, compacted), ("Done.", [False, True]), "end, and compactions in the record")


@behaviour
def logger_gets_the_run_in_order(bench: Bench) -> None:
    """The logger gets the tools of each turn, requests, replies, calls, results and the end, in order."""
    bench.run(use(call("a", 1)), say(), tools=[bench.tool("a")])
    names = [name for name, _ in bench.events if name.startswith(("agent.", "model.re", "tool."))]
    turn = ["agent.rendered", "model.request", "model.response"]
    expect(names, [*turn, "tool.call", "tool.result", *turn, "agent.stop"], "events")
    rendered = [fields["tools"] for name, fields in bench.events if name == "agent.rendered"]
    expect(rendered, [["a"], ["a"]], "tools of each turn")


@behaviour
def only_the_adapter_is_required(bench: Bench) -> None:
    """With an adapter alone the loop runs: nothing is recorded, everything permitted, history as it is."""
    tools = [bench.tool("a")]
    llm: Any = None

    def keep(spy: LlmPort) -> LlmPort:
        nonlocal llm
        llm = spy
        return spy

    bench.run(use(call("a", 1)), say("first"), tools=tools, wrap=keep)

    class Says:
        def complete(self, _request: LlmRequest, /) -> LlmReply:
            return LlmReply("second")

    result = run_loop(Says(), system="s", task="t")
    expect((llm is not None, result.output, result.ok), (True, "second", True), "end")
