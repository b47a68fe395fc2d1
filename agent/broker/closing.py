"""Step 11, first half: what the run amounts to. `telling` says it. Nothing here may raise."""

from __future__ import annotations

from agent import __version__
from agent.broker.opening import Opening
from agent.broker.report.changes import changes_of
from agent.broker.report.facts import RAISE, Cap, Change, Denial, GateLine, RunReport
from agent.broker.server import Call, Handler, Reply
from agent.broker.settings import Settings
from agent.broker.state import RunState
from agent.broker.transcript import Transcript
from agent.contract.dataclass import replace
from agent.contract.errors import AirlockError, UpstreamError
from agent.contract.modes import Tier
from agent.contract.outcomes import OUTCOMES, StopReason
from agent.contract.sandbox import Purpose
from agent.contract.totals import Totals

CANCELLED = "The run was cancelled."
DIFF_BYTES = 200_000  # of the run's diff in the transcript
_CHANGING = frozenset({Tier.WRITE, Tier.SHELL, Tier.GIT})


def settle(run: RunState, channel_ended: str) -> tuple[StopReason, str]:
    """The true stop reason and a sentence: the harness's word counts only where ours is no worse.

    Args:
        channel_ended: why the harness's channel closed.
    """
    meter = run.meter
    if run.cancelled:
        return StopReason.CANCELLED, CANCELLED
    if run.remaining_s() <= 0:
        return StopReason.TIMEOUT, f"The time limit of {meter.limits.timeout_s / 60:g} minutes is reached."
    ending = run.ending
    if ending is None:
        if meter.reached is not None:
            return meter.reached, RAISE.get(meter.reached, "")
        return StopReason.ERROR, f"The harness ended without a result ({channel_ended})."
    if OUTCOMES[ending.stop_reason].exit_status != 0:
        return ending.stop_reason, ending.reason
    if meter.reached is not None:  # the harness may say that it is done, the cap was reached all the same
        return meter.reached, RAISE.get(meter.reached, "")
    unverified = _stop_failure(run)
    if unverified:
        return StopReason.NOT_VERIFIED, unverified
    if run.done.unpublished:  # green means done: the model may say so, the work is still not where it belongs
        return StopReason.ERROR, f"The changes are not published: {run.done.unpublished}"
    return ending.stop_reason, ending.reason


def publishing(run: RunState, handler: Handler) -> Handler:
    """A handler that publishes, with a memory of whether GitHub failed it."""

    def handle(call: Call) -> Reply:
        try:
            reply = handler(call)
        except UpstreamError as exc:
            run.done.unpublished = str(exc)
            raise
        run.done.unpublished = ""
        return reply

    return handle


def _stop_failure(run: RunState) -> str:
    """The stop script's verdict on what is there at the end; a harness that never asked is asked for."""
    lifecycle, worktree = run.lifecycle, run.worktree
    if lifecycle is None or worktree is None or not lifecycle.has(Purpose.STOP):
        return ""
    try:
        left = worktree.snapshot()
        if left.over:
            return f"The stop script could not judge the workspace: {left.over}"
        trees = {left.tree: "what the run left"}
        for branch, tip in run.done.tips.items():  # what was published counts, not what was mended since
            trees.setdefault(worktree.shadow.tree_of(tip), f"what was pushed to {branch}")
        for tree, what in trees.items():
            verdict = run.judge(Purpose.STOP, tree)
            if not verdict.passed:
                return f"The stop script did not pass ({verdict.ended}) on {what}."
    except AirlockError as exc:
        return f"The stop script could not be run: {exc}"
    return ""


def report_of(
    settings: Settings,
    opening: Opening,
    run: RunState,
    stop_reason: StopReason,
    reason: str,
    *,
    transcript: Transcript,
    duration_s: float,
) -> RunReport:
    """The run as reported, in the action."""
    notes = (
        (opening.config.agent.sandbox.network == "open", "The sandbox's network was open, as configuration asks."),
        (settings.dry_run, "This was a dry run: nothing was sent that changes anything."),
    )
    report = make_report(
        run,
        stop_reason,
        reason,
        transcript.totals,
        gates=(GateLine("actor", opening.gate.mode == opening.wish.mode, opening.gate.reason),),
        digest=opening.manifest.digest,
        config_sha=opening.config_sha,
        notes=tuple(sentence for applies, sentence in notes if applies),
        duration_s=duration_s,
        run_url=settings.run_url,
        name=settings.run_name,
        version=__version__,
        transcript_digest=transcript.digest,
    )
    # a following step would look for the branch of a dry run
    return replace(report, branch="", tip="") if settings.dry_run else report


def make_report(
    run: RunState,
    stop_reason: StopReason,
    reason: str,
    totals: Totals,
    *,
    gates: tuple[GateLine, ...],
    digest: str,
    config_sha: str | None,
    notes: tuple[str, ...],
    duration_s: float,
    run_url: str,
    name: str,
    version: str,
    transcript_digest: str = "",
) -> RunReport:
    """The run as reported."""
    done, limits = run.done, run.meter.limits
    _record_limit(run, stop_reason)
    branch = next(reversed(done.pushed), "")
    lines = [
        GateLine(str(v.purpose), v.passed, v.ended, v.output)
        for v in done.gates
        if v is [w for w in done.gates if w.purpose is v.purpose][-1]
    ]
    return RunReport(
        stop_reason=stop_reason,
        mode=run.facts.mode,
        reason=reason,
        output=run.ending.output if run.ending else "",
        structured=run.ending.structured if run.ending else None,
        gates=(*gates, *lines),
        changes=_changes(run),
        branch=branch,
        commits=tuple(done.commits),
        tip=done.pushed[branch].sha if branch else "",
        pull_request_url=done.pull.url if done.pull else "",
        comments=len(done.comments) + len(done.issues),
        totals=_counted(run, totals),
        caps=(
            Cap("tool calls", run.meter.tool_calls, limits.max_tool_calls),
            Cap("time", round(duration_s / 60, 1), limits.timeout_s / 60, "min"),
            Cap("turns", run.meter.turns, limits.max_turns),
            Cap("tokens", run.meter.tokens, limits.max_tokens),
            Cap("cost", round(run.meter.cost_usd, 4), limits.max_cost_usd, "USD"),
        ),
        denials=tuple(Denial(*_split(text)) for text in done.denials[:50]),
        notes=notes,
        manifest_digest=digest,
        settings_read=config_sha or "",
        duration_s=duration_s,
        run_url=run_url,
        artifact=f"{run_url}#artifacts" if run_url else "",
        transcript_digest=transcript_digest,
        version=version,
        mark=name,
    )


def _counted(run: RunState, totals: Totals) -> Totals:
    """Sums of the transcript, with the provider's own counts in place of what the harness says it used (S7)."""
    meter = run.meter
    totals = replace(totals, tool_calls=min(totals.tool_calls, meter.tool_calls))  # calls over the cap did not run
    if meter.read == 0:
        return totals
    cost = meter.cost_usd if meter.priced else None
    return replace(totals, input_tokens=meter.read, output_tokens=meter.written, cost_usd=cost)


def _split(text: str) -> tuple[str, str]:
    what, _, code = text.rpartition(": ")
    return what, code


def _changes(run: RunState) -> tuple[Change, ...]:
    """Files that the run changed, committed or not: what a capped run leaves is told and lies in the transcript."""
    worktree = run.worktree
    if worktree is None or not run.tiers & _CHANGING:
        return ()
    try:
        text = worktree.diff(budget=DIFF_BYTES)
        changes = changes_of(text)
        if changes:
            added, removed = sum(c.added or 0 for c in changes), sum(c.removed or 0 for c in changes)
            run.record("diff", text=text, files=[c.path for c in changes], added=added, removed=removed)
    except (AirlockError, OSError):
        return ()
    return changes


def _record_limit(run: RunState, stop_reason: StopReason) -> None:
    """Which cap ended the run, in the transcript (S7)."""
    meter, limits = run.meter, run.meter.limits
    used: dict[StopReason, tuple[object, object]] = {
        StopReason.MAX_TOOL_CALLS: (meter.tool_calls, limits.max_tool_calls),
        StopReason.MAX_TURNS: (meter.turns, limits.max_turns),
        StopReason.TIMEOUT: (round(limits.timeout_s - run.remaining_s(), 1), limits.timeout_s),
        StopReason.BUDGET: (
            {"tokens": meter.tokens, "cost_usd": round(meter.cost_usd, 6)},
            {"tokens": limits.max_tokens, "cost_usd": limits.max_cost_usd},
        ),
    }
    if stop_reason in used:
        spent, cap = used[stop_reason]
        run.record("limit", limit=str(stop_reason), used=spent, cap=cap, how_to_raise=RAISE[stop_reason])
