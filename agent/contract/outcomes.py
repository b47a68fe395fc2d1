"""Stop reasons, and the one table from stop reason to outcome and exit status. Green means done (E4)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from agent.contract.dataclass import dataclass


class StopReason(StrEnum):
    """Why a run ended."""

    COMPLETED = "completed"
    STRUCTURED = "structured"
    MAX_TOOL_CALLS = "max_tool_calls"
    MAX_TURNS = "max_turns"
    TIMEOUT = "timeout"
    BUDGET = "budget"
    BLOCKED = "blocked"
    CANCELLED = "cancelled"
    ERROR = "error"
    NOT_VERIFIED = "not_verified"
    NO_PROGRESS = "no_progress"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class OutcomeRow:
    """What a stop reason means to the workflow.

    Attributes:
        outcome: value of the action's output `outcome`.
        exit_status: of the step; 0 alone is green.
        sentence: what the report says first.
    """

    outcome: str
    exit_status: int
    sentence: str


OUTCOMES: Mapping[StopReason, OutcomeRow] = {
    StopReason.COMPLETED: OutcomeRow("done", 0, "The run finished."),
    StopReason.STRUCTURED: OutcomeRow("done", 0, "The run finished with structured output."),
    StopReason.SKIPPED: OutcomeRow("skipped", 0, "There was nothing for Airlock to do."),
    StopReason.MAX_TOOL_CALLS: OutcomeRow("capped", 3, "The run was stopped by its cap on tool calls."),
    StopReason.MAX_TURNS: OutcomeRow("capped", 3, "The run was stopped by its cap on turns."),
    StopReason.TIMEOUT: OutcomeRow("capped", 3, "The run was stopped by its time limit."),
    StopReason.BUDGET: OutcomeRow("capped", 3, "The run was stopped by its token or cost budget."),
    StopReason.BLOCKED: OutcomeRow("denied", 4, "The run was ended because a rule refused what it tried."),
    StopReason.NOT_VERIFIED: OutcomeRow("not_verified", 5, "The stop script never passed."),
    StopReason.NO_PROGRESS: OutcomeRow("not_verified", 5, "The run was stopped because it went in circles."),
    StopReason.CANCELLED: OutcomeRow("cancelled", 6, "The run was cancelled."),
    StopReason.ERROR: OutcomeRow("error", 1, "The run failed."),
}
