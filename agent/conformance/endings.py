"""How a run ends, and that nothing else is success."""

from __future__ import annotations

from dataclasses import replace

from agent.conformance.bench import Bench, call, expect, say, use
from agent.conformance.suite import behaviour, unanswered
from agent.harness.loop import (
    AssistantMessage,
    Limits,
    LlmPort,
    LlmReply,
    LlmRequest,
    LoopResult,
    ReplyStop,
    StopReason,
    StructuredOutput,
    ToolCall,
    ToolMessage,
    ToolResult,
    Usage,
    UserMessage,
)


class Verifies:
    """Hooks whose check before the end answers from a list, then passes."""

    def __init__(self, *answers: str | Exception) -> None:
        self._answers = list(answers)
        self.seen: list[LoopResult] = []

    def before_call(self, _call: ToolCall, /) -> str | None:
        return None

    def before_stop(self, result: LoopResult, /) -> str | None:
        self.seen.append(result)
        answer = self._answers.pop(0) if self._answers else None
        if isinstance(answer, Exception):
            raise answer
        return answer


def number(text: str) -> int:
    """A validator."""
    return int(text)


@behaviour
def text_without_calls_completes(bench: Bench) -> None:
    """A turn without calls ends the run as completed, with its text as output and its usage."""
    result = bench.run(say("All good.", usage=Usage(120, output_tokens=30)))
    expect((result.output, result.ok, result.stop_reason), ("All good.", True, StopReason.COMPLETED), "end")
    expect((result.usage.input_tokens, result.usage.output_tokens), (120, 30), "usage")
    said = [(type(one), one.text) for one in result.messages if not isinstance(one, ToolMessage)]
    expect(said, [(UserMessage, "Do it."), (AssistantMessage, "All good.")], "history")


@behaviour
def usage_is_summed(bench: Bench) -> None:
    """Usage is the sum over all turns."""
    steps = use(call("a", 1), usage=Usage(100, output_tokens=7)), say(usage=Usage(300, output_tokens=5))
    result = bench.run(*steps, tools=[bench.tool("a")])
    expect((result.usage.input_tokens, result.usage.output_tokens, result.usage.total_tokens), (400, 12, 412), "usage")


@behaviour
def history_only_grows(bench: Bench) -> None:
    """Each request's messages begin with those of the request before, the very same objects."""
    steps = [use(call("a", n)) for n in range(6)]
    bench.run(*steps, say(), tools=[bench.tool("a")])
    for before, after in zip(bench.requests, bench.requests[1:], strict=False):
        same = [one is other for one, other in zip(before.messages, after.messages, strict=False)]
        expect((all(same), len(after.messages)), (True, len(before.messages) + 2), "a request extends the last")
    expect(len({id(request.tools) for request in bench.requests}), 1, "tools are the same object in every request")


@behaviour
def opaque_blocks_come_back(bench: Bench) -> None:
    """What an adapter hands over as opaque blocks is in later requests, unchanged, of turns with calls and without."""
    kept: list[LlmReply] = []

    class Keeps:
        def __init__(self, llm: LlmPort) -> None:
            self._llm = llm

        def complete(self, request: LlmRequest, /) -> LlmReply:
            reply = self._llm.complete(request)
            kept.append(replace(reply, blocks=(*reply.blocks, {"seal": len(kept)}), wire=reply.wire or "a host's"))
            return kept[-1]

    steps = use(call("a", 1), text="Looking."), say("Done."), say("Now done.")
    bench.run(*steps, tools=[bench.tool("a")], wrap=Keeps, hooks=Verifies("not yet"))
    last = bench.requests[2].messages
    came = [message for message in last if isinstance(message, AssistantMessage)]
    wanted = [AssistantMessage(one.text, one.calls, one.blocks, one.wire) for one in kept[:2]]
    expect(came, wanted, "the model's turns in the last request")


@behaviour
def structured_ending_carries_the_value(bench: Bench) -> None:
    """A final text that passes validation ends the run as structured, with the value."""
    result = bench.run(say("42"), structured=StructuredOutput(number))
    expect((result.stop_reason, result.ok, result.structured, result.output), (StopReason.STRUCTURED, True, 42, "42"),
           "end")  # fmt: skip


@behaviour
def invalid_structured_output_is_retried(bench: Bench) -> None:
    """A final text that does not pass is answered with the validation error, and the model may try again."""
    result = bench.run(say("forty-two"), say("42"), structured=StructuredOutput(number, retries=1))
    told = bench.requests[1].messages[-1]
    expect(isinstance(told, UserMessage) and "forty-two" in told.text, True, "the validation error is told")
    expect((result.structured, result.ok, result.turns), (42, True, 2), "end")


@behaviour
def structured_retries_run_out(bench: Bench) -> None:
    """When retries ran out the ending is structured, the value absent, the output the validation error, not ok."""
    result = bench.run(say("x"), say("y"), structured=StructuredOutput(number, retries=1))
    expect((result.stop_reason, result.ok, result.structured), (StopReason.STRUCTURED, False, None), "end")
    expect("'y'" in result.output, True, "the output holds the last validation error")


@behaviour
def value_of_an_answer_that_was_sent_back_does_not_stand(bench: Bench) -> None:
    """A value whose answer the check before the end sent back is not the result of a run that gives none after it."""
    wanted = StructuredOutput(number, retries=0)
    result = bench.run(say("42"), say("x"), structured=wanted, hooks=Verifies("not 42"))
    expect((result.stop_reason, result.ok, result.structured), (StopReason.STRUCTURED, False, None), "end")


@behaviour
def failed_check_resumes_the_run(bench: Bench) -> None:
    """Feedback of the check before the end goes to the model, and the run goes on until the check passes."""
    hooks = Verifies("2 tests fail")
    result = bench.run(say("Done."), use(call("a", 1)), say("Now done."), tools=[bench.tool("a")], hooks=hooks)
    expect(bench.requests[1].messages[-1], UserMessage("2 tests fail"), "feedback")
    expect((result.output, result.stop_reason), ("Now done.", StopReason.COMPLETED), "end")
    seen = [(one.output, one.stop_reason) for one in hooks.seen]
    expect(seen, [("Done.", StopReason.COMPLETED), ("Now done.", StopReason.COMPLETED)], "what the check saw")


@behaviour
def check_that_never_passes_ends_not_verified(bench: Bench) -> None:
    """After a few returns in a row without a tool call the run ends as not verified, never as success."""
    result = bench.run(say("1"), say("2"), say("3"), say("4"), hooks=Verifies(*["exit 1"] * 9))
    expect((result.stop_reason, result.ok, result.turns), (StopReason.NOT_VERIFIED, False, 3), "end")


@behaviour
def work_between_returns_is_another_chance(bench: Bench) -> None:
    """A tool call between two returns starts the count of failed checks anew."""
    steps = [say("1"), say("2"), use(call("a", 1)), say("3"), say("4")]
    result = bench.run(*steps, tools=[bench.tool("a")], hooks=Verifies(*["exit 1"] * 4))
    expect((result.stop_reason, result.turns), (StopReason.COMPLETED, 6), "end after the check passed at last")


@behaviour
def failing_check_is_no_success(bench: Bench) -> None:
    """A check before the end that fails itself ends the run as error."""
    result = bench.run(say("42"), hooks=Verifies(OSError("no shell")), structured=StructuredOutput(number))
    expect((result.stop_reason, result.ok, result.structured), (StopReason.ERROR, False, None), "end")


@behaviour
def half_a_turn_is_never_run(bench: Bench) -> None:
    """A turn that was cut at the output limit runs nothing, not even a call that looks whole; the model is told."""
    cut = use(call("a", 1), text="Part", stop=ReplyStop.MAX_TOKENS, usage=Usage(10, output_tokens=4096))
    steps = cut, use(call("a", 2)), cut, say("Done."), cut, say("Now done.")
    result = bench.run(*steps, tools=[bench.tool("a")], hooks=Verifies("not yet"))
    said, told = bench.requests[1].messages[-2:]
    expect(said, AssistantMessage("Part"), "what it had said is kept, without its calls")
    expect(isinstance(told, UserMessage) and "4096" in told.text, True, "the model is told where it was cut")
    # cut again after a call, or after it had said that it was done, is not twice in a row
    expect((bench.done, result.ok, unanswered(result)), ([("a", 2)], True, []), "runs, success, calls without a result")


@behaviour
def cut_twice_is_an_error(bench: Bench) -> None:
    """Two cut turns in a row end the run as error, with what there is of the text."""
    cut = say("Part", stop=ReplyStop.MAX_TOKENS)
    result = bench.run(cut, cut, say(), tools=[bench.tool("a")])
    expect((result.stop_reason, result.ok, result.turns), (StopReason.ERROR, False, 2), "end")
    expect((result.output, "cut off" in result.reason), ("Part", True), "output, and reason")


@behaviour
def empty_turn_is_no_success(bench: Bench) -> None:
    """A turn that says and does nothing is no ending: the model is asked once more, then the run is an error."""
    once = bench.run(say(" "), say("Result."))
    expect((once.output, once.stop_reason, once.turns), ("Result.", StopReason.COMPLETED, 2), "end after one")
    twice = bench.run(say(""), say(""), say("Result."))
    expect((twice.stop_reason, twice.turns), (StopReason.ERROR, 2), "end after two")


@behaviour
def refusal_is_an_error_with_its_words(bench: Bench) -> None:
    """A model that refuses ends the run as error, with its words as output."""
    result = bench.run(say("I will not.", stop=ReplyStop.REFUSAL))
    expect((result.stop_reason, result.ok, result.output), (StopReason.ERROR, False, "I will not."), "end")


@behaviour
def same_failing_call_ends_the_run(bench: Bench) -> None:
    """The same failing call three times is told to the model; a fourth time ends the run as no progress."""
    steps = [use(call("nope", 1, call_id=f"i{n}")) for n in range(9)]
    result = bench.run(*steps, tools=[bench.tool("a")])
    expect((result.stop_reason, result.ok, result.turns), (StopReason.NO_PROGRESS, False, 4), "end")
    told = bench.requests[3].messages[-1]
    expect(isinstance(told, UserMessage) and "Change your approach" in told.text, True, "the model is told first")


@behaviour
def malformed_repeats_end_the_run(bench: Bench) -> None:
    """The same malformed call over and over is no progress either."""
    steps = [use(ToolCall(f"i{n}", "a", None, "[1]", "they are a list")) for n in range(9)]
    result = bench.run(*steps, tools=[bench.tool("a")])
    expect((result.stop_reason, bench.done), (StopReason.NO_PROGRESS, []), "end")


@behaviour
def same_answer_again_is_no_news(bench: Bench) -> None:
    """The same call with the same answer is told to the model three times, then ends the run as no progress."""
    steps = [use(call("a", 1, call_id=f"i{n}")) for n in range(99)]
    result = bench.run(*steps, tools=[bench.tool("a")])
    told = [m for m in result.messages if isinstance(m, UserMessage) and "Change your approach" in m.text]
    expect((result.stop_reason, result.turns, len(told)), (StopReason.NO_PROGRESS, 63, 3), "end")


@behaviour
def another_answer_is_news(bench: Bench) -> None:
    """The same call with another answer each time is progress, such as a file that is read again after an edit."""
    answers = iter(range(9))
    tools = [bench.tool("a", lambda _: ToolResult(str(next(answers)))), bench.tool("b")]
    steps = [use(call("a", 1, call_id=f"i{n}")) for n in range(6)]
    mixed = [use(call("b", 0, call_id=f"b{n}"), call("b", n)) for n in range(1, 7)]  # an old call beside a new one
    result = bench.run(*steps, *mixed, say(), tools=tools)
    notes = [message for message in result.messages[1:] if isinstance(message, UserMessage)]
    expect((result.stop_reason, result.turns, notes), (StopReason.COMPLETED, 13, []), "end, and notes to the model")


@behaviour
def same_failure_in_other_words_is_no_news(bench: Bench) -> None:
    """A call that fails again is the same failure, whatever its text: it may hold a time or a number."""
    errors = iter(range(9))
    steps = [use(call("a", 1, call_id=f"i{n}")) for n in range(9)]
    tools = [bench.tool("a", lambda _: ToolResult(f"failed after {next(errors)} s", is_error=True))]
    result = bench.run(*steps, tools=tools)
    expect((result.stop_reason, result.turns), (StopReason.NO_PROGRESS, 4), "end")


@behaviour
def work_between_failures_is_progress(bench: Bench) -> None:
    """A failing test between edits is progress, however often it fails in the same way."""
    steps = []
    for n in range(6):
        steps += [use(call("edit", n)), use(call("nope", 0, call_id=f"t{n}"))]
    result = bench.run(*steps, say(), tools=[bench.tool("edit")])
    expect((result.stop_reason, result.turns), (StopReason.COMPLETED, 13), "end")


@behaviour
def repeats_may_be_allowed(bench: Bench) -> None:
    """With `max_repeats` 0 a run may repeat itself until another limit ends it."""
    steps = [use(call("a", 1, call_id=f"i{n}")) for n in range(9)]
    result = bench.run(*steps, say(), tools=[bench.tool("a")], limits=Limits(max_repeats=0))
    expect((result.stop_reason, result.turns), (StopReason.COMPLETED, 10), "end")


@behaviour
def two_tools_of_one_name_are_refused(bench: Bench) -> None:
    """Two tools of the same name are an error before anything is asked."""
    try:
        bench.run(say(), tools=[bench.tool("a"), bench.tool("a")])
    except ValueError:
        expect(bench.requests, [], "requests")
        return
    expect("no error", "ValueError", "two tools of one name")
