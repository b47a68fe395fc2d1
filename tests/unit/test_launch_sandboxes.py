"""Which backend a run gets, and that it is told why it is no container."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.contract.errors import UpstreamError
from agent.contract.sandbox import ProbeItem, ProbeReport, Purpose, SandboxSpec
from agent.launch_place import Place
from agent.launch_sandboxes import Sandboxes
from tests.support.action import ROOT
from tests.unit.sandbox_rig import GID, UID, workspace

NO_ENGINE = "start a sandbox: find Docker: its socket is not here"


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Any]:
    """Sandboxes of a machine without an engine; the factory takes inputs."""
    made: list[Sandboxes] = []

    def start(**settings: str) -> Sandboxes:
        place = Place(state=None, git_dir=None, engine=None)
        tmp_path.chmod(0o711)
        sandboxes = Sandboxes(settings, place, state=tmp_path, owner=(UID, GID), watched=lambda: ())
        made.append(sandboxes)
        return sandboxes

    yield start
    for sandboxes in made:
        sandboxes.stop_all()


def test_auto_says_why_it_took_no_container(started: Any, tmp_path: Path) -> None:
    """The process backend is taken, and the report's first lack is the container."""
    spec = SandboxSpec(Purpose.MAIN, str(workspace(tmp_path)))
    sandboxes = started()

    report = sandboxes.probe(spec, (), ())

    assert (report.backend, report.ok) == ("process", True)
    assert report.missing[0] == f"no container backend ({NO_ENGINE})"
    assert sandboxes.start(spec) == 1


@pytest.mark.parametrize(
    ("inputs", "spec", "lacks"),
    [
        ({"sandbox": "container"}, {}, ""),
        ({}, {"backend": "container"}, ""),
        ({"sandbox-image": "node:22"}, {}, ", and commands shall run in the image node:22"),
        ({}, {"image": "node:22"}, ", and commands shall run in the image node:22"),
    ],
)
def test_a_backend_or_image_that_somebody_named_is_never_replaced(
    started: Any, tmp_path: Path, inputs: dict[str, str], spec: dict[str, str], lacks: str
) -> None:
    """By input or by configuration: the run refuses, and its sentence says what is missing."""
    report = started(**inputs).probe(SandboxSpec(Purpose.MAIN, str(workspace(tmp_path)), **spec), (), ())  # type: ignore[arg-type]

    assert (report.backend, report.ok) == ("container", False)
    assert report.refusal() == (f"The sandbox did not pass its probe, so nothing may run in it. {NO_ENGINE}{lacks}")


def test_a_process_backend_that_the_workflow_names_is_taken_whatever_the_image(started: Any, tmp_path: Path) -> None:
    """Control: the input is the stronger word, and nothing is lacking then."""
    spec = SandboxSpec(Purpose.MAIN, str(workspace(tmp_path)), image="node:22")
    report = started(sandbox="process").probe(spec, (), ())

    assert (report.backend, report.ok) == ("process", True)
    assert [text for text in report.missing if "container" in text] == []


class Candidate:
    """A backend whose probe's verdict is given; it is its own session."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.did: list[str] = []

    def start(self, spec: SandboxSpec) -> Candidate:
        self.did.append("start")
        return self

    def close(self) -> None:
        self.did.append("close")


@pytest.mark.parametrize(
    ("asked", "holds", "taken", "did"),
    [
        ("auto", ("container", "process"), "container", (["start"], [])),
        ("auto", ("process",), "process", (["start", "close"], ["start"])),
        ("auto", (), None, (["start", "close"], ["start", "close"])),
        ("container", ("process",), None, (["start", "close"], [])),
        ("process", ("container", "process"), "process", ([], ["start"])),
    ],
)
def test_the_strongest_backend_that_passes_its_probe_is_taken(
    monkeypatch: pytest.MonkeyPatch,
    started: Any,
    tmp_path: Path,
    asked: str,
    holds: tuple[str, ...],
    taken: str | None,
    did: tuple[list[str], list[str]],
) -> None:
    """The first that holds and no further; where none does nothing can be started; a named one is never replaced."""
    container, process = Candidate("container"), Candidate("process")
    monkeypatch.setattr(Sandboxes, "_container", lambda self, spec: container)
    monkeypatch.setattr(Sandboxes, "_process", lambda self: process)

    def probe(session: Candidate, root: str, targets: Any, *, backend: str) -> ProbeReport:
        held = backend in holds
        return ProbeReport(backend, ok=held, loopback=True, items=(ProbeItem("read a canary", held=held, detail="x"),))

    monkeypatch.setattr("agent.sandbox.probe.probe", probe)
    sandboxes, spec = started(sandbox=asked), SandboxSpec(Purpose.MAIN, str(tmp_path))

    report = sandboxes.probe(spec, (), ())

    assert (container.did, process.did) == did
    assert report.ok == (taken is not None)
    if taken is None:
        with pytest.raises(UpstreamError, match="no sandbox has passed its probe"):
            sandboxes.start(spec)
    else:
        assert (report.backend, sandboxes.start(spec)) == (taken, 1)


WARM = """
import sys, threading
from pathlib import Path
from agent.launch_place import Place
from agent.launch_sandboxes import Sandboxes
engine, inputs = sys.argv[1] or None, {"sandbox": sys.argv[2]}
place = Place(None, None, Path(engine) if engine else None)
Sandboxes(inputs, place, state=Path("/nonexistent"), owner=(1, 1), watched=tuple).warm_up()
[thread.join() for thread in threading.enumerate() if thread.name == "sandboxes"]
print("docker" in sys.modules, "agent.sandbox.process" in sys.modules)
"""


@pytest.mark.parametrize(
    ("engine", "asked", "client"),
    [("/engine.sock", "auto", True), ("/engine.sock", "process", False), ("", "auto", False)],
)
def test_the_engines_client_is_loaded_at_once_where_it_may_be_used_and_nowhere_else(
    engine: str, asked: str, client: bool
) -> None:
    """It is most of what a container's start takes beside the engine, and 28 MB. Else the other backend is."""
    command = [sys.executable, "-c", WARM, engine, asked]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert (done.stdout, done.stderr) == (f"{client} {not client}\n", "")
