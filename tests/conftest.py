"""Shared fixtures. Under CI a skip of a test that CI can run is a failure (see `pytest_sessionfinish`)."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.artifacts import PROPERTY, folder
from tests.support.seed import VARIABLE, run_seed


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder that the sandbox's user can reach too: pytest's own is below a 0700 folder."""
    path = Path(tempfile.mkdtemp(prefix="airlock-test-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path, ignore_errors=True)


def pytest_configure() -> None:
    """Draw the run's seed before workers start, so that all of them collect the same tests."""
    run_seed()


def pytest_report_header() -> str:
    """Print the seed."""
    return f"seed of this run: {run_seed()} (repeat with {VARIABLE}=...)"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the tables whose lines tests recorded, and keep them beside the pictures."""
    tables: dict[str, list[str]] = {}
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, value in report.user_properties if getattr(report, "when", "") == "call" else ():
                if name == PROPERTY:
                    title, line = value
                    tables.setdefault(title, []).append(line)
    for title, lines in tables.items():
        terminalreporter.section(title)
        terminalreporter.write_line("\n".join(lines))
        name = title.partition(":")[0].replace(" ", "-")
        (folder() / f"{name}.txt").write_text("\n".join([title, *lines]) + "\n")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """With AIRLOCK_REQUIRE_ALL set (as .ci/run does), a skipped test fails the run."""
    if not os.environ.get("AIRLOCK_REQUIRE_ALL"):
        return
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped", []) if reporter else []
    if skipped and session.exitstatus == 0:
        reporter.write_line(f"{len(skipped)} skipped although everything is required", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
