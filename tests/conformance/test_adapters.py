"""The conformance suite on our adapters over real HTTP, and on a toy adapter as a host would write it."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from agent.conformance import BEHAVIOURS, Behaviour, Finding, Scripted, main, run_suite
from agent.harness.loop import LlmReply, LlmRequest, ToolCall
from docs.examples import llm_adapter
from tests.conformance import adapters

FACTORIES = {
    "toy": Scripted,
    "a host's own": llm_adapter.scripted,
    "anthropic": adapters.anthropic,
    "openai-chat": adapters.chat,
    "openai-responses": adapters.responses,
}


@pytest.mark.parametrize("factory", FACTORIES.values(), ids=FACTORIES)
@pytest.mark.parametrize("behaviour", BEHAVIOURS, ids=lambda one: one.name)
def test_adapter_conforms(behaviour: Behaviour, factory: Callable[..., object]) -> None:
    """The behaviour's sentence holds on this adapter."""
    behaviour.run(factory)


def test_every_behaviour_is_one_sentence() -> None:
    """At least 30 behaviours, each named once and said in one sentence."""
    sentences = [one.sentence for one in BEHAVIOURS]

    assert len(BEHAVIOURS) >= 30
    assert len({one.name for one in BEHAVIOURS}) == len(set(sentences)) == len(BEHAVIOURS)
    assert [one for one in sentences if not one.endswith(".") or "\n" in one] == []


class LosesCalls(Scripted):
    """An adapter that drops tool calls on the way."""

    def complete(self, request: LlmRequest, /) -> LlmReply:
        reply = super().complete(request)
        return LlmReply(reply.text or "done", usage=reply.usage)


class SwapsArguments(Scripted):
    """An adapter that mixes up the arguments."""

    def complete(self, request: LlmRequest, /) -> LlmReply:
        reply = super().complete(request)
        calls = tuple(ToolCall(one.id, one.name, {"n": 99}, one.raw) for one in reply.calls)
        return LlmReply(reply.text, calls, reply.stop, reply.usage)


@pytest.mark.parametrize("broken", [LosesCalls, SwapsArguments])
def test_suite_finds_a_broken_adapter(broken: type[Scripted]) -> None:
    """An adapter that loses calls or mixes up arguments does not pass."""
    behaviours = [one for one in BEHAVIOURS if one.check.__module__ == "agent.conformance.batches"]
    findings: list[Finding] = run_suite(broken, behaviours)
    problems = {one.behaviour.name for one in findings if one.problem}

    assert "every_call_gets_its_result_in_call_order" in problems


def test_adapter_that_breaks_in_the_making_is_a_finding() -> None:
    """A factory that raises is reported for each behaviour; the suite itself goes on."""

    def factory(_steps: object) -> Scripted:
        raise RuntimeError("no stub here")

    findings = run_suite(factory, BEHAVIOURS[:2])

    assert [one.problem for one in findings] == ["RuntimeError: no stub here"] * 2


def test_adapter_that_never_answers_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    """An adapter that hangs is broken after a while; the suite goes on and comes to its end."""
    free = threading.Event()

    class Hangs(Scripted):
        def complete(self, request: LlmRequest, /) -> LlmReply:
            free.wait(30)
            return super().complete(request)

    monkeypatch.setattr("agent.conformance.bench.PATIENCE_S", 0.1)
    first = [one for one in BEHAVIOURS if one.name == "text_without_calls_completes"]
    findings = run_suite(Hangs, first)
    free.set()

    assert ["timeout" in one.problem for one in findings] == [True]


def test_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    """The command prints each sentence; 0 when all held, 1 when one broke, 2 when there is no such factory."""
    assert main([]) == 0
    out = capsys.readouterr().out
    assert f"{len(BEHAVIOURS)} of {len(BEHAVIOURS)} behaviours held" in out
    assert main(["--llm", "docs.examples.llm_adapter:scripted"]) == 0
    assert "held for docs.examples.llm_adapter:scripted" in capsys.readouterr().out
    assert main(["--llm", "tests.conformance.test_adapters:LosesCalls"]) == 1
    assert "BROKEN Each call of a turn" in capsys.readouterr().out
    assert main(["--llm", "tests.conformance.test_adapters:Nothing"]) == 2
    assert main(["--llm", "docs.examples.llm_adapter"]) == 2
    assert "docs.examples.llm_adapter cannot be called" in capsys.readouterr().err
