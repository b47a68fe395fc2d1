"""What is said when a run begins: to the transcript and the log, at GitHub, and to the harness (its facts)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agent import __version__
from agent.broker.egress import Egress
from agent.broker.github import GitHubApi
from agent.broker.limits import Meter
from agent.broker.opening import Opening
from agent.broker.policy.words import Authority
from agent.broker.report.live import Live
from agent.broker.report.log import Log
from agent.broker.report.tracking import Tracking
from agent.broker.settings import Settings
from agent.broker.state import RunState
from agent.broker.task import build_task
from agent.contract.dataclass import asdict
from agent.contract.facts import RunFacts
from agent.contract.modes import Tier


def introduce(
    opening: Opening, record: Callable[..., None], log: Log, *, config_path: str, unregistered_secrets: Sequence[str]
) -> None:
    """Say what came in and who is allowed what, before anything is done.

    Args:
    record: writes a transcript event.
    config_path: where the configuration was looked for.
    unregistered_secrets: names of inputs too short to be redacted.
    """
    trigger, gate = opening.trigger, opening.gate
    record(
        "run.start",
        mode=opening.mode.name,
        event=trigger.event,
        repository=trigger.repository,
        version=__version__,
        actor=trigger.actor,
        number=trigger.number,
        head_sha=opening.start_sha,
        base_sha=opening.base_sha,
        run_id=opening.run_id,
        attempt=trigger.attempt,
        models=[f"{m.provider}/{m.model}" for m in opening.models],
        limits=asdict(opening.limits),
        file_rules={
            "protected_paths": list(opening.protected_paths),
            "allow_protected_paths": list(opening.config.agent.allow_protected_paths),
        },
        unregistered_secrets=unregistered_secrets,
    )
    record("config", sha=opening.config_sha, path=config_path)
    record(
        "gate.decision",
        mode=gate.mode,
        wished=opening.wish.mode,
        ceiling=gate.ceiling.name.lower(),
        reason=gate.reason,
        actors=[{"about": f.about, "ceiling": f.ceiling.name.lower(), "reason": f.reason} for f in gate.facts],
    )
    record("manifest", digest=opening.manifest.digest, document=opening.manifest.value)
    log.group("Airlock")
    log.line(f"Event {trigger.event} on {trigger.repository}. {opening.wish.why}")
    log.line(f"Mode {opening.mode.name}. {gate.reason}")
    log.line(f"Tools: {', '.join(opening.tools)}")
    log.line(f"Manifest {opening.manifest.digest}")
    log.end_group()


def run_facts(settings: Settings, opening: Opening) -> RunFacts:
    """All that the harness is told of the run: no secret, and no text of a third party (S1)."""
    trigger = opening.trigger
    is_pull = trigger.is_pull_request
    return RunFacts(
        mode=opening.mode.name,
        event=trigger.event,
        repository=trigger.repository,
        workspace=settings.workspace,
        base_sha=opening.base_sha,
        head_sha=opening.start_sha,
        number=trigger.number,
        is_pull_request=is_pull,
        run_id=opening.run_id,
        tools=opening.tools,
        task=build_task(
            opening.mode.name,
            repository=trigger.repository,
            number=trigger.number,
            is_pull_request=is_pull,
            run_id=opening.run_id,
            head_sha=opening.start_sha,
            wish=settings.task,
        ),
        playbook=opening.mode.playbook,
        playbook_is_text=opening.mode.name in opening.config.agent.modes,
        max_tool_calls=opening.limits.max_tool_calls,
        max_turns=opening.limits.max_turns,
        timeout_s=opening.limits.timeout_s,
        max_tokens=opening.limits.max_tokens,
        models=tuple(
            {"connection": m.connection, "wire": m.wire, "model": m.model, "path": m.path, "query": dict(m.query)}
            for m in opening.models
        ),
        branch_prefix=opening.config.agent.branch_prefix,
        options={
            "tiers": sorted(str(t) for t in opening.mode.tiers),
            "protected_paths": list(opening.protected_paths),
            "allow_protected_paths": list(opening.config.agent.allow_protected_paths),
            "request_changes": opening.config.agent.request_changes,
            "labels": list(opening.config.agent.set_labels),
            "max_cost": opening.limits.max_cost_usd,
            "base_branch_is_default": opening.base_branch == opening.default_branch,
            "declared_tools": opening.declared.for_harness(),
        },
    )


def run_state(settings: Settings, opening: Opening, *, started: float, record: Callable[..., None]) -> RunState:
    """The run before anything is done in it.

    Args:
        started: `time.monotonic()` of the broker's start; the wall clock counts from there.
    """
    return RunState(
        facts=run_facts(settings, opening),
        tiers=opening.mode.tiers,
        meter=Meter(opening.limits, started=started),
        record=record,
        declared=opening.declared,
        gate_files=frozenset(path for files in opening.hook_files.values() for path in files),
    )


def acknowledge(settings: Settings, opening: Opening, run: RunState, egress: Egress) -> Live | None:
    """Show at GitHub that the trigger was seen, beside the start of the run and not before it."""
    trigger = opening.trigger
    if trigger.number is None or not opening.may_comment:
        return None
    live = Live(
        GitHubApi(egress, trigger.repository, Authority.publisher(run.tiers | {Tier.COMMENT})),
        Tracking(mode=opening.mode.name, run_url=settings.run_url, name=settings.run_name),
        number=trigger.number,
        name=settings.run_name,
        text_kind=trigger.text_kind,
        text_id=trigger.text_id,
        attempt=trigger.attempt,
        learn=lambda login: run.facts.options.update(own_login=login),
        problem=lambda sentence: run.record("log", level="warning", message=sentence),
    )
    live.start()
    return live
