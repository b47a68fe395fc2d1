"""The project's own workflows: tests on every push, no release with a red suite, least permissions, pinned actions."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from tests.support.doc_pages import ROOT

FOLDER = ROOT / ".github" / "workflows"
WORKFLOWS = {path.stem: yaml.safe_load(path.read_text()) for path in sorted(FOLDER.glob("*.yml"))}


def jobs() -> list[tuple[str, dict[str, Any]]]:
    return [(f"{name}.{job}", value) for name, flow in WORKFLOWS.items() for job, value in flow["jobs"].items()]


def test_tests_run_on_every_push_and_pull_request() -> None:
    """C8: no branch and no path is left out, and all three kinds of check are there."""
    ci = WORKFLOWS["ci"]
    commands = " ".join(step.get("run", "") for job in ci["jobs"].values() for step in job["steps"])

    assert (ci[True]["push"], ci[True]["pull_request"]) == (None, None)
    assert all(command in commands for command in ("make check", "make test", ".ci/run"))


def test_nothing_is_published_with_a_red_suite() -> None:
    """The publishing job waits for the whole of CI on this commit; it alone may write."""
    release = WORKFLOWS["release"]["jobs"]
    writers = {name for name, job in release.items() if "write" in job.get("permissions", {}).values()}

    assert release["suite"]["uses"].endswith("/.github/workflows/ci.yml")
    assert writers == {"publish"}
    assert release["publish"]["needs"] == "suite"
    assert "always()" not in str(release["publish"].get("if", ""))
    assert "continue-on-error" not in str(WORKFLOWS["ci"])


@pytest.mark.parametrize("name", WORKFLOWS)
def test_permissions_are_none_at_the_top_and_every_job_has_its_own(name: str) -> None:
    """And a time-out of the job, not of a step."""
    flow = WORKFLOWS[name]

    assert flow["permissions"] == {}
    assert "concurrency" in flow
    for job in flow["jobs"].values():
        assert "permissions" in job
        assert "uses" in job or 0 < job["timeout-minutes"] <= 90


def test_every_action_is_pinned_by_its_commit_with_the_version_beside_it() -> None:
    """A tag can be moved by whoever takes the action over."""
    lines = [
        line.strip()
        for path in [*FOLDER.glob("*.yml"), ROOT / "action.yml"]
        for line in path.read_text().splitlines()
        if re.match(r"\s*(- )?uses: [^.$]", line)
    ]

    assert len(lines) > 8
    assert [line for line in lines if not re.search(r"@[0-9a-f]{40} # v\d+\.\d+\.\d+$", line)] == []


def test_no_expression_stands_in_a_script() -> None:
    """Template injection: values reach scripts by environment variables alone."""
    found = [
        (name, step["run"]) for name, job in jobs() for step in job.get("steps", ()) if "${{" in step.get("run", "")
    ]

    assert found == []


def test_the_action_that_reviews_is_the_base_branchs() -> None:
    """A pull request must not change who reviews it, and the review has no write beyond comments."""
    (job,) = WORKFLOWS["airlock"]["jobs"].values()
    places = {step["with"]["path"]: step["with"]["ref"] for step in job["steps"] if "path" in step.get("with", {})}

    assert places == {".airlock": "${{ github.event.pull_request.base.sha }}"}
    assert job["steps"][-1]["uses"] == "./.airlock"
    assert job["steps"][-1]["with"]["mode"] == "review"
    assert {name for name, value in job["permissions"].items() if value == "write"} == {"pull-requests"}
