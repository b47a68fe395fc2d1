"""Score the extractor on the logs of fixtures/ci-logs and print a table: `python -m tests.support.score_ci_logs`.

For each log with its sidecar: failing steps named (with exit code), error lines held, failed tests held (name, and
file:line), places held, lines shown that are no errors, bytes, kind.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent.harness.tools.ci_logs import EXTRACT_CAP, Extract, extract

FOLDER = Path(__file__).resolve().parents[2] / "fixtures" / "ci-logs"


@dataclass
class Score:
    """What one log's extract holds of what it should hold."""

    name: str
    steps: tuple[int, int]
    lines: tuple[int, int]
    tests: tuple[int, int]
    tested_places: tuple[int, int]
    places: tuple[int, int]
    false: list[str]
    size: int
    kind: tuple[str, str]
    missing: list[str] = field(default_factory=list)

    @property
    def perfect(self) -> bool:
        pairs = (self.steps, self.lines, self.tests)
        return all(a == b for a, b in pairs) and not self.false and self.kind[0] == self.kind[1]


def score(name: str, got: Extract, want: dict[str, Any]) -> Score:
    """Compare an extract with its sidecar; a line counts when the text holds it whole, blanks at its ends aside."""
    text, missing = got.text, []
    shown = [line.strip() for line in text.split("\n")]
    have_steps = {(s.name, s.number, s.exit_code) for s in got.steps}
    steps = sum((s["name"], s["number"], s["exit_code"]) in have_steps for s in want["failing_steps"])

    def holds(line: str) -> bool:
        bare = line.removeprefix("##[error]").strip()
        return any(bare in other for other in shown)

    lines = 0
    for item in want["error_lines"]:
        if holds(item["text"]):
            lines += 1
        else:
            missing.append(f"line {item['line']}: {item['text']}")
    tests = {t.name: t for t in got.tests}
    named = placed = 0
    for item in want["failed_tests"]:
        found = tests.get(item["name"])
        named += found is not None and item["name"] in text
        at = found.at if found else None
        right = ((at.file, at.line) if at else (None, None)) == (item["file"], item["line"])
        placed += right
        if not right:
            missing.append(f"test {item['name']} at {item['file']}:{item['line']}, got {at}")
    known = {(p.file, p.line, p.column) for p in got.places} | {(t.at.file, t.at.line, None) for t in got.tests if t.at}
    lineless = {(f, n) for f, n, _ in known}
    places = 0
    for item in want["locations"]:
        exact = (item["file"], item["line"], item["column"]) in known or (
            item["column"] is None and (item["file"], item["line"]) in lineless
        )
        places += exact
        if not exact:
            missing.append(f"place {item['file']}:{item['line']}:{item['column']}")
    false = [item["text"] for item in want["not_errors"] if item["text"].strip() in text]
    return Score(
        name=name,
        steps=(steps, len(want["failing_steps"])),
        lines=(lines, len(want["error_lines"])),
        tests=(named, len(want["failed_tests"])),
        tested_places=(placed, len(want["failed_tests"])),
        places=(places, len(want["locations"])),
        false=false,
        size=len(text.encode()),
        kind=(str(got.kind), want["kind"]),
        missing=missing,
    )


def cases(folder: Path = FOLDER) -> list[str]:
    """Names of the logs that have a sidecar."""
    return sorted(p.stem for p in folder.glob("*.json") if p.with_suffix(".log").exists())


def load(name: str, folder: Path = FOLDER) -> tuple[bytes, dict[str, Any]]:
    """A log's bytes and its sidecar."""
    return (folder / f"{name}.log").read_bytes(), json.loads((folder / f"{name}.json").read_text())


def score_one(name: str, folder: Path = FOLDER) -> Score:
    """Run the extractor on one log."""
    data, want = load(name, folder)
    return score(name, extract([data], want["job"]), want)


HEAD = f"{'log':<26}{'steps':>7}{'lines':>8}{'tests':>7}{'test@':>7}{'places':>8}{'false':>6}{'bytes':>7}  kind"


def row(s: Score) -> str:
    """One line of the table."""
    pairs = [f"{a}/{b}" for a, b in (s.steps, s.lines, s.tests, s.tested_places, s.places)]
    kind = s.kind[0] if s.kind[0] == s.kind[1] else f"{s.kind[0]} (want {s.kind[1]})"
    columns = "".join(f"{p:>{n}}" for p, n in zip(pairs, (7, 8, 7, 7, 8), strict=True))
    return f"{s.name:<26}{columns}{len(s.false):>6}{s.size:>7}  {kind}"


def main() -> int:
    """Print the table; 1 when a log misses the bars."""
    scores = [score_one(name) for name in cases()]
    print(HEAD)
    for s in scores:
        print(row(s))
        if "-v" in sys.argv:
            print(*(f"    {m}\n" for m in s.missing), *(f"    FALSE {m}\n" for m in s.false), sep="", end="")
    total = [sum(x) for x in zip(*(s.lines for s in scores), strict=True)]
    print(f"{len(scores)} logs, error lines {total[0]}/{total[1]}, cap {EXTRACT_CAP} bytes")
    return 0 if all(s.steps[0] == s.steps[1] and not s.false for s in scores) else 1


if __name__ == "__main__":
    raise SystemExit(main())
