"""Zone 1, the main flow of one run. Read it together with DESIGN section 4; the step numbers are the same.

The broker holds the secrets, decides, forwards and records. What it starts with comes from `process.py`; what it ends
with lies in the results folder.
"""

from __future__ import annotations

import itertools
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from agent.broker.ahead import load_ahead
from agent.broker.closing import CANCELLED, report_of, settle
from agent.broker.connections import first_policy
from agent.broker.egress import Egress, make_transport, reach_of
from agent.broker.egress.transport import Transport
from agent.broker.event import Skip
from agent.broker.github import GitHubApi
from agent.broker.introduce import acknowledge, introduce, run_state
from agent.broker.opening import Opening, event_of, open_run
from agent.broker.policy.words import Authority
from agent.broker.redact import Redactor
from agent.broker.report.live import Live
from agent.broker.report.log import Log
from agent.broker.report.place import place_of
from agent.broker.report.progress import Progress, where
from agent.broker.report.reserve import Reserve
from agent.broker.report.results import Results
from agent.broker.secrets import SecretStore
from agent.broker.server import Server
from agent.broker.settings import Settings, read_settings, run_name
from agent.broker.state import RunState
from agent.broker.task import check_wish, payload_texts
from agent.broker.telling import publish_report, write_error, write_page, write_skip
from agent.broker.transcript import Transcript
from agent.contract.errors import AirlockError, Refusal, UpstreamError, UserError
from agent.contract.modes import Tier
from agent.contract.outcomes import OUTCOMES, StopReason
from agent.kernel.channel import Caller, CallFailed, Channel, ChannelError

WAIT_S = 1.0  # for a push to let go of the state, where the run is cancelled: launch gives six seconds for the report


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
        self._reserve: Reserve | None = None
        self._transcript: Transcript | None = None
        self._run: RunState | None = None
        self._server: Server | None = None
        self._live: Live | None = None
        self._cancelled = False
        self._dry_run = True
        self._numbers = itertools.count(1)  # of requests, one after another in the transcript whoever sends them
        self._control = Caller(control)

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
            place = place_of(exc)
            return self._failed(f"Airlock has a bug ({type(exc).__name__} at {place}). Nothing more was done.")

    def _steps(self, event: bytes) -> int:
        self._results = Results(self._folder, self._redactor)
        self._reserve = Reserve(self._folder)
        self._transcript = Transcript(self._results.transcript, self._redactor, time.time)
        settings = read_settings(self._plan)
        self._dry_run = settings.dry_run
        secrets = SecretStore.from_inputs(self._secret_inputs)
        for name, value in secrets.for_redaction().items():
            self._redactor.add(name, value)
        # 2. the event
        trigger = event_of(settings, event)
        if isinstance(trigger, Skip):
            return self._skipped(trigger.sentence)
        check_wish(settings.task, payload_texts(event))
        transport = make_transport(reach_of(self._secret_inputs, self._plan.get("ca-certificates")))
        if not secrets.has("github-token"):
            raise UserError("Input `github-token` is empty. Pass `github-token: ${{ github.token }}`.")
        load_ahead()
        egress = self._egress(first_policy(settings, trigger), secrets, transport)
        # 2, 3, 4, 5. mode, gate, configuration, manifest
        opening = open_run(settings, trigger, egress, secrets.has)
        if isinstance(opening, Skip):
            return self._skipped(opening.sentence)
        if self._cancelled:
            return self._failed(CANCELLED)
        introduce(
            opening,
            self._record,
            self._log,
            config_path=self._plan.get("config", ""),
            unregistered_secrets=self._redactor.unregistered,
        )
        run = self._prepare(settings, opening)
        egress = self._egress(opening.policy, secrets, transport, run=run)
        self._live = acknowledge(settings, opening, run, egress)
        # 6, 7. workspace, sandbox and setup
        from agent.broker.equip import Equipment  # see `ahead`

        equipment = Equipment(self._plan, settings, opening, run, egress, self._control, self._redactor, self._log)
        problem = equipment.equip()
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
            dry_run=self._dry_run,
            numbers=self._numbers,
        )

    def _prepare(self, settings: Settings, opening: Opening) -> RunState:
        run = run_state(settings, opening, started=self._started, record=self._record)
        self._run = run
        run.cancelled = run.cancelled or self._cancelled  # one that came before there was a run to tell
        self._control.notice("deadline", seconds=run.remaining_s())
        return run

    # -- the loop

    def _serve(self, run: RunState, egress: Egress, opening: Opening) -> str:
        """8. Answer the harness until it ends, the clock runs out, or a cancel comes."""
        from agent.broker.handlers import handlers  # see `ahead`

        timer = threading.Timer(max(0.0, run.remaining_s()), self._stop_harness)
        timer.daemon = True
        timer.start()
        if self._cancelled:
            self._stop_harness()
        answers = handlers(run, egress, opening, self._redactor, self._folder)
        self._server = Server(self._harness, answers, on_fault=self._fault)
        why = self._server.serve()
        self._stop_harness()  # one that hung up may live on, and must not touch what is judged from here on
        timer.cancel()
        while not run.lock.acquire(timeout=WAIT_S):  # kept: what is under way ends first, and nothing begins any more
            if run.cancelled or run.remaining_s() <= 0:
                break  # the report has no time to wait, and is no green one
        if run.sandbox is not None:
            run.sandbox.close()
        return why

    def _stop_harness(self) -> None:
        """End the harness; its channel closes and `serve` returns."""
        try:
            self._control.call("harness.stop")
        except (CallFailed, ChannelError):
            self._harness.close()
        if self._server:
            self._server.end()

    def cancel(self) -> None:
        """A signal came: end the harness and what runs for it; the report tells how far the run got."""
        self._cancelled = True
        if self._run is not None:
            self._run.cancelled = True
        self._stop_harness()  # first, and with no new thread: it may have used up all that there are
        if self._run is not None and self._run.lifecycle is not None:
            self._run.lifecycle.stop()

    # -- the end

    def _report(
        self, settings: Settings, opening: Opening, run: RunState, egress: Egress, ended_by: str, *, refused: bool
    ) -> int:
        assert self._results is not None
        assert self._transcript is not None
        self._log.end_group()
        self._make_room()
        if refused and run.ending is None and not run.cancelled:
            stop_reason, reason = StopReason.BLOCKED, ended_by
        else:
            stop_reason, reason = settle(run, ended_by)
        report = report_of(
            settings, opening, run, stop_reason, reason,
            transcript=self._transcript, duration_s=time.monotonic() - self._started,
        )  # fmt: skip
        writer = GitHubApi(egress, opening.trigger.repository, Authority.publisher(run.tiers | {Tier.COMMENT}))
        publish_report(
            report, run, results=self._results, log=self._log,
            api=writer if opening.may_comment else None, live=self._live,
        )  # fmt: skip
        self._end(stop_reason, reason)
        status = OUTCOMES[stop_reason].exit_status
        if status != 0:
            self._log.error_line(f"airlock: {OUTCOMES[stop_reason].sentence} {reason}".rstrip())
        return status

    def _make_room(self) -> None:
        """From here on a full disk has room for the report, and the transcript for its end."""
        if self._reserve is not None:
            self._reserve.release()
        fault = self._transcript.fault if self._transcript else None
        if self._transcript is not None and self._transcript.resume():
            with suppress(AirlockError):
                self._record("log", level="error", message=f"events are missing before this one: it {fault}")

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
        assert self._results is not None
        write_page(self._results, self._log)  # last of all: everything else is told by now

    def _skipped(self, sentence: str) -> int:
        assert self._results is not None
        self._record("log", message=sentence, level="notice")
        write_skip(sentence, results=self._results, log=self._log, name="skipped")
        self._end(StopReason.SKIPPED, sentence)
        return OUTCOMES[StopReason.SKIPPED].exit_status

    def _failed(self, sentence: str) -> int:
        """The run could not start, or broke; where a cancel is what broke it, it says that."""
        self._log.end_group()
        self._make_room()
        stop_reason = StopReason.ERROR
        if self._cancelled:
            stop_reason, sentence = StopReason.CANCELLED, CANCELLED
        try:
            name = run_name(self._plan.get("GITHUB_RUN_ID", ""))
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
        with suppress(AirlockError):  # whoever asked gets an answer also where nothing can be recorded
            self._record(
                "log", level="error", message=f"bug in operation {op}: {type(exc).__name__}", where=place_of(exc)
            )
