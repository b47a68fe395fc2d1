"""One world a test: embedded GitHub on a real repository, and the check that its traffic fits GitHub's contract."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.contract_check import check_records
from tests.support.github_sim import GitHubSim
from tests.support.scenario import World, make_world


@pytest.fixture
def github(tmp_path: Path) -> Iterator[GitHubSim]:
    """The simulator; at the end all its traffic must fit GitHub's own description."""
    with GitHubSim(tmp_path / "github") as sim:
        yield sim
        records = [record for record in sim.records if not record["injected"]]
    if shutil.which("npm") is None:
        return  # `make test` says that the contract was not checked: see tests/unit/test_github_sim_contract
    assert check_records(records) == []


@pytest.fixture
def world(tmp_path: Path, github: GitHubSim) -> World:
    """The standard world of `tests/support/scenario.py`."""
    return make_world(tmp_path, github)


@pytest.fixture
def make(tmp_path: Path, github: GitHubSim) -> Callable[..., World]:
    """As `world`, with other files or configuration."""

    def build(**options: Any) -> World:
        return make_world(tmp_path, github, **options)

    return build
