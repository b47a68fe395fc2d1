"""Runs a stranger's workflow by `act`, a workflow runner nobody here wrote, with the action served from this tree."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.conftest import RUN
from tests.e2e.replayed import begin
from tests.support.action import ROOT
from tests.support.scenario import World

TOOLS = Path(os.environ.get("AIRLOCK_TOOLS", "/opt/airlock-tools"))
RUNNER = "airlock-e2e-runner"
ACTION = ("action.yml", "action", "Dockerfile", ".dockerignore", "entrypoint.py", "agent", "requirements")

WORKFLOW = """\
name: Airlock
on: [workflow_run, pull_request, issue_comment, issues]
permissions:
  contents: write
  pull-requests: write
  issues: write
jobs:
  airlock:
    runs-on: ubuntu-latest
    steps:
      - id: airlock
        uses: someone/airlock@v1
        with:
          api-key: ${{ secrets.MODEL_KEY }}
          github-token: ${{ secrets.FAKE_TOKEN }}
          model: anthropic/claude-sonnet-4-5
          %(inputs)s
      - if: always()
        env:
          OUTCOME: ${{ steps.airlock.outputs.outcome }}
          STOP: ${{ steps.airlock.outputs.stop-reason }}
          BRANCH: ${{ steps.airlock.outputs.branch }}
          PULL: ${{ steps.airlock.outputs.pull-request-url }}
          TRANSCRIPT: ${{ steps.airlock.outputs.transcript-path }}
          CALLS: ${{ steps.airlock.outputs.tool-calls }}
        run: |
          printf 'FOLLOWING %%s\\n' "outcome=$OUTCOME" "stop-reason=$STOP" "branch=$BRANCH" \
            "pull-request-url=$PULL" "tool-calls=$CALLS"
          test -s "$TRANSCRIPT" && echo "FOLLOWING transcript-path=there"
"""


@dataclass
class Job:
    """One job as its user finds it; `outputs` as a following step has read them."""

    status: int
    log: str
    outputs: dict[str, str]
    artifact: dict[str, bytes]
    transcript: Path
    seconds: float

    def events(self, kind: str) -> list[dict[str, Any]]:
        """Transcript events of one type, from the artifact."""
        return [e for e in map(json.loads, self.transcript.read_text().splitlines()) if e["type"] == kind]


def export(folder: Path) -> Path:
    """The action's own files, as a tag of its repository holds them."""
    target = folder / "action"
    if not target.exists():
        target.mkdir()
        for name in ACTION:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, target / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy2(source, target / name)
    return target


def run_workflow(
    world: World,
    event_name: str,
    event: dict[str, Any],
    *,
    inputs: dict[str, str],
    actor: str = "maintainer",
    workflow: str = WORKFLOW,
    env: dict[str, str] | None = None,
    timeout: float = 300.0,
) -> Job:
    """Deliver an event to the workflow."""
    folder = world.folder
    event_file = folder / "event.json"
    event_file.write_text(json.dumps(event))
    workflow_file = folder / "workflow.yml"
    lines = "\n          ".join(f"{name}: {json.dumps(value)}" for name, value in inputs.items())
    workflow_file.write_text(workflow % {"inputs": lines})
    config = folder / "config/act"
    config.mkdir(parents=True, exist_ok=True)
    (config / "actrc").touch()
    artifacts = folder / "artifacts"
    uploader = TOOLS / "upload-artifact"
    pinned = [line for line in (ROOT / "action.yml").read_text().splitlines() if "actions/upload-artifact@" in line]
    reference = pinned[0].split("@")[1].split()[0]
    facts = {
        "GITHUB_API_URL": world.github.api_url,
        "GITHUB_SERVER_URL": world.github.server_url,
        "GITHUB_REPOSITORY": world.repository.full_name,
        "GITHUB_TRIGGERING_ACTOR": actor,
        "GITHUB_RUN_ID": RUN,
        **(env or {}),
    }
    after = begin(world.workspace, folder)
    start = time.monotonic()
    done = subprocess.run(
        [
            str(TOOLS / "bin/act"),
            event_name,
            "--eventpath", str(event_file),
            "--workflows", str(workflow_file),
            "--bind",
            "--platform", f"ubuntu-latest={RUNNER}",
            "--pull=false",
            "--action-offline-mode",
            "--no-cache-server",
            "--network", "bridge",
            "--actor", actor,
            "--local-repository", f"someone/airlock@v1={export(folder)}",
            "--local-repository", f"actions/upload-artifact@{reference}={uploader}",
            "--artifact-server-path", str(artifacts),
            "--artifact-server-addr", world.github.api_url.split("//")[1].split(":")[0],
            "--artifact-server-port", str(_free_port()),
            "--secret", f"MODEL_KEY={world.api_key}",
            "--secret", f"FAKE_TOKEN={world.token}",
            "--rm",
            *(word for name, value in facts.items() for word in ("--env", f"{name}={value}")),
        ],
        cwd=world.workspace,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "XDG_CACHE_HOME": str(folder / "cache"),
        },
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )  # fmt: skip
    log = done.stdout + done.stderr
    artifact = _artifact(artifacts)
    downloaded = folder / "downloaded.jsonl"
    downloaded.write_bytes(artifact.get("transcript.jsonl", b""))
    after(downloaded)
    words = [line.partition("FOLLOWING ")[2].strip() for line in log.splitlines() if "| FOLLOWING " in line]
    return Job(
        status=done.returncode,
        log=log,
        outputs=dict(word.split("=", 1) for word in words),
        artifact=artifact,
        transcript=downloaded,
        seconds=time.monotonic() - start,
    )


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("", 0))
        return int(sock.getsockname()[1])


def _artifact(folder: Path) -> dict[str, bytes]:
    """What the artifact server received, unpacked."""
    found: dict[str, bytes] = {}
    for path in folder.rglob("*.zip"):
        with zipfile.ZipFile(path) as archive:
            found |= {name: archive.read(name) for name in archive.namelist()}
    return found
