"""The action's inputs and the runner's facts, typed and checked. A bad value is an error that names the input."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent.contract.dataclass import dataclass
from agent.contract.errors import UserError

TASK_CAP = 100_000  # characters; one environment variable holds at most 131,071 bytes with its name


@dataclass(frozen=True)
class Settings:
    """What the workflow asked for and where we run; nothing here is secret.

    Attributes:
        mode: input `mode`, unchecked (agent.broker.mode does).
        task: input `task`.
        model: `provider/model`, or empty for the configuration's.
        limits that are None were not given.
        facts: `GITHUB_*` and `RUNNER_*`.
    """

    mode: str
    task: str
    model: str
    base_url: str
    config_path: str
    sandbox: str
    max_tool_calls: int | None
    timeout_minutes: float | None
    max_tokens: int | None
    max_cost: float | None
    trigger: str
    outsiders: str
    allow_bots: tuple[str, ...]
    run_id: int | None
    dry_run: bool
    facts: Mapping[str, str]
    workspace: str
    state: str
    results: str
    uid: int
    gid: int

    def fact(self, name: str) -> str:
        """A runner fact, or the empty text."""
        return self.facts.get(name, "")

    @property
    def run_name(self) -> str:
        """Of the hidden mark in this run's comments."""
        return run_name(self.fact("GITHUB_RUN_ID"))

    @property
    def run_url(self) -> str:
        """The run's page, or the empty text."""
        server, repository, run = (self.fact(f"GITHUB_{n}") for n in ("SERVER_URL", "REPOSITORY", "RUN_ID"))
        return f"{server}/{repository}/actions/runs/{run}" if server and run else ""


def run_name(run_id: str) -> str:
    """Name of a run; the same for each of its attempts (A6)."""
    return f"run-{run_id or 'local'}"


def read_settings(plan: Mapping[str, Any]) -> Settings:
    """Read the plan that launch made of the inputs.

    Raises:
        UserError: an input has a value it cannot have; the text names it and what was expected.
    """
    mode = plan.get("mode", "auto")
    if not mode:
        raise UserError("Input `mode` is empty. Leave it out for `auto`, or name a mode.")
    task = plan.get("task", "")
    if len(task) > TASK_CAP:
        raise UserError(f"Input `task` is over {TASK_CAP} characters. Put the text into an issue and name it.")
    sandbox = plan.get("sandbox") or "auto"
    if sandbox not in ("auto", "process", "container"):
        raise UserError(f"Input `sandbox` is {sandbox!r}. It can be auto, process or container.")
    outsiders = plan.get("outsiders", "")
    if outsiders not in ("", "restricted", "ignore"):
        raise UserError(f"Input `outsiders` is {outsiders!r}. It can be restricted or ignore.")
    _truth(plan, "upload-transcript")  # the composite's step reads it, for which all but `false` is true
    return Settings(
        mode=mode,
        task=task,
        model=plan.get("model", ""),
        base_url=plan.get("base-url", ""),
        config_path=plan.get("config") or ".github/airlock.yml",
        sandbox=sandbox,
        max_tool_calls=_whole(plan, "max-tool-calls"),
        timeout_minutes=_positive(plan, "timeout-minutes"),
        max_tokens=_whole(plan, "max-tokens"),
        max_cost=_positive(plan, "max-cost"),
        trigger=plan.get("trigger", ""),
        outsiders=outsiders,
        allow_bots=tuple(plan.get("allow-bots", "").replace(",", " ").split()),
        run_id=_whole(plan, "run-id"),
        dry_run=_truth(plan, "dry-run"),
        facts={k: v for k, v in plan.items() if k.startswith(("GITHUB_", "RUNNER_"))},
        workspace=plan["GITHUB_WORKSPACE"],
        state=plan["airlock.state"],
        results=plan["airlock.results"],
        uid=plan["airlock.uid"],
        gid=plan["airlock.gid"],
    )


def _whole(plan: Mapping[str, Any], name: str) -> int | None:
    text = plan.get(name, "")
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise UserError(f"Input `{name}` is {text!r}. It must be a whole number of at least 1.")
    return int(text)


def _positive(plan: Mapping[str, Any], name: str) -> float | None:
    text = plan.get(name, "")
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e9:
        raise UserError(f"Input `{name}` is {text!r}. It must be a number above 0.")
    return value


def _truth(plan: Mapping[str, Any], name: str) -> bool:
    text = plan.get(name, "").lower()
    if text not in ("", "true", "false"):
        raise UserError(f"Input `{name}` is {text!r}. It can be true or false.")
    return bool(text == "true")
