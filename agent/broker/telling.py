"""Step 11, second half: everything that says what the run came to: summary, outputs, comment or issue.

Each way of telling is tried even when the one before failed, what lies on this machine first: a cancelled run
has seconds, and a GitHub that hangs must not cost the outputs. Nothing here may raise.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from agent.broker.github import GitHubApi
from agent.broker.report.actions import write_outputs
from agent.broker.report.facts import RunReport
from agent.broker.report.live import Live, find_report
from agent.broker.report.log import Log
from agent.broker.report.results import Results
from agent.broker.report.summary import comment as comment_body
from agent.broker.report.summary import headline, mark, summary
from agent.broker.state import RunState
from agent.contract.errors import AirlockError
from agent.contract.outcomes import StopReason

PAGE_BYTES = 8 << 20  # of a transcript that is made a page of at once; of a larger one `view` makes it


def publish_report(
    report: RunReport,
    run: RunState,
    *,
    results: Results,
    log: Log,
    api: GitHubApi | None,
    live: Live | None,
) -> list[str]:
    """Summary, outputs and comment. Returns what could not be told, as sentences; never raises.

    Args:
        api: for a comment, as the broker's own writer; None where this run may not comment.
        live: the run's live comment, which the report replaces; None where there is none.
    """
    problems: list[str] = []
    tells: list[Callable[[], None]] = [
        lambda: results.write_outputs(report.outputs(str(results.transcript))),
        lambda: results.write_summary(summary(report)),
    ]
    if report.structured is not None:
        tells.append(lambda: results.write_structured(report.structured))
    for tell in tells:
        try:
            tell()
        except (AirlockError, OSError) as exc:
            problems.append(f"The results are not whole: {exc}")
    if api is not None:
        try:
            _comment(report, run, api, live)
        except (AirlockError, KeyError, TypeError) as exc:
            problems.append(f"The report could not be posted: {exc}")
    for problem in problems:
        log.annotate("warning", problem)
    level = "notice" if report.row.exit_status == 0 else "error"
    log.annotate(level, f"{headline(report)} {report.reason}".strip(), title="Airlock")
    return problems


def _comment(report: RunReport, run: RunState, api: GitHubApi, live: Live | None) -> None:
    """One report: on the pull request or issue the run is about, on the one it opened, or as an issue.

    An earlier attempt's report is edited, not repeated (A6).
    """
    body = comment_body(report)
    if live is not None:
        live.finish(body)
        return
    number = run.done.pull.number if run.done.pull else None
    if number is not None:
        earlier = None
        if run.done.pull is not None and run.done.pull.updated:  # an earlier attempt's, so that its opener is us
            opener = api.get(f"pulls/{number}", step="see who opened the pull request")["user"]["login"]
            earlier = find_report(api, number, report.mark, str(opener))
        if earlier is None:
            api.post(f"issues/{number}/comments", {"body": body}, step="post the report")
        else:
            api.patch(f"issues/comments/{earlier}", {"body": body}, step="update the report")
    elif run.facts.mode == "fix-ci" and report.row.exit_status != 0 and not run.done.issues:
        # Tests that stay red end in an issue, never in a pull request that claims a fix.
        title = f"Airlock could not fix the failed run {run.facts.run_id or ''}".rstrip()
        if not _has_issue(api, report.mark):
            api.post("issues", {"title": title, "body": body}, step="file an issue")


def _has_issue(api: GitHubApi, name: str) -> bool:
    wanted = mark(name)
    items = api.paged("issues", step="look for an earlier issue", query={"state": "open"}, pages=1)
    return any(isinstance(item, dict) and wanted in str(item.get("body", "")) for item in items)


def write_skip(sentence: str, *, results: Results, log: Log, name: str) -> None:
    """A run that does nothing says why, in log, summary and outputs."""
    report = RunReport(stop_reason=StopReason.SKIPPED, mode="none", reason=sentence, mark=name)
    results.write_summary(summary(report))
    results.write_outputs(report.outputs(str(results.transcript)))
    log.annotate("notice", sentence, title="Airlock")


def write_error(
    sentence: str,
    stop_reason: StopReason,
    *,
    results_folder: Path,
    results: Results | None,
    log: Log,
    name: str,
    live: Live | None = None,
) -> None:
    """A run that could not start, or broke, says why and what to do, never with a traceback.

    Args:
        live: its comment, so that none goes on saying that the run is at work.
    """
    report = RunReport(stop_reason=stop_reason, mode="none", reason=sentence, mark=name)
    if results is not None:
        results.write_summary(summary(report))
        results.write_outputs(report.outputs(str(results.transcript)))
    else:
        write_outputs(report.outputs(""), results_folder / "outputs")  # no word of the run is among them
    if live is not None:
        try:
            live.finish(comment_body(report))
        except (AirlockError, KeyError, TypeError) as exc:
            log.annotate("warning", f"The report could not be posted: {exc}")
    log.annotate("error", sentence, title="Airlock")


def write_page(results: Results, log: Log) -> None:
    """The transcript as a page."""
    from agent.viewer.page import write_page as write  # now, not while the first request waits

    try:
        if results.transcript.stat().st_size <= PAGE_BYTES:
            write(results.transcript, results.page)
    except (AirlockError, OSError) as exc:
        log.annotate("warning", f"The page of the transcript is missing: {exc}")
