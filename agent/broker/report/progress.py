"""The job log while the loop runs: one group a turn with a progress line, one line a call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent.broker.report import tracking
from agent.broker.report.log import Log
from agent.broker.state import RunState
from agent.contract.totals import Totals

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
                cost_usd=None,
                left_s=run.remaining_s(),
            )
            if data.get("text"):
                log.line(_short(data["text"], 2000))
        elif kind == "tool.call":
            log.line(f"> {data.get('name')} {_short(data.get('arguments'))}")
        elif kind == "tool.result" and data.get("is_error"):
            log.line(f"  failed: {_short(data.get('text'))}")
        elif kind == "hook.end":
            log.line(f"{data.get('purpose')} script: {data.get('ended')}")
        elif kind in ("egress.denied", "tool.denied"):
            log.line(
                f"refused: {data.get('method', '')} {_short(data.get('path', data.get('name')))} ({data.get('code')})"
            )
        elif kind == "git.push":
            log.line(f"pushed {data.get('branch')} at {data.get('sha')}")
        elif kind == "pull_request":
            log.line(f"pull request {data.get('url')}")


def where(run: RunState, totals: Totals) -> tracking.Progress:
    """Where a run is, by the broker's own counts."""
    meter = run.meter
    return tracking.Progress(
        turn=meter.turns,
        calls=meter.tool_calls,
        max_calls=meter.limits.max_tool_calls,
        tokens=meter.tokens,
        cost_usd=totals.cost_usd,
        left_s=run.remaining_s(),
    )


def _short(value: object, most: int = SHOWN) -> str:
    text = value if isinstance(value, str) else "" if value is None else str(value)
    line = " ".join(text.split())
    return line if len(line) <= most else line[:most] + "…"
