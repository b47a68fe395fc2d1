"""What a report is made from: one frozen record of how a run went."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent.contract.dataclass import dataclass, field
from agent.contract.outcomes import OUTCOMES, OutcomeRow, StopReason
from agent.contract.totals import Totals


@dataclass(frozen=True)
class GateLine:
    """One gate or hook as reported.

    Attributes:
        name: `actor`, `setup`, `stop`, `prepush`, `sandbox probe`.
        passed: None where it did not run.
        note: how it ended, in words.
        output: what it printed; untrusted.
    """

    name: str
    passed: bool | None
    note: str = ""
    output: str = ""


@dataclass(frozen=True)
class Change:
    """One changed file; `added` and `removed` are lines, None for binary files."""

    path: str
    added: int | None
    removed: int | None
    status: str = "modified"


@dataclass(frozen=True)
class Denial:
    """One refusal: what was tried and the rule's words."""

    what: str
    code: str
    reason: str = ""


@dataclass(frozen=True)
class Cap:
    """One limit: how much was used of it. `unit` is put after the numbers."""

    name: str
    used: float
    cap: float | None
    unit: str = ""


@dataclass(frozen=True)
class RunReport:
    """How a run went.

    Attributes:
        reason: why it stopped, a sentence of ours (which limit, which rule, which step failed).
        output: the model's last words; untrusted.
        changes: the diff of the run by file. branch, tip, pull_request_url: what was published, `tip` as GitHub has
            it. commits: made here, under ids of our own.
        comments: how many comments, reviews and issues were written.
        totals: sums of the transcript.
        notes: further sentences of ours (missing protections, network open, gate files touched).
        settings_read: trusted configuration's commit.
        artifact, run_url: links; empty where unknown.
        mark: names run and kind in the hidden mark of comments, `[A-Za-z0-9:._=,-]`.
    """

    stop_reason: StopReason
    mode: str
    reason: str = ""
    output: str = ""
    structured: Any = None
    gates: tuple[GateLine, ...] = ()
    changes: tuple[Change, ...] = ()
    branch: str = ""
    commits: tuple[str, ...] = ()
    tip: str = ""
    pull_request_url: str = ""
    comments: int = 0
    totals: Totals = field(default_factory=Totals)
    caps: tuple[Cap, ...] = ()
    denials: tuple[Denial, ...] = ()
    notes: tuple[str, ...] = ()
    manifest_digest: str = ""
    transcript_digest: str = ""
    settings_read: str = ""
    duration_s: float = 0.0
    artifact: str = ""
    run_url: str = ""
    version: str = ""
    mark: str = "run"

    @property
    def row(self) -> OutcomeRow:
        return OUTCOMES[self.stop_reason]

    def outputs(self, transcript_path: str) -> dict[str, Any]:
        """Values of the action's outputs (DESIGN section 10)."""
        cost = self.totals.cost_usd
        return {
            "outcome": self.row.outcome,
            "stop-reason": str(self.stop_reason),
            "output": self.output,
            "structured": "" if self.structured is None else self.structured,
            "branch": self.branch,
            "pull-request-url": self.pull_request_url,
            "transcript-path": transcript_path,
            "input-tokens": str(self.totals.input_tokens),
            "output-tokens": str(self.totals.output_tokens),
            "cost-usd": "" if cost is None else f"{cost:.4f}",
            "tool-calls": str(self.totals.tool_calls),
        }


RAISE: Mapping[StopReason, str] = {
    StopReason.MAX_TOOL_CALLS: "Raise it with the input `max-tool-calls` or `ai.agent.maxToolCalls`.",
    StopReason.MAX_TURNS: "This cap is fixed: split the task into parts that need fewer turns.",
    StopReason.TIMEOUT: "Raise it with the input `timeout-minutes` or `ai.agent.timeoutMinutes`.",
    StopReason.BUDGET: (
        "Raise it with the inputs `max-tokens` and `max-cost`, or `ai.maxTokensPerRun` and `ai.maxCostPerRun`."
    ),
}
