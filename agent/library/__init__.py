"""Airlock as a library (DESIGN section 9, B10): a client, a run, its result.

The caller's own process is the trusted side: loop, custom tools and broker run in it, commands in the sandbox.
Tiers, framing, confinement of file tools, limits, redaction and transcript are the same code as in the action;
this package only joins it (`run`), makes a place to work in (`place`, `origin`) and keeps what custom tools do
from harming a run (`tools`). Without GitHub there is no actor gate: whoever calls decides the mode.
"""

from agent.contract.errors import ToolInputError, UserError
from agent.contract.modes import Mode, Tier, get_mode
from agent.contract.outcomes import StopReason
from agent.contract.tool import AgentTool, ToolOutput
from agent.harness.loop import CancelToken, StructuredOutput
from agent.library.client import Client, create_client
from agent.library.run import run_agent
from agent.library.words import OfferedCommit, RunContext, RunResult

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
