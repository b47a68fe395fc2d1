"""Starts Airlock as GitHub's runner does, in what `act` lacks: the composite's own `run` steps with the runner's
signals, and the exact `docker run` of a container action (socket, temp folder and file commands mounted).

The steps, their shells and their environment are read from `action.yml`, so a test fails when that is wrong.
"""

from __future__ import annotations

import os
import re
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
    """

    environment: dict[str, str]
    inputs: Mapping[str, str]
    uid: int | None = None
    root: Path = ROOT
    outputs: dict[str, str] = field(default_factory=dict)

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
            after = self._step(second, timeout=60)
            assert after.status == 0, after.log
        folder = Path(main.outputs.get("airlock-results", "/nonexistent"))
        result = read_results(main.status, main.log, "", folder)
        result.outputs = {name: main.outputs.get(name, "") for name in self.action["outputs"]}
        result.summary = main.summary
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
        shell = step["shell"].replace("{0}", str(script)).split()
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


@dataclass
class ContainerAction:
    """`uses: docker://IMAGE`, as the runner starts it: one `docker run` with its fixed mounts and no limits.

    Attributes:
        environment: the job's environment with the runner's own paths.
        inputs: what the workflow gives by `with:`.
        docker_socket: mount the engine's socket, as the runner does.
        user: `--user`, as Kubernetes' hooks may have it; None is the image's.
        whole_work: mount the parent of the workspace at its own path, as Kubernetes' hooks do, in place of the
            runner's five folders.
    """

    environment: dict[str, str]
    inputs: Mapping[str, str]
    image: str
    docker_socket: bool = True
    user: str | None = None
    whole_work: bool = False

    def run(self, *, when: Callable[[subprocess.Popen[str]], None] | None = None, timeout: float = 120.0) -> Result:
        """Run the step to its end."""
        temp = Path(self.environment["RUNNER_TEMP"])
        for name in ("_github_home", "_github_workflow", "_runner_file_commands"):
            (temp / name).mkdir(exist_ok=True)
        event = temp / "_github_workflow/event.json"
        event.write_bytes(Path(self.environment["GITHUB_EVENT_PATH"]).read_bytes())
        commands = temp / "_runner_file_commands"
        files = {name: commands / f"{name.lower()}_{os.urandom(8).hex()}" for name in ("OUTPUT", "STEP_SUMMARY", "ENV")}
        for path in files.values():
            path.touch()
            path.chmod(0o666)
        workspace = Path(self.environment["GITHUB_WORKSPACE"])
        places = {
            str(workspace): "/github/workspace",
            str(temp / "_github_home"): "/github/home",
            str(temp / "_github_workflow"): "/github/workflow",
            str(commands): "/github/file_commands",
            str(temp): "/github/runner_temp",
        }
        if self.whole_work:
            places = {str(workspace.parent): str(workspace.parent), str(temp): str(temp)}
        given = {
            **self.environment,
            **{f"GITHUB_{name}": str(path) for name, path in files.items()},
            "GITHUB_EVENT_PATH": str(event),
            "GITHUB_ACTIONS": "true",
            "ACTIONS_RUNTIME_TOKEN": "runtime-token-of-the-job",
            "HOME": "/github/home",
            **{f"INPUT_{name.upper()}": value for name, value in self.inputs.items()},
        }
        inside = {name: _translated(value, places) for name, value in given.items() if name != "PATH"}
        name = f"airlock_{os.urandom(3).hex()}"
        command = ["docker", "run", "--name", name, "--label", "b3c4d5", "--workdir", places[min(places, key=len)]]
        if not self.whole_work:
            command[-1] = "/github/workspace"
        command += ["--rm", *(word for key in inside for word in ("-e", key))]
        command += ["--user", self.user] if self.user else []
        command += ["-v", "/var/run/docker.sock:/var/run/docker.sock"] if self.docker_socket else []
        for outside, target in places.items():
            command += ["-v", f"{outside}:{target}"]
        process = subprocess.Popen(
            [*command, self.image],
            env={**inside, "PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        if when is not None:
            threading.Thread(target=when, args=(process,), daemon=True).start()
        log, _ = process.communicate(timeout=timeout)
        made = sorted(temp.glob("airlock-*"), key=lambda path: path.stat().st_mtime)
        result = read_results(process.returncode, log, "", made[-1] if made else temp / "none")
        result.outputs = parse_outputs(files["OUTPUT"].read_text())
        result.summary = files["STEP_SUMMARY"].read_text()
        assert files["ENV"].read_text() == ""
        return result


def _translated(value: str, places: Mapping[str, str]) -> str:
    """The runner's translation of a value that is, or starts with, a mapped folder; more specific ones first."""
    for outside in sorted(places, key=len, reverse=True):
        if value == outside or value.startswith(outside + "/"):
            return places[outside] + value[len(outside) :]
    return value


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
