"""Our own adapters for the conformance suite: `ModelClient` over real HTTP, one factory a wire format.

`python -m agent conformance --llm tests.conformance.adapters:anthropic` runs the suite by hand.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from agent.conformance import Step
from agent.harness.clients import ModelClient
from agent.harness.loop import AuthError, ContextError, LlmPort, LlmReply, ReplyStop
from tests.support.model_broker import LoopbackBroker
from tests.support.model_server import PATHS, Call, ModelServer, Status, Turn

KEY = "not-a-real-key"


def turn(step: Step) -> Turn:
    """A step of the suite as the scripted server says it."""
    if isinstance(step, AuthError):
        return Turn(fault=Status(401))
    if isinstance(step, ContextError):
        return Turn(fault=Status(400, message="prompt is too long: 210000 tokens > 200000 maximum"))
    if not isinstance(step, LlmReply):
        return Turn(fault=Status(404))
    usage = {"input": step.usage.input_tokens, "output": step.usage.output_tokens}
    stop = "max_tokens" if step.stop is ReplyStop.MAX_TOKENS else None
    calls = [Call(call.name, call.raw, call.id) for call in step.calls]
    if step.stop is ReplyStop.REFUSAL:
        return Turn(refusal=step.text, usage=usage)
    return Turn(step.text, calls, usage=usage, stop=stop, thinking="Hm." if calls and step.text else "")


@contextlib.contextmanager
def over_http(wire: str, steps: Sequence[Step]) -> Iterator[LlmPort]:
    """The adapter, with the server behind it that plays the steps."""
    with ModelServer([turn(step) for step in steps], key=KEY) as server:
        entry = {"connection": "model", "wire": wire, "model": "claude-sonnet-4-5", "path": PATHS[wire]}
        yield ModelClient(LoopbackBroker(server.url, key=KEY), [entry])
        # 400 means that a request had a shape which the real API refuses; the scripted one has its own text.
        wrong = [one for one in server.requests if one.status == 400]
        if len(wrong) > sum(isinstance(step, ContextError) for step in steps):
            raise AssertionError(f"the provider refused a request: {wrong[-1].raw[:2000]!r}")


def anthropic(steps: Sequence[Step]) -> contextlib.AbstractContextManager[LlmPort]:
    """Anthropic Messages."""
    return over_http("anthropic", steps)


def chat(steps: Sequence[Step]) -> contextlib.AbstractContextManager[LlmPort]:
    """OpenAI Chat Completions."""
    return over_http("openai-chat", steps)


def responses(steps: Sequence[Step]) -> contextlib.AbstractContextManager[LlmPort]:
    """OpenAI Responses."""
    return over_http("openai-responses", steps)
