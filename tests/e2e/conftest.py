"""Real containers: an engine, the image built from the Dockerfile, simulators that containers can reach."""

from __future__ import annotations

import functools
import ipaddress
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.replayed import every_transcript_replays as every_transcript_replays
from tests.support.action import ROOT, job_environment
from tests.support.artifacts import PROPERTY
from tests.support.contract_check import check_records
from tests.support.github_sim import GitHubSim
from tests.support.scenario import World, make_world

RUN = str(10**10 + os.getpid())  # GITHUB_RUN_ID: by it this session's runs are told from another's on the engine


def docker(*arguments: str, check: bool = True) -> str:
    """Output of a docker command."""
    return subprocess.run(
        ["docker", *arguments], check=check, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ).stdout.strip()


def engine_answers() -> bool:
    return shutil.which("docker") is not None and bool(
        docker("version", "--format", "{{.Server.Version}}", check=False)
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here needs an engine; without one the tests are skipped."""
    here = [item for item in items if Path(item.fspath).is_relative_to(Path(__file__).parent)]
    reason = None if engine_answers() and os.geteuid() == 0 else "no Docker engine, or not root"
    for item in here:
        item.add_marker(pytest.mark.docker)
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))


@functools.cache
def built_image() -> str:
    """Number of this tree's image; the name keeps its layers, and is anybody's who builds beside."""
    return docker("build", "--quiet", "--tag", "airlock:local", str(ROOT))


@pytest.fixture(scope="session")
def image() -> str:
    """The image of this tree."""
    return built_image()


@pytest.fixture(scope="session")
def gateway() -> str:
    """Address of this machine that containers reach."""
    form = "{{range .IPAM.Config}}{{.Gateway}} {{.Subnet}}{{end}}"
    *named, subnet = docker("network", "inspect", "bridge", "--format", form).split()
    return named[0] if named else str(next(ipaddress.ip_network(subnet).hosts()))


@pytest.fixture
def github(tmp_path: Path, gateway: str) -> Iterator[GitHubSim]:
    """The simulator on the bridge; at the end all its traffic must fit GitHub's own description."""
    with GitHubSim(tmp_path / "github", host=gateway, storage_host=gateway) as sim:
        yield sim
        records = [record for record in sim.records if not record["injected"]]
    if shutil.which("npm"):
        assert check_records(records) == []


@pytest.fixture
def make(tmp_path: Path, github: GitHubSim) -> Callable[..., World]:
    """Makes a world of `tests/support/scenario.py`; its workspace belongs to the runner's user 1001."""

    def build(*, owner: int = 1001, **options: Any) -> World:
        world = make_world(tmp_path, github, **options)
        give(world, owner)
        return world

    return build


def give(world: World, owner: int) -> None:
    """The checkout as a runner of that uid would have made it."""
    temp = world.folder / "temp"
    temp.mkdir(exist_ok=True)
    os.chown(world.workspace.parent, owner, owner)
    for folder in (world.workspace, temp):
        for path in (folder, *folder.rglob("*")):
            os.chown(path, owner, owner, follow_symlinks=False)


@pytest.fixture(autouse=True)
def _nothing_left(tmp_path: Path) -> Iterator[None]:
    """No container or volume of a run outlives its test, whoever started it; other runs on the engine do not count."""

    def there() -> set[str]:
        containers = docker("ps", "--all", "--no-trunc", "--format", "{{.Names}} {{.Labels}} {{.Mounts}}")
        volumes = docker("volume", "ls", "--format", "{{.Name}} {{.Labels}}")
        rows = (containers + "\n" + volumes).splitlines()
        return {row for row in rows if f"airlock-{RUN}-" in row or str(tmp_path) in row}

    before = there()
    yield
    assert there() - before == set()


@pytest.fixture
def matrix(record_property: Callable[[str, object], None]) -> Callable[..., None]:
    """Adds a row to the table that the session prints at its end."""

    def add(shape: str, event: str, *, image: str, result: Any, seconds: float) -> None:
        backends = [probe["backend"] for probe in result.events("sandbox.probe")]
        backend, stop = backends[0] if backends else "none needed", result.outputs.get("stop-reason", "none")
        row = f"{shape:20} {event:14} {backend:12} {image:12} {stop:12} {seconds:6.1f} s"
        record_property(PROPERTY, ("end-to-end runs (shape, event, backend, image, stop reason, time)", row))

    return add


def environment(world: World, event_name: str, event: Path, **extra: str) -> dict[str, str]:
    """A job's environment for `world`."""
    made = job_environment(
        event_name=event_name,
        event=event,
        workspace=world.workspace,
        temp=world.folder / "temp",
        repository=world.repository.full_name,
        api_url=world.github.api_url,
        server_url=world.github.server_url,
        inputs={},
        extra={"GITHUB_RUN_ID": RUN, **extra},
    )
    return {name: value for name, value in made.items() if not name.startswith("INPUT_")}
