"""What one run knows and what it has done so far. Filled by `run.py`, used by the operations and the report."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from agent.broker.declared_tools import DeclaredTools
from agent.broker.limits import Meter
from agent.contract.dataclass import dataclass, field
from agent.contract.errors import Refusal, ToolPermissionError
from agent.contract.facts import RunFacts
from agent.contract.modes import Tier
from agent.contract.outcomes import StopReason
from agent.contract.sandbox import Purpose

if TYPE_CHECKING:
    from agent.broker.git.publish import Publisher, Pushed
    from agent.broker.git.pulls import Pull
    from agent.broker.git.worktree import WorkTree
    from agent.broker.lifecycle import GateVerdict, Lifecycle
    from agent.broker.sandboxes import Sandbox


@dataclass
class Ending:
    """How the harness said the loop ended, before the broker has had its say.

    Attributes:
        stop_reason, reason, output, structured, usage, turns, tool_calls: as LoopResult has them.
    """

    stop_reason: StopReason
    reason: str = ""
    output: str = ""
    structured: Any = None
    usage: dict[str, Any] = field(default_factory=dict)
    turns: int = 0
    tool_calls: int = 0


@dataclass
class Done:
    """What left this run, for the report and for not doing it twice.

    Attributes:
        tips: by branch, the local commit that was pushed to it last.
        unpublished: why the last push or pull request failed at GitHub; empty once one went through.
    """

    commits: list[str] = field(default_factory=list)
    pushed: dict[str, Pushed] = field(default_factory=dict)
    pull: Pull | None = None
    comments: list[str] = field(default_factory=list)
    issues: list[str] = field(default_factory=list)
    gates: list[GateVerdict] = field(default_factory=list)
    denials: list[str] = field(default_factory=list)
    unpublished: str = ""
    tips: dict[str, str] = field(default_factory=dict)


@dataclass
class RunState:
    """One run.

    Attributes:
        facts: what the harness is told; the broker's own decisions rest on the same values.
        tiers: of the mode in force.
        meter: the broker's own counts.
        record: writes a transcript event.
        worktree, publisher, lifecycle, sandbox: None where the mode or the workspace does not allow them.
        declared: tools of the configuration, as the broker lets them act.
        gate_files: repository files that the hooks' commands name.
        findings, annotated: comments of reviews by tool call until they are posted, and how many stand in the log.
        lock: around `meter` and `done`; a push holds it for as long as it takes.
        event_lock: around what the harness's events count, which its reader must never wait for.
    """

    facts: RunFacts
    tiers: frozenset[Tier]
    meter: Meter
    record: Callable[..., None]
    worktree: WorkTree | None = None
    publisher: Publisher | None = None
    lifecycle: Lifecycle | None = None
    sandbox: Sandbox | None = None
    gate_files: frozenset[str] = frozenset()
    declared: DeclaredTools = field(default_factory=DeclaredTools)
    ending: Ending | None = None
    done: Done = field(default_factory=Done)
    cancelled: bool = False
    stop_tries: int = 0
    verifications: int = 0
    calls_at_last_stop: int = -1
    idle_returns: int = 0
    findings: dict[str, Any] = field(default_factory=dict)
    annotated: int = 0
    lock: threading.RLock = field(default_factory=threading.RLock)
    event_lock: threading.Lock = field(default_factory=threading.Lock)

    def require(self, tool: str, tier: Tier) -> None:
        """Re-check, at a message, what the harness should have checked: a harness that is taken over cannot
        do more than its mode (S5).

        Raises:
            ToolPermissionError: the tier is closed, or the tool is not offered.
            Refusal: code `limit`, that was so too often.
        """
        if tier not in self.tiers or tool not in self.facts.tools:
            sentence = f"{tool} is outside what mode {self.facts.mode} may do."
            with self.lock:
                if not self.meter.act():  # each denial is recorded, so it counts: no harness fills a disk with them
                    raise Refusal("limit", "The cap on tool calls is reached.")
                self.done.denials.append(f"{tool}: tool_permission")
            self.record("tool.denied", name=tool, reason=sentence, code="tool_permission")
            raise ToolPermissionError(sentence)

    def count_act(self) -> None:
        """Count an act that the harness asks for, whether or not it reports a tool call (S7).

        Raises:
            Refusal: code `limit`, the cap on tool calls is reached or the run was cancelled.
        """
        if self.cancelled:
            raise Refusal("limit", "The run was cancelled.")
        with self.lock:
            if not self.meter.act():
                raise Refusal("limit", "The cap on tool calls is reached.")

    def judge(self, purpose: Purpose, tree: str) -> GateVerdict:
        """A hook's verdict on a tree; what it says is among the gates of the report.

        Raises:
            Refusal: code `sandbox_missing`.
        """
        if self.lifecycle is None:
            raise Refusal("sandbox_missing", f"There is no sandbox in which the {purpose} script could run.")
        verdict = self.lifecycle.judge(purpose, tree)
        if verdict not in self.done.gates and self.lifecycle.has(purpose):
            self.done.gates.append(verdict)
        return verdict

    def remaining_s(self) -> float:
        """Seconds left of the wall clock."""
        return self.meter.remaining_s(time.monotonic())
