"""Starts the composite's own `run` steps as GitHub's runner does, in what `act` lacks: with its signals, and in the
container of a job.

The steps, their shells and their environment are read from `action.yml`, so a test fails when that is wrong.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.support.action import ROOT, Result, parse_outputs, read_results
from tests.support.runner_containers import JobContainer

_EXPRESSION = re.compile(r"\$\{\{ *([a-z.-]+) *\}\}")
SIGNALS = ((signal.SIGINT, 7.5), (signal.SIGTERM, 2.5), (signal.SIGKILL, 0.0))  # what, and the wait after it


@dataclass
class Step:
    """One step that ran."""

    status: int
    log: str
    outputs: dict[str, str]
    summary: str


@dataclass
class Composite:
    """The action's `run` steps, started by a runner of the given environment.

    Attributes:
        environment: the job's environment, GITHUB_* facts included.
        inputs: what the workflow gives by `with:`.
        uid: user that the runner runs as.
        after: told where the transcript is, when the run has ended.
        job: the job's container, where it has one.
    """

    environment: dict[str, str]
    inputs: Mapping[str, str]
    uid: int | None = None
    root: Path = ROOT
    outputs: dict[str, str] = field(default_factory=dict)
    after: Callable[[Path], None] = lambda _: None
    job: JobContainer | None = None

    def __post_init__(self) -> None:
        self.action: dict[str, Any] = yaml.safe_load((self.root / "action.yml").read_text())
        unknown = set(self.inputs) - set(self.action["inputs"])
        assert not unknown, f"inputs that action.yml does not have: {unknown}"

    def run(
        self,
        *,
        when: Callable[[subprocess.Popen[str]], None] | None = None,
        timeout: float = 120.0,
        cleanup: bool = True,
    ) -> Result:
        """All `run` steps in order; the later ones are `always()`.

        Args:
            when: called in a thread with the first step's shell; may signal it.
            cleanup: run the second step too.
        """
        first, second = [step for step in self.action["runs"]["steps"] if "run" in step]
        main = self._step(first, timeout=timeout, when=when)
        self.outputs = main.outputs
        if cleanup:
            cleaned = self._step(second, timeout=60)
            assert cleaned.status == 0, cleaned.log
        made = main.outputs.get("airlock-results", "/nonexistent")
        folder = self.job.outside(made) if self.job else Path(made)
        result = read_results(main.status, main.log, "", folder)
        result.outputs = {name: main.outputs.get(name, "") for name in self.action["outputs"]}
        result.summary = main.summary
        self.after(folder / "transcript.jsonl")
        return result

    def _value(self, text: str) -> str:
        def one(match: re.Match[str]) -> str:
            path = match[1].split(".")
            if path[0] == "inputs":
                given = self.inputs.get(path[1])
                return str(self.action["inputs"][path[1]]["default"]) if given is None else given
            if path[:3] == ["steps", "run", "outputs"]:
                return self.outputs.get(path[3], "")
            raise AssertionError(f"an expression that this harness does not know: {match[0]}")

        return _EXPRESSION.sub(one, text)

    def _step(
        self,
        step: Mapping[str, Any],
        *,
        timeout: float,
        when: Callable[[subprocess.Popen[str]], None] | None = None,
    ) -> Step:
        temp = Path(self.environment["RUNNER_TEMP"])
        script = temp / f"{os.urandom(8).hex()}.sh"
        script.write_text(self._value(step["run"]))
        commands = temp / "_runner_file_commands"
        commands.mkdir(exist_ok=True)
        files = {}
        for name in ("ENV", "PATH", "OUTPUT", "STEP_SUMMARY", "STATE"):
            path = commands / f"{name.lower()}_{os.urandom(8).hex()}"
            path.touch()
            path.chmod(0o666)
            files[name] = path
        environment = {
            **self.environment,
            **{f"GITHUB_{name}": str(path) for name, path in files.items()},
            "GITHUB_ACTION_PATH": str(self.root),
            **{name: self._value(value) for name, value in step.get("env", {}).items()},
        }
        for name in ("ENV", "PATH"):
            assert f"GITHUB_{name}" in environment
        event = environment["GITHUB_EVENT_PATH"]
        (temp / "_github_workflow").mkdir(exist_ok=True)
        environment["GITHUB_EVENT_PATH"] = shutil.copy(event, str(temp / "_github_workflow/event.json"))
        shell = step["shell"].replace("{0}", str(script)).split()
        if self.job is not None:
            shell, environment = self._in_container(self.job, shell, environment)
        # a file and no pipe: what the shell started may outlive it, and the runner does not wait for that
        with tempfile.TemporaryFile("w+", errors="replace") as output:
            process = subprocess.Popen(
                shell,
                env=environment,
                cwd=self.environment["GITHUB_WORKSPACE"],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                text=True,
                user=self.uid,
                group=self.uid,
                start_new_session=True,
            )
            if when is not None:
                threading.Thread(target=when, args=(process,), daemon=True).start()
            try:
                process.wait(timeout)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                output.seek(0)
                raise AssertionError(f"the step did not end within {timeout} s:\n{output.read()}") from None
            output.seek(0)
            log = output.read()
        assert [files[name].read_text() for name in ("ENV", "PATH", "STATE")] == ["", "", ""]
        return Step(
            process.returncode, log, parse_outputs(files["OUTPUT"].read_text()), files["STEP_SUMMARY"].read_text()
        )

    def _in_container(
        self, job: JobContainer, shell: list[str], environment: Mapping[str, str]
    ) -> tuple[list[str], dict[str, str]]:
        """The `docker exec` by which the runner starts a step there; a signal to it reaches nothing inside."""
        given = {k: job.inside(v) for k, v in environment.items() if k not in ("PATH", "HOME")}
        names = [word for name in given for word in ("-e", name)]
        work = job.inside(environment["GITHUB_WORKSPACE"])
        command = ["docker", "exec", "-i", "--workdir", work, *names, job.name, *map(job.inside, shell)]
        return command, {**given, "PATH": os.environ["PATH"]}


def cancel(process: subprocess.Popen[str]) -> None:
    """The runner's cancel: signals to the step's shell alone, and to nothing below it."""
    for number, wait in SIGNALS:
        try:
            os.kill(process.pid, number)
            process.wait(wait)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue
        return
