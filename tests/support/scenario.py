"""A small real world for the main job: a repository with a failing test, its failed CI run, an event.

Used by the demo and by the integration tests. The repository is real git, the failing test really fails, and the
CI log is what the test really printed.
"""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.action import Result, job_environment, run_action
from tests.support.github_sim import GitHubSim
from tests.support.github_sim.repository import Repository
from tests.support.model_server import ModelServer
from tests.support.model_turns import Call, Turn

TOKEN = "ghs_" + "Dem0Token" * 4  # in the shape of the real thing
API_KEY = "sk-ant-api03-" + "Dem0Key" * 5
RUN_ID, JOB_ID = 4711, 4712

FILES: dict[str, Any] = {
    "README.md": "# prices\n\nTotals of a shopping cart.\n",
    ".gitignore": "__pycache__/\n",
    "prices/__init__.py": "",
    "prices/cart.py": (
        '"""Totals of a cart; amounts in cents."""\n\n\n'
        "def total(items, discount_percent=0):\n"
        "    amount = sum(price * count for price, count in items)\n"
        "    return amount - amount * discount_percent // 10\n"
    ),
    "tests/__init__.py": "",
    "tests/test_cart.py": (
        "import unittest\n\nfrom prices.cart import total\n\n\n"
        "class TotalTest(unittest.TestCase):\n"
        "    def test_sum(self):\n"
        "        self.assertEqual(total([(250, 2), (100, 1)]), 600)\n\n"
        "    def test_discount(self):\n"
        "        self.assertEqual(total([(1000, 1)], discount_percent=10), 900)\n"
    ),
    "scripts/check.sh": "#!/bin/sh\nexec python3 -m unittest -q\n",
}

CONFIG = """\
ai:
  agent:
    stopScript: sh scripts/check.sh
    prepushScript: sh scripts/check.sh
    timeoutMinutes: 5
  github:
    logHosts: ["{log_host}"]
"""

FIX = {"path": "prices/cart.py", "old": "discount_percent // 10", "new": "discount_percent // 100"}


def fixing_turns(branch: str, base: str = "main") -> list[Turn]:
    """A scripted model that reads the failure, reproduces it, fixes it and opens a pull request."""
    return [
        Turn(text="I read the failed run first.", calls=[Call("get_check_logs", {"run_id": RUN_ID})]),
        Turn(
            text="The discount is wrong. I reproduce it.",
            calls=[Call("run_command", {"command": "sh scripts/check.sh"})],
        ),
        Turn(calls=[Call("read_file", {"path": "prices/cart.py"}), Call("grep", {"pattern": "discount_percent"})]),
        Turn(text="Per cent means a hundredth, not a tenth.", calls=[Call("edit_file", FIX)]),
        Turn(calls=[Call("run_command", {"command": "sh scripts/check.sh"})]),
        Turn(calls=[Call("git_commit", {"message": "Divide a percentage by 100\n\nThe discount took tenths."})]),
        Turn(calls=[Call("git_push", {"branch": branch})]),
        Turn(
            calls=[
                Call(
                    "create_pull_request",
                    {
                        "title": "Divide a percentage by 100",
                        "body": "`total` took a tenth where a hundredth was meant; `test_discount` failed in CI.",
                        "head": branch,
                        "base": base,
                    },
                )
            ]
        ),
        Turn(text="The discount is fixed; the tests pass, and the pull request is open."),
    ]


@dataclass
class World:
    """Everything the job touches.

    Attributes:
        token, api_key: what a leak would show.
    """

    folder: Path
    github: GitHubSim
    repository: Repository
    workspace: Path
    head: str
    log: str = ""
    token: str = TOKEN
    api_key: str = API_KEY
    inputs: dict[str, str] = field(default_factory=dict)

    def run(
        self,
        event_name: str,
        event: dict[str, Any],
        model: ModelServer | None,
        *,
        inputs: dict[str, str] | None = None,
        actor: str = "maintainer",
        extra: dict[str, str] | None = None,
        **options: Any,
    ) -> Result:
        """Deliver an event to the action; `options` go to `run_action`."""
        path = self.folder / "event.json"
        path.write_text(json.dumps(event))
        given = {
            "github-token": self.token,
            "api-key": self.api_key,
            "model": "anthropic/claude-sonnet-4-5",
            **({"base-url": model.url} if model else {}),
            **self.inputs,
            **(inputs or {}),
        }
        environment = job_environment(
            event_name=event_name,
            event=path,
            workspace=self.workspace,
            temp=self.folder / "temp",
            repository=self.repository.full_name,
            api_url=self.github.api_url,
            server_url=self.github.server_url,
            inputs=given,
            actor=actor,
            extra=extra,
        )
        return run_action(environment, **options)


def real_log(files: dict[str, Any]) -> tuple[str, int]:
    """Run the repository's tests for real and give their output as a job's log, with the exit status."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text if isinstance(text, str) else text[1])
        done = subprocess.run(
            [sys.executable, "-m", "unittest", "-q"], cwd=folder, capture_output=True, text=True, check=False
        )
    lines = ["##[group]Run sh scripts/check.sh", "sh scripts/check.sh", "##[endgroup]", *done.stderr.splitlines()]
    if done.returncode:
        lines.append(f"##[error]Process completed with exit code {done.returncode}.")
    start = datetime.datetime(2026, 1, 5, 10, 0, 0, tzinfo=datetime.UTC)
    stamped = [
        f"{(start + datetime.timedelta(milliseconds=7 * n)).strftime('%Y-%m-%dT%H:%M:%S.%f')}0Z {line}"
        for n, line in enumerate(lines)
    ]
    return "\n".join(stamped) + "\n", done.returncode


def make_world(
    folder: Path,
    github: GitHubSim,
    *,
    name: str = "example/prices",
    files: dict[str, Any] | None = None,
    config: str | None = None,
    workspace_ref: str = "main",
) -> World:
    """Make the repository, its failed run and a checkout of it."""
    log_host = github.storage_url.partition("//")[2]
    given = {**FILES, **(files or {}), ".github/airlock.yml": (config or CONFIG).replace("{log_host}", log_host)}
    repository = github.create_repository(name, files=given)
    github.add_user("maintainer", "write")
    github.add_user("outsider", "read")
    github.token(TOKEN)
    log, status = real_log(given)
    assert status == 1, "the test must really fail"
    repository.add_run(
        RUN_ID,
        jobs=[
            {
                "id": JOB_ID,
                "name": "test",
                "conclusion": "failure",
                "log": log,
                "steps": [
                    {
                        "name": "Set up job",
                        "started_at": "2026-01-05T09:59:50Z",
                        "completed_at": "2026-01-05T09:59:59Z",
                    },
                    {
                        "name": "Run sh scripts/check.sh",
                        "conclusion": "failure",
                        "started_at": "2026-01-05T10:00:00Z",
                        "completed_at": "2026-01-05T10:00:09Z",
                    },
                ],
            }
        ],
        head_branch="main",
    )
    workspace = folder / "work" / name.partition("/")[2]
    head = repository.checkout(workspace, workspace_ref)
    return World(folder, github, repository, workspace, head, log=log)
