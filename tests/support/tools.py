"""A tool context over a real folder, with a broker that answers from a table."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from agent.contract.facts import RunFacts
from agent.contract.modes import TOOL_TIERS, Tier
from agent.contract.tool import AgentTool, ToolOutput
from agent.harness.loop.words import ToolResult
from agent.harness.tools import BUILTIN
from agent.harness.tools.belt import Belt, _result, make_belt
from agent.harness.tools.context import ToolContext
from agent.kernel.beneath import Beneath
from agent.kernel.channel import CallFailed, Frame

Answer = Frame | CallFailed | Callable[[dict[str, Any]], Frame]


class TableBroker:
    """Answers each op from `answers` and records what it was asked."""

    def __init__(self, answers: Mapping[str, Answer] | None = None) -> None:
        self.answers = dict(answers or {})
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def call(self, op: str, payload: bytes = b"", **fields: Any) -> Frame:
        self.asked.append((op, fields))
        answer = self.answers.get(op, CallFailed("unknown_op", f"no answer for {op}", {}))
        if isinstance(answer, CallFailed):
            raise answer
        return answer if isinstance(answer, Frame) else answer(fields)

    def stream(self, op: str, payload: bytes = b"", **fields: Any) -> Iterator[Frame]:
        yield self.call(op, payload, **fields)

    def notice(self, op: str, payload: bytes = b"", **fields: Any) -> None:
        self.asked.append((op, fields))


def facts(workspace: Path, **changes: Any) -> RunFacts:
    """Facts of an implement run over `workspace`."""
    values: dict[str, Any] = {
        "mode": "implement",
        "event": "issue_comment",
        "repository": "acme/widgets",
        "workspace": str(workspace),
        "base_sha": "b" * 40,
        "head_sha": "a" * 40,
        "number": 7,
        "is_pull_request": True,
        "run_id": None,
        "tools": tuple(TOOL_TIERS),
        "task": "Do what the maintainer asks.",
        "playbook": "implement",
        "playbook_is_text": False,
        "max_tool_calls": 120,
        "max_turns": 200,
        "timeout_s": 1800.0,
        "max_tokens": None,
        "models": (),
        "branch_prefix": "airlock/",
    }
    return RunFacts(**{**values, **changes})


class Bench:
    """A belt over a folder; `bench("read_file", path="x")` calls a tool as the loop would."""

    def __init__(
        self,
        workspace: Path,
        answers: Mapping[str, Answer] | None = None,
        *,
        custom: tuple[AgentTool, ...] = (),
        tiers: tuple[Tier, ...] = tuple(Tier),
        use_openat2: bool = True,
        **changes: Any,
    ) -> None:
        self.broker = TableBroker(answers)
        self.files = Beneath(str(workspace), use_openat2=use_openat2)
        weakref.finalize(self, self.files.close)
        self.context = ToolContext(facts(workspace, **changes), self.broker, self.files)
        self.belt: Belt = make_belt(self.context, BUILTIN, custom, tiers=tiers)

    def __call__(self, tool: str, **arguments: Any) -> ToolResult:
        found = {t.name: t for t in self.belt.tools}[tool]
        return found.run(arguments)

    @staticmethod
    def framed(output: ToolOutput) -> str:
        """An output as the belt gives it to the model."""
        return _result(output).text
