"""What the loop reports reaches the broker while it happens, though small messages go together."""

from __future__ import annotations

import json
import socket
import threading
from typing import Any

from agent.harness.loop import (
    LlmReply,
    LlmRequest,
    LoopTool,
    ReplyStop,
    ToolCall,
    ToolMessage,
    ToolResult,
    Usage,
    run_loop,
)
from agent.harness.main import Recorder
from agent.kernel.channel import Caller, Channel


class Model:
    """Two calls, then the end."""

    def __init__(self, names: list[str]) -> None:
        self._names = names

    def complete(self, _request: LlmRequest, /) -> LlmReply:
        calls = tuple(ToolCall(name, name, {}) for name in self._names)
        self._names = []
        return LlmReply("Done.", calls, ReplyStop.TOOL_CALLS if calls else ReplyStop.END, Usage(1, output_tokens=1))


def test_a_result_is_with_the_broker_while_the_rest_of_the_batch_runs() -> None:
    """A run that is killed in the middle of a long call has all that came before it in its transcript."""
    ours, theirs = socket.socketpair()
    caller, broker = Caller(Channel(ours)), Channel(theirs)
    told, events = threading.Event(), []

    def receive() -> None:
        while (frame := broker.recv()) is not None:
            events.append(json.loads(frame.payload)["type"])
            if events[-1] == "tool.result":
                told.set()

    receiver = threading.Thread(target=receive, daemon=True)
    receiver.start()

    def slow(_: Any) -> ToolResult:
        return ToolResult("told" if told.wait(5) else "not told")

    tools = [
        LoopTool("quick", "", {"type": "object"}, lambda _: ToolResult("quick")),
        LoopTool("slow", "", {"type": "object"}, slow),
    ]
    result = run_loop(Model(["quick", "slow"]), system="s", task="t", tools=tools, logger=Recorder(caller))
    ours.shutdown(socket.SHUT_WR)
    receiver.join(5)

    done = [message for message in result.messages if isinstance(message, ToolMessage)]
    assert [one.text for one in done[0].results] == ["quick", "told"]
    turn = ["agent.rendered", "model.request", "model.response"]
    assert events == [*turn, "tool.call", "tool.call", "tool.result", "tool.result", *turn, "agent.stop"]
