"""Steps 6 and 7 of a run: workspace, publisher, sandbox with its probe, setup script.

Nothing that a model wrote runs here; the setup script is the repository's own, from its base branch.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from agent.broker.closing import CANCELLED
from agent.broker.egress import Egress
from agent.broker.git.checkouts import Checkouts
from agent.broker.git.dry_run import DryPublishing
from agent.broker.git.fetch import Fetcher
from agent.broker.git.prepare import Prepared
from agent.broker.git.publish import Publisher
from agent.broker.git.rules import BranchRules, TreeRules
from agent.broker.github import GitHubApi
from agent.broker.lifecycle import GateVerdict, Hook, Lifecycle, ended
from agent.broker.opening import Opening
from agent.broker.policy.words import Authority
from agent.broker.redact import Redactor
from agent.broker.redact.known import KnownValues
from agent.broker.report.log import Log
from agent.broker.report.markdown import block
from agent.broker.sandboxes import Sandboxes
from agent.broker.settings import Settings
from agent.broker.state import Ending, RunState
from agent.broker.workbench import Bench, git_post, open_bench, spec_maker
from agent.contract.dataclass import dataclass
from agent.contract.modes import Tier
from agent.contract.outcomes import StopReason
from agent.contract.sandbox import ExecResult, ProbeReport, Purpose, SandboxSpec
from agent.kernel.channel import Caller
from agent.kernel.passable import make_passable

SETUP_TAIL = 4000  # bytes of each stream of a failed setup script in the report; the transcript has more
CONTAINER_TEMP = "/github/runner_temp"  # where a container action sees RUNNER_TEMP


@dataclass(frozen=True)
class _Probe:
    """A probe that was started.

    Attributes:
        make_spec: specs of this run's sandboxes.
        spec: of the one that is probed.
        wait: waits for the report.
    """

    sandboxes: Sandboxes
    make_spec: Callable[[Purpose, str], SandboxSpec]
    spec: SandboxSpec
    wait: Callable[[], ProbeReport]


@dataclass(frozen=True)
class Equipment:
    """What a run is equipped from; what it is equipped with lands in `run`.

    Attributes:
        plan: what launch told.
        control: calls to launch, which starts sandboxes.
    """

    plan: Mapping[str, Any]
    settings: Settings
    opening: Opening
    run: RunState
    egress: Egress
    control: Caller
    redactor: Redactor
    log: Log

    def equip(self) -> str | None:
        """Steps 6 and 7. Returns a sentence where the run may not go on."""
        settings, opening, run = self.settings, self.opening, self.run
        tiers = opening.mode.tiers
        repository, egress = opening.trigger.repository, self.egress
        _, job = self.redactor.version_of_known()
        probes: list[_Probe] = []
        try:
            bench = open_bench(
                Path(settings.workspace),
                Path(settings.state),
                owner=(settings.uid, settings.gid),
                temps=[Path(p) for p in (settings.fact("RUNNER_TEMP"), CONTAINER_TEMP) if p],
                homes=[Path(p) for p in (self.plan.get("HOME"),) if p],
                head_sha=opening.start_sha,
                also=[sha for sha in (opening.base_sha,) if sha],
                needs_git=bool(tiers & {Tier.WRITE, Tier.SHELL, Tier.GIT}),
                git_dir=Path(place) if (place := self.plan.get("airlock.git_dir")) else None,
                fetch=lambda shadow: Fetcher(shadow, git_post(egress), repository),
                learn=lambda values: self._learn(values, job),
                settled=lambda prepared: probes.append(self._probe(prepared)) if Tier.SHELL in tiers else None,
            )
        finally:
            for probe in probes:
                probe.wait()  # also where the bench failed: launch must not be starting what it is about to end
        run.worktree = bench.worktree
        if Tier.GIT in tiers and bench.worktree is not None:
            run.publisher = self._publisher(bench)
        return self._open_sandbox(bench, *probes) if probes else None

    def _learn(self, values: Sequence[str], job: KnownValues) -> None:
        """Credentials that earlier steps left: hidden by us, and by the runner, which may not know them as secrets.

        Telling the runner means printing them, so that is done where a runner reads the log, for what the job itself
        did not hand over, and not for the base64 of another one, which the runner masks with it.
        """
        self.redactor.add("checkout-credential", *values)
        raw = [value.encode("utf-8", "surrogateescape") for value in values]
        encoded = {base64.b64encode(data) for data in raw}
        for value, data in zip(values, raw, strict=True):
            if self.settings.fact("GITHUB_ACTIONS") == "true" and data not in encoded and not job.spans(data):
                self.log.mask(value)

    def _publisher(self, bench: Bench) -> Publisher:
        opening = self.opening
        trigger = opening.trigger
        assert bench.shadow is not None
        assert bench.worktree is not None
        agent = opening.config.agent
        api = GitHubApi(self.egress, trigger.repository, Authority.publisher(opening.mode.tiers))
        return Publisher(
            DryPublishing(api, bench.shadow) if self.settings.dry_run else api,
            bench.shadow,
            owner=trigger.repository.partition("/")[0],
            start=bench.worktree.start,
            branches=BranchRules(
                prefix=agent.branch_prefix,
                default=opening.default_branch,
                base=opening.base_branch,
                protected=frozenset(b for b in (trigger.base_ref, trigger.head.ref) if b and b != opening.own_head),
                head=opening.own_head,
                targets=frozenset(b for b in (trigger.head.ref,) if b and not trigger.head.is_fork),
            ),
            trees=TreeRules(protected=opening.protected_paths, allowed=agent.allow_protected_paths),
            holds_secret=lambda data: self.redactor.holds_known(data) is not None,
            run_key=str(opening.run_id or self.plan.get("GITHUB_RUN_ID", "")),
        )

    def _probe(self, prepared: Prepared) -> _Probe:
        """Start to probe the run's main sandbox."""
        settings, opening = self.settings, self.opening
        caches = [settings.fact("RUNNER_TOOL_CACHE"), *self.plan.get("AIRLOCK_TOOL_PATH", "").split(":")]
        # what no mount may show: the workspace is there already, the rest is ours or the runner's
        files = [os.path.dirname(settings.fact(name)) for name in ("GITHUB_EVENT_PATH", "GITHUB_OUTPUT")]
        closed = [settings.workspace, settings.state, settings.results, settings.fact("RUNNER_TEMP"), *files]
        make_spec = spec_maker(
            prepared,
            opening.config.agent.sandbox,
            [c for c in caches if c],
            [p for p in closed if p],
            TreeRules(protected=opening.protected_paths, allowed=opening.config.agent.allow_protected_paths),
        )
        spec = make_spec(Purpose.MAIN, settings.workspace)
        private = [str(Path(settings.state) / "shadow.git"), str(Path(settings.state) / "prepare")]
        sandboxes = Sandboxes(self.control)
        return _Probe(sandboxes, make_spec, spec, sandboxes.probe_beside(spec, [*private, *prepared.hidden]))

    def _open_sandbox(self, bench: Bench, probe: _Probe) -> str | None:
        settings, opening, run = self.settings, self.opening, self.run
        report = probe.wait()
        run.record("sandbox.probe", **report.to_json())
        self.log.line(_probe_line(report))
        if not report.ok:
            return report.refusal()
        hooks = {p: Hook(command, opening.hook_files.get(p, {})) for p, command in opening.hooks.items()}
        gates = Path(settings.state) / "gates"
        make_passable(gates)
        assert bench.worktree is not None
        run.lifecycle = Lifecycle(
            hooks,
            probe.sandboxes,
            Checkouts(bench.worktree, Path(settings.workspace), bench.prepared.uid, bench.prepared.gid),
            folder=gates,
            workspace=settings.workspace,
            spec=probe.make_spec,
            remaining_s=run.remaining_s,
            record=run.record,
        )
        if run.cancelled:
            return CANCELLED
        done = run.lifecycle.setup()  # 7
        if done is not None and not done.ok:
            return setup_failed(run, done)
        if run.lifecycle.left_out:
            self.log.annotate("warning", run.lifecycle.left_out)
        run.sandbox = probe.sandboxes.start(probe.spec)
        return None


def _probe_line(report: ProbeReport) -> str:
    held = sum(item.held for item in report.items)
    state = f"{held} of {len(report.items)} forbidden acts refused"
    loopback = "yes" if report.loopback else "no"
    missing = f"; missing here: {', '.join(report.missing)}" if report.missing else ""
    return f"Sandbox {report.backend}: {state}; loopback: {loopback}{missing}"


def setup_failed(run: RunState, result: ExecResult) -> str:
    """The setup script ended the run: its last output is the run's output. Returns the reason."""
    reason = f"The setup script did not pass ({ended(result)})."
    verdict = GateVerdict(Purpose.SETUP, "", passed=False, ended=ended(result), output="")
    run.done.gates.append(verdict)
    tail = (result.stdout[-SETUP_TAIL:] + result.stderr[-SETUP_TAIL:]).decode("utf-8", "replace")
    run.ending = Ending(StopReason.ERROR, reason, output=block(tail) if tail.strip() else "(no output)")
    return reason
