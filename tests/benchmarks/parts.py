"""Parts by themselves: CI logs, listing and searching, the transcript, pieces of a streamed answer."""

from __future__ import annotations

import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from agent.broker.redact import Redactor
from agent.broker.transcript import Transcript
from agent.harness.clients.wires import WIRES
from agent.harness.tools.ci_logs import extract
from tests.benchmarks.redact import secrets
from tests.benchmarks.table import Row, beside
from tests.support.tools import Bench

LOG_BYTES, FILES, EVENTS = 200_000_000, 20_000, 200


def median_s(work: Callable[[], object], rounds: int = 3) -> float:
    """Median seconds of processor time, which neighbours disturb least."""
    times = []
    for _ in range(rounds):
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return statistics.median(times)


def log_chunks() -> Iterator[bytes]:
    """200 MB of a job's log: a long quiet build, then a failing test step."""
    block = "".join(
        f"2026-01-05T10:00:{n % 60:02d}.{n:07d}Z [{n}/9000] Compiling src/module_{n}/part_{n % 7}.c with flags -O2 -g\n"
        for n in range(9000)
    ).encode()
    yield b"2026-01-05T10:00:00.0000000Z ##[group]Run make test\n2026-01-05T10:00:00.0000000Z ##[endgroup]\n"
    for _ in range(LOG_BYTES // len(block)):
        yield block
    yield (
        b"2026-01-05T10:09:00.0000000Z FAILED tests/test_cart.py::test_discount - AssertionError: 1 != 2\n"
        b"2026-01-05T10:09:00.0000000Z ##[error]Process completed with exit code 1.\n"
    )


def ci_log() -> None:
    """In a process of its own: seconds, resident megabytes before and at the most, and whether the test was found."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.process_time()
    found = extract(log_chunks())
    took = time.process_time() - started
    assert "test_discount" in found.text, found.text[:500]
    started = time.process_time()
    sum(chunk.count(b"##[error]") for chunk in log_chunks())
    floor = time.process_time() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(took, floor, before / 1024, peak / 1024)


def log_rows() -> list[Row]:
    done = subprocess.run(
        [sys.executable, "-c", "from tests.benchmarks.parts import ci_log; ci_log()"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    took, floor, _, peak = map(float, done.stdout.split())
    speed, least = LOG_BYTES / 1e6 / took, LOG_BYTES / 1e6 / floor
    return [
        Row(
            "CI log extraction, 200 MB", f"{speed:.0f} MB/s", f"{least:.0f} MB/s", f"1/{least / speed:.0f}", "100 MB/s"
        ),
        Row("  resident at the most, Python included", f"{peak:.0f} MB", budget="64 MB"),
    ]


def tree(root: Path) -> None:
    """20,000 small source files in 200 folders."""
    r = random.Random(5)
    words = [f"word{n}" for n in range(500)]
    for folder in range(200):
        path = root / f"pkg{folder % 20}" / f"mod{folder}"
        path.mkdir(parents=True)
        for n in range(FILES // 200):
            lines = "\n".join(" ".join(r.choices(words, k=8)) for _ in range(12))
            (path / f"f{n}.py").write_text(f"{lines}\n{'NEEDLE' if n == 7 and folder == 9 else ''}\n")


def file_rows() -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="airlock-bench-") as folder:
        root = Path(folder, "w")
        tree(root)
        bench = Bench(root)

        def read_all() -> int:
            found = 0
            for at, _, names in os.walk(root):
                for name in names:
                    with open(os.path.join(at, name), "rb") as file:
                        found += b"NEEDLE" in file.read()
            return found

        listed = median_s(lambda: bench("glob", pattern="**/f7.py"))
        found = median_s(lambda: bench("grep", pattern="NEEDLE"))
        walked, read = median_s(lambda: sum(len(names) for *_, names in os.walk(root))), median_s(read_all)
    return [
        beside("listing 20,000 files (glob)", "ms", listed * 1000, walked * 1000, "300 ms"),
        beside("searching 20,000 files (grep)", "ms", found * 1000, read * 1000, "400 ms"),
    ]


def transcript_rows() -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="airlock-bench-") as folder:
        writer = Transcript(Path(folder, "transcript.jsonl"), Redactor(secrets()), time.time)
        fd = os.open(Path(folder, "floor"), os.O_WRONLY | os.O_CREAT)

        def times(work: Callable[[int], object]) -> float:
            took = []
            for n in range(EVENTS):
                started = time.perf_counter()
                work(n)
                took.append((time.perf_counter() - started) * 1000)
            return statistics.median(took)

        def bare(n: int) -> None:
            os.write(fd, b"x" * 300)
            os.fdatasync(fd)

        event = {"connection": "model", "method": "POST", "authority": "harness", "rules": ["model.call"], "bytes": 900}
        durable = times(lambda n: writer.write("egress.request", **event, n=n, path=f"/v1/messages/{n}"))
        least = times(bare)
        reported = times(lambda n: writer.write("agent.note", turn=n, text=f"The {n}th of what a harness reports."))
    return [
        beside("transcript event, durable", "ms", durable, least, "0.5 ms"),
        Row("transcript event of the harness", f"{reported:.2f} ms"),
    ]


def piece_rows() -> list[Row]:
    """An answer of 1 MB in 40,000 pieces: what each wire's assembler makes of it."""
    rows = []
    for wire in ("anthropic", "openai-chat"):
        if wire == "anthropic":
            data = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "x" * 25}}
        else:
            data = {"choices": [{"delta": {"content": "x" * 25}}]}

        def work(wire: str = wire, data: dict[str, object] = data) -> None:
            assembler = WIRES[wire].assembler()
            for _ in range(40_000):
                assembler.feed("", data)
            assembler.response()

        rows.append(Row(f"1 MB answer in 40,000 pieces, {wire}", f"{median_s(work) * 1000:.0f} ms"))
    return rows


def rows() -> list[Row]:
    """All of them."""
    return [*log_rows(), *file_rows(), *transcript_rows(), *piece_rows()]
