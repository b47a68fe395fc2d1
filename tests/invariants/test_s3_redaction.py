"""S3: everything that leaves is redacted. Each way out, each with the value in every form, and a control."""

from __future__ import annotations

import base64
import io
import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from agent.broker.limits import Limits, Meter
from agent.broker.operations_commands import CommandOperations
from agent.broker.redact import Growing, Redactor, Stream
from agent.broker.report.facts import Denial, RunReport
from agent.broker.report.log import Log
from agent.broker.report.results import Results
from agent.broker.report.summary import comment, summary
from agent.broker.state import RunState
from agent.broker.transcript import Transcript
from agent.contract.outcomes import StopReason
from agent.viewer.page import write_page
from tests.support import oracles

SECRET = "ghs_CANARY" + "k7QzXw19bTk7QzXw19bTLm4RpV8nZc"
SHAPE = "ghp_" + "a1B2" * 9
CONTROL = "the control words of this test"
FORMS = {
    "plain": SECRET,
    "in a header": f"Authorization: Bearer {SECRET}",
    "base64": base64.b64encode(f"x-access-token:{SECRET}".encode()).decode(),
    "hex": SECRET.encode().hex(),
    "spaced": " ".join(SECRET),
    "lines": "\n".join(SECRET),
    "escaped": "".join(f"\\u{ord(c):04x}" for c in SECRET),
    "reversed": SECRET[::-1],
    "cut": SECRET[12:],
}


class Kept:
    """Of a run's state what keeping an output needs."""

    lock = threading.Lock()

    def __init__(self) -> None:
        self.meter = Meter(Limits(max_tool_calls=1), started=0.0)


def report(text: str) -> RunReport:
    return RunReport(
        StopReason.ERROR, "review", output=text, denials=(Denial(text, "c", text),), structured={"t": text}
    )


def transcript(folder: Path, redactor: Redactor, text: str) -> str:
    writer = Transcript(folder / "t.jsonl", redactor, time.time)
    writer.write("tool.result", name=text, text=text, deep={text: [text]})
    return writer.path.read_text()


def page(folder: Path, redactor: Redactor, text: str) -> str:
    transcript(folder, redactor, text)
    write_page(folder / "t.jsonl", folder / "t.html")
    return (folder / "t.html").read_text()


def log(folder: Path, redactor: Redactor, text: str) -> str:
    out, err = io.BytesIO(), io.BytesIO()
    writer = Log(out, err, redactor)
    writer.line(text)
    writer.error_line(text)
    writer.group(text)
    writer.annotate("error", text, title=text, file=text)
    return (out.getvalue() + err.getvalue()).decode()


def step_summary(folder: Path, redactor: Redactor, text: str) -> str:
    Results(folder, redactor).write_summary(summary(report(text)))
    return (folder / "summary.md").read_text()


def outputs(folder: Path, redactor: Redactor, text: str) -> str:
    Results(folder, redactor).write_outputs(report(text).outputs("/t"))
    return (folder / "outputs").read_text()


def kept_output(folder: Path, redactor: Redactor, text: str) -> str:
    operations = CommandOperations(cast("RunState", Kept()), redactor, folder / "commands")
    operations._keep(b"", text.encode())
    return (folder / "commands/1.txt").read_text()


def structured(folder: Path, redactor: Redactor, text: str) -> str:
    Results(folder, redactor).write_structured({text: [text]})
    return (folder / "structured.json").read_text()


def stream(folder: Path, redactor: Redactor, text: str) -> str:
    opened = Stream(redactor)
    return "".join(opened.feed(c) for c in text) + opened.flush()


def request(folder: Path, redactor: Redactor, text: str) -> str:
    return Growing(redactor).known_bytes(json.dumps({"messages": [{"content": text}]}).encode()).decode()


WAYS: dict[str, Callable[[Path, Redactor, str], str]] = {
    "transcript": transcript,
    "viewer page": page,
    "job log": log,
    "step summary": step_summary,
    "comment": lambda _, redactor, text: redactor.outside(comment(report(text))),
    "outputs": outputs,
    "kept output": kept_output,
    "structured output": structured,
    "stream": stream,
    "request to the model": request,
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("way", WAYS)
def test_a_secret_leaves_by_no_way_in_no_form(way: str, form: str, tmp_path: Path) -> None:
    """The red team's oracle finds nothing; the control shows that the way out is open, and that it was redacted."""
    shown = WAYS[way](tmp_path, Redactor({"GITHUB_TOKEN": SECRET}), f"{CONTROL} {FORMS[form]}")
    assert oracles.canary_hits(shown, SECRET, "all") == []
    assert CONTROL in shown
    assert "redacted:GITHUB_TOKEN" in shown
    unguarded = WAYS[way](_other(tmp_path), Redactor({}), f"{CONTROL} {SECRET[4:]}")
    assert SECRET[12:] in unguarded.replace("\\_", "_")


@pytest.mark.parametrize("way", sorted(set(WAYS) - {"request to the model"}))
def test_a_credential_that_nobody_registered_leaves_to_no_people(way: str, tmp_path: Path) -> None:
    """Shapes of credentials are hidden wherever people or machines outside read; the model's own request is apart."""
    shown = WAYS[way](tmp_path, Redactor({}), f"{CONTROL} {SHAPE}")
    assert CONTROL in shown
    assert SHAPE[4:] not in shown


def _other(tmp_path: Path) -> Path:
    folder = tmp_path / "unguarded"
    folder.mkdir()
    return folder
