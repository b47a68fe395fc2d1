"""A whole run through its three zones, beside a bare http.client loop with the same commands.

The product runs as in a job: `entrypoint.py` as a process of its own, GitHub and the model on loopback, each in a
process of its own, process backend, one sandboxed command a turn, transcript durable, redaction on. A turn's
overhead is the time from the last byte of a model's answer to the arrival of the next request: the model's own
time is not in it, everything else is. `floor` is the same loop as anyone would write it in twenty lines, with
`sh -c` for each command and no safety at all.
"""

from __future__ import annotations

import compileall
import itertools
import json
import multiprocessing
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tests.benchmarks.server import Mark, ModelProcess
from tests.benchmarks.table import Row, beside

ROOT = Path(__file__).resolve().parents[2]
FLOOR = Path(__file__).with_name("floor.py")
SMALL, LARGE = "true {n}", "printf %10000s {n}"
ROUNDS = 5
CONFIG = "ai:\n  agent:\n    timeoutMinutes: 5\n    maxToolCalls: 1000\n"


@dataclass(frozen=True)
class Measured:
    """One run.

    Attributes:
        start_ms: from exec to the first model request's arrival.
        steps_ms: overhead of each turn.
        wall_ms: from exec to the end of the process.
        cpu_ms: processor time of all its processes.
        peak_mb: peak resident memory of broker and harness together, where it was asked for.
    """

    start_ms: float
    steps_ms: list[float]
    wall_ms: float
    cpu_ms: float
    peak_mb: float = 0.0

    def at(self, turn: int) -> float:
        """Median overhead of the ten turns up to one, milliseconds."""
        return statistics.median(self.steps_ms[max(0, turn - 10) : turn])


def bare(model: ModelProcess, turns: int, command: str) -> Measured:
    """The floor, in a process of its own, so that its start is told too."""
    model.play(turns, "run_command", "command", command)
    started, used = time.monotonic(), _children_ms()
    subprocess.run([sys.executable, "-I", "-B", str(FLOOR), str(model.port)], check=True)
    return _measured(started, time.monotonic(), model.marks(), _children_ms() - used)


class Job:
    """A job's environment, and a copy of the product compiled as in the image."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self._folder, self._environment = folder, environment
        product = folder / "product"
        shutil.copytree(ROOT / "agent", product / "agent")
        shutil.copy(ROOT / "entrypoint.py", product)
        compileall.compile_dir(product, quiet=1)
        self._entrypoint = str(product / "entrypoint.py")

    def run(self, model: ModelProcess, turns: int, command: str, *, memory: bool = False) -> Measured:
        """One run of so many turns."""
        model.play(turns, "run_command", "command", command)
        environment = {**self._environment, "INPUT_BASE-URL": model.url}
        started, used = time.monotonic(), _children_ms()
        process = subprocess.Popen(
            [sys.executable, "-I", "-B", self._entrypoint],
            env=environment, cwd=self._folder, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        peak = _Peak(process.pid) if memory else None
        output, _ = process.communicate(timeout=120)
        ended = time.monotonic()
        marks = model.marks()
        if process.returncode != 0 or len(marks) != turns + 1:
            raise SystemExit(f"The run did not go its way ({len(marks)} requests):\n{output.decode()[-3000:]}")
        return _measured(started, ended, marks, _children_ms() - used, peak.stop() if peak else 0.0)


def _children_ms() -> float:
    """Processor time of all children that have ended, and of theirs."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (used.ru_utime + used.ru_stime) * 1000


def _measured(started: float, ended: float, marks: list[Mark], cpu_ms: float, peak_mb: float = 0.0) -> Measured:
    steps = [(after.came - before.answered) * 1000 for before, after in itertools.pairwise(marks)]
    return Measured((marks[0].came - started) * 1000, steps, (ended - started) * 1000, cpu_ms, peak_mb)


class _Peak:
    """The kernel's own high-water marks of broker and harness, read a few times a second."""

    def __init__(self, launch: int) -> None:
        self._launch, self._peaks, self._over = launch, {"--broker": 0, "--harness": 0}, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._over.wait(0.1):
            children = Path(f"/proc/{self._launch}/task/{self._launch}/children")
            for pid in children.read_text().split() if children.exists() else []:
                try:
                    arguments = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
                    status = Path(f"/proc/{pid}/status").read_text()
                except OSError:
                    continue
                for stage in self._peaks:
                    if stage in arguments and "VmHWM:" in status:
                        size = int(status.partition("VmHWM:")[2].split()[0])
                        self._peaks[stage] = max(self._peaks[stage], size)

    def stop(self) -> float:
        self._over.set()
        self._thread.join()
        return sum(self._peaks.values()) / 1024


@contextmanager
def job() -> Iterator[Job]:
    """GitHub in a process of its own, and the job's environment."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    with tempfile.TemporaryDirectory(prefix="airlock-bench-") as folder:
        os.chmod(folder, 0o755)
        process = context.Process(target=_github, args=(theirs, folder), daemon=True)
        process.start()
        try:
            yield Job(Path(folder), ours.recv())
        finally:
            process.kill()
            process.join()


def _github(pipe: Connection, folder: str) -> None:
    from tests.support.action import job_environment
    from tests.support.github_sim import GitHubSim
    from tests.support.scenario import API_KEY, TOKEN, make_world

    with GitHubSim(Path(folder, "github")) as github:
        world = make_world(Path(folder), github, config=CONFIG)
        event = Path(folder, "event.json")
        event.write_text(json.dumps(github.event("workflow_dispatch", world.repository)))
        pipe.send(
            job_environment(
                event_name="workflow_dispatch", event=event, workspace=world.workspace, temp=Path(folder, "temp"),
                repository=world.repository.full_name, api_url=github.api_url, server_url=github.server_url,
                inputs={"github-token": TOKEN, "api-key": API_KEY, "mode": "implement", "task": "Do it.",
                        "model": "anthropic/claude-sonnet-4-5", "sandbox": "process"},
            )
        )  # fmt: skip
        pipe.recv()


def rows(rounds: int = ROUNDS) -> list[Row]:
    """Each figure beside its floor of the same run."""
    short: dict[str, list[Measured]] = {"ours": [], "floor": []}
    long: dict[tuple[str, str], list[Measured]] = {}
    with job() as work, ModelProcess() as model:
        work.run(model, 2, SMALL)  # files in the page cache, the sandbox's helper built
        for _ in range(rounds):  # interleaved, so that the machine's mood hits all
            short["ours"].append(work.run(model, 25, SMALL))
            short["floor"].append(bare(model, 25, SMALL))
        for _ in range(max(1, rounds // 2)):
            for command in (SMALL, LARGE):
                long.setdefault(("ours", command), []).append(work.run(model, 200, command, memory=True))
                long.setdefault(("floor", command), []).append(bare(model, 200, command))

    def middle(runs: list[Measured], figure: Any) -> float:
        return statistics.median(map(figure, runs))

    def pair(runs: dict[Any, list[Measured]], keys: tuple[Any, Any], figure: Any) -> tuple[float, float]:
        return middle(runs[keys[0]], figure), middle(runs[keys[1]], figure)

    both = ("ours", "floor")
    found = [beside("exec to the first model request", "ms", *pair(short, both, lambda r: r.start_ms), "260 ms")]
    for label, command in (("", SMALL), (", 10 KB results", LARGE)):
        keys = (("ours", command), ("floor", command))
        for turn in (25, 100, 200):
            budget = "6 ms, 4 x" if command == SMALL else ""
            figure = pair(long, keys, lambda r, turn=turn: r.at(turn))
            found.append(beside(f"overhead of turn {turn}{label}", "ms", *figure, budget))
        growth = pair(long, keys, lambda r: r.at(200) / r.at(10))
        found.append(Row(f"growth, turn 200 / turn 10{label}", *(f"{g:.2f}" for g in growth),
                         budget="1.3" if command == SMALL else "2"))  # fmt: skip
    cpu = [
        (middle(long[who, SMALL], lambda r: r.cpu_ms) - middle(short[who], lambda r: r.cpu_ms)) / 175
        for who in ("ours", "floor")
    ]
    found.append(beside("processor time a turn, all processes", "ms", cpu[0], cpu[1]))
    found.append(beside("whole run of 25 turns", "ms", *pair(short, both, lambda r: r.wall_ms), "500 ms"))
    for label, command in (("", SMALL), (", 10 KB results", LARGE)):
        peak = middle(long["ours", command], lambda r: r.peak_mb)
        found.append(Row(f"peak memory of broker and harness, 200 turns{label}", f"{peak:.0f} MB",
                         budget="80 MB" if command == SMALL else ""))  # fmt: skip
    return found
