"""The one live comment of a run: when it is written again, and what it says. Pure; the caller posts it."""

from __future__ import annotations

from agent.broker.report.log import duration
from agent.broker.report.markdown import code
from agent.broker.report.summary import mark
from agent.contract.dataclass import dataclass

INTERVAL_S = 30.0  # content requests are scarce: 80 a minute for the token's owner, not for this run


@dataclass(frozen=True)
class Progress:
    """Where a run is."""

    turn: int
    calls: int
    max_calls: int
    tokens: int
    cost_usd: float | None
    left_s: float


class Tracking:
    """Decides when the tracking comment is due. The first body acknowledges the trigger at once."""

    def __init__(self, *, mode: str, run_url: str, name: str, interval_s: float = INTERVAL_S) -> None:
        """`name` is put into the hidden mark; the final comment with the same name replaces this one."""
        self._mode = mode
        self._run_url = run_url
        self._name = name
        self._interval_s = interval_s
        self._last: float | None = None

    def start(self, now: float) -> str:
        """Body that acknowledges the trigger."""
        self._last = now
        return self._body("Started.")

    def due(self, progress: Progress, now: float) -> str | None:
        """Body to write now, or None: too soon after the last one."""
        if self._last is not None and now - self._last < self._interval_s:
            return None
        self._last = now
        cost = "" if progress.cost_usd is None else f" · ${progress.cost_usd:.2f}"
        return self._body(
            f"Turn {progress.turn} · {progress.calls}/{progress.max_calls} tool calls · "
            f"{progress.tokens:,} tokens{cost} · {duration(progress.left_s)} left."
        )

    def _body(self, line: str) -> str:
        link = f" [Follow the run]({self._run_url})." if self._run_url else ""
        return f"{mark(self._name)}\n\n### Airlock: 🔄 working ({code(self._mode)})\n\n{line}{link}\n"
