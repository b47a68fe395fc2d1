"""The step summary and the comment: outcome first, then what was done, what it cost, what was refused.

Pure. The words of the model and of third parties are neutralised (`agent.contract.neutral`): nobody is
mentioned, nothing is closed, loaded or commanded by a report.
"""

from __future__ import annotations

from agent.broker.report.facts import RAISE, Cap, RunReport
from agent.broker.report.log import duration
from agent.broker.report.markdown import block, code, details, table
from agent.contract.neutral import BREAK, neutralise
from agent.contract.neutral_code import open_fence, outside, strict_code
from agent.contract.outcomes import StopReason
from agent.contract.regex import regex

SUMMARY_CAP = 300_000  # UTF-16 units, at most 900,000 bytes: over 1,048,576 the runner drops the summary whole
COMMENT_CAP = 60_000  # UTF-16 units of 65,536: what redaction and neutralising may add fits in between
WORDS_CAP = 40_000  # of the model's last words in a comment
ROWS = 100
LAST_WORDS = 2_000  # characters of what a gate that did not pass had printed; a program's errors stand at its end
_TAG = regex(r"<(?=[A-Za-z/])")

_SIGN = {
    "done": "✅",
    "skipped": "⏭️",
    "capped": "⏹️",
    "denied": "⛔",
    "not_verified": "⚠️",
    "cancelled": "🚫",
    "error": "❌",
}


def summary(report: RunReport) -> str:
    """Markdown for `GITHUB_STEP_SUMMARY`, below 1 MiB."""
    parts = [
        f"## Airlock: {headline(report)}",
        _why(report),
        _words(report, 60_000),
        _published(report),
        _partial(report),
        _failures(report),
        _gates(report),
        _changes(report),
        _costs(report),
        _denials(report),
        _notes(report),
        _origin(report),
    ]
    body = "\n\n".join(part for part in parts if part)
    return neutralise(body, limit=SUMMARY_CAP, rest="The rest is in the transcript.") + "\n"


def comment(report: RunReport) -> str:
    """Body of the final comment, with a hidden mark by which a re-run finds it and edits it."""
    parts = [
        mark(report.mark),
        f"### Airlock: {headline(report)}",
        _why(report),
        _words(report, WORDS_CAP),
        _published(report),
        _partial(report),
        _failures(report),
        details("Gates, changes, limits and cost", _folded(report)),
        _links(report),
    ]
    body = "\n\n".join(part for part in parts if part)
    return neutralise(body, keep_mark=True, limit=COMMENT_CAP, rest="The rest is in the transcript.")


def mark(name: str) -> str:
    """The hidden mark that our comments begin with."""
    return f"<!-- airlock:{name} -->"


def headline(report: RunReport) -> str:
    """Outcome and mode in one line."""
    outcome = report.row.outcome
    return f"{_SIGN.get(outcome, '')} {outcome.replace('_', ' ')} ({code(report.mode)})".strip()


def _why(report: RunReport) -> str:
    said = [report.row.sentence]
    if report.reason and report.stop_reason is not StopReason.COMPLETED:  # the loop's word for it says no more
        said.append(report.reason)
    how = RAISE.get(report.stop_reason, "")
    if how not in report.reason:
        said.append(how)
    return " ".join(said)


def _words(report: RunReport, cap: int) -> str:
    """The model's last words, closed in themselves: no open fence or tag of theirs swallows what follows."""
    if not report.output.strip():
        return ""
    words = report.output.strip()[: 2 * cap]  # what is over would be cut anyway, after a costly look at it
    text = neutralise(words, limit=cap, rest="The rest is in the transcript.")
    fence = open_fence(text)
    if fence:
        text += f"\n{fence}"
    parts, at = [], 0
    for start, end in outside(text, strict_code(text)):
        parts += [text[at:start], _TAG.sub(f"<{BREAK}", text[start:end])]
        at = end
    return "".join([*parts, text[at:]])


def _published(report: RunReport) -> str:
    lines = []
    if report.pull_request_url:
        lines.append(f"Pull request: {report.pull_request_url}")
    if report.branch:
        lines.append(f"Branch {code(report.branch)}" + (f" at {code(report.tip[:12])}" if report.tip else ""))
    return "\n".join(f"- {line}" for line in lines)


def done(report: RunReport) -> list[str]:
    """What the run did, from the broker's own records and never from what the model says it did."""
    said = []
    if report.changes:
        said.append(f"{_files(len(report.changes))} changed in the workspace")
    if report.commits:
        said.append(f"{_many(len(report.commits), 'commit')} made")
    if report.branch:
        said.append(f"branch {code(report.branch)} pushed")
    if report.pull_request_url:
        said.append("pull request opened or updated")
    if report.comments:
        said.append(f"{_many(report.comments, 'comment')} written")
    return said or ["nothing was changed or published"]


def not_done(report: RunReport) -> list[str]:
    """What did not happen that a finished run would have done."""
    said = []
    if report.changes and not report.commits:
        said.append("the changes were not committed")
    if report.changes and not report.branch:
        said.append("nothing was pushed")
    if report.branch and not report.pull_request_url:
        said.append("no pull request was opened")
    said += [f"{gate.name} did not pass" for gate in report.gates if gate.passed is False]
    if report.stop_reason is not StopReason.COMPLETED:
        said.append("the task was not reported as finished")
    return said


def _partial(report: RunReport) -> str:
    if report.row.outcome in ("done", "skipped"):
        return ""
    return "\n\n".join([f"**Done:** {'; '.join(done(report))}.", f"**Not done:** {'; '.join(not_done(report))}."])


def _failures(report: RunReport) -> str:
    """What the gates that did not pass printed last, so that a missing program is seen without the transcript (F24)."""
    failed = [gate for gate in report.gates if gate.passed is False and gate.output.strip()]
    return "\n\n".join(f"What {gate.name} printed last:\n\n{block(_last(gate.output))}" for gate in failed)


def _last(text: str) -> str:
    text = text.rstrip()
    return text if len(text) <= LAST_WORDS else f"…{text[-LAST_WORDS:]}"


def _folded(report: RunReport) -> str:
    parts = (_gates(report), _changes(report), _costs(report), _denials(report), _notes(report), _digests(report))
    return "\n\n".join(part for part in parts if part)


def _gates(report: RunReport) -> str:
    if not report.gates:
        return ""
    words = {True: "✅ passed", False: "❌ did not pass", None: "not run"}
    return table(("Gate", "Result", "How"), [(g.name, words[g.passed], code(g.note)) for g in report.gates])


def _changes(report: RunReport) -> str:
    if not report.changes:
        return ""
    rows = [(code(c.path), _count(c.added, "+"), _count(c.removed, "−"), c.status) for c in report.changes[:ROWS]]
    added = sum(c.added or 0 for c in report.changes)
    removed = sum(c.removed or 0 for c in report.changes)
    more = len(report.changes) - ROWS
    text = table(("File", "Added", "Removed", "Kind"), rows)
    return f"{_files(len(report.changes))} changed, +{added} −{removed}\n\n{text}" + (
        f"\n\nand {more} more" if more > 0 else ""
    )


def _costs(report: RunReport) -> str:
    totals = report.totals
    cost = "unknown price" if totals.cost_usd is None else f"${totals.cost_usd:.4f}"
    cached = f", {totals.cached_tokens:,} of it cached" if totals.cached_tokens else ""
    line = (
        f"{duration(report.duration_s)} · {totals.turns} turns · {totals.tool_calls} tool calls · "
        f"{totals.input_tokens:,} tokens in{cached} · {totals.output_tokens:,} out · {cost}"
    )
    if not report.caps:
        return line
    return line + "\n\n" + table(("Limit", "Used", "Cap"), [_cap(cap) for cap in report.caps])


def _cap(cap: Cap) -> tuple[str, str, str]:
    unit = f" {cap.unit}" if cap.unit else ""
    return cap.name, f"{cap.used:,g}{unit}", "none" if cap.cap is None else f"{cap.cap:,g}{unit}"


def _denials(report: RunReport) -> str:
    if not report.denials:
        return ""
    rows = [(code(d.what), code(d.code), code(d.reason)) for d in report.denials[:ROWS]]
    return f"{_many(len(report.denials), 'denial')}\n\n" + table(("Tried", "Rule", "Reason"), rows)


def _notes(report: RunReport) -> str:
    return "\n".join(f"- {note}" for note in report.notes)


def _origin(report: RunReport) -> str:
    return "\n\n".join(part for part in (_digests(report), _links(report)) if part)


def _digests(report: RunReport) -> str:
    pairs = (
        ("Manifest", report.manifest_digest),
        ("Transcript", report.transcript_digest),
        ("Configuration at", report.settings_read),
        ("Version", report.version),
    )
    return " · ".join(f"{name} {code(value)}" for name, value in pairs if value)


def _links(report: RunReport) -> str:
    pairs = (("Run", report.run_url), ("Transcript (artifact)", report.artifact))
    return " · ".join(f"[{name}]({url})" for name, url in pairs if url)


def _count(number: int | None, sign: str) -> str:
    return "binary" if number is None else f"{sign}{number}" if number else "0"


def _many(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def _files(number: int) -> str:
    return _many(number, "file")
