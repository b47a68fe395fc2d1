"""Tools that the trusted configuration declares (`ai.tools`): a request over a connection, or a command."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from agent.contract.errors import ToolInputError
from agent.contract.facts import RunFacts
from agent.contract.modes import Tier
from agent.contract.tool import AgentTool, ToolOutput
from agent.harness.tools.context import ToolContext


def declared_tools(facts: RunFacts) -> tuple[AgentTool, ...]:
    """The tools of this run's configuration; the broker has checked their form."""
    return tuple(_tool(entry) for entry in facts.options.get("declared_tools", ()))


def _tool(entry: Mapping[str, Any]) -> AgentTool:
    run = _command(entry) if entry.get("command") else _request(entry)
    return AgentTool(
        name=entry["name"],
        tier=Tier(entry["tier"]),
        description=entry["description"],
        schema=entry["schema"],
        run=run,
        parallel=entry["tier"] == Tier.READ.value,
    )


def _request(entry: Mapping[str, Any]) -> Any:
    """`{name}` in the path is filled from the arguments, one segment each; the rest go to query or body."""

    def run(arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        path, rest = str(entry["path"]), dict(arguments)
        for name in list(rest):
            if "{" + name + "}" in path:
                path = path.replace("{" + name + "}", quote(str(rest.pop(name)), safe=""))
        if "{" in path:
            raise ToolInputError(f"An argument that the path {entry['path']} needs is missing.")
        reads = entry["method"] in ("GET", "DELETE")
        answer = context.broker.call(
            "egress",
            b"" if reads else json.dumps(rest).encode(),
            connection=entry["connection"],
            method=entry["method"],
            path=path,
            query=rest if reads else {},
            headers={"accept": "application/json"},
        )
        status = int(answer.header.get("status", 0))
        text = answer.payload.decode("utf-8", "replace")
        return ToolOutput(f"status {status}\n{text}", is_error=not 200 <= status < 300)

    return run


def _command(entry: Mapping[str, Any]) -> Any:
    """The command gets its arguments as one JSON text on standard input, never inside the shell's words."""

    def run(arguments: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        text = json.dumps(dict(arguments))
        quoted = "'" + text.replace("'", "'\\''") + "'"
        answer = context.broker.call("exec", command=f"printf %s {quoted} | ({entry['command']})")
        header = answer.header
        cut = int(header.get("stdout", 0))
        parts = [answer.payload[:cut].decode("utf-8", "replace"), answer.payload[cut:].decode("utf-8", "replace")]
        ending = f"signal {header['signal']}" if header.get("signal") else f"exit status {header.get('exit_code')}"
        return ToolOutput("\n".join([*(p for p in parts if p), ending]), is_error=header.get("exit_code") != 0)

    return run
