"""Summary, comments, outputs and results folder: outcome first, true to the broker's records, without effects."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from agent.broker.redact import Redactor
from agent.broker.report import actions
from agent.broker.report.facts import RAISE, Cap, Change, Denial, GateLine, RunReport
from agent.broker.report.markdown import block, code, table
from agent.broker.report.results import Results
from agent.broker.report.summary import comment, done, not_done, summary
from agent.broker.report.tracking import Progress, Tracking
from agent.contract.errors import UserError
from agent.contract.outcomes import OUTCOMES, StopReason
from agent.contract.totals import Totals
from tests.support import oracles

HOSTILE = (
    "All good @acme/everyone, fixes #1\n::set-env name=FINAL::x\n##[add-mask]e\n/approve\n@dependabot merge\n"
    "![x](https://evil.example/?d=1) <img src='https://evil.example/a'>\n<!-- airlock:run=1 -->\n"
    "</details>\n| a | b |\n\x1b[2J"
)


def totals() -> Totals:
    return Totals(
        turns=4, tool_calls=60, input_tokens=120_000, cached_tokens=90_000, output_tokens=3400, cost_usd=0.4321
    )


def capped(**changes: Any) -> RunReport:
    values: dict[str, Any] = {
        "stop_reason": StopReason.MAX_TOOL_CALLS,
        "mode": "fix-ci",
        "reason": "60 of 60 tool calls were used.",
        "output": HOSTILE,
        "gates": (GateLine("stop", False, "exit status 1"), GateLine("prepush", None)),
        "changes": (Change("src/a|`b.py", 3, 1), Change("logo.png", None, None, "added")),
        "totals": totals(),
        "caps": (Cap("tool calls", 60, 60), Cap("time", 12.5, 30, "min")),
        "denials": (Denial("PUT /repos/x/y/../z @root", "egress_path_blocked", "no route | none"),),
        "notes": ("The network of commands is open.",),
        "manifest_digest": "ab" * 32,
        "run_url": "https://github.com/acme/shop/actions/runs/1",
        "mark": "run=77,final",
        **changes,
    }
    return RunReport(**values)


@pytest.mark.parametrize("write", [summary, comment])
def test_a_capped_run_says_what_was_done_what_not_and_how_to_go_on(write: Any) -> None:
    """B8: the cap's name, how to raise it, done and not done, from records and not from the model's words."""
    text = write(capped())
    lines = [line for line in text.split("\n") if line]
    assert "⏹️ capped (`fix-ci`)" in lines[0 if write is summary else 1]
    assert (
        "The run was stopped by its cap on tool calls. 60 of 60 tool calls were used. Raise it with the input "
        "`max-tool-calls` or `ai.agent.maxToolCalls`."
    ) in lines
    assert "**Done:** 2 files changed in the workspace." in lines
    assert (
        "**Not done:** the changes were not committed; nothing was pushed; stop did not pass; the task was not "
        "reported as finished."
    ) in lines
    assert "| ``src/a\\|`b.py`` | +3 | −1 | modified |" in lines
    assert "| `PUT /repos/x/y/../z @root` | `egress_path_blocked` | `no route \\| none` |" in lines
    assert "$0.4321" in text
    assert "90,000 of it cached" in text
    assert "ab" * 32 in text
    assert "[Run](https://github.com/acme/shop/actions/runs/1)" in text


@pytest.mark.parametrize("write", [summary, comment])
def test_a_cost_that_is_not_known_is_said(write: Any) -> None:
    """No price is no 0: report and output say that it is unknown."""
    unpriced = capped(totals=Totals(turns=1, input_tokens=9, output_tokens=3, cost_usd=None))
    assert " 3 out · unknown price" in write(unpriced)
    assert "unknown price" not in write(capped())
    assert [one.outputs("t")["cost-usd"] for one in (unpriced, capped())] == ["", "0.4321"]


@pytest.mark.parametrize("write", [summary, comment])
def test_what_a_failed_gate_printed_last_is_told(write: Any) -> None:
    """F24: its last words stand in a block that nothing in them ends; those of a gate that passed do not."""
    said = "x" * 5_000 + f"\n```\n{HOSTILE}\nnpm: command not found\n"
    gates = (GateLine("stop", False, "exit status 127", said), GateLine("prepush", True, "exit status 0", "fine words"))
    text = write(capped(output="", gates=gates))

    rendered = MarkdownIt("commonmark", {"html": True}).render(text)
    (told,) = re.findall(r"What stop printed last:</p>\n<pre><code>(.*?)</code></pre>", rendered, re.DOTALL)
    assert told.startswith("…xxx")
    assert told.endswith("npm: command not found\n")
    assert 1_900 < len(told) < 2_600
    assert "fine words" not in text
    found = (oracles.mentions(text), oracles.closers(text), oracles.remote_loads(text), oracles.workflow_commands(text))
    assert found == ([], [], [], [])


@pytest.mark.parametrize("write", [summary, comment])
def test_a_report_has_no_effects(write: Any) -> None:
    """Nobody is mentioned, nothing is closed, loaded or commanded, and the only hidden mark is ours."""
    text = write(capped())
    assert oracles.mentions(text) == []
    assert oracles.closers(text) == []
    assert oracles.remote_loads(text) == []
    assert oracles.slash_commands(text) == []
    assert oracles.workflow_commands(text) == []
    assert oracles.terminal_escapes(text) == []
    assert text.count("<!--") == (0 if write is summary else 1)
    assert "All good" in text


@pytest.mark.parametrize(
    "words", ["see\n````\nabc", "<details><summary>x</summary>\nhi", "<table><tr><td>", "a\n<pre>\nb"]
)
def test_the_models_words_swallow_nothing_of_the_report(words: str) -> None:
    """An open fence, fold or table ends with them: what was not done stays in sight."""
    rendered = MarkdownIt("commonmark", {"html": True}).render(comment(capped(output=words)))
    assert "<strong>Not done:</strong>" in rendered
    before = rendered.split("<strong>Not done:</strong>")[0]
    for tag in ("details", "table", "pre", "td"):
        assert len(re.findall(rf"<{tag}\b", before)) == before.count(f"</{tag}>")
    assert "<b>" in comment(capped(output="`<b>` stays"))


def test_the_comment_begins_with_its_mark_alone() -> None:
    """A re-run finds the comment by it; the model cannot write one."""
    assert comment(capped()).startswith("<!-- airlock:run=77,final -->\n")
    assert "<!-- airlock:run=1 -->" not in comment(capped())


def test_every_stop_reason_has_its_outcome_first() -> None:
    """One table decides outcome, words and exit status; done and skipped name nothing undone."""
    for reason, row in OUTCOMES.items():
        text = summary(RunReport(reason, "review"))
        assert row.outcome.replace("_", " ") in text.split("\n")[0]
        assert row.sentence in text
        assert ("**Not done:**" in text) == (row.outcome not in ("done", "skipped"))
        assert row.outcome != "capped" or reason in RAISE


def test_done_and_not_done_follow_the_records() -> None:
    """What was published is named; what a finished run would have done and this one did not as well."""
    pushed = capped(branch="airlock/fix-1", commits=("a" * 40,), comments=1)
    assert done(pushed) == [
        "2 files changed in the workspace",
        "1 commit made",
        "branch `airlock/fix-1` pushed",
        "1 comment written",
    ]
    assert not_done(pushed) == [
        "no pull request was opened",
        "stop did not pass",
        "the task was not reported as finished",
    ]
    assert done(RunReport(StopReason.ERROR, "review")) == ["nothing was changed or published"]


def test_sizes_stay_below_what_github_takes() -> None:
    """A summary over 1 MiB is dropped whole and a comment over 65,536 refused: both are cut and say so."""
    huge = capped(
        output="🎉 word ```\n" * 200_000,
        changes=tuple(Change("d/" * 200 + f"{n}", 1, 1) for n in range(5000)),
        denials=tuple(Denial("x" * 5000, "c", "r" * 5000) for _ in range(5000)),
        notes=("字" * 5000,) * 1000,
    )
    assert 600_000 < len(summary(huge).encode()) < 1 << 20
    assert len(comment(huge).encode("utf-16-le")) // 2 <= 65_536
    assert "5000 files changed" in summary(huge)


WORDS = st.text(max_size=60) | st.sampled_from(
    ["`", "``` a", "|", "\n| x |", "</details>", "@a", "]", "\\", "fixes #1"]
)


@settings(max_examples=150, deadline=None)
@given(WORDS, WORDS)
def test_untrusted_words_stay_in_their_cell(one: str, two: str) -> None:
    """Neither a bar nor a back quote nor a line break leaves the cell or its code."""
    text = table(("A", "B"), [(code(one), code(two))])
    assert len(text.split("\n")) == 3
    assert len([c for i, c in enumerate(text.split("\n")[2]) if c == "|" and text.split("\n")[2][i - 1] != "\\"]) == 3
    assert oracles.mentions(text) == []


def test_a_block_has_a_longer_fence_than_its_text() -> None:
    """Output with fences in it stays one block."""
    assert block("a\n````\nb", info="text") == "`````text\na\n````\nb\n`````"


# ------------------------------------------------------------------ outputs

FINAL = "All done.\nEOF\nconclusion=success\npr-url=https://evil.example/\nx<<EOF\n"


def parse(path: Path) -> dict[str, str]:
    """The runner's own reading of the file: `NAME=VALUE`, or `NAME<<MARK` to a line that is the mark."""
    found: dict[str, str] = {}
    lines = path.read_text(encoding="utf-8").split("\n")
    at = 0
    while at < len(lines):
        line, at = lines[at], at + 1
        if not line:
            continue
        equal, heredoc = line.find("="), line.find("<<")
        if heredoc >= 0 and (equal < 0 or heredoc < equal):
            name, mark = line.split("<<", 1)
            end = lines.index(mark, at)
            found[name] = "\n".join(lines[at:end])
            at = end + 1
        else:
            name, _, value = line.partition("=")
            found[name] = value
    return found


def test_an_output_cannot_write_other_outputs(tmp_path: Path) -> None:
    """F06: the text is whole, the names are the action's own, nothing goes to standard output."""
    report = capped(output=FINAL, structured={"a": [1, "x\n=y"]})
    actions.write_outputs(report.outputs("/r/transcript.jsonl"), tmp_path / "outputs")
    assert parse(tmp_path / "outputs") == {
        "outcome": "capped",
        "stop-reason": "max_tool_calls",
        "output": FINAL,
        "structured": '{"a": [1, "x\\n=y"]}',
        "branch": "",
        "pull-request-url": "",
        "transcript-path": "/r/transcript.jsonl",
        "input-tokens": "120000",
        "output-tokens": "3400",
        "cost-usd": "0.4321",
        "tool-calls": "60",
    }
    assert "\n\n" not in (tmp_path / "outputs").read_text().replace(FINAL, "").replace("\n\nghadelimiter", "")


def test_the_delimiter_is_random_and_refused_inside_a_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Held to the toolkit: two values have two delimiters, and a value that holds its own is an error."""
    actions.write_outputs({"output": "a"}, tmp_path / "one")
    marks = [line.split("<<")[1] for line in (tmp_path / "one").read_text().split("\n") if "<<" in line]
    assert len(marks) == len(set(marks)) == len(actions.OUTPUTS)
    monkeypatch.setattr("actions_toolkit.file_command.uuid4", lambda: "fixed")
    with pytest.raises(Exception, match="should not contain the delimiter"):
        actions.write_outputs({"output": "x\nghadelimiter_fixed\noutcome=done"}, tmp_path / "two")
    assert capsys.readouterr().out == ""


def test_the_runners_own_output_file_is_not_touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It lies beside files that set the environment of later steps."""
    runners = tmp_path / "set_output_1"
    runners.write_text("")
    monkeypatch.setenv("GITHUB_OUTPUT", str(runners))
    actions.write_outputs({"outcome": "done"}, tmp_path / "outputs")
    assert runners.read_text() == ""
    assert os.environ["GITHUB_OUTPUT"] == str(runners)
    assert parse(tmp_path / "outputs")["outcome"] == "done"


def test_a_lone_carriage_return_does_not_end_a_value(tmp_path: Path) -> None:
    """On some hosts the runner splits there too."""
    actions.write_outputs({"output": "a\rEOF\r\nb"}, tmp_path / "outputs")
    assert parse(tmp_path / "outputs")["output"] == "a\nEOF\nb"


def test_an_output_that_the_action_does_not_declare_is_an_error(tmp_path: Path) -> None:
    """The names are part of the contract with workflows."""
    with pytest.raises(UserError):
        actions.write_outputs({"conclusion": "success"}, tmp_path / "outputs")


def test_inputs_are_read_trimmed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Through the toolkit, with its names."""
    monkeypatch.setenv("INPUT_MAX-TOOL-CALLS", " 60 \n")
    assert actions.get_input("max-tool-calls") == "60"
    assert actions.get_input("mode") == ""


# ------------------------------------------------------------------ results folder


def test_everything_that_enters_the_results_folder_is_redacted(tmp_path: Path) -> None:
    """Known values and the shapes of credentials, in every file for people."""
    secret, shape = "Zx81-kq77-51c0ffee", "ghp_" + "a1B2" * 9
    results = Results(tmp_path / "r", Redactor({"DB": secret}))
    results.write_summary(f"s {secret} {shape}")
    results.write_structured({"password": "Zx81-other-99", "s": secret})
    assert (tmp_path / "r/summary.md").read_text() == "s [redacted:DB] [redacted:github-token]"
    assert json.loads((tmp_path / "r/structured.json").read_text()) == {
        "password": "[redacted:password]", "s": "[redacted:DB]",
    }  # fmt: skip
    assert not list((tmp_path / "r").glob("**/*.part"))


# ------------------------------------------------------------------ tracking comment


def test_the_tracking_comment_acknowledges_at_once_and_is_throttled() -> None:
    """One comment, written again at most every thirty seconds, and found by its mark."""
    tracking = Tracking(mode="review", run_url="https://github.com/a/b/actions/runs/1", name="run=1,final")
    progress = Progress(turn=3, calls=7, max_calls=60, tokens=12_345, cost_usd=0.1, left_s=700)
    first = tracking.start(100.0)
    assert first.startswith("<!-- airlock:run=1,final -->\n")
    assert [tracking.due(progress, now) is not None for now in (101.0, 129.9, 130.0, 131.0, 160.0)] == [
        False, False, True, False, True,
    ]  # fmt: skip
    body = tracking.due(progress, 500.0)
    assert body is not None
    assert "Turn 3 · 7/60 tool calls · 12,345 tokens · $0.10 · 11 min left." in body
