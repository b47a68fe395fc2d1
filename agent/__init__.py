"""Airlock: a secure AI agent runtime for GitHub Actions.

Three zones (docs/architecture.md): `broker` decides and holds the secrets, `harness` drives the model and
holds none, `sandbox` runs repository code. Reading order: `entrypoint.py`, `agent/launch.py`,
`agent/broker/run.py`, `agent/harness/loop/`, one tool in `agent/harness/tools/`, `agent/broker/policy/`.

As a library (DESIGN section 9), where the caller's own process is the trusted side:

    from agent import AgentTool, RunContext, ToolOutput, create_client, get_mode, run_agent

    client = create_client({"model": "anthropic/claude-sonnet-4-5", "api_key": key})  # None without a key
    result = run_agent(client, mode=get_mode("review"), task="…", context=RunContext("."), tools=[…])

These names are loaded at their first use, so that a zone that starts pays for none of them.
"""

from __future__ import annotations

TYPE_CHECKING = False  # a type checker's True; each zone would pay for `typing` before its first line
if TYPE_CHECKING:
    from typing import Any

    from agent.library import (
        AgentTool,
        CancelToken,
        Client,
        Mode,
        OfferedCommit,
        RunContext,
        RunResult,
        StopReason,
        StructuredOutput,
        Tier,
        ToolInputError,
        ToolOutput,
        UserError,
        create_client,
        get_mode,
        run_agent,
    )

__version__ = "1.0.0rc1"

__all__ = [
    "AgentTool",
    "CancelToken",
    "Client",
    "Mode",
    "OfferedCommit",
    "RunContext",
    "RunResult",
    "StopReason",
    "StructuredOutput",
    "Tier",
    "ToolInputError",
    "ToolOutput",
    "UserError",
    "create_client",
    "get_mode",
    "run_agent",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'agent' has no attribute {name!r}")
    from agent import library

    return getattr(library, name)
