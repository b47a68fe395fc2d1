"""Opening a workspace, and when a sandbox may be started beside it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.broker.git.journal import undo
from agent.broker.git.prepare import Prepared
from agent.broker.sandboxes import Sandboxes
from agent.broker.workbench import open_bench
from agent.contract.errors import UpstreamError, UserError
from agent.contract.sandbox import ProbeReport, Purpose, SandboxSpec
from tests.support.checkouts import git, make_checkout


def opened(work: Path, state: Path, head: str | None, also: list[str], settled: Callable[[Prepared], None]) -> None:
    def no_fetch(_: object) -> Any:
        raise UpstreamError("fetch", "nothing is fetched here")

    state.mkdir()
    open_bench(
        work, state, owner=(1001, 1001), temps=(), head_sha=head, also=also, needs_git=True,
        fetch=no_fetch, learn=lambda _: None, settled=settled,
    )  # fmt: skip


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """Two commits, of which the second is checked out."""
    folder = tmp_path / "work"
    make_checkout(folder, {"a": "1\n"})
    (folder / "a").write_text("2\n")
    git(folder, "commit", "-qam", "Second")
    return folder


def test_a_workspace_that_stays_as_it_is_is_settled_before_its_commits_are_read(tmp_path: Path, work: Path) -> None:
    """A missing base is found after it. What no sandbox may reach is there by then, so that a probe means something."""
    seen: list[bool] = []

    def settled(prepared: Prepared) -> None:
        assert [Path(folder).exists() for folder in prepared.hidden] == [True] * len(prepared.hidden)
        assert "remote" not in (work / ".git/config").read_text(), "the throwaway is in place"
        seen.append((tmp_path / "state/shadow.git").exists())

    with pytest.raises(UserError, match="could not be fetched"):
        opened(work, tmp_path / "state", None, ["c" * 40], settled)
    assert seen == [True]
    undo(tmp_path / "state/prepare")


def test_a_workspace_that_is_brought_to_another_commit_is_settled_after_that(tmp_path: Path, work: Path) -> None:
    """What a sandbox covers is taken from the files it finds."""
    seen: list[str] = []
    first = git(work, "rev-parse", "HEAD~1").strip()
    opened(work, tmp_path / "state", first, [], lambda _: seen.append((work / "a").read_text()))
    assert seen == ["1\n"]
    undo(tmp_path / "state/prepare")


class Slow:
    """Launch, whose probe lasts until it may end."""

    def __init__(self) -> None:
        self.asked, self.may_end = threading.Event(), threading.Event()

    def call(self, op: str, **fields: Any) -> Any:
        self.asked.set()
        assert self.may_end.wait(60)
        return type("Frame", (), {"header": {"report": ProbeReport("process", ok=True, loopback=False).to_json()}})


def test_a_probe_runs_beside_what_else_is_done() -> None:
    """Starting it does not wait for it; its result does."""
    control = Slow()
    wait = Sandboxes(control).probe_beside(SandboxSpec(purpose=Purpose.MAIN, root="/w"), ["/private"])  # type: ignore[arg-type]
    assert control.asked.wait(60)
    control.may_end.set()
    assert (wait().ok, wait().backend) == (True, "process")
