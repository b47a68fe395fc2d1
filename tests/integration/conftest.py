"""One world a test: embedded GitHub on a real repository, and the check that its traffic fits GitHub's contract."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.replay import Divergence, replay
from tests.support.action import Result
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


@pytest.fixture(autouse=True)
def replayed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[Divergence]]:
    """Every transcript that these tests make is replayed on the files the run began with, and must not diverge."""
    run = World.run
    found: list[Divergence] = []

    def recording(world: World, *arguments: Any, **options: Any) -> Result:
        before = tmp_path / f"before-{len(list(tmp_path.glob('before-*')))}"
        shutil.copytree(world.workspace, before, symlinks=True, ignore=shutil.ignore_patterns(".git"))
        result = run(world, *arguments, **options)
        if any(event["type"] == "model.response" for event in result.transcript):
            divergence = replay(result.results / "transcript.jsonl", before).divergence
            found.extend([divergence] if divergence else [])
        return result

    monkeypatch.setattr(World, "run", recording)
    yield found
    assert found == []


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
