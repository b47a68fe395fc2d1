"""The job log while the loop runs: one group a turn with a progress line, one line a call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent.broker.report import tracking
from agent.broker.report.log import Log
from agent.broker.state import RunState

MOST_FINDINGS = 9  # of the ten notices that a step shows, one is the outcome
_FINDINGS = frozenset({"submit_review", "review_comment"})
SHOWN = 160  # characters of arguments and results in the log; the transcript has them whole


class Progress:
    """Shows transcript events to a person who follows the log."""

    @staticmethod
    def show(log: Log, kind: str, data: Mapping[str, Any], run: RunState) -> None:
        """Write what a reader wants of one event; most events say nothing."""
        meter = run.meter
        if kind == "model.response":
            turn = data.get("turn")
            log.turn(
                turn if isinstance(turn, int) else meter.turns,
                calls=meter.tool_calls,
                max_calls=meter.limits.max_tool_calls,
                tokens=meter.tokens,
                cost_usd=_cost(run),
                left_s=run.remaining_s(),
            )
            if data.get("text"):
                log.line(_short(data["text"], 2000))
        elif kind == "tool.call":
            Progress._remember(data, run)
            log.line(f"> {data.get('name')} {_short(data.get('arguments'))}")
        elif kind == "tool.result":
            if data.get("is_error"):
                log.line(f"  failed: {_short(data.get('text'))}")
            else:
                Progress._annotate(log, data, run)
        elif kind == "hook.end":
            log.line(f"{data.get('purpose')} script: {data.get('ended')}")
        elif kind in ("egress.denied", "tool.denied"):
            log.line(
                f"refused: {data.get('method', '')} {_short(data.get('path', data.get('name')))} ({data.get('code')})"
            )
        elif kind == "egress.dry_run":
            log.line(f"dry run, not sent: {data.get('method')} {_short(data.get('path'))}")
        elif kind == "git.push":
            log.line(f"pushed {data.get('branch')} at {data.get('sha')}")
        elif kind == "pull_request":
            log.line(f"pull request {data.get('url') or '(none was opened: a dry run)'}")

    @staticmethod
    def _remember(data: Mapping[str, Any], run: RunState) -> None:
        """Keep what a review says until it is known to be posted."""
        arguments = data.get("arguments")
        if data.get("name") in _FINDINGS and isinstance(arguments, Mapping):
            comments = arguments.get("comments") if data["name"] == "submit_review" else [arguments]
            run.findings[str(data.get("id"))] = comments

    @staticmethod
    def _annotate(log: Log, data: Mapping[str, Any], run: RunState) -> None:
        """Findings that were posted, on their lines of the run's page; a step shows ten of a level."""
        comments = run.findings.pop(str(data.get("id")), None)
        for comment in comments if isinstance(comments, list) else []:
            if not isinstance(comment, Mapping) or run.annotated >= MOST_FINDINGS:
                continue
            line, path, body = comment.get("line"), comment.get("path"), comment.get("body")
            if isinstance(path, str) and isinstance(body, str):
                number = line if isinstance(line, int) and not isinstance(line, bool) else None
                log.annotate("notice", body, title="Airlock review", file=path, line=number)
                run.annotated += 1


def where(run: RunState) -> tracking.Progress:
    """Where a run is, by the broker's own counts."""
    meter = run.meter
    return tracking.Progress(
        turn=meter.turns,
        calls=meter.tool_calls,
        max_calls=meter.limits.max_tool_calls,
        tokens=meter.tokens,
        cost_usd=_cost(run),
        left_s=run.remaining_s(),
    )


def _cost(run: RunState) -> float | None:
    """US dollars so far by the broker's own count; None where a price is not known."""
    return run.meter.cost_usd if run.meter.priced else None


def _short(value: object, most: int = SHOWN) -> str:
    text = value if isinstance(value, str) else "" if value is None else str(value)
    line = " ".join(text.split())
    return line if len(line) <= most else line[:most] + "…"
