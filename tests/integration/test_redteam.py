"""The red-team cases about secrets, paths, git, scope, modes and people must hold, each run as the command runs it.

A failure shows the runner's own table and reasons. The other cases are played by `make redteam`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.action import ROOT
from tests.support.redteam.cases import Plan, load

CASES = ("R01", "R02", "R03", "R06", "R07", "R08", "R09", "R10", "R11", "R19", "R20")
FOLDER = ROOT / "fixtures" / "redteam"


def plans() -> list[tuple[Path, Plan]]:
    """Every run of these cases with its file."""
    files = [path for case in CASES for path in sorted(FOLDER.glob(f"{case}-*.yaml"))]
    return [(path, plan) for path in files for plan in load([path])]


def test_every_case_has_its_file() -> None:
    """A case that is renamed or lost is not silently left out."""
    assert {plan.case for _, plan in plans()} == set(CASES)
    assert len({path for path, _ in plans()}) == len(CASES)


@pytest.mark.parametrize(("path", "plan"), [pytest.param(*p, id=ascii(p[1].name)[1:-1]) for p in plans()])
def test_the_case_holds(path: Path, plan: Plan) -> None:
    """Oracle held, every expectation met, and the control calls worked."""
    command = [sys.executable, "-m", "tests.support.redteam", str(path), "--only", plan.name, "--verbose"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900, check=False)

    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    assert " held " in said, said
