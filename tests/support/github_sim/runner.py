"""The environment and files that a runner hands to a step, for one event of the simulator."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .repository import Repository

if TYPE_CHECKING:
    from .sim import GitHubSim

COMMAND_FILES = {
    "GITHUB_OUTPUT": "set_output",
    "GITHUB_ENV": "set_env",
    "GITHUB_PATH": "add_path",
    "GITHUB_STEP_SUMMARY": "step_summary",
    "GITHUB_STATE": "save_state",
}


def runner_environment(
    sim: GitHubSim,
    repo: Repository,
    name: str,
    payload: dict[str, Any],
    *,
    workspace: Path,
    runner_temp: Path,
    commands: Path | None = None,
    home: Path | None = None,
    actor: str | None = None,
    triggering_actor: str | None = None,
    run_id: int = 4242,
    attempt: int = 1,
) -> dict[str, str]:
    """GITHUB_*, RUNNER_* and the like; writes event.json and the empty command files.

    Args:
        commands: folder of the command files (default: `_runner_file_commands` under `runner_temp`).
    """
    sender = (payload.get("sender") or {}).get("login") or "ghost"
    commands = commands or runner_temp / "_runner_file_commands"
    event_file = runner_temp / "_github_workflow" / "event.json"
    for folder in (commands, event_file.parent, workspace):
        folder.mkdir(parents=True, exist_ok=True)
    event_file.write_text(json.dumps(payload), encoding="utf-8")
    pull = payload.get("pull_request") or {}
    default = repo.default_branch
    if name == "pull_request":
        ref, sha = f"refs/pull/{payload['number']}/merge", repo.git.resolve(f"refs/pull/{payload['number']}/merge")
        sha = sha or (pull.get("head") or {}).get("sha")
    elif name == "pull_request_review_comment":
        ref, sha = f"refs/pull/{pull['number']}/merge", pull["head"]["sha"]
    else:
        ref, sha = f"refs/heads/{default}", repo.branch(default)
    env = {
        "CI": "true",
        "GITHUB_ACTIONS": "true",
        "GITHUB_ACTOR": actor or sender,
        "GITHUB_ACTOR_ID": "20001",
        "GITHUB_TRIGGERING_ACTOR": triggering_actor or actor or sender,
        "GITHUB_REPOSITORY": repo.full_name,
        "GITHUB_REPOSITORY_ID": str(repo.id),
        "GITHUB_REPOSITORY_OWNER": repo.data.owner,
        "GITHUB_EVENT_NAME": name,
        "GITHUB_EVENT_PATH": str(event_file),
        "GITHUB_API_URL": sim.api_url,
        "GITHUB_SERVER_URL": sim.server_url,
        "GITHUB_GRAPHQL_URL": sim.api_url + "/graphql",
        "GITHUB_WORKSPACE": str(workspace),
        "GITHUB_REF": ref,
        "GITHUB_REF_NAME": ref.split("/", 2)[2],
        "GITHUB_REF_TYPE": "branch",
        "GITHUB_REF_PROTECTED": "false",
        "GITHUB_SHA": str(sha or ""),
        "GITHUB_HEAD_REF": str((pull.get("head") or {}).get("ref", "")) if name.startswith("pull_request") else "",
        "GITHUB_BASE_REF": str((pull.get("base") or {}).get("ref", "")) if name.startswith("pull_request") else "",
        "GITHUB_RUN_ID": str(run_id),
        "GITHUB_RUN_NUMBER": "7",
        "GITHUB_RUN_ATTEMPT": str(attempt),
        "GITHUB_JOB": "airlock",
        "GITHUB_WORKFLOW": "Airlock",
        "GITHUB_WORKFLOW_REF": f"{repo.full_name}/.github/workflows/airlock.yml@refs/heads/{default}",
        "GITHUB_ACTION": "__run",
        "GITHUB_RETENTION_DAYS": "90",
        "RUNNER_OS": "Linux",
        "RUNNER_ARCH": "X64",
        "RUNNER_NAME": "GitHub Actions 1",
        "RUNNER_ENVIRONMENT": "github-hosted",
        "RUNNER_TEMP": str(runner_temp),
        "RUNNER_TOOL_CACHE": "/opt/hostedtoolcache",
        "RUNNER_WORKSPACE": str(workspace.parent),
        "HOME": str(home or runner_temp / "_github_home"),
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "LANG": "C.UTF-8",
    }
    for key, stem in COMMAND_FILES.items():
        path = commands / f"{stem}_0b5d1e0c"
        path.touch()
        env[key] = str(path)
    return env


def read_outputs(path: Path) -> dict[str, str]:
    """An output file parsed as the runner does.

    Raises:
        ValueError: what the runner would fail the step for.
    """
    out, lines, i = {}, path.read_text(encoding="utf-8").split("\n"), 0
    if lines and lines[-1] == "":
        lines.pop()
    while i < len(lines):
        line = lines[i]
        i += 1
        if not line:
            continue
        equals, heredoc = line.find("="), line.find("<<")
        if equals >= 0 and (heredoc < 0 or equals < heredoc):
            out[line[:equals]] = line[equals + 1 :]
        elif heredoc >= 0:
            name, mark, value = line[:heredoc], line[heredoc + 2 :], []
            while i < len(lines) and lines[i] != mark:
                value.append(lines[i])
                i += 1
            if not name or not mark or i >= len(lines):
                raise ValueError(f"no closing delimiter {mark!r}")
            i += 1
            out[name] = "\n".join(value)
        else:
            raise ValueError(f"invalid format {line!r}")
    return out
