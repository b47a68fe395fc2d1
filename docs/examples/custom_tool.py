"""A program that embeds Airlock: a review with a tool of its own.

    AIRLOCK_API_KEY=… python docs/examples/custom_tool.py PATH_OF_A_CHECKOUT

The tool looks an advisory up in the program's own data. It is of the read tier, so every mode shows it; a tool of
the write tier would not exist in a review. What it gives back holds other people's words, so it is framed as
untrusted before the model reads it: that is the default, and `untrusted=False` is for a program's own words.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import Any

from agent import (
    AgentTool,
    RunContext,
    StructuredOutput,
    Tier,
    ToolInputError,
    ToolOutput,
    create_client,
    get_mode,
    run_agent,
)

ADVISORIES = {"leftpad": "leftpad before 1.3 hangs on a negative width. Update to 1.3."}


def fetch_advisory(arguments: Mapping[str, Any], _context: Any) -> ToolOutput:
    """The tool's function: validated arguments in, an output or a ToolInputError out."""
    package = arguments["package"]
    if package not in ADVISORIES:
        raise ToolInputError(f"No advisory on {package}. Known: {', '.join(ADVISORIES)}.")
    return ToolOutput(ADVISORIES[package])


FETCH_ADVISORY = AgentTool(
    name="fetch_advisory",
    tier=Tier.READ,
    description="The known security advisory on a package.",
    schema={
        "type": "object",
        "properties": {"package": {"type": "string"}},
        "required": ["package"],
        "additionalProperties": False,
    },
    run=fetch_advisory,
)


def verdict(text: str) -> dict[str, Any]:
    """Validates the model's final text; what a ValueError says is told to the model, which may try again."""
    value = json.loads(text)
    if not isinstance(value, dict) or not isinstance(value.get("safe"), bool):
        raise ValueError('Answer with one JSON object such as {"safe": true, "why": "..."}.')
    return value


def main(workspace: str) -> int:
    """0 when the review says that it is safe, 1 when not, 2 when there was no review."""
    client = create_client(
        {
            "api_key": os.environ.get("AIRLOCK_API_KEY", ""),
            "model": os.environ.get("AIRLOCK_MODEL", "anthropic/claude-sonnet-4-5"),
            "base_url": os.environ.get("AIRLOCK_BASE_URL", ""),
            "max_tokens": 200_000,
            "timeout_minutes": 10,
        }
    )
    if client is None:
        print("No API key, so no review.")
        return 2
    result = run_agent(
        client,
        mode=get_mode("review"),
        task="Say whether the packages that requirements.txt names are safe to use.",
        context=RunContext(workspace, base_branch="main"),
        tools=[FETCH_ADVISORY],
        structured=StructuredOutput(verdict),
    )
    print(f"{result.stop_reason}: {result.reason}")
    print(f"{result.usage.input_tokens} tokens in, {result.usage.output_tokens} out; see {result.transcript}")
    if not result.ok:
        return 2
    print(json.dumps(result.structured))
    return 0 if result.structured["safe"] else 1


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: custom_tool.py CHECKOUT    (AIRLOCK_API_KEY holds the model's key)")
    sys.exit(main(sys.argv[1]))
