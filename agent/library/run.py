"""`run_agent`: one run in the caller's process, from its call to its result.

The same parts as in the action, joined by a socket pair instead of processes: the broker's server answers in a
thread, the harness drives the loop in the caller's. Order: 1 check what was handed in, 2 results folder,
3 routes and manifest, 4 a place to work in, 5 sandbox and setup, 6 the loop, 7 bring back and clean up, 8 the
result. Step 7 happens on every way out, also when step 6 raises.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from agent import __version__
from agent.broker.closing import settle
from agent.broker.egress import Egress, Reach, make_transport
from agent.broker.git.journal import JOURNAL, undo
from agent.broker.limits import Meter
from agent.broker.operations import Operations
from agent.broker.policy.decide import Policy
from agent.broker.redact import Redactor
from agent.broker.report.results import Results
from agent.broker.state import RunState
from agent.broker.transcript import Transcript
from agent.contract.errors import AirlockError
from agent.contract.facts import RunFacts
from agent.contract.modes import Mode, Tier
from agent.contract.outcomes import OUTCOMES, StopReason
from agent.contract.tool import AgentTool
from agent.harness.loop import CancelToken, LoopResult, StructuredOutput, Usage
from agent.harness.loop import StopReason as LoopStop
from agent.harness.main import finish
from agent.harness.main import run as run_harness
from agent.harness.tools import BUILTIN
from agent.library.client import Client
from agent.library.link import connected, handlers_of
from agent.library.opening import (
    EVENT,
    check_call,
    first_facts,
    hooks_of,
    limits_of,
    loop_time,
    manifest_of,
    policy_of,
    protected,
    publisher_of,
    read_remote,
    tree_rules,
)
from agent.library.origin import Brought
from agent.library.owner import builtin_for
from agent.library.place import Place, open_place
from agent.library.sandboxes import LocalSandboxes
from agent.library.shell import open_sandbox
from agent.library.tools import registered
from agent.library.words import OfferedCommit, RunContext, RunResult


def run_agent(
    client: Client | None,
    *,
    mode: Mode,
    task: str,
    context: RunContext,
    tools: Iterable[AgentTool] = (),
    structured: StructuredOutput | None = None,
    cancel: CancelToken | None = None,
) -> RunResult:
    """Run one task to its end.

    A mode that only reads works in the workspace itself. A mode that writes works, on a git checkout, on a clone
    (ignored files stay behind); what it changed is brought back into the workspace's files at the end, also when
    this function raises; `.git` is never touched, so commits of the run come as `RunResult.commits`. A protected
    path, and a file that was changed in the workspace meanwhile, is left as it is and named in `left_out`.

    Args:
        client: from `create_client`.
        mode: from `get_mode`, or a Mode of the caller's own whose `playbook` is its text.
        task: the caller's words. Never put a third party's text into it (S1): have a tool give it.
        context: where to work.
        tools: custom tools, seen only in modes that have their tier. Each call has `tool_timeout_s` seconds.
        structured: validates the final text and gives the value, or None.
        cancel: ends the run at any step.

    Returns:
        The result, for every way that a run can end.

    Raises:
        UserError: what was handed in cannot be a run; no model was called.
        UpstreamError: git, GitHub or the disk failed before or after the loop.
    """
    check_call(client, mode, task, context)
    assert client is not None
    with ExitStack() as stack:
        return _Run(client, mode, context, stack).run(task, tools, structured, cancel)


class _Run:
    """One run; its parts live on `stack` and are ended in reverse order."""

    def __init__(self, client: Client, mode: Mode, context: RunContext, stack: ExitStack) -> None:
        self._client, self._mode, self._context, self._stack = client, mode, context, stack
        self._started = time.monotonic()
        self._redactor = Redactor(client.secrets.for_redaction())
        self._writes = bool(mode.tiers & {Tier.WRITE, Tier.SHELL, Tier.GIT})
        self._sandboxes: LocalSandboxes | None = None

    def run(
        self,
        task: str,
        tools: Iterable[AgentTool],
        structured: StructuredOutput | None,
        cancel: CancelToken | None,
    ) -> RunResult:
        client, context = self._client, self._context
        custom = registered(tools, client.tool_timeout_s)  # 1
        facts = first_facts(client, self._mode, task, context, custom)
        self._open_results()  # 2
        remote = None  # 3
        if client.github is not None:
            remote = read_remote(self._egress(policy_of(client, context, None)), client.github.repository)
        policy = policy_of(client, context, remote, facts.tools)
        place = self._place()  # 4
        head = place.worktree.start if place.worktree else None
        hooks = hooks_of(client, self._mode.tiers, place.worktree)
        options = {**facts.options, "protected_paths": list(protected(client, hooks))}
        facts = replace(facts, workspace=str(place.folder), base_sha=place.base_sha, head_sha=head, options=options)
        run = RunState(facts, self._mode.tiers, Meter(limits_of(facts), started=self._started), self._record)
        run.worktree = place.worktree
        egress = self._egress(policy, run)
        manifest = manifest_of(client, self._mode, facts, policy, hooks)
        self._introduce(facts)
        self._record("manifest", digest=manifest.digest, document=manifest.value)
        if remote is not None and Tier.GIT in self._mode.tiers and place.worktree is not None:
            run.publisher = publisher_of(client, context, remote, egress, place.worktree, self._redactor, facts)
        refused, brought = "", Brought()
        try:
            if Tier.SHELL in self._mode.tiers and place.prepared is not None:  # 5
                self._sandboxes = LocalSandboxes(self._state, self._results.folder, place.owner.uid, place.owner.gid)
                refused = open_sandbox(run, place, place.prepared, client, hooks, self._sandboxes, self._state)
            place.begin()
            loop = _blocked(refused) if refused else self._loop(run, egress, place, custom, structured, cancel)
            run.cancelled = loop.stop_reason is LoopStop.CANCELLED
            stop_reason, reason = (StopReason.BLOCKED, refused) if refused else settle(run, "closed")
        except BaseException as exc:
            self._end(StopReason.CANCELLED if isinstance(exc, KeyboardInterrupt) else StopReason.ERROR, repr(exc))
            raise
        finally:
            brought = self._bring_back(place, facts)  # 7
        return self._result(run, place, loop, brought, stop_reason, reason)  # 8

    # -- 2 to 4

    def _open_results(self) -> None:
        given = self._context.results
        folder = Path(given) if given is not None else Path(tempfile.mkdtemp(prefix="airlock-results-"))
        self._results = Results(folder.absolute(), self._redactor)
        self._transcript = Transcript(self._results.transcript, self._redactor, time.time)
        self._stack.callback(self._transcript.close)
        self._state = Path(tempfile.mkdtemp(prefix=f"airlock-run-{os.getpid()}-"))
        self._state.chmod(0o711)
        self._stack.callback(shutil.rmtree, self._state, ignore_errors=True)

    def _egress(self, policy: Policy, run: RunState | None = None) -> Egress:
        client = self._client
        reach = Reach(proxies=dict(client.proxies), no_proxy=client.no_proxy, ca_file=client.ca_file)
        return Egress(
            policy,
            client.secrets,
            make_transport(reach),
            record=self._record,
            redactor=self._redactor,
            remaining_s=run.remaining_s if run else lambda: 60.0,
        )

    def _place(self) -> Place:
        prepared = self._state / "prepare"
        self._stack.callback(lambda: undo(prepared) if (prepared / JOURNAL).exists() else ())
        return open_place(
            Path(os.path.realpath(self._context.workspace)),
            self._state,
            base_branch=self._context.base_branch,
            writes=self._writes,
            learn=lambda values: self._redactor.add("checkout-credential", *values),
        )

    def _introduce(self, facts: RunFacts) -> None:
        self._record(
            "run.start",
            mode=facts.mode,
            event=EVENT,
            repository=facts.repository,
            version=__version__,
            number=facts.number,
            head_sha=facts.head_sha,
            base_sha=facts.base_sha,
            task=facts.task,
            models=[f"{m.provider}/{m.model}" for m in self._client.models],
            unregistered_secrets=self._redactor.unregistered,
        )

    # -- 6

    def _loop(
        self,
        run: RunState,
        egress: Egress,
        place: Place,
        custom: tuple[AgentTool, ...],
        structured: StructuredOutput | None,
        cancel: CancelToken | None,
    ) -> LoopResult:
        run.facts = replace(run.facts, timeout_s=loop_time(run.remaining_s()))
        operations = Operations(run, self._redactor, self._results.folder)
        builtin = builtin_for(place.owner) if self._writes else BUILTIN
        handlers = handlers_of(run, egress, operations, github=self._client.github is not None)
        with connected(handlers, self._fault) as caller:
            loop = run_harness(run.facts, caller, custom, builtin=builtin, structured=structured, cancel=cancel)
            finish(caller, loop)
        return loop

    # -- 7 and 8

    def _bring_back(self, place: Place, facts: RunFacts) -> Brought:
        if self._sandboxes is not None:
            self._sandboxes.close()  # first: nothing of the run may be alive while files are compared
        try:
            diff = self._redactor.known(place.diff())
            if diff:
                # kept beside the transcript: should bringing back fail, the work is not lost
                (self._results.folder / "changes.diff").write_text(diff, encoding="utf-8", errors="surrogateescape")
            return place.bring_back(tree_rules(facts))
        except (AirlockError, OSError) as exc:
            return Brought((), (f"The changes could not be brought back: {exc} See changes.diff in the results.",))

    def _result(
        self, run: RunState, place: Place, loop: LoopResult, brought: Brought, stop_reason: StopReason, reason: str
    ) -> RunResult:
        output, value = self._redactor.outside(loop.output), loop.structured
        if isinstance(value, str | dict | list):
            value = self._redactor.value(value)
        ok = loop.ok and OUTCOMES[stop_reason].exit_status == 0
        reason = self._redactor.outside(reason or loop.reason)
        self._end(stop_reason, reason, output)
        return RunResult(
            output=output,
            stop_reason=stop_reason,
            reason=reason,
            structured=value if ok else None,
            ok=ok,
            usage=loop.usage,
            turns=loop.turns,
            tool_calls=loop.tool_calls,
            messages=loop.messages,
            transcript=self._results.transcript,
            commits=tuple(self._shown(commit) for commit in place.commits()),
            diff=self._redactor.known(place.diff()),
            brought_back=brought.paths,
            left_out=brought.left_out,
            branch=next(reversed(run.done.pushed), "") or self._context.branch,
            pull_request_url=run.done.pull.url if run.done.pull else "",
            denials=tuple(run.done.denials),
        )

    def _shown(self, commit: OfferedCommit) -> OfferedCommit:
        known = self._redactor.known
        return replace(commit, message=known(commit.message), diff=known(commit.diff))

    # -- records

    def _end(self, stop_reason: StopReason, reason: str, output: str = "") -> None:
        row = OUTCOMES[stop_reason]
        self._record(
            "run.end",
            stop_reason=str(stop_reason),
            outcome=row.outcome,
            exit_status=row.exit_status,
            reason=reason,
            output=output,
            totals=self._transcript.totals.to_json(),
        )

    def _record(self, kind: str, /, **data: Any) -> None:
        self._transcript.write(kind, **data)

    def _fault(self, op: str, exc: BaseException) -> None:
        self._record("log", level="error", message=f"bug in operation {op}: {type(exc).__name__}")


def _blocked(reason: str) -> LoopResult:
    return LoopResult("", ok=False, stop_reason=LoopStop.BLOCKED, reason=reason, usage=Usage())
