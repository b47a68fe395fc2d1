"""A cancel, or the end of the clock, at each step of a turn: the run ends at once and its history is whole."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from agent.conformance.bench import Bench, Clock, call, expect, say, use
from agent.conformance.suite import behaviour, unanswered
from agent.harness.loop import (
    AuthError,
    CancelToken,
    ContextError,
    Limits,
    LlmPort,
    LlmReply,
    LlmRequest,
    LoopResult,
    Message,
    PermitAll,
    StopReason,
    StructuredOutput,
    ToolResult,
    Unchanged,
    Usage,
)

Act = Callable[[], None]


class Hangs(PermitAll, Unchanged):
    """Every port of the host at once; the one that is asked does `first`, then hangs until `free` is set."""

    def __init__(self, first: Act, free: threading.Event) -> None:
        self._first, self._free = first, free

    def hang(self, *_: Any) -> Any:
        """Do it."""
        self._first()
        self._free.wait(30)
        return True

    def before_stop(self, _result: LoopResult, /) -> str | None:
        self.hang()
        return None

    def optimize(self, messages: tuple[Message, ...], context_tokens: int, /, *, overflow: bool) -> tuple[Message, ...]:
        if overflow:
            self.hang()
        return super().optimize(messages, context_tokens, overflow=overflow)


def each_way(bench: Bench, wanted: int, run: Callable[[Hangs, dict[str, Any]], LoopResult]) -> None:
    """Run it once with a cancel and once with the clock at its end, in the middle of the step.

    Args:
        wanted: input tokens that must be counted.
        run: makes a run in which `Hangs` hangs; gets it and options for `Bench.run`.
    """
    for cancelled in (True, False):
        cancel, clock, free = CancelToken(), Clock(), threading.Event()
        hangs = Hangs(cancel.cancel if cancelled else clock.late, free)
        result = run(hangs, {"cancel": cancel, "clock": clock, "limits": Limits(timeout_s=60)})
        free.set()
        ended = StopReason.CANCELLED if cancelled else StopReason.TIMEOUT
        expect((result.stop_reason, result.ok, result.structured), (ended, False, None), "end")
        expect(unanswered(result), [], "calls without a result")
        expect(result.usage.input_tokens, wanted, "input tokens counted")
        expect(bench.events[-1][0], "agent.stop", "the last event")


@behaviour
def ended_while_the_end_is_checked(bench: Bench) -> None:
    """A cancel or the time limit ends the wait for the check before the end, and nothing is success."""
    each_way(bench, 100, lambda hangs, options: bench.run(say("Done."), hooks=hangs, **options))


@behaviour
def ended_while_the_answer_is_validated(bench: Bench) -> None:
    """A cancel or the time limit ends the wait for a validator, and there is no value."""
    each_way(bench, 100, lambda hangs, options: bench.run(say("1"), structured=StructuredOutput(hangs.hang), **options))


@behaviour
def ended_while_the_history_is_made_to_fit(bench: Bench) -> None:
    """A cancel or the time limit ends the wait for an optimizer; calls and results stay in pairs."""
    each_way(
        bench, 100,
        lambda hangs, options: bench.run(
            use(call("a", 1)), ContextError("too long"), say(), tools=[bench.tool("a")], optimizer=hangs, **options
        ),
    )  # fmt: skip


@behaviour
def ended_while_a_credential_is_recovered(bench: Bench) -> None:
    """A cancel or the time limit ends the wait for a recovery, of the model's credential and of a tool's."""

    def refused(_: Any) -> ToolResult:
        raise AuthError("expired")

    each_way(bench, 0, lambda hangs, options: bench.run(AuthError("no"), recover_auth=hangs.hang, **options))
    each_way(
        bench, 100,
        lambda hangs, options: bench.run(
            use(call("a", 1), call("b", 2)), tools=[bench.tool("a", refused), bench.tool("b")],
            recover_auth=hangs.hang, **options,
        ),
    )  # fmt: skip


@behaviour
def ended_in_the_middle_of_a_parallel_batch(bench: Bench) -> None:
    """A cancel or the time limit in a parallel batch keeps the results that are there, in call order."""

    def run(hangs: Hangs, options: dict[str, Any]) -> LoopResult:
        others = threading.Event()
        done = [0]

        def work(arguments: Any) -> ToolResult:
            if arguments["n"] == 2:
                others.wait(5)
                hangs.hang()
            done[0] += 1
            if done[0] == 2:
                others.set()
            return ToolResult(str(arguments["n"]))

        calls = [call("read", n) for n in (1, 2, 3)]
        tools = [bench.tool("read", work, parallel=True), bench.tool("write")]
        result = bench.run(use(*calls, call("write", 4)), tools=tools, **options)
        cut = "Cancelled while running." if options["cancel"].cancelled else "Stopped: the run's time is up."
        expect([text for text, _ in bench.texts(result)], ["1", cut, "3", "Not run: the run is being stopped."],
               "results")  # fmt: skip
        return result

    each_way(bench, 100, run)


@behaviour
def answer_that_comes_too_late_is_counted(bench: Bench) -> None:
    """An answer that comes just after a cancel is not acted on, and what it cost is counted."""
    cancel = CancelToken()

    class Late:
        def complete(self, _request: LlmRequest, /) -> LlmReply:
            cancel.cancel()
            time.sleep(0.2)  # until the loop has noticed
            return use(call("a", 1), usage=Usage(100, output_tokens=7))

    result = bench.run(wrap=lambda _: Late(), tools=[bench.tool("a")], cancel=cancel)
    expect((result.stop_reason, result.usage), (StopReason.CANCELLED, Usage(100, output_tokens=7)), "end and usage")
    expect((bench.done, unanswered(result)), ([], []), "runs, and calls without a result")


class Punctual(Unchanged):
    """Adapter and optimizer, called in whichever thread."""

    punctual = True

    def __init__(self, llm: LlmPort, error: BaseException | None = None) -> None:
        self._llm, self._error = llm, error
        self.threads: list[threading.Thread] = []

    def complete(self, request: LlmRequest, /) -> LlmReply:
        self.threads.append(threading.current_thread())
        if self._error is not None:
            raise self._error
        return self._llm.complete(request)

    def optimize(self, messages: tuple[Message, ...], context_tokens: int, /, *, overflow: bool) -> tuple[Message, ...]:
        self.threads.append(threading.current_thread())
        return super().optimize(messages, context_tokens, overflow=overflow)


class Unpunctual(Punctual):
    """The same without the promise."""

    punctual = False


@behaviour
def punctual_ports_need_no_thread(bench: Bench) -> None:
    """Who promises to be punctual is called in the loop's thread; others, and one with a recovery, in another."""
    here = threading.current_thread()
    for kind, recover, wanted in (
        (Punctual, None, [True, True]),
        (Unpunctual, None, [False, False]),
        (Punctual, lambda: False, [True, False]),
    ):
        ports: list[Punctual] = []

        def wrap(llm: LlmPort, kind: type[Punctual] = kind, ports: list[Punctual] = ports) -> LlmPort:
            ports.append(kind(llm))
            return ports[0]

        optimizer = kind(Nobody())
        result = bench.run(say("Done."), wrap=wrap, optimizer=optimizer, recover_auth=recover)
        expect((result.ok, result.output), (True, "Done."), "end")
        seen = [thread is here for thread in (*optimizer.threads, *ports[0].threads)]
        expect(seen, wanted, "calls in the loop's own thread, of the optimizer and of the adapter")


@behaviour
def an_interrupt_reaches_the_host(bench: Bench) -> None:
    """What a signal's handler raises in the middle of a punctual adapter is the host's, not a fault of the adapter."""
    for signal in (KeyboardInterrupt(), SystemExit(3)):

        def wrap(llm: LlmPort, signal: BaseException = signal) -> LlmPort:
            return Punctual(llm, signal)

        try:
            bench.run(wrap=wrap)
        except (KeyboardInterrupt, SystemExit) as exc:
            expect(exc, signal, "what the host gets")
        else:
            expect("the run went on", repr(signal), "what the host gets")


class Nobody:
    """No model at all."""

    def complete(self, request: LlmRequest, /) -> LlmReply:
        raise AssertionError(f"asked with {len(request.messages)} messages")
