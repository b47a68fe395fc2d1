"""What GitHub's runner starts containers with: a job's own container, and a container action's exact `docker run`
(socket, temp folder and file commands mounted).
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.action import ROOT, Result, parse_outputs, read_results


@dataclass(frozen=True)
class JobContainer:
    """The container of a job with `container:`, in which its `run` steps run.

    Attributes:
        places: folders of the runner, and where they are in the container.
    """

    name: str
    places: Mapping[str, str]

    def inside(self, value: str) -> str:
        """A value of the environment as a step in the container gets it."""
        return _translated(value, self.places)

    def outside(self, path: str) -> Path:
        """A folder of the container, as the runner sees it."""
        return Path(_translated(path, {inside: outside for outside, inside in self.places.items()}))


@contextmanager
def job_container(environment: Mapping[str, str], image: str, root: Path = ROOT) -> Iterator[JobContainer]:
    """Start and at the end remove a job's container, with the mounts that the runner gives it.

    Source: `ContainerOperationProvider` and `ContainerInfo` of actions/runner.
    """
    temp, workspace = Path(environment["RUNNER_TEMP"]), Path(environment["GITHUB_WORKSPACE"])
    places = {
        str(workspace.parent): "/__w",
        str(temp): "/__w/_temp",
        str(root): "/__w/_actions/someone/airlock/v1",
        str(temp / "_github_home"): "/github/home",
        str(temp / "_github_workflow"): "/github/workflow",
    }
    for name in ("_github_home", "_github_workflow"):
        (temp / name).mkdir(exist_ok=True)
    name = f"job_{os.urandom(3).hex()}"
    mounts = [word for place in places.items() for word in ("-v", ":".join(place))]
    command = ["docker", "run", "--detach", "--rm", "--name", name, "--label", "b3c4d5", "--entrypoint", "tail"]
    command += ["-e", "HOME=/github/home", "-v", "/var/run/docker.sock:/var/run/docker.sock", *mounts]
    subprocess.run([*command, image, "-f", "/dev/null"], check=True, stdout=subprocess.DEVNULL)
    try:
        yield JobContainer(name, places)
    finally:
        subprocess.run(["docker", "rm", "--force", name], check=True, stdout=subprocess.DEVNULL)


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
        after: told where the transcript is, when the run has ended.
    """

    environment: dict[str, str]
    inputs: Mapping[str, str]
    image: str
    docker_socket: bool = True
    user: str | None = None
    whole_work: bool = False
    after: Callable[[Path], None] = lambda _: None

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
        self.after(result.results / "transcript.jsonl")
        return result


def _translated(value: str, places: Mapping[str, str]) -> str:
    """The runner's translation of a value that is, or starts with, a mapped folder; more specific ones first."""
    for outside in sorted(places, key=len, reverse=True):
        if value == outside or value.startswith(outside + "/"):
            return places[outside] + value[len(outside) :]
    return value
