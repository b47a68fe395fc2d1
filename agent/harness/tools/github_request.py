"""`github_request`: one request in the model's own words. The broker decides whether it leaves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent.contract.modes import Tier
from agent.contract.tool import AgentTool, ToolOutput
from agent.harness.tools.context import ToolContext
from agent.harness.tools.github_api import GitHub

_SHOWN = 30_000  # characters of one answer

_SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "method": {"type": "string"},
        "path": {"type": "string", "description": "from /repos/{owner}/{repo} on; no query in it"},
        "query": {"type": "object", "additionalProperties": {"type": ["string", "integer", "boolean"]}},
        "headers": {"type": "object", "additionalProperties": {"type": "string"}},
        "body": {"type": "object"},
    },
    "required": ["method", "path"],
}


def _run(args: Mapping[str, Any], ctx: ToolContext) -> ToolOutput:
    api = GitHub(ctx)
    reply = api.send_absolute(
        str(args["method"]), str(args["path"]), args.get("query"), args.get("body"), args.get("headers")
    )
    api.checked(reply, f"{args['method']} {args['path']}")
    text = reply.body.decode("utf-8", "replace")
    if len(text) > _SHOWN:
        left = len(text) - _SHOWN
        text = f"{text[:_SHOWN]}\n[{left} more characters; ask for less with per_page and page]"
    return ToolOutput(f"{reply.status}\n{text}")


TOOLS: tuple[AgentTool, ...] = (
    AgentTool(
        name="github_request",
        tier=Tier.READ,
        description=(
            "Send one REST request for this repository where no other tool fits. Only listed routes pass; "
            "a refusal says which rule it met."
        ),
        schema=_SCHEMA,
        run=_run,
        parallel=False,
    ),
)
