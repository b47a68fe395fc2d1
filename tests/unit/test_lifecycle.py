"""What the hooks of a run do with the checkouts they are given, on a writer and sandboxes that only answer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agent.broker.lifecycle import Hook, Lifecycle
from agent.contract.sandbox import ExecRequest, ExecResult, Purpose, SandboxSpec

SENTENCE = "Stop and prepush scripts run without the ignored folders."


class Writer:
    """Stands for `Checkouts`: cannot keep anything, and remembers the order of what was asked."""

    def __init__(self, asked: list[str]) -> None:
        self.asked = asked

    def keep_ignored(self, folder: Path) -> str:
        self.asked.append("keep")
        assert not folder.exists()
        return SENTENCE

    def check_out(self, tree: str, directory: Path, files: Mapping[str, bytes]) -> None:
        self.asked.append(f"check out {tree}")

    def swap_in(self, files: Mapping[str, bytes]) -> Any:
        self.asked.append("swap in")
        return lambda: self.asked.append("put back")


class Boxes:
    """Stands for `Sandboxes` and for the sandbox: each command ends as its text says."""

    def __init__(self, asked: list[str]) -> None:
        self.asked = asked
        self.specs: list[SandboxSpec] = []

    def start(self, spec: SandboxSpec) -> Boxes:
        self.specs.append(spec)
        return self

    def run(self, request: ExecRequest) -> ExecResult:
        self.asked.append(request.command)
        return ExecResult(int(request.command[-1]), None, False, b"out", b"")

    def __enter__(self) -> Boxes:
        return self

    def __exit__(self, *_: object) -> None:
        return None


def lifecycle(tmp_path: Path, **hooks: str) -> tuple[Lifecycle, list[str], Boxes, list[tuple[str, dict[str, Any]]]]:
    asked: list[str] = []
    boxes, written = Boxes(asked), []
    made = Lifecycle(
        {Purpose(name): Hook(command, {}) for name, command in hooks.items()},
        boxes,  # type: ignore[arg-type]
        Writer(asked),
        folder=tmp_path,
        workspace="/home/runner/w",
        spec=lambda purpose, root: SandboxSpec(purpose, root, readable=("/home/runner/w/.airlock-1/objects", "/tools")),
        remaining_s=lambda: 60.0,
        record=lambda kind, **fields: written.append((kind, fields)),
    )
    return made, asked, boxes, written


def test_ignored_folders_are_kept_after_setup_and_a_gate_stands_in_the_workspaces_place(tmp_path: Path) -> None:
    """After the hook's files are out again; what could not be kept is in the transcript and in the gate's output."""
    made, asked, boxes, written = lifecycle(tmp_path, setup="setup 0", stop="stop 1")
    made.setup()
    verdict = made.judge(Purpose.STOP, "tree")

    assert asked == ["swap in", "setup 0", "put back", "keep", "check out tree", "stop 1"]
    assert made.left_out == SENTENCE
    assert ("log", {"level": "warning", "where": "gates", "message": SENTENCE}) in written
    assert verdict.output == f"[stdout]\nout\n{SENTENCE}"
    setup, gate = boxes.specs
    assert (setup.root, setup.place) == ("/home/runner/w", "/home/runner/w")
    assert (gate.root, gate.place) == (str(tmp_path / "stop-1/w"), "/home/runner/w")
    assert gate.readable == ("/tools",)


@pytest.mark.parametrize(
    ("hooks", "kept"),
    [
        ({"prepush": "x 0"}, True),
        ({"setup": "x 0"}, False),
        ({}, False),
        ({"setup": "x 1", "stop": "y 0"}, False),
    ],
)
def test_nothing_is_kept_where_no_gate_will_ask_for_it(tmp_path: Path, hooks: dict[str, str], kept: bool) -> None:
    """Without setup it is done at once; without gates, or after a setup that failed, not at all."""
    made, asked, _, _ = lifecycle(tmp_path, **hooks)
    made.setup()
    assert ("keep" in asked) == kept
