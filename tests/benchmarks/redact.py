"""Throughput of redaction beside its floor, in one run, in CPU time: `python -m tests.benchmarks.redact`."""

from __future__ import annotations

import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from agent.broker.redact import Redactor
from tests.support import make_corpus

ROUNDS = 5
VALUES = 50


def secrets(count: int = VALUES) -> dict[str, str]:
    """Values of many vendors, as a job would hold them."""
    r = random.Random(11)
    vendors = sorted(make_corpus.V)
    return {f"S{n}": make_corpus.value(r, r.choice(vendors)) for n in range(count)}


def tool_results(size: int) -> str:
    """Text of the kind that tools return: this project's sources, listings, and log lines."""
    parts = [path.read_text(encoding="utf-8") for path in sorted(Path("agent").rglob("*.py"))]
    r = random.Random(3)
    parts += [text for _, text in make_corpus.negatives(r)]
    parts += [
        f"2025-01-06T10:00:00.{n:07d}Z tests/test_{n % 50}.py::test_case PASSED [{n % 100}%]\n" for n in range(4000)
    ]
    whole = "\n".join(parts)
    return (whole * (size // len(whole) + 1))[:size]


def rate(work: Callable[[], object], size: int) -> float:
    """Median MB/s over the rounds."""
    times = []
    for _ in range(ROUNDS):
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return size / 1e6 / statistics.median(times)


def floor(text: str, values: Iterable[str]) -> bool:
    """The cheapest exact search: `in`, for each value, over chunks of 64 KB."""
    found = False
    for at in range(0, len(text), 1 << 16):
        chunk = text[at : at + (1 << 16) + 600]
        found |= any(value in chunk for value in values)
    return found


def rows() -> list[tuple[str, str, str]]:
    """Name, figure and budget of each measurement."""
    known = Redactor(secrets())
    shapes = Redactor({})
    big, small = tool_results(50_000_000), tool_results(5_000_000)
    values = list(secrets().values())
    known.known(big[:100_000])  # builds the automata, which is measured by itself below
    shapes.outside(big[:100_000])
    started = time.process_time()
    Redactor(secrets()).known("x" * 100)
    build = (time.process_time() - started) * 1e3
    code = "import time; t = time.process_time(); import agent.broker.redact; print(time.process_time() - t)"
    imported = min(
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
        for _ in range(3)
    )
    return [
        ("floor: `in` for 50 plain values, 50 MB", f"{rate(lambda: floor(big, values), len(big)):.0f} MB/s", ""),
        ("known values (50), all forms, 50 MB", f"{rate(lambda: known.known(big), len(big)):.0f} MB/s", ">= 80 MB/s"),
        ("credential shapes, 5 MB", f"{rate(lambda: shapes.outside(small), len(small)):.0f} MB/s", ">= 40 MB/s"),
        ("both, 10 KB result", f"{rate(lambda: known.outside(small[:10_000]), 10_000):.0f} MB/s", ""),
        ("building 50 values", f"{build:.0f} ms", ""),
        ("import of the package", f"{imported * 1e3:.0f} ms", ""),
    ]


def main() -> None:
    for name, figure, budget in rows():
        print(f"{name:45} {figure:>12}  {budget}")


if __name__ == "__main__":
    main()
