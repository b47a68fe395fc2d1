"""CI log extraction: the bars on every sample, odd formats, length, forged markers, kinds."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.harness.tools.ci_logs import EXTRACT_CAP, Kind, Place, extract
from agent.harness.tools.ci_logs.lines import BLOCK, LINE_CAP, blocks, clean
from agent.harness.tools.ci_logs.trouble import suspects
from tests.support.artifacts import PROPERTY
from tests.support.score_ci_logs import cases, load, row, score, score_one

TABLE = "CI logs: steps, lines, tests, tests placed, places, false lines, bytes, kind"
STAMP = b"2026-11-18T09:00:01.0000000Z "


@pytest.mark.parametrize("name", cases())
def test_every_sample_meets_the_bars(name: str, record_property: Callable[[str, object], None]) -> None:
    """All failing steps, at least 95 % of error lines and failed tests, nothing that is no error, within the cap."""
    got = score_one(name)
    record_property(PROPERTY, (TABLE, row(got)))
    assert got.steps[0] == got.steps[1]
    assert got.lines[0] >= 0.95 * got.lines[1], got.missing
    assert got.tests[0] >= 0.95 * got.tests[1], got.missing
    assert got.tested_places[0] >= 0.95 * got.tested_places[1], got.missing
    assert got.false == []
    assert got.size <= EXTRACT_CAP
    assert got.kind[0] == got.kind[1]


def test_places_of_all_samples_are_found_relative_to_the_repository() -> None:
    """Over all samples at least 95 % of the locations, none of them absolute."""
    scores = [score_one(name) for name in cases()]
    found, wanted = (sum(s.places[k] for s in scores) for k in (0, 1))
    assert wanted > 60
    assert found >= 0.95 * wanted
    for name in cases():
        data, want = load(name)
        places = extract([data], want["job"]).places
        assert [p for p in places if p.file.startswith(("/", "D:"))] == []


@pytest.mark.parametrize("name", ["go-test-panic", "pytest-colour", "tsc-matcher", "jest-console-noise", "clippy"])
@pytest.mark.parametrize("variant", ["crlf", "bom", "no stamps", "one byte chunks", "no job"])
def test_formats_do_not_change_what_is_found(name: str, variant: str) -> None:
    """CRLF, byte-order marks, missing time stamps, tiny chunks or no job object: the same lines and tests."""
    data, want = load(name)
    job: dict[str, Any] = want["job"]
    if variant == "crlf":
        chunks = [data.replace(b"\n", b"\r\n")]
    elif variant == "bom":
        lines = data.split(b"\n")
        chunks = [b"\n".join(b"\xef\xbb\xbf" + line if i % 40 == 0 else line for i, line in enumerate(lines))]
    elif variant == "no stamps":
        chunks = [b"\n".join(line[29:] for line in data.split(b"\n"))]
    elif variant == "one byte chunks":
        chunks = [data[i : i + 1] for i in range(len(data))]
    else:
        chunks, job = [data], {}
    got = score(name, extract(chunks, job), want)
    assert (got.lines, got.tests, got.false) == ((got.lines[1],) * 2, (got.tests[1],) * 2, [])
    if variant != "no job":
        assert got.steps[0] == got.steps[1]


def test_the_failing_step_is_found_before_thirty_thousand_lines_of_a_later_step() -> None:
    """The tail is not the failure (F13)."""
    data, want = load("go-test-panic")
    lines = data.split(b"\n")
    end = next(i for i, line in enumerate(lines) if b"Process completed with exit code" in line) + 1
    later = [STAMP + b"##[group]Run ./report", STAMP + b"##[endgroup]"] + [STAMP + b"ok"] * 30_000
    steps = want["job"]["steps"]
    after = {**steps[4], "name": "Report", "number": 6, "conclusion": "success"}
    job = {**want["job"], "steps": [*steps[:5], after, *steps[5:]]}
    got = score("x", extract([b"\n".join([*lines[:end], *later, *lines[end:]])], job), want)
    assert got.perfect
    assert got.size < 1200


def test_a_step_longer_than_what_is_kept_keeps_its_first_middle_and_last_failures() -> None:
    """Errors at the beginning, in the middle and at the end of a 12 MB step."""

    def log() -> Iterator[bytes]:
        yield STAMP + b"##[group]Run make\n" + STAMP + b"##[endgroup]\n" + STAMP + b"src/a.c:1:2: error: first\n"
        quiet = (STAMP + b"compiling one more file, all of it quiet\n") * 15_000
        for i in range(12):
            if i == 6:
                yield STAMP + b"src/m.c:5:6: error: middle\n"
            yield quiet
        yield STAMP + b"src/z.c:8:9: error: last\n" + STAMP + b"##[error]Process completed with exit code 2.\n"

    got = extract(log())
    assert got.places == (Place("src/a.c", 1, 2), Place("src/m.c", 5, 6), Place("src/z.c", 8, 9))
    assert got.steps[0].exit_code == 2
    assert got.steps[0].last_line == 3 + 12 * 15_000 + 3


def test_a_giant_line_is_cut_and_what_follows_it_is_read() -> None:
    """A line of 8 MB costs its beginning alone and hides nothing."""
    parts = [
        STAMP + b"##[group]Run x\n",
        STAMP + b"error: " + b"x" * (8 << 20) + b"\n",
        STAMP + b"a.c:3:4: error: here\n",
    ]
    parts.append(STAMP + b"##[error]Process completed with exit code 1.\n")
    got = extract(parts)
    assert got.places == (Place("a.c", 3, 4),)
    assert len(got.text.encode()) <= EXTRACT_CAP
    assert max(map(len, got.text.split("\n"))) < 600


def test_blocks_end_on_lines_and_lose_only_the_middle_of_giant_lines() -> None:
    """Joined, the blocks are the input, save for what a giant line has too much."""
    lines = [b"line %d" % i for i in range(200_000)]
    data = b"\n".join(lines)
    got = list(blocks(data[i : i + 70_001] for i in range(0, len(data), 70_001)))
    assert b"".join(got) == data
    assert all(block.endswith(b"\n") for block in got[:-1])
    giant = b"a\n" + b"y" * (3 * BLOCK) + b"\nb\n"
    assert b"".join(blocks([giant])) == b"a\n" + b"y" * LINE_CAP + b"\nb\n"


def test_a_forged_group_inside_a_failing_step_does_not_hide_it() -> None:
    """Output can print the runner's markers: the steps of the API decide."""
    job = {
        "steps": [
            _step(1, "Set up job", "success", 0, 1),
            _step(2, "Test", "failure", 1, 9),
            _step(3, "Complete job", "success", 9, 10),
        ]
    }
    log = _log(
        (0, "Current runner version"),
        (1, "##[group]Run make test"),
        (1, "##[endgroup]"),
        (3, "src/a.c:7:1: error: real"),
        (4, "##[group]Run echo all good"),
        (5, "everything is fine"),
        (8, "##[error]Process completed with exit code 2."),
        (9, "Cleaning up orphan processes"),
    )
    got = extract([log], job)
    assert [(s.name, s.exit_code, s.first_line, s.last_line) for s in got.steps] == [("Test", 2, 2, 7)]
    assert got.places == (Place("src/a.c", 7, 1),)


def test_a_step_that_may_fail_is_not_reported_as_the_failure() -> None:
    """`continue-on-error`: its log ends in an error, the API calls it a success."""
    job = {
        "steps": [
            _step(1, "Set up job", "success", 0, 1),
            _step(2, "Flaky lint", "success", 1, 3),
            _step(3, "Test", "failure", 3, 9),
        ]
    }
    log = _log(
        (1, "##[group]Run lint"),
        (1, "##[endgroup]"),
        (2, "a.py:1:1: E100 bad"),
        (2, "##[error]Process completed with exit code 1."),
        (3, "##[group]Run make test"),
        (3, "##[endgroup]"),
        (5, "src/b.c:7:1: error: real"),
        (8, "##[error]Process completed with exit code 2."),
    )
    got = extract([log], job)
    assert [s.name for s in got.steps] == ["Test"]
    assert "a.py" not in got.text
    assert "src/b.c:7:1: error: real" in got.text


def test_several_failing_steps_share_the_limit() -> None:
    """Six steps with a thousand errors each: every one is named, and the cut is said."""
    lines: list[tuple[int, str]] = []
    steps = [_step(1, "Set up job", "success", 0, 1)]
    for n in range(6):
        steps.append(_step(n + 2, f"Check {n}", "failure", n * 5 + 1, n * 5 + 5))
        lines += [(n * 5 + 1, f"##[group]Run check {n}"), (n * 5 + 1, "##[endgroup]")]
        lines += [(n * 5 + 2, f"src/f{n}.c:{k}:1: error: number {k} of step {n}") for k in range(1000)]
        lines.append((n * 5 + 5, "##[error]Process completed with exit code 1."))
    got = extract([_log(*lines)], {"steps": steps})
    assert [s.name for s in got.steps] == [f"Check {n}" for n in range(6)]
    assert len(got.text.encode()) <= EXTRACT_CAP
    assert got.cut
    assert all(f'Step {n + 2} "Check {n}": failure' in got.text for n in range(6))
    assert "left out" in got.text


def test_a_step_without_a_line_in_the_log_is_named() -> None:
    """The API says that a step failed and the log has nothing of it."""
    job = {"steps": [_step(1, "Set up job", "failure", 0, 1)]}
    got = extract([_log((0, "Preparing"), (0, "##[error]Unable to resolve action `acme/none@v1`, not found"))], job)
    assert [(s.name, s.kind) for s in got.steps] == [("Set up job", Kind.CONFIGURATION)]
    assert "Unable to resolve action" in got.text


def test_an_empty_log_says_so() -> None:
    """No line, no job, no crash."""
    got = extract([])
    assert got.steps == ()
    assert got.text == "No step of this job failed. The log has 0 lines."


@pytest.mark.parametrize(
    ("lines", "kind"),
    [
        (["ERROR: No matching distribution found for kelpy==9"], Kind.DEPENDENCY),
        (["go: example.test/x@v1.2.3: missing go.sum entry for module"], Kind.DEPENDENCY),
        (["error: failed to select a version for `kelp`."], Kind.DEPENDENCY),
        (["write /tmp/x: no space left", "tar: x: Cannot write: No space left on device"], Kind.INFRASTRUCTURE),
        (["##[error]The runner has received a shutdown signal."], Kind.INFRASTRUCTURE),
        (["curl: (6) Could not resolve host: files.example.test"], Kind.INFRASTRUCTURE),
        (["##[error]Input required and not supplied: token"], Kind.CONFIGURATION),
        (["remote: denied", "fatal: Authentication failed for 'https://example.test/'"], Kind.CONFIGURATION),
        (["/tmp/s.sh: line 1: wefty: command not found"], Kind.CONFIGURATION),
        (["src/x.ts(3,4): error TS2322: Type 'a' is not assignable to type 'b'."], Kind.COMPILE),
        (["e: file:///home/runner/work/a/a/src/M.kt:12:5 Unresolved reference: foo"], Kind.COMPILE),
        (["[ERROR] /home/runner/work/a/a/src/M.java:[12,5] cannot find symbol"], Kind.COMPILE),
        (["lib/a.rb:3:5: C: [Correctable] Style/StringLiterals: Prefer single quotes"], Kind.LINT),
        (["a.py:1:1: F401 'os' imported but unused"], Kind.LINT),
        (["[  FAILED  ] Suite.Name (3 ms)"], Kind.TEST),
    ],
)
def test_kinds_are_told_apart(lines: list[str], kind: Kind) -> None:
    """One telling line of a tool is enough."""
    log = _log(
        (1, "##[group]Run it"),
        (1, "##[endgroup]"),
        *((2, t) for t in lines),
        (3, "##[error]Process completed with exit code 1."),
    )
    got = extract([log])
    assert got.kind is kind, got.text
    assert lines[-1] in got.text


def test_jobs_that_fail_alike_have_one_signature() -> None:
    """Times, addresses and run numbers aside, two cells of a matrix are the same failure."""
    data, want = load("go-test-panic")
    other = data.replace(b"(0.00s)", b"(0.13s)").replace(b"0x508ec0", b"0x777ec0")
    assert extract([data], want["job"]).signature == extract([other], want["job"]).signature
    third, want3 = load("rspec")
    assert extract([third], want3["job"]).signature != extract([data], want["job"]).signature


def test_clean_takes_away_what_terminals_and_runners_add() -> None:
    """Stamp, byte-order mark, colours, overwritten progress, blanks at the end."""
    assert clean(STAMP + b"\x1b[1m\x1b[31mE   x\x1b[0m  ") == "E   x"
    assert clean(b"\xef\xbb\xbf" + STAMP + b"a\xef\xbb\xbfb\r\n") == "ab"
    assert clean(b" 10%\r 50%\r100% done\r\n") == "100% done"
    assert clean(b"\x1b]8;;https://e.test\x07link\x1b]8;;\x07 \xff") == "link \ufffd"


_WORDS = st.sampled_from(
    [
        "##[group]Run x",
        "##[endgroup]",
        "##[error]",
        "##[error]Process completed with exit code 7.",
        "Post job cleanup.",
        "--- FAIL: TestA (0.0s)",
        "panic: x",
        "FAIL\tex.test/a\t0.1s",
        "  1) a b",
        "1 failing",
        "Failures:",
        "  ● a › b",
        " FAIL  a.test.js",
        " FAIL  a.test.js > b",
        "not ok 1 - x",
        "___ t ___",
        "= FAILURES =",
        "E   x",
        "test x ... FAILED",
        "error[E0001]: x",
        " --> a.rs:1:2",
        "  3:4  error  x  y",
        "/a/b.js",
        "a.c:1:2: error: x",
        "Traceback (most recent call last):",
        '  File "a.py", line 3, in x',
        "[ERROR] a.B.c -- Time elapsed: 1 s <<< FAILURE!",
        "│ Error: x",
        "╵",
        "npm error code E",
        "A > b FAILED",
        "  Failed A.B [1 ms]",
        "  Error Message:",
        "CMake Error at a.txt:1 (x):",
        "FAILED (failures=1)",
        "",
        "\x1b[31m",
    ]
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.one_of(_WORDS, st.text(max_size=40)), max_size=60), st.booleans())
def test_any_log_gives_an_extract_within_the_cap(lines: list[str], stamped: bool) -> None:
    """Whatever stands in it: no exception, valid text, at most 8 KB."""
    prefix = STAMP if stamped else b""
    data = b"\n".join(prefix + line.encode("utf-8", "replace") for line in lines)
    got = extract([data], {"steps": [_step(1, "T", "failure", 1, 3), {"odd": None}, 7]})
    assert len(got.text.encode()) <= EXTRACT_CAP
    assert got.text


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=400), st.integers(1, 50))
def test_any_bytes_in_any_chunks_give_the_same_extract(data: bytes, size: int) -> None:
    """Chunk borders mean nothing."""
    whole = extract([data])
    parts = extract([data[i : i + size] for i in range(0, len(data), size)])
    assert whole == parts


def test_the_extractor_is_pure() -> None:
    """No file, network, clock or process in reach (DESIGN section 2)."""
    folder = Path(__file__).resolve().parents[2] / "agent" / "harness" / "tools" / "ci_logs"
    names = set()
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names |= {a.name.split(".")[0] for a in node.names}
            elif isinstance(node, ast.ImportFrom):
                names.add((node.module or "").split(".")[0])
    assert len(names) > 5
    assert names & {"os", "socket", "time", "subprocess", "pathlib", "io", "tempfile", "threading", "sys"} == set()


def test_samples_are_whole() -> None:
    """The twelve given logs and at least ten of our own are there, with the keys that the score needs."""
    assert len(cases()) >= 22
    for name in cases():
        data, want = load(name)
        assert data
        assert {"job", "failing_steps", "error_lines", "failed_tests", "locations", "not_errors", "kind"} <= want.keys()
        json.dumps(want)


def _step(number: int, name: str, conclusion: str, begin: int, end: int) -> dict[str, Any]:
    return {
        "number": number,
        "name": name,
        "status": "completed",
        "conclusion": conclusion,
        "started_at": f"2026-11-18T09:00:{begin:02}Z",
        "completed_at": f"2026-11-18T09:00:{end:02}Z",
    }


def _log(*lines: tuple[int, str]) -> bytes:
    return b"".join(f"2026-11-18T09:00:{at:02}.1234567Z {text}\n".encode() for at, text in lines)


@pytest.mark.parametrize(
    "line",
    [
        "--- FAIL: a (",
        "  1) a",
        "│ Error: x",
        "a." * 480,
        " (a:" * 240,
        "not ok 1 - x",
        "  ● b",
        "",
        " ",
        "\t\t",
        "1",
        "1) ",
        "9" * 900,
        "panic: x",
        "Traceback (most recent call last):",
        "FAILED a::b",
        "error[E0308]: x",
    ],
)
def test_hostile_repetition_costs_linear_work(line: str) -> None:
    """A hundred kilobytes of one line that readers look at; a quadratic reader would take minutes here."""
    log = (
        STAMP + b"##[group]Run x\n" + b"Failures:\n" + (line.encode() + b"\n") * (100_000 // len(line.encode() + b"\n"))
    )
    got = extract([log + STAMP + b"##[error]Process completed with exit code 1.\n"])
    assert got.steps[0].exit_code == 1
    assert len(got.text.encode()) <= EXTRACT_CAP


def test_a_step_of_nothing_but_errors_is_looked_at_in_part() -> None:
    """First and last suspects count; what lies between costs no reader anything."""
    lines = [f"error: number {n}" for n in range(10_000)]
    found = suspects(["quiet", *lines, "quiet"])
    assert found == [*range(1, 2001), *range(9001, 10_001)]
    assert suspects(["error", "quiet", "fatal"]) == [0, 2]
    assert suspects([*lines[:2000], "quiet", "error: last"]) == [*range(2000), 2001]


def test_nested_panics_are_each_looked_at_once() -> None:
    """A panic's frames end where the next panic begins; each place is kept."""
    log = ["=== RUN   TestA"]
    for n in range(3):
        log += ["panic: boom", "goroutine 1 [running]:", f"\t/home/runner/work/w/w/a.go:{n + 1} +0x1"]
    got = extract(["\n".join(["##[group]Run go test", "##[endgroup]", *log, "FAIL\tw\t0.1s", "##[error]x"]).encode()])
    assert [place.line for place in got.places] == [1, 2, 3]


def _flood(size: int) -> Iterator[bytes]:
    """A log of `size` bytes with one failure at its end, made as it is read."""
    yield STAMP + b"##[group]Run make\n"
    block = b"".join(STAMP + b"compiled unit %06d without a word to say of it, warning: none\n" % n for n in range(800))
    for _ in range(size // len(block)):
        yield block
    yield STAMP + b"a.c:1:2: error: undeclared name\n" + STAMP + b"##[error]Process completed with exit code 2.\n"


def test_memory_does_not_grow_with_the_log() -> None:
    """Head, tail and hits of at most thirteen steps are kept, 448 KB each: 60 MB need what 8 MB need, and so on.

    Measured as the kernel counts it, in a process of its own.
    """
    script = (
        "import resource, sys\n"
        "from agent.harness.tools.ci_logs import extract\n"
        "from tests.unit.test_ci_logs import _flood\n"
        "for size in (8, 60):\n"
        "    got = extract(_flood(size << 20))\n"
        "    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, [p.file for p in got.places])\n"
    )
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, "-c", script], cwd=root, capture_output=True, text=True, check=True)
    small, large = (line.split(" ", 1) for line in done.stdout.splitlines())
    assert small[1] == large[1] == "['a.c']"
    assert int(large[0]) - int(small[0]) < 4 << 10  # KB


@pytest.mark.parametrize("forged", ["##[group]Run x", "##[group]Run x\n##[error]no", "Post job cleanup."])
def test_thousands_of_forged_groups_cost_no_memory_and_hide_nothing(forged: str) -> None:
    """Any program can print `##[group]Run`; what is kept of so many steps stays small, and the real one is found."""
    block = b"".join(STAMP + line.encode() + b"\n" for line in forged.split("\n")) * 1000

    def log(blocks: int) -> Iterator[bytes]:
        yield _log((1, "##[group]Run setup"), (1, "fine"), (1, "##[group]Run make"))
        for _ in range(blocks):
            yield block
        yield _log(
            (9, "##[group]Run make test"),
            (9, "a.c:1:2: error: undeclared name"),
            (9, "##[error]Process completed with exit code 2."),
        )

    job = {"steps": [_step(1, "Run setup", "success", 1, 1), _step(2, "Run make test", "failure", 9, 9)]}
    tracemalloc.start()
    got = extract(log(20), job)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [(step.name, step.exit_code) for step in got.steps] == [("Run make test", 2)]
    assert "undeclared name" in got.text
    assert peak < 16 << 20
