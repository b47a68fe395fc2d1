"""Tools that the trusted configuration declares (`ai.tools`): a request over a connection, or a command.

Here is only the form of the call. What a tool may reach, the text of its command and its arguments are decided
anew by the broker (`agent.broker.declared_tools`), which trusts nothing of this process.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from agent.contract.dataclass import replace
from agent.contract.errors import ToolInputError
from agent.contract.facts import RunFacts
from agent.contract.modes import Tier
from agent.contract.sandbox import ExecResult
from agent.contract.tool import AgentTool, ToolOutput
from agent.harness.tools.context import ToolContext
from agent.harness.tools.shell import TIMEOUT_S, described

_WITHOUT_BODY = ("GET", "DELETE")


def declared_tools(facts: RunFacts) -> tuple[AgentTool, ...]:
    """The tools of this run's configuration; the broker has checked their form."""
    return tuple(_tool(entry) for entry in facts.options.get("declared_tools", ()))


def _tool(entry: Mapping[str, Any]) -> AgentTool:
    return AgentTool(
        name=entry["name"],
        tier=Tier(entry["tier"]),
        description=entry["description"],
        schema=entry["schema"],
        run=_command(entry) if entry.get("command") else _request(entry),
        parallel=entry["tier"] == Tier.READ.value,
    )


def _request(entry: Mapping[str, Any]) -> Any:
    """`{name}` in the path is filled from the arguments, one segment each; the rest go to query or body."""

    def run(arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        rest = dict(arguments)
        path = _path(str(entry["path"]), rest)
        reads = entry["method"] in _WITHOUT_BODY
        query = {name: rest.pop(name) for name in list(rest) if reads or name in entry["query"]}
        answer = context.broker.call(
            "egress",
            json.dumps(rest).encode() if rest or entry["body"] else b"",
            connection=entry["connection"],
            method=entry["method"],
            path=path,
            query=query,
            headers={"accept": "application/json"},
        )
        status = int(answer.header.get("status", 0))
        text = answer.payload.decode("utf-8", "replace")
        return ToolOutput(f"status {status}\n{text}", is_error=not 200 <= status < 300)

    return run


def _path(template: str, rest: dict[str, Any]) -> str:
    """The path, its arguments taken out of `rest`. Filled in one go: a value cannot bring a placeholder along."""
    pieces = []
    for piece in template.split("/"):
        if not (piece.startswith("{") and piece.endswith("}")):
            pieces.append(piece)
            continue
        name = piece[1:-1]
        value = rest.pop(name, None)
        if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
            raise ToolInputError(f"`{name}` is part of the path {template}: give a text or a whole number.")
        pieces.append(quote(str(value), safe=""))
    return "/".join(pieces)


def _command(entry: Mapping[str, Any]) -> Any:
    """The broker knows the command; it gets the arguments as one JSON text on standard input."""

    def run(arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        answer = context.broker.call("exec", tool=entry["name"], arguments=dict(arguments), timeout_s=TIMEOUT_S)
        result = ExecResult.from_frame(answer.header, answer.payload)
        output = described(result, TIMEOUT_S, "")
        return output if result.exit_code == 0 or output.is_error else _failed(output)

    return run


def _failed(output: ToolOutput) -> ToolOutput:
    """A declared command that fails is a failed call: nobody but its author chose it."""
    return replace(output, is_error=True)
