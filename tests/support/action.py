"""Runs the product as a runner would: `entrypoint.py` as a process of its own with a job's environment.

Used by the integration tests and by the demo; knows nothing of what the product does inside.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Result:
    """What a following step, a person and an artifact's reader would find."""

    exit_status: int
    log: str
    stderr: str
    results: Path
    transcript: list[dict[str, Any]]
    outputs: dict[str, str]
    summary: str
    files: dict[str, bytes] = field(default_factory=dict)

    def events(self, kind: str) -> list[dict[str, Any]]:
        """Transcript events of one type."""
        return [event for event in self.transcript if event["type"] == kind]


def job_environment(
    *,
    event_name: str,
    event: Path,
    workspace: Path,
    temp: Path,
    repository: str,
    api_url: str,
    server_url: str,
    inputs: Mapping[str, str],
    actor: str = "maintainer",
    extra: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The environment of a container action's step, less what the runner leaves out."""
    commands = temp / "_runner_file_commands"
    commands.mkdir(parents=True, exist_ok=True)
    files = {}
    for name in ("ENV", "PATH", "OUTPUT", "STEP_SUMMARY", "STATE"):
        path = commands / f"{name.lower()}_file"
        path.touch()
        files[f"GITHUB_{name}"] = str(path)
    return {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": str(temp),
        "CI": "true",
        "GITHUB_ACTIONS": "true",
        "GITHUB_EVENT_NAME": event_name,
        "GITHUB_EVENT_PATH": str(event),
        "GITHUB_WORKSPACE": str(workspace),
        "GITHUB_REPOSITORY": repository,
        "GITHUB_API_URL": api_url,
        "GITHUB_SERVER_URL": server_url,
        "GITHUB_ACTOR": actor,
        "GITHUB_TRIGGERING_ACTOR": actor,
        "GITHUB_RUN_ID": "9009",
        "GITHUB_RUN_ATTEMPT": "1",
        "GITHUB_RUN_NUMBER": "9",
        "GITHUB_WORKFLOW": "Airlock",
        "RUNNER_TEMP": str(temp),
        "RUNNER_OS": "Linux",
        **files,
        **{f"INPUT_{name.upper().replace(' ', '_')}": value for name, value in inputs.items()},
        **(extra or {}),
    }


def run_action(
    environment: Mapping[str, str],
    *,
    timeout: float = 120.0,
    uid: int | None = None,
    python: str = sys.executable,
    root: Path = ROOT,
    on_line: Callable[[str], None] | None = None,
    interrupt_after: Callable[[subprocess.Popen[str]], None] | None = None,
) -> Result:
    """Run one step to its end.

    Args:
        uid: run as this user (needs root); None is the own one.
        root: folder of the product; a copy of it may have a part replaced by a hostile one.
        on_line: told each line of the log as it comes.
        interrupt_after: called in a thread with the process; may signal it as a runner does.
    """
    before = set(Path(environment["RUNNER_TEMP"]).glob("airlock-*"))
    process = subprocess.Popen(
        [python, "-I", str(root / "entrypoint.py")],
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        cwd=environment["RUNNER_TEMP"],
        user=uid,
        group=uid,
        extra_groups=[] if uid is not None else None,
    )
    lines: list[str] = []
    errors: list[str] = []

    def read(stream: Any, into: list[str], tell: Callable[[str], None] | None) -> None:
        for line in stream:
            into.append(line)
            if tell:
                tell(line.rstrip("\n"))

    readers = [
        threading.Thread(target=read, args=(process.stdout, lines, on_line)),
        threading.Thread(target=read, args=(process.stderr, errors, None)),
    ]
    for reader in readers:
        reader.start()
    if interrupt_after is not None:
        threading.Thread(target=interrupt_after, args=(process,), daemon=True).start()
    try:
        status = process.wait(timeout)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.wait()
        raise AssertionError(f"the step did not end within {timeout} s:\n{''.join(lines)}\n{''.join(errors)}") from None
    for reader in readers:
        reader.join(5)
    made = set(Path(environment["RUNNER_TEMP"]).glob("airlock-*")) - before
    results = made.pop() if made else Path(tempfile.mkdtemp(prefix="airlock-none-"))
    return read_results(status, "".join(lines), "".join(errors), results)


def read_results(status: int, log: str, stderr: str, results: Path) -> Result:
    """Read a results folder as the composite action does."""
    transcript = results / "transcript.jsonl"
    events = [json.loads(line) for line in transcript.read_text().splitlines()] if transcript.exists() else []
    outputs = results / "outputs"
    summary = results / "summary.md"
    return Result(
        exit_status=status,
        log=log,
        stderr=stderr,
        results=results,
        transcript=events,
        outputs=parse_outputs(outputs.read_text()) if outputs.exists() else {},
        summary=summary.read_text() if summary.exists() else "",
        files={
            str(path.relative_to(results)): path.read_bytes()
            for path in sorted(results.rglob("*"))
            if path.is_file() and not path.is_symlink()
        },
    )


def parse_outputs(text: str) -> dict[str, str]:
    """Read an output file by the runner's rules: `name=value`, or `name<<MARK` up to a line `MARK`."""
    outputs: dict[str, str] = {}
    lines = text.split("\n")
    index = 0
    while index < len(lines):
        line = lines[index]
        index += 1
        if not line:
            continue
        equals, heredoc = line.find("="), line.find("<<")
        if equals >= 0 and (heredoc < 0 or equals < heredoc):
            outputs[line[:equals]] = line[equals + 1 :]
            continue
        if heredoc < 0:
            raise ValueError(f"no output: {line!r}")
        name, mark = line[:heredoc], line[heredoc + 2 :]
        value = []
        while lines[index] != mark:
            value.append(lines[index])
            index += 1
        index += 1
        outputs[name] = "\n".join(value)
    return outputs


def interrupt(after_s: float) -> Callable[[subprocess.Popen[str]], None]:
    """A runner's cancel: SIGINT, 7.5 s, SIGTERM, 2.5 s, SIGKILL, to the process the runner started."""

    def act(process: subprocess.Popen[str]) -> None:
        for wait, number in ((after_s, signal.SIGINT), (7.5, signal.SIGTERM), (2.5, signal.SIGKILL)):
            try:
                process.wait(wait)
            except subprocess.TimeoutExpired:
                os.kill(process.pid, number)
            else:
                return

    return act
