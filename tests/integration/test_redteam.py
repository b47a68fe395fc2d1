"""The red-team cases must hold, each run as the command runs it: all about secrets, git, scope, text, modes and
people, and under each way the sandbox is used one variant of each case that the sandbox decides.

A failure shows the runner's own table and reasons. The other variants are played by `make redteam`.
"""

from __future__ import annotations

import functools
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.action import ROOT
from tests.support.artifacts import PROPERTY
from tests.support.redteam import backends, isolate
from tests.support.redteam.cases import Plan, load

CASES = ("R01", "R02", "R03", "R06", "R07", "R08", "R09", "R10", "R11", "R13", "R14", "R15", "R19", "R20")
FOLDER = ROOT / "fixtures" / "redteam"

# What differs by backend: the environment and files that commands see, their git, their network, their limits.
BY_BACKEND = ("R01", "R02", "R03", "R04", "R05/static", "R06", "R07/by-command", "R12", "R18/fork-bomb", "R18/daemon")
TITLE = "red team: case, backend, held"


def plans() -> list[tuple[Path, Plan]]:
    """Every run of these cases with its file."""
    files = [path for case in CASES for path in sorted(FOLDER.glob(f"{case}-*.yaml"))]
    return [(path, plan) for path in files for plan in load([path])]


def test_every_case_has_its_file() -> None:
    """A case that is renamed or lost is not silently left out."""
    assert {plan.case for _, plan in plans()} == set(CASES)
    assert len({path for path, _ in plans()}) == len(CASES)


@pytest.mark.parametrize(("path", "plan"), [pytest.param(*p, id=ascii(p[1].name)[1:-1]) for p in plans()])
def test_the_case_holds(path: Path, plan: Plan, record_property: Callable[[str, object], None]) -> None:
    """Oracle held, every expectation met, and the control calls worked."""
    status, said, rows = play([str(path), "--only", plan.name])
    tell(rows, "process", record_property)

    assert status == 0, said
    assert [state for _, state in rows] == ["held"], said


@functools.cache
def reason(backend: str) -> str | None:
    """Why a backend's cases cannot be played here: no engine, not root, no namespaces with limits."""
    return backends.why_not(backend) or (None if backend == "process-in-container" else isolate.why_not())


@pytest.mark.root
@pytest.mark.parametrize(
    "backend",
    [
        pytest.param(
            backend,
            marks=[
                pytest.mark.skipif(reason(backend) is not None, reason=str(reason(backend))),
                *([pytest.mark.docker] if backend in backends.NEEDS_ENGINE else []),
            ],
        )
        for backend in backends.BACKENDS
    ],
)
def test_what_the_sandbox_decides_holds_under(backend: str, record_property: Callable[[str, object], None]) -> None:
    """Each case whose answer is the sandbox's holds for root, for a normal user, in a container and by containers."""
    wanted = [case for case in BY_BACKEND if backend != "process" or case.split("/")[0] not in CASES]
    status, said, rows = play([*(f"--only={case}" for case in wanted), f"--backend={backend}"])
    tell(rows, backend, record_property)

    assert status == 0, said
    assert rows == [(case, "held") for case in wanted], said


def play(arguments: list[str]) -> tuple[int, str, list[tuple[str, str]]]:
    """Exit status, all output, and the rows of the runner's table: name of the case, and whether it held."""
    command = [sys.executable, "-m", "tests.support.redteam", *arguments, "--verbose"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900, check=False)
    row = re.compile(r"(R\d\d) +(.+?) +(held|BREACHED|not run) +-?\d+/\d+  control")
    found = [row.match(line) for line in done.stdout.splitlines()]
    rows = [(f"{m[1]}/{m[2].strip()}".removesuffix("/-"), m[3].strip()) for m in found if m is not None]
    return done.returncode, done.stdout + done.stderr, rows


def tell(rows: list[tuple[str, str]], backend: str, record_property: Callable[[str, object], None]) -> None:
    """The table in the terminal summary."""
    for case, state in rows:
        record_property(PROPERTY, (TITLE, f"{case:<44} {backend:<22} {state}"))
