"""`Compactor`: the loop's OptimizerPort. Makes a long history fit; pairs of call and result stay whole.

First the texts of old tool results go, oldest first, each leaving a note of what it was and how to get it
again; only where that is not enough do whole old turns go, leaving a count of what was done. The task and the
latest turns stay as they are. It acts in large steps, since each one costs the provider's cache.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from agent.contract.dataclass import replace
from agent.contract.prices import find_window
from agent.harness.clients.wire import CHARS_PER_TOKEN
from agent.harness.loop import AssistantMessage, CallResult, Message, ToolMessage, UserMessage

_NOTE = "[left out to save room: "
_UNKNOWN_WINDOW = 128_000
_SHORT = 400  # characters; a result this short is not worth a note


class Compactor:
    """Acts when a turn's context passes `start` of the window, and brings it down to about `aim` of it."""

    punctual = True  # it only computes

    def __init__(self, window_tokens: int, *, start: float = 0.75, aim: float = 0.4, keep_messages: int = 6) -> None:
        """Args:
        window_tokens: the model's context window.
        start, aim: parts of the window.
        keep_messages: the latest messages that stay as they are.
        """
        self._window, self._start, self._aim, self._keep = window_tokens, start, aim, keep_messages

    @classmethod
    def for_models(cls, models: Iterable[Mapping[str, Any]]) -> Compactor:
        """For entries of `RunFacts.models`: the smallest window, since any of them may get the history.

        An entry's `context` counts before the table's figure, and 128,000 where neither is known; a smaller
        window shows itself as an overflow and is handled then.
        """
        windows = [int(m.get("context") or find_window(str(m.get("model"))) or _UNKNOWN_WINDOW) for m in models]
        return cls(min(windows, default=_UNKNOWN_WINDOW))

    def optimize(self, messages: tuple[Message, ...], context_tokens: int, /, *, overflow: bool) -> tuple[Message, ...]:
        """See `agent.harness.loop.OptimizerPort`."""
        if not overflow and context_tokens <= self._window * self._start:
            return messages
        size = sum(map(_size, messages))
        # The provider's count says how many characters a token has in this history.
        per_token = size / context_tokens if context_tokens else CHARS_PER_TOKEN
        goal = int(self._window * self._aim * per_token)
        if overflow:
            goal = min(goal, size // 2)  # the window is smaller than we were told
        shorter = self._without_old_results(messages, size - goal)
        if sum(map(_size, shorter)) > goal:
            shorter = self._without_old_turns(shorter, goal)
        return messages if shorter == messages else shorter

    def _without_old_results(self, messages: tuple[Message, ...], excess: int) -> tuple[Message, ...]:
        kept: list[Message] = []
        for index, message in enumerate(messages):
            if isinstance(message, ToolMessage) and excess > 0 and index < len(messages) - self._keep:
                before = _size(message)
                message = ToolMessage(tuple(map(_elided, message.results)))
                excess -= before - _size(message)
            kept.append(message)
        return tuple(kept)

    def _without_old_turns(self, messages: tuple[Message, ...], goal: int) -> tuple[Message, ...]:
        first, rest = messages[0], list(messages[1:])
        gone: Counter[str] = Counter()
        while len(rest) > 2 and _size(first) + sum(map(_size, rest)) > goal:
            message = rest.pop(0)
            if isinstance(message, AssistantMessage) and message.calls:
                gone.update(call.name for call in message.calls)
                rest.pop(0)  # its results
            else:
                gone["other message"] += 1
        if not gone:
            return messages
        # Names and counts alone: arguments may quote third parties, and this message is in our own name (S1).
        counts = ", ".join(f"{count} {name}" for name, count in sorted(gone.items()))
        note = f"{_NOTE}your earlier work ({counts}). What it changed is in force; look again at what you need.]"
        return (first, UserMessage(note), *rest)


def _size(message: Message) -> int:
    if isinstance(message, ToolMessage):
        return sum(len(result.text) for result in message.results)
    if isinstance(message, AssistantMessage):
        return len(message.text) + sum(len(call.raw) + len(call.name) for call in message.calls)
    return len(message.text)


def _elided(result: CallResult) -> CallResult:
    if len(result.text) <= _SHORT or result.text.startswith(_NOTE):
        return result
    note = f"{_NOTE}{len(result.text)} characters that {result.name} gave. Call it again if you need them.]"
    return replace(result, text=note)
