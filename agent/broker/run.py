"""Zone 1, the main flow of one run. Read it together with DESIGN section 4; the step numbers are the same.

The broker holds the secrets, decides, forwards and records. What it starts with comes by inherited
descriptors; what it ends with lies in the results folder.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

from agent import __version__
from agent.broker.closing import make_report, publish_report, publishing, settle, setup_failed, write_error, write_skip
from agent.broker.egress import Egress, Reach, make_transport
from agent.broker.egress.transport import Transport
from agent.broker.event import Skip, Trigger
from agent.broker.git.checkouts import Checkouts
from agent.broker.git.fetch import Fetcher
from agent.broker.git.publish import Publisher
from agent.broker.git.rules import BranchRules, TreeRules
from agent.broker.github import GitHubApi
from agent.broker.guidance import Guidance, guidance_branch, read_guidance, with_guidance
from agent.broker.lifecycle import Hook, Lifecycle
from agent.broker.limits import Meter
from agent.broker.opening import Opening, event_of, first_policy, open_run
from agent.broker.operations import Operations
from agent.broker.operations_egress import EgressOperation
from agent.broker.policy.words import Authority
from agent.broker.redact import Redactor
from agent.broker.report.facts import GateLine
from agent.broker.report.live import Live
from agent.broker.report.log import Log
from agent.broker.report.progress import Progress, where
from agent.broker.report.results import Results
from agent.broker.report.tracking import Tracking
from agent.broker.request import request_reply
from agent.broker.sandboxes import Sandboxes
from agent.broker.secrets import SecretStore
from agent.broker.server import Server
from agent.broker.settings import Settings, read_settings
from agent.broker.state import RunState
from agent.broker.task import build_task, check_wish, payload_texts
from agent.broker.transcript import Transcript
from agent.broker.trusted_files import TrustedFiles, branch_tip
from agent.broker.workbench import Bench, git_post, open_bench, spec_maker
from agent.contract.errors import AirlockError, Refusal, UpstreamError, UserError
from agent.contract.facts import RunFacts
from agent.contract.modes import Tier
from agent.contract.outcomes import OUTCOMES, StopReason
from agent.contract.sandbox import ProbeReport, Purpose
from agent.kernel.channel import Caller, CallFailed, Channel, ChannelError
from agent.kernel.confine import confine_broker

CONTAINER_TEMP = "/github/runner_temp"  # where a container action sees RUNNER_TEMP
PAGE_BYTES = 8 << 20  # of a transcript that is made a page of at once; of a larger one `view` makes it
CANCELLED = "The run was cancelled."
CANCEL_WAIT_S = 1.0  # for a handler to let go of the state before the partial report is written


def main(control_fd: int, harness_fd: int, plan_fd: int, secrets_fd: int, event_fd: int) -> int:
    """The broker's process; returns the step's exit status."""
    confine_broker()
    plan = json.loads(_read(plan_fd))
    secret_inputs: dict[str, str] = json.loads(_read(secrets_fd))
    event = _read(event_fd)
    broker = Broker(plan, secret_inputs, Channel.from_fd(control_fd), Channel.from_fd(harness_fd))
    return broker.run(event)


class Broker:
    """One run, from the event to the report."""

    def __init__(
        self, plan: Mapping[str, Any], secret_inputs: Mapping[str, str], control: Channel, harness: Channel
    ) -> None:
        self._plan = plan
        self._harness = harness
        self._started = time.monotonic()
        self._folder = Path(plan["airlock.results"])
        self._redactor = Redactor({k: v for k, v in secret_inputs.items() if k != "secrets"})
        self._secret_inputs = secret_inputs
        self._log = Log(sys.stdout.buffer, sys.stderr.buffer, self._redactor)
        self._results: Results | None = None
        self._transcript: Transcript | None = None
        self._run: RunState | None = None
        self._live: Live | None = None
        self._cancelled = False
        self._ready = threading.Event()
        self._control = Caller(control, on_notice=self._notice)  # last: a cancel may come at once
        self._ready.set()

    def run(self, event: bytes) -> int:
        """Everything; never raises."""
        try:
            return self._steps(event)
        except UserError as exc:
            return self._failed(str(exc))
        except (UpstreamError, Refusal) as exc:
            return self._failed(f"{exc} Nothing was changed.")
        except Exception as exc:
            # a bug of ours ends as a failed run with a place to look, not as a traceback in a public log
            place = _place(exc)
            return self._failed(f"Airlock has a bug ({type(exc).__name__} at {place}). Nothing more was done.")

    def _steps(self, event: bytes) -> int:
        self._results = Results(self._folder, self._redactor)
        self._transcript = Transcript(self._results.transcript, self._redactor, time.time)
        settings = read_settings(self._plan)
        secrets = SecretStore.from_inputs(self._secret_inputs)
        for name, value in secrets.for_redaction().items():
            self._redactor.add(name, value)
        # 2. the event
        trigger = event_of(settings, event)
        if isinstance(trigger, Skip):
            return self._skipped(trigger.sentence)
        check_wish(settings.task, payload_texts(event))
        transport = make_transport(_reach(self._secret_inputs, self._plan))
        if not secrets.has("github-token"):
            raise UserError("Input `github-token` is empty. Pass `github-token: ${{ github.token }}`.")
        egress = self._egress(first_policy(settings, trigger), secrets, transport)
        # 2, 3, 4, 5. mode, gate, configuration, manifest
        opening = open_run(settings, trigger, egress, secrets.has)
        if isinstance(opening, Skip):
            return self._skipped(opening.sentence)
        if self._cancelled:
            return self._failed(CANCELLED)
        self._introduce(opening)
        run = self._prepare(settings, opening)
        egress = self._egress(opening.policy, secrets, transport, run=run)
        self._acknowledge(settings, opening, run, egress)
        problem = self._equip(settings, opening, run, egress)
        # 8. the loop, 9. and 10. inside it
        ended_by = problem or self._serve(run, egress, opening)
        # 11. the report
        return self._report(settings, opening, run, egress, ended_by, refused=problem is not None)

    # -- parts of the start

    def _egress(self, policy: Any, secrets: SecretStore, transport: Transport, run: RunState | None = None) -> Egress:
        return Egress(
            policy,
            secrets,
            transport,
            record=self._record,
            redactor=self._redactor,
            remaining_s=run.remaining_s if run else lambda: 60.0,
            write_pause_s=float(self._plan.get("airlock.write_pause", 1.0)),
        )

    def _introduce(self, opening: Opening) -> None:
        """Say what came in and who is allowed what, before anything is done."""
        trigger, gate = opening.trigger, opening.gate
        self._record(
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
            unregistered_secrets=self._redactor.unregistered,
        )
        self._record("config", sha=opening.config_sha, path=self._plan.get("config", ""))
        self._record(
            "gate.decision",
            mode=gate.mode,
            wished=opening.wish.mode,
            ceiling=gate.ceiling.name.lower(),
            reason=gate.reason,
            actors=[{"about": f.about, "ceiling": f.ceiling.name.lower(), "reason": f.reason} for f in gate.facts],
        )
        self._record("manifest", digest=opening.manifest.digest, document=opening.manifest.value)
        self._log.group("Airlock")
        self._log.line(f"Event {trigger.event} on {trigger.repository}. {opening.wish.why}")
        self._log.line(f"Mode {opening.mode.name}. {gate.reason}")
        self._log.line(f"Tools: {', '.join(opening.tools)}")
        self._log.line(f"Manifest {opening.manifest.digest}")
        self._log.end_group()

    def _prepare(self, settings: Settings, opening: Opening) -> RunState:
        trigger = opening.trigger
        is_pull = trigger.is_pull_request
        facts = RunFacts(
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
                {"connection": m.connection, "wire": m.wire, "model": m.model, "path": m.path} for m in opening.models
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
        run = RunState(
            facts=facts,
            tiers=opening.mode.tiers,
            meter=Meter(opening.limits, started=self._started),
            record=self._record,
            declared=opening.declared,
            gate_files=frozenset(path for files in opening.hook_files.values() for path in files),
        )
        run.cancelled = self._cancelled
        self._run = run
        self._control.notice("deadline", seconds=run.remaining_s())
        return run

    def _acknowledge(self, settings: Settings, opening: Opening, run: RunState, egress: Egress) -> None:
        """Show at GitHub that the trigger was seen, beside the start of the run and not before it."""
        trigger = opening.trigger
        if trigger.number is None or not _may_comment(opening):
            return
        name = _name(settings)
        self._live = Live(
            GitHubApi(egress, trigger.repository, Authority.publisher(run.tiers | {Tier.COMMENT})),
            Tracking(mode=opening.mode.name, run_url=_run_url(settings), name=name),
            number=trigger.number,
            name=name,
            text_kind=trigger.text_kind,
            text_id=trigger.text_id,
            attempt=trigger.attempt,
            learn=lambda login: run.facts.options.update(own_login=login),
            problem=lambda sentence: self._record("log", level="warning", message=sentence),
        )
        self._live.start()

    def _equip(self, settings: Settings, opening: Opening, run: RunState, egress: Egress) -> str | None:
        """6. workspace, probe, and 7. setup. Returns a sentence where the run may not go on."""
        tiers = opening.mode.tiers
        repository = opening.trigger.repository
        bench = open_bench(
            Path(settings.workspace),
            Path(settings.state),
            owner=(settings.uid, settings.gid),
            temps=[Path(p) for p in (settings.fact("RUNNER_TEMP"), CONTAINER_TEMP) if p],
            homes=[Path(p) for p in (self._plan.get("HOME"),) if p],
            head_sha=opening.start_sha,
            also=[sha for sha in (opening.base_sha,) if sha],
            needs_git=bool(tiers & {Tier.WRITE, Tier.SHELL, Tier.GIT}),
            git_dir=Path(place) if (place := self._plan.get("airlock.git_dir")) else None,
            fetch=lambda shadow: Fetcher(shadow, git_post(egress), repository),
            learn=lambda value: self._redactor.add("checkout-credential", value),
        )
        run.worktree = bench.worktree
        if Tier.GIT in tiers and bench.worktree is not None:
            run.publisher = self._publisher(opening, bench, egress)
        if Tier.SHELL not in tiers:
            return None
        return self._open_sandbox(settings, opening, run, bench)

    def _publisher(self, opening: Opening, bench: Bench, egress: Egress) -> Publisher:
        trigger = opening.trigger
        assert bench.shadow is not None
        assert bench.worktree is not None
        agent = opening.config.agent
        return Publisher(
            GitHubApi(egress, trigger.repository, Authority.publisher(opening.mode.tiers)),
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
            holds_secret=lambda data: self._redactor.holds_known(data) is not None,
            run_key=str(opening.run_id or self._plan.get("GITHUB_RUN_ID", "")),
        )

    def _open_sandbox(self, settings: Settings, opening: Opening, run: RunState, bench: Bench) -> str | None:
        sandboxes = Sandboxes(self._control)
        caches = [settings.fact("RUNNER_TOOL_CACHE"), *self._plan.get("AIRLOCK_TOOL_PATH", "").split(":")]
        make_spec = spec_maker(bench.prepared, opening.config.agent.sandbox, [c for c in caches if c])
        spec = make_spec(Purpose.MAIN, settings.workspace)
        private = [str(Path(settings.state) / "shadow.git"), str(Path(settings.state) / "prepare")]
        report = sandboxes.probe(spec, [*private, *bench.prepared.hidden])
        self._record("sandbox.probe", **report.to_json())
        self._log.line(_probe_line(report))
        if not report.ok:
            failed = "; ".join(f"{item.name}: {item.detail}" for item in report.items if not item.held)
            return (
                f"The sandbox did not pass its probe, so nothing may run in it. {failed or '; '.join(report.missing)}"
            )
        hooks = {p: Hook(command, opening.hook_files.get(p, {})) for p, command in opening.hooks.items()}
        gates = Path(settings.state) / "gates"
        gates.mkdir(mode=0o711)
        assert bench.worktree is not None
        run.lifecycle = Lifecycle(
            hooks,
            sandboxes,
            Checkouts(bench.worktree, Path(settings.workspace), bench.prepared.uid, bench.prepared.gid),
            folder=gates,
            workspace=settings.workspace,
            spec=make_spec,
            remaining_s=run.remaining_s,
            record=self._record,
        )
        if self._cancelled:
            return CANCELLED
        done = run.lifecycle.setup()  # 7
        if done is not None and not done.ok:
            return setup_failed(run, done)
        run.sandbox = sandboxes.start(spec)
        return None

    # -- the loop

    def _serve(self, run: RunState, egress: Egress, opening: Opening) -> str:
        """8. Answer the harness until it ends, the clock runs out, or a cancel comes."""
        api = GitHubApi(egress, opening.trigger.repository, Authority.broker())
        operations = Operations(run, self._redactor, self._folder)

        @cache
        def guidance() -> Guidance:
            branch = guidance_branch(opening.trigger, opening.base_branch, opening.default_branch)
            known = opening.config_sha if branch == opening.default_branch else None
            return read_guidance(lambda: known or branch_tip(api, branch), lambda commit: TrustedFiles(api, commit))

        offered = operations.handlers()
        handlers = {
            **offered,
            **{name: publishing(run, offered[name]) for name in ("push", "pull_request")},
            "egress": EgressOperation(run, egress, api).handle,
            "request": lambda _: with_guidance(
                request_reply(opening.trigger, opening.gate, opening.wish, own_head=opening.own_head), guidance()
            ),
        }
        timer = threading.Timer(max(0.0, run.remaining_s()), self._stop_harness)
        timer.daemon = True
        timer.start()
        if self._cancelled:
            self._stop_harness()
        server = Server(self._harness, handlers, on_fault=self._fault)
        why = server.serve()
        self._stop_harness()  # one that hung up may live on, and must not touch what is judged from here on
        timer.cancel()
        if run.sandbox is not None:
            run.sandbox.close()
        return why

    def _stop_harness(self) -> None:
        """End the harness; its channel closes and `serve` returns."""
        self._ready.wait()
        try:
            self._control.call("harness.stop")
        except (CallFailed, ChannelError):
            self._harness.close()

    def _notice(self, header: Mapping[str, Any]) -> None:
        """A notice from launch: a signal came."""
        if header.get("op") == "cancel":
            self._cancelled = True
            if self._run is not None:
                self._run.cancelled = True
                self._run.lock.acquire(timeout=CANCEL_WAIT_S)
                if self._run.lifecycle is not None:
                    threading.Thread(target=self._run.lifecycle.stop, daemon=True).start()
            threading.Thread(target=self._stop_harness, daemon=True).start()

    # -- the end

    def _report(
        self, settings: Settings, opening: Opening, run: RunState, egress: Egress, ended_by: str, *, refused: bool
    ) -> int:
        assert self._results is not None
        assert self._transcript is not None
        self._log.end_group()
        if refused and run.ending is None and not run.cancelled:
            stop_reason, reason = StopReason.BLOCKED, ended_by
        else:
            stop_reason, reason = settle(run, ended_by)
        network = opening.config.agent.sandbox.network
        report = make_report(
            run,
            stop_reason,
            reason,
            self._transcript.totals,
            gates=(GateLine("actor", opening.gate.mode == opening.wish.mode, opening.gate.reason),),
            digest=opening.manifest.digest,
            config_sha=opening.config_sha,
            notes=("The sandbox's network was open, as configuration asks.",) if network == "open" else (),
            duration_s=time.monotonic() - self._started,
            run_url=_run_url(settings),
            name=_name(settings),
            version=__version__,
            transcript_digest=self._transcript.digest,
        )
        writer = GitHubApi(egress, opening.trigger.repository, Authority.publisher(run.tiers | {Tier.COMMENT}))
        publish_report(
            report,
            run,
            results=self._results,
            log=self._log,
            api=writer if _may_comment(opening) else None,
            live=self._live,
        )
        self._end(stop_reason, reason)
        status = OUTCOMES[stop_reason].exit_status
        if status != 0:
            self._log.error_line(f"airlock: {OUTCOMES[stop_reason].sentence} {reason}".rstrip())
        return status

    def _end(self, stop_reason: StopReason, reason: str) -> None:
        assert self._transcript is not None
        row = OUTCOMES[stop_reason]
        self._record(
            "run.end",
            stop_reason=str(stop_reason),
            outcome=row.outcome,
            exit_status=row.exit_status,
            reason=reason,
            output=self._run.ending.output if self._run and self._run.ending else "",
            totals=self._transcript.totals.to_json(),
        )
        self._transcript.close()
        self._page()

    def _page(self) -> None:
        """The transcript as a page, last of all: everything else is told by now."""
        assert self._results is not None
        from agent.viewer.page import write_page  # now, not while the first request waits

        try:
            if self._results.transcript.stat().st_size <= PAGE_BYTES:
                write_page(self._results.transcript, self._results.page)
        except (AirlockError, OSError) as exc:
            self._log.annotate("warning", f"The page of the transcript is missing: {exc}")

    def _skipped(self, sentence: str) -> int:
        assert self._results is not None
        self._record("log", message=sentence, level="notice")
        write_skip(sentence, results=self._results, log=self._log, name="skipped")
        self._end(StopReason.SKIPPED, sentence)
        return OUTCOMES[StopReason.SKIPPED].exit_status

    def _failed(self, sentence: str) -> int:
        """The run could not start, or broke; where a cancel is what broke it, it says that."""
        self._log.end_group()
        stop_reason = StopReason.ERROR
        if self._cancelled:
            stop_reason, sentence = StopReason.CANCELLED, CANCELLED
        try:
            name = f"run-{self._plan.get('GITHUB_RUN_ID') or 'local'}"
            write_error(
                sentence,
                stop_reason,
                results_folder=self._folder,
                results=self._results,
                log=self._log,
                name=name,
                live=self._live,
            )
            if self._transcript is not None:
                self._end(stop_reason, sentence)
        except (AirlockError, OSError) as exc:
            self._log.annotate("error", f"{sentence} The report could not be written either: {exc}", title="Airlock")
        self._log.error_line(f"airlock: {sentence}")
        return OUTCOMES[stop_reason].exit_status

    # -- records

    def _record(self, kind: str, /, **data: Any) -> None:
        assert self._transcript is not None
        self._transcript.write(kind, **data)
        if self._run is not None:
            Progress.show(self._log, kind, data, self._run)
            if self._live is not None and kind == "model.response":
                self._live.show(where(self._run))

    def _fault(self, op: str, exc: BaseException) -> None:
        self._record("log", level="error", message=f"bug in operation {op}: {type(exc).__name__}", where=_place(exc))


def _read(fd: int) -> bytes:
    with os.fdopen(fd, "rb") as file:
        return file.read()


def _reach(secret_inputs: Mapping[str, str], plan: Mapping[str, Any]) -> Reach:
    """Proxies of the runner; they may hold a password, so they arrive with the secrets."""
    proxies = {
        scheme: value
        for scheme in ("http", "https")
        if (value := secret_inputs.get(f"{scheme}_proxy") or secret_inputs.get(f"{scheme.upper()}_PROXY"))
    }
    no_proxy = secret_inputs.get("no_proxy") or secret_inputs.get("NO_PROXY") or ""
    return Reach(proxies=proxies, no_proxy=no_proxy, ca_file=plan.get("ca-certificates") or None)


def _name(settings: Settings) -> str:
    """Of the hidden mark in this run's comments; the same for each of its attempts (A6)."""
    return f"run-{settings.fact('GITHUB_RUN_ID') or 'local'}"


def _may_comment(opening: Opening) -> bool:
    """A restricted run says nothing at GitHub unless the configuration wants it (S6)."""
    if opening.mode.name == "restricted":
        return opening.config.agent.comment_when_restricted
    return Tier.COMMENT in opening.mode.tiers


def _run_url(settings: Settings) -> str:
    server, repository, run = (settings.fact(f"GITHUB_{n}") for n in ("SERVER_URL", "REPOSITORY", "RUN_ID"))
    return f"{server}/{repository}/actions/runs/{run}" if server and run else ""


def _probe_line(report: ProbeReport) -> str:
    held = sum(item.held for item in report.items)
    state = f"{held} of {len(report.items)} forbidden acts refused"
    loopback = "yes" if report.loopback else "no"
    missing = f"; missing here: {', '.join(report.missing)}" if report.missing else ""
    return f"Sandbox {report.backend}: {state}; loopback: {loopback}{missing}"


def _place(exc: BaseException) -> str:
    """File and line of our own code where it happened; no values."""
    place = "unknown"
    trace = exc.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if f"{os.sep}agent{os.sep}" in file:
            place = f"agent/{file.rpartition(f'{os.sep}agent{os.sep}')[2]}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place


__all__ = ["Broker", "Trigger", "main"]
