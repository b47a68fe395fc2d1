"""From a job's log and the API's job object to what a person would want to read of it.

`extract` is pure: chunks in, an `Extract` of at most `EXTRACT_CAP` bytes out. Everything in it is text of third
parties; markers such as `##[error]` can be printed by any program and prove nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from agent.contract.dataclass import dataclass, replace
from agent.contract.regex import regex
from agent.harness.tools.ci_logs import (
    causes,
    diagnostics,
    hooks,
    levels,
    tests_dart,
    tests_js,
    tests_managed,
    tests_native,
    tests_numbered,
    tests_python,
    tests_scala,
)
from agent.harness.tools.ci_logs.fallback import fallback
from agent.harness.tools.ci_logs.findings import FIRST, Checkout, FailedTest, Findings, Kind, Log, Place
from agent.harness.tools.ci_logs.prefixes import unprefixed
from agent.harness.tools.ci_logs.render import EXTRACT_CAP, render
from agent.harness.tools.ci_logs.segments import Segment, read_segments
from agent.harness.tools.ci_logs.steps import FAILED, Step, assign, steps_of

_EXIT = regex(r"##\[error\]Process completed with exit code (-?\d{1,10})\.?$")
_STEPS_CAP = 6


@dataclass(frozen=True)
class FailingStep:
    """One failing step.

    Attributes:
        name: the step's name, or the group's title where the API gives none.
        number: as in the API, 0 where unknown.
        conclusion: failure, timed_out, cancelled.
        exit_code: of its command, None where an action ended by its own error.
        first_line, last_line: in the log, from 1; 0 where the log has nothing of it.
        kind: what sort of failure.
        lines: kept lines as (number, text, worth).
        notes: words of ours about it.
    """

    name: str
    number: int
    conclusion: str
    exit_code: int | None
    first_line: int
    last_line: int
    kind: Kind
    lines: tuple[tuple[int, str, int], ...]
    tests: tuple[FailedTest, ...]
    places: tuple[Place, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Extract:
    """What a job's log says about its failure.

    Attributes:
        kind: of the first failing step.
        steps: failing steps in order.
        text: for the model, at most `EXTRACT_CAP` bytes.
        cut: something was left out of the text.
        signature: equal for jobs that fail alike.
    """

    kind: Kind
    steps: tuple[FailingStep, ...]
    text: str
    cut: bool
    signature: str

    @property
    def tests(self) -> tuple[FailedTest, ...]:
        return tuple(t for s in self.steps for t in s.tests)

    @property
    def places(self) -> tuple[Place, ...]:
        return tuple(dict.fromkeys(p for s in self.steps for p in s.places))


def extract(
    chunks: Iterable[bytes], job: Mapping[str, Any] | None = None, *, repository: str = "", cap: int = EXTRACT_CAP
) -> Extract:
    """Read a job's log once.

    Args:
        chunks: the log's bytes in any portions.
        job: the API's job object; its steps, times and conclusion are used, and all may be missing.
        repository: name without owner, for names of modules.
        cap: bytes of `text`.
    """
    segments = read_segments(chunks)
    steps = steps_of(job or {})
    checkout, name = _checkout(segments, repository)
    failing: list[FailingStep] = []
    for step, parts in _failing(steps, segments)[:_STEPS_CAP]:
        failing.append(_read(step, parts, segments[0] if segments else None, checkout, name))
    kind = failing[0].kind if failing else Kind.UNKNOWN
    text, cut = render(failing, segments, cap)
    return Extract(kind, tuple(failing), text, cut, _signature(failing))


def _checkout(segments: list[Segment], repository: str) -> tuple[Checkout, str]:
    """Root of the checkout and the repository's name, as checkout's own lines say."""
    for segment in segments[:12]:
        for _, text in segment.lines[:400]:
            found = re.match(r"^Working directory is '([^']{1,300})'$", text)
            if found:
                return Checkout(found[1]), repository or re.split(r"[\\/]", found[1])[-1]
    return Checkout(), repository


def _failing(steps: list[Step], segments: list[Segment]) -> list[tuple[Step, list[Segment]]]:
    """Failing steps with their stretches of the log, by the API's word, else by the log's."""
    by_number = assign(steps, segments)
    failed = [s for s in steps if s.conclusion in FAILED]
    found = [(s, by_number.get(s.number, [])) for s in failed]
    if found and any(parts for _, parts in found):
        return [(s, parts) for s, parts in found if parts] + [(s, p) for s, p in found if not p]
    errors = [s for s in segments if s.has_error]
    if found:  # none of them has a group of its own: a step of the runner, or a container that never started
        return [(found[0][0], errors or segments[-1:])] + [(s, []) for s, _ in found[1:]]
    ended = [s for s in errors if _EXIT.match(s.terminal)] or errors[-1:]
    if not ended and segments:
        ended = [s for s in segments if s.title.startswith("Run ")][-1:] or segments[-1:]
    return [(Step(s.title or "Set up job", 0, "failure", None, None), [s]) for s in ended]


def _read(step: Step, parts: list[Segment], setup: Segment | None, checkout: Checkout, repository: str) -> FailingStep:
    """Find what a failing step says."""
    if not parts:
        return FailingStep(step.name, step.number, step.conclusion, None, 0, 0, Kind.UNKNOWN, (), (), ())
    pairs = [pair for part in parts for pair in part.lines]
    prologue = _prologue([text for _, text in pairs])
    shown = [t for _, t in pairs[prologue:]]
    bare, folders = unprefixed(shown, checkout)
    log = Log(bare, [n for n, _ in pairs[prologue:]], checkout, repository)
    title = " ".join(p.title for p in parts)
    commands = "\n".join(t for _, t in pairs[:prologue])
    exit_code = _exit_code(log)
    out = Findings()
    echoed = [text for text in log.lines[:12] if text.startswith(("> ", "$ "))]  # what npm and yarn say they run
    lint = diagnostics.is_lint("\n".join([title, commands, *echoed]))
    for reader in (
        tests_python.pytest,
        tests_python.unittest,
        tests_js.jest,
        tests_js.vitest,
        tests_js.tap,
        tests_native.go,
        tests_native.cargo,
        tests_native.gtest,
        tests_native.xctest,
        tests_managed.surefire,
        tests_managed.gradle,
        tests_managed.dotnet,
        tests_scala.scala,
        tests_numbered.numbered,
        tests_dart.dart,
        hooks.pre_commit,
    ):
        reader(log, out)
    diagnostics.go_build(log, out, lint=lint)
    diagnostics.rust_like(log, out, lint=lint)
    diagnostics.compilers(log, out, lint=lint)
    diagnostics.linters(log, out, lint=lint)
    levels.levelled(log, out, lint=lint)
    diagnostics.boxes(log, out)
    diagnostics.cmake(log, out)
    tests_python.traceback(log, out)
    causes.packages(log, out)
    causes.docker(log, out)
    causes.machine(log, out, exit_code)
    causes.setup(log, out, exit_code)
    notes = _annotated(log, out, exit_code)
    fallback(log, out)
    _below_folders(log, out, folders)
    kind = _kind(out)
    if kind is Kind.CONFIGURATION:
        notes += _secrets(commands, setup)
    return FailingStep(
        name=step.name or title,
        number=step.number,
        conclusion=step.conclusion or "failure",
        exit_code=exit_code,
        first_line=parts[0].first,
        last_line=max(p.last for p in parts),
        kind=kind,
        lines=tuple((log.numbers[i], shown[i], worth) for i, worth in sorted(out.kept.items()) if log.lines[i]),
        tests=tuple(out.tests.values()),
        places=tuple(out.places),
        notes=tuple(notes),
    )


def _below_folders(log: Log, out: Findings, folders: Mapping[int, str]) -> None:
    """Places of a package's output begin in the package's folder, unless they were absolute."""
    if not folders:
        return

    def moved(at: Place, folder: str) -> Place:
        return at if not folder or at.file.startswith(folder + "/") else replace(at, file=f"{folder}/{at.file}")

    out.places = {moved(at, folders.get(i, "")): i for at, i in out.places.items()}
    by_number = {log.numbers[i]: folder for i, folder in folders.items()}
    for test in out.tests.values():
        if test.at:
            test.at = moved(test.at, by_number.get(test.number, ""))


def _prologue(lines: list[str]) -> int:
    """Lines of the group that shows a step's command and environment."""
    if not lines or not lines[0].startswith("##[group]"):
        return 0
    return next((i + 1 for i, text in enumerate(lines[:400]) if text == "##[endgroup]"), 1)


def _exit_code(log: Log) -> int | None:
    for text in reversed(log.lines):
        found = _EXIT.match(text)
        if found:
            return int(found[1])
    return None


def _annotated(log: Log, out: Findings, exit_code: int | None) -> list[str]:
    """Keep the step's own `##[error]` lines; the exit line only where its code says something by itself."""
    notes: list[str] = []
    for i, text in enumerate(log.lines):
        if _EXIT.match(text):
            if exit_code is not None and exit_code >= 126:
                out.keep(i, FIRST)
        elif text.startswith("##[error]") and len(text) > len("##[error]"):
            out.keep(i, FIRST)
    if exit_code is not None and 128 < exit_code < 160:
        signal = {1: "SIGHUP", 2: "SIGINT", 6: "SIGABRT", 9: "SIGKILL", 11: "SIGSEGV", 15: "SIGTERM"}.get(
            exit_code - 128, ""
        )
        why = ": almost always out of memory" if exit_code == 137 else ""
        notes.append(f"Exit code {exit_code} is signal {exit_code - 128}{f' ({signal})' if signal else ''}{why}.")
    return notes


def _secrets(commands: str, setup: Segment | None) -> list[str]:
    """What the set-up and the step's own environment say about missing secrets."""
    notes: list[str] = []
    for _, text in setup.lines if setup else ():
        if text.strip() == "Secret source: None":
            notes.append(
                "`Secret source: None`: this run was given no secrets (as for a fork's or a bot's pull request)."
            )
    empty = re.findall(r"(?m)^[ \t]+([A-Za-z_][A-Za-z0-9_-]*):[ \t]*$", commands)
    empty = [name for name in empty if name not in ("env", "with")]
    if empty:
        notes.append(f"Empty in the step's settings: {', '.join(empty[:10])}.")
    return notes


def _kind(out: Findings) -> Kind:
    """The kind with the best evidence; a dead machine beats everything, failed tests beat their own messages."""
    votes = dict(out.votes)
    if votes.get(Kind.INFRASTRUCTURE, 0) >= 8:
        return Kind.INFRASTRUCTURE
    if out.tests and votes.get(Kind.TEST):
        return Kind.TEST
    order = [Kind.DEPENDENCY, Kind.COMPILE, Kind.LINT, Kind.CONFIGURATION, Kind.INFRASTRUCTURE, Kind.TEST]
    best = max(order, key=lambda k: (votes.get(k, 0.0), -order.index(k)))
    return best if votes.get(best) else Kind.UNKNOWN


def _signature(failing: list[FailingStep]) -> str:
    """Equal for two jobs with the same failures, whatever their times and numbers."""
    parts: list[str] = []
    for step in failing:
        parts += [step.name, step.kind, *(t.name for t in step.tests)]
        parts += [
            re.sub(r"\d+(?:\.\d+)?\s?m?s\b|0x[0-9a-f]+|\b\d{4,}\b", "", t) for _, t, w in step.lines if w == FIRST
        ]
    return "\n".join(parts) if parts else ""
