"""What a caller hands in and gets back. Data only."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent.contract.outcomes import OUTCOMES, StopReason
from agent.harness.loop import Message, Usage


@dataclass(frozen=True)
class RunContext:
    """Where a run works.

    Attributes:
        workspace: folder to work on; mostly a git checkout.
        base_branch: branch that changes go against: `git_diff` with base `base` compares with the commit where
            the work left it, and it is never pushed.
        branch: branch that the work is for; only named in the result unless GitHub settings are there.
        number: pull request or issue that the run is about, with GitHub settings.
        is_pull_request: the number is a pull request's.
        results: folder for transcript and command outputs, made where it is missing; it may hold no transcript
            yet. None is a new folder below the system's temporary one, which stays.
    """

    workspace: str | Path
    base_branch: str = "main"
    branch: str = ""
    number: int | None = None
    is_pull_request: bool = False
    results: str | Path | None = None


@dataclass(frozen=True)
class OfferedCommit:
    """A commit that the run made in its clone; the caller's own repository does not have it.

    Attributes:
        sha: its id in the clone.
        message: subject and body.
        files: `{path, status}`, such as status `added`.
        diff: unified, against the commit before.
    """

    sha: str
    message: str
    files: tuple[dict[str, str], ...]
    diff: str


@dataclass(frozen=True)
class RunResult:
    """How a run ended; complete also when it was cut short.

    Attributes:
        output: the model's last text, redacted.
        stop_reason: why it ended; success is read from `ok`.
        reason: one sentence for a person.
        structured: the validated value, or None. Read it, not the stop reason, to know whether there is one.
        ok: done, and with a value where one was asked for.
        usage: tokens, and US dollars where the price is known.
        turns, tool_calls: counts.
        messages: the whole history; every call in it has a result.
        transcript: path of `transcript.jsonl`.
        commits: what the model committed, oldest first.
        diff: unified diff of all that the run changed, committed or not.
        brought_back: paths changed in the caller's workspace.
        left_out: sentences on what was not brought back, and why.
        branch: pushed branch, else `RunContext.branch`.
        pull_request_url: or the empty text.
        denials: what a rule refused, one line each.
    """

    output: str
    stop_reason: StopReason
    reason: str
    structured: Any
    ok: bool
    usage: Usage
    turns: int
    tool_calls: int
    messages: tuple[Message, ...]
    transcript: Path
    commits: tuple[OfferedCommit, ...] = ()
    diff: str = ""
    brought_back: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    branch: str = ""
    pull_request_url: str = ""
    denials: tuple[str, ...] = ()

    @property
    def outcome(self) -> str:
        """The word of the table of outcomes, such as `done` or `capped`."""
        return OUTCOMES[self.stop_reason].outcome
