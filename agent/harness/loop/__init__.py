"""The execution loop and its tool contract, and nothing else: no roles, schedulers, persistence, model choice.

Standard library only; imports nothing of the product, so that another product can embed it. Start at
`engine.run_loop`; `words` are the data, `ports` what a host provides, `errors` what adapters raise.
"""

from __future__ import annotations

from agent.harness.loop.engine import run_loop
from agent.harness.loop.errors import (
    AuthError,
    BlockedError,
    BudgetError,
    CancelledError,
    ContextError,
    DeadlineError,
    LlmError,
)
from agent.harness.loop.ports import (
    HooksPort,
    LlmPort,
    LoggerPort,
    OptimizerPort,
    PermitAll,
    SilentLogger,
    Unchanged,
)
from agent.harness.loop.words import (
    AssistantMessage,
    CallResult,
    CancelToken,
    Limits,
    LlmReply,
    LlmRequest,
    LoopResult,
    LoopTool,
    Message,
    ReplyStop,
    StopReason,
    StructuredOutput,
    ToolCall,
    ToolMessage,
    ToolResult,
    Usage,
    UserMessage,
)

__all__ = [
    "AssistantMessage",
    "AuthError",
    "BlockedError",
    "BudgetError",
    "CallResult",
    "CancelToken",
    "CancelledError",
    "ContextError",
    "DeadlineError",
    "HooksPort",
    "Limits",
    "LlmError",
    "LlmPort",
    "LlmReply",
    "LlmRequest",
    "LoggerPort",
    "LoopResult",
    "LoopTool",
    "Message",
    "OptimizerPort",
    "PermitAll",
    "ReplyStop",
    "SilentLogger",
    "StopReason",
    "StructuredOutput",
    "ToolCall",
    "ToolMessage",
    "ToolResult",
    "Unchanged",
    "Usage",
    "UserMessage",
    "run_loop",
]
