"""How the product is started and where it leaves things: the one module that knows it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
CONFIG_PATH = ".github/airlock.yml"
COMMENT_MARK = "<!-- airlock"
USER_AGENT = "airlock"
TRIGGER = "/airlock"
MODEL = "anthropic/claude-sonnet-4-5"
RESULTS = "airlock-*"
OUTPUTS = frozenset(
    "outcome stop-reason output structured branch pull-request-url transcript-path input-tokens output-tokens "
    "cost-usd tool-calls".split()
)
WRITE_BRANCHES = ("refs/heads/agent/", "refs/pull/")
DEFAULT_TIMEOUT_S = 300


@dataclass(frozen=True)
class Product:
    """What is under test.

    Attributes:
        command: starts it, in the environment of a step.
        library: script that runs a case through the Python interface (custom tools).
        extra: further variables of the step.
        user: uid it runs as, where that is not ours: the workspace is that user's then.
    """

    command: tuple[str, ...] = (sys.executable, "-I", str(ROOT / "entrypoint.py"))
    library: tuple[str, ...] = (sys.executable, str(Path(__file__).with_name("library_run.py")))
    extra: Mapping[str, str] = field(default_factory=dict)
    user: int | None = None


def config(agent: Mapping[str, Any], storage_netloc: str) -> dict[str, Any]:
    """The trusted configuration of a run: what a case sets stands under `ai.agent`."""
    return {
        "ai": {
            "agent": {"branchPrefix": "agent/", **agent},
            "github": {"logHosts": [storage_netloc]},
        }
    }


def inputs(
    mode: str, *, model_url: str, tokens: Mapping[str, str], limits: Mapping[str, Any], calls: int
) -> dict[str, str]:
    """INPUT_* of the step by the runner's rules (upper case, hyphens kept), and the names of the README."""
    given = {
        "mode": mode,
        "model": MODEL,
        "base-url": model_url,
        "github-token": tokens["gh"],
        "api-key": tokens["llm"],
        "sandbox": "process",
        "timeout-minutes": f"{float(limits.get('timeout_s', DEFAULT_TIMEOUT_S)) / 60:.4f}",
        "max-tool-calls": str(limits.get("max_tool_calls") or (calls + 20 if calls > 20 else "")),
    }
    if limits.get("max_tokens"):
        given["max-tokens"] = str(limits["max_tokens"])
    env = {f"INPUT_{name.upper()}": value for name, value in given.items()}
    env["INPUT_GITHUB_TOKEN"], env["INPUT_API_KEY"] = tokens["gh"], tokens["llm"]
    return env


def adapt(tool: str, args: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """The product's own tool and argument names for the generic ones."""
    return tool, args


def event_wants(mode: str) -> str:
    """What `/airlock …` a comment must say to ask for the mode."""
    return f"{TRIGGER} {mode}"
