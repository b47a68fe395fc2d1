"""The end of a run on the report's own functions: every stop reason, every way of telling, and each failing alone."""

from __future__ import annotations

import io
import os
import re
import socket
import threading
import time
from pathlib import Path
from typing import Any, cast

import pytest

from agent.broker.closing import settle
from agent.broker.equip import setup_failed
from agent.broker.git.snapshot_words import Caps
from agent.broker.lifecycle import GateVerdict, Lifecycle
from agent.broker.limits import Limits, Meter
from agent.broker.process import listen
from agent.broker.redact import Redactor
from agent.broker.report.actions import OUTPUTS
from agent.broker.report.changes import changes_of
from agent.broker.report.facts import Change, RunReport
from agent.broker.report.log import Log
from agent.broker.report.results import Results
from agent.broker.run import Broker
from agent.broker.state import Ending, RunState
from agent.broker.telling import publish_report, write_error, write_skip
from agent.contract.errors import UpstreamError
from agent.contract.facts import RunFacts
from agent.contract.outcomes import OUTCOMES, StopReason
from agent.contract.sandbox import ExecResult, Purpose
from agent.kernel.channel import Channel
from tests.support.action import parse_outputs
from tests.support.checkouts import make_checkout, worktree_of

TOKEN = "ghs_" + "Cl0singTest" * 4
FACTS: dict[str, Any] = {
    "mode": "plan", "event": "issues", "repository": "acme/shop", "base_sha": None, "head_sha": "", "number": None,
    "is_pull_request": False, "run_id": None, "tools": [], "task": "", "playbook": "plan", "playbook_is_text": False,
    "max_tool_calls": 1, "max_turns": 1, "timeout_s": 100.0, "max_tokens": None, "models": [], "branch_prefix": "a/",
}  # fmt: skip


class End:
    """Log, results folder and state of one run."""

    def __init__(self, folder: Path) -> None:
        self.out = io.BytesIO()
        redactor = Redactor({"TOKEN": TOKEN})
        self.folder = folder
        self.log = Log(self.out, io.BytesIO(), redactor)
        self.results = Results(folder, redactor)
        meter = Meter(Limits(5), started=time.monotonic())
        facts = RunFacts.from_json({**FACTS, "workspace": str(folder)})
        self.run = RunState(facts, frozenset(), meter, lambda *_, **__: None)

    @property
    def annotations(self) -> list[tuple[str, str]]:
        return re.findall(r"(?m)^::(notice|warning|error)(?: title=Airlock)?::(.*)$", self.out.getvalue().decode())

    @property
    def outputs(self) -> dict[str, str]:
        return parse_outputs((self.folder / "outputs").read_text())


@pytest.fixture
def end(tmp_path: Path) -> End:
    return End(tmp_path)


@pytest.mark.parametrize("reason", StopReason)
def test_every_stop_reason_is_told_the_same_in_summary_outputs_and_annotation(end: End, reason: StopReason) -> None:
    """One row of the table, three readers; secrets in the model's words reach none of them."""
    row = OUTCOMES[reason]
    report = RunReport(reason, "plan", "Because.", output=f"I saw {TOKEN}.", structured={"key": TOKEN})
    assert publish_report(report, end.run, results=end.results, log=end.log, api=None, live=None) == []
    assert set(end.outputs) == set(OUTPUTS)
    assert (end.outputs["outcome"], end.outputs["stop-reason"]) == (row.outcome, str(reason))
    ((level, words),) = end.annotations
    assert level == ("notice" if row.exit_status == 0 else "error")
    assert row.outcome.replace("_", " ") in words
    summary = end.results.summary.read_text()
    assert row.sentence in summary
    everything = b"".join(p.read_bytes() for p in end.folder.rglob("*") if p.is_file()) + end.out.getvalue()
    assert TOKEN.encode() not in everything
    assert b"[redacted:TOKEN]" in everything


@pytest.mark.parametrize("broken", ["summary.md", "outputs", "structured.json"])
def test_one_way_of_telling_that_fails_does_not_cost_the_others(end: End, broken: str) -> None:
    """Disk trouble with one file is a warning; the rest is written."""
    (end.folder / broken).mkdir()
    (end.folder / broken / "x").touch()
    report = RunReport(StopReason.COMPLETED, "plan", structured=[1])
    problems = publish_report(report, end.run, results=end.results, log=end.log, api=None, live=None)
    assert len(problems) == 1
    assert [level for level, _ in end.annotations] == ["warning", "notice"]
    files = {"summary.md", "outputs", "structured.json"} - {broken}
    assert all((end.folder / name).is_file() for name in files)


class Refusing:
    """A live comment that GitHub refuses."""

    def finish(self, body: str) -> None:
        raise UpstreamError("update the report", f"GitHub answered 502 ({len(body)} characters).")


def test_a_report_that_github_refuses_is_a_warning_and_no_other_outcome(end: End) -> None:
    """The files are whole and the outcome stands."""
    report = RunReport(StopReason.COMPLETED, "plan")
    api: Any = object()
    live: Any = Refusing()
    problems = publish_report(report, end.run, results=end.results, log=end.log, api=api, live=live)
    assert [p.partition(":")[0] for p in problems] == ["The report could not be posted"]
    assert end.outputs["outcome"] == "done"
    assert [level for level, _ in end.annotations] == ["warning", "notice"]


@pytest.mark.parametrize("with_results", [True, False])
@pytest.mark.parametrize("reason", [StopReason.ERROR, StopReason.CANCELLED])
def test_a_run_that_could_not_start_writes_all_outputs(end: End, reason: StopReason, *, with_results: bool) -> None:
    """A following step reads every output, with and without a results folder that works."""
    write_error(
        "No such mode.", reason, results_folder=end.folder, results=end.results if with_results else None,
        log=end.log, name="run-1", live=None,
    )  # fmt: skip
    assert set(end.outputs) == set(OUTPUTS)
    assert (end.outputs["outcome"], end.outputs["stop-reason"]) == (OUTCOMES[reason].outcome, str(reason))
    assert end.annotations == [("error", "No such mode.")]


def test_a_run_with_nothing_to_do_says_why(end: End) -> None:
    """Green, a notice, and all outputs."""
    write_skip("Nothing for release.", results=end.results, log=end.log, name="skipped")
    assert (end.outputs["outcome"], set(end.outputs)) == ("skipped", set(OUTPUTS))
    assert end.annotations == [("notice", "Nothing for release.")]


def ending(reason: StopReason) -> Ending:
    return Ending(reason, "The harness says so.")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"cancelled": True}, StopReason.CANCELLED),
        ({"ending": None}, StopReason.ERROR),
        ({"ending": ending(StopReason.COMPLETED)}, StopReason.COMPLETED),
        ({"ending": ending(StopReason.STRUCTURED)}, StopReason.STRUCTURED),
        ({"ending": ending(StopReason.BLOCKED)}, StopReason.BLOCKED),
        ({"ending": ending(StopReason.COMPLETED), "cancelled": True}, StopReason.CANCELLED),
    ],
)
def test_the_harnesss_word_counts_only_where_ours_is_no_worse(
    end: End, change: dict[str, Any], expected: StopReason
) -> None:
    """A cancel and a harness without a result are the broker's to tell."""
    for name, value in change.items():
        setattr(end.run, name, value)
    assert settle(end.run, "closed")[0] is expected


def test_a_cap_that_the_broker_saw_stands_where_the_harness_says_nothing(end: End) -> None:
    """Each with its own name; a run over its time is that, whatever was said before."""
    end.run.meter.reached = StopReason.BUDGET
    assert settle(end.run, "closed")[0] is StopReason.BUDGET
    end.run.meter.started -= 10_000
    end.run.ending = ending(StopReason.COMPLETED)
    assert settle(end.run, "closed")[0] is StopReason.TIMEOUT


class Passing:
    """A stop script that likes whatever it is shown."""

    def __init__(self) -> None:
        self.judged: list[str] = []

    def has(self, purpose: Purpose) -> bool:
        return purpose is Purpose.STOP

    def judge(self, purpose: Purpose, tree: str) -> GateVerdict:
        self.judged.append(tree)
        return GateVerdict(purpose, tree, passed=True, ended="exit status 0", output="")


@pytest.mark.parametrize(
    ("extra", "expected"), [(1, StopReason.COMPLETED), (2, StopReason.NOT_VERIFIED)], ids=["within", "over"]
)
def test_a_workspace_over_the_caps_is_not_verified_whatever_the_stop_script_says(
    end: End, extra: int, expected: StopReason
) -> None:
    """A snapshot that stops at its cap is a part: a harness that never asked for a verdict gets no green for it."""
    checkout = end.folder / "work"
    make_checkout(checkout, {"a.py": "one\n"})
    end.run.worktree = worktree_of(checkout, end.folder / "shadow", caps=Caps(new_files=1))
    lifecycle = Passing()
    end.run.lifecycle = cast("Lifecycle", lifecycle)
    end.run.ending = ending(StopReason.COMPLETED)
    for n in range(extra):
        (checkout / f"new{n}").touch()
    reason, sentence = settle(end.run, "closed")
    assert reason is expected
    assert len(lifecycle.judged) == (1 if extra == 1 else 0)
    assert ("holds more than 1 new files" in sentence) == (extra > 1)


def test_work_that_github_did_not_take_is_not_done(end: End) -> None:
    """Green means done: the model's "done" after a failed push is an error."""
    end.run.ending = ending(StopReason.COMPLETED)
    end.run.done.unpublished = "create tree: GitHub answered 502."
    assert settle(end.run, "closed") == (
        StopReason.ERROR, "The changes are not published: create tree: GitHub answered 502.",
    )  # fmt: skip


def test_a_failed_setup_is_the_runs_output_in_a_fence(end: End) -> None:
    """Its words are a third party's: they stand in code, where they mention nobody and command nothing."""
    result = ExecResult(exit_code=3, signal=None, timed_out=False, stdout=b"no such package @acme/left\n", stderr=b"")
    reason = setup_failed(end.run, result)
    assert settle(end.run, "closed") == (StopReason.ERROR, reason)
    assert reason == "The setup script did not pass (exit status 3)."
    assert end.run.ending is not None
    assert end.run.ending.output == "```\nno such package @acme/left\n```"


def test_the_files_of_a_diff_are_counted() -> None:
    """Added, deleted, binary, and lines that only look like heads."""
    diff = (
        "diff --git a/a.py b/a.py\nindex 1..2 100644\n--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,3 @@\n"
        " x\n+y\n++++ z\n-diff --git\n"
        "diff --git a/new b/new\nnew file mode 100644\n--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+n\n"
        "diff --git a/gone b/gone\ndeleted file mode 100644\n--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-n\n"
        "diff --git a/l.png b/l.png\nBinary files a/l.png and b/l.png differ\n"
    )
    assert changes_of(diff) == (
        Change("a.py", 2, 1),
        Change("new", 1, 0, "added"),
        Change("gone", 0, 1, "deleted"),
        Change("l.png", None, None),
    )
    assert changes_of("") == ()


@pytest.mark.parametrize("said", [b"c", b""], ids=["a cancel", "launch is gone"])
def test_a_cancel_that_came_before_the_broker_listens_is_heard(tmp_path: Path, said: bytes) -> None:
    """The runner may cancel in the first instant: the word lies in the pipe when the broker is made."""
    ours, control = socket.socketpair()
    theirs, harness = socket.socketpair()
    ours.settimeout(10)
    launch = Channel(ours)
    from_launch, to_broker = os.pipe()
    os.write(to_broker, said)
    os.close(to_broker)
    broker = Broker({"airlock.results": str(tmp_path)}, {}, Channel(control), Channel(harness))

    listening = threading.Thread(target=listen, args=(os.fdopen(from_launch, "rb"), broker))
    listening.start()
    if said:
        frame = launch.recv()
        assert frame is not None
        assert frame.header["op"] == "harness.stop"
        launch.send({"id": frame.header["id"], "ok": True})
    listening.join(10)
    assert not listening.is_alive()
    assert broker._cancelled is bool(said)
    theirs.close()
    launch.close()
