"""What a sandboxed command costs, beside the same command without a sandbox, in one run."""

from __future__ import annotations

import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from agent.contract.sandbox import ExecRequest, Purpose, SandboxSpec
from agent.sandbox.build import helper_command, standin_command
from agent.sandbox.probe import ProbeTargets, probe
from agent.sandbox.process import ProcessBackend

ROUNDS = 100


def median_ms(act: Callable[[], object], rounds: int = ROUNDS) -> float:
    """Median wall clock of one call, milliseconds, after three warm-up calls."""
    for _warm in range(3):
        act()
    times = []
    for _round in range(rounds):
        start = time.perf_counter()
        act()
        times.append((time.perf_counter() - start) * 1000)
    return statistics.median(times)


def measure() -> list[tuple[str, float]]:
    """Rows of what and milliseconds; the first is the floor."""
    rows: list[tuple[str, float]] = []
    bare = ["/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh", "-c", "true"]
    rows.append(("bare subprocess.run of the same shell", median_ms(lambda: subprocess.run(bare, check=True))))
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        root = Path(folder, "ws")
        root.mkdir()
        if os.geteuid() == 0:
            os.chown(root, 20001, 20001)
        spec = SandboxSpec(Purpose.MAIN, str(root))
        for name, command in (("C helper", helper_command()), ("Python stand-in", standin_command())):
            for level in ("root", "bare"):
                backend = ProcessBackend(helper=command, levels=(level,))
                session = backend.start(spec)
                try:
                    label = f"{name}, level {session.level}"
                    rows.append((f"{label}: one command", median_ms(lambda s=session: s.exec(ExecRequest("true")))))
                    report = median_ms(lambda s=session: probe(s, str(root), ProbeTargets(pids=(os.getpid(),))), 10)
                    rows.append((f"{label}: probe", report))
                finally:
                    session.close()
                rows.append((f"{label}: start", median_ms(lambda b=backend: b.start(spec).close(), 10)))
    return rows


def main() -> None:
    """Print the table."""
    rows = measure()
    floor = rows[0][1]
    for name, value in rows:
        ratio = f"{value / floor:5.1f} x" if "command" in name or name == rows[0][0] else ""
        print(f"{name:<46} {value:8.2f} ms  {ratio}")


if __name__ == "__main__":
    main()
