"""The operations a harness may ask for, but for egress: commands, commits, pushes, the verify loop, events.

Each handler first re-checks tier and tool (S5), then its arguments, then acts. See `server.Call`: every field
is hostile.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent.broker.event_fault import event_fault
from agent.broker.gate_files import note, read_by_gates
from agent.broker.git.objects import display
from agent.broker.git.workspace import AUTHOR
from agent.broker.lifecycle import GateVerdict
from agent.broker.redact import Redactor
from agent.broker.server import Call, Handler, Reply
from agent.broker.state import Ending, RunState
from agent.contract.errors import Refusal, ToolInputError, UpstreamError
from agent.contract.modes import Tier
from agent.contract.neutral import neutralise
from agent.contract.outcomes import StopReason
from agent.contract.sandbox import ExecRequest, Purpose
from agent.contract.transcript import HARNESS_TYPES

COMMAND_CAP = 100_000  # characters
KEPT_CAP = 2_000_000  # bytes of each stream kept of one command, for paging
SENT_CAP = 200_000  # bytes of each stream that go to the harness at once
EVENT_CAP = 2 << 20  # bytes of one harness event
MAX_STOP_TRIES = 10  # failing stop scripts before a run counts as not verified, whatever else is left
MAX_IDLE_RETURNS = 3  # times the model may say it is done without a tool call in between


class Operations:
    """Handlers over one run's state."""

    def __init__(self, run: RunState, redactor: Redactor, results: Path) -> None:
        self._run = run
        self._redactor = redactor
        self._commands = results / "commands"
        self._count = 0

    def handlers(self) -> Mapping[str, Handler]:
        """By operation, for the server."""
        return {
            "hello": self.hello,
            "exec": self.run_command,
            "output": self.output,
            "diff": self.diff,
            "log": self.log,
            "commit": self.commit,
            "push": self.push,
            "pull_request": self.pull_request,
            "verify": self.verify,
            "event": self.event,
            "finish": self.finish,
        }

    def hello(self, _: Call) -> Reply:
        return {"facts": self._run.facts.to_json()}, b""

    # -- commands

    def run_command(self, call: Call) -> Reply:
        run = self._run
        command = self._command(call)
        if run.sandbox is None:
            raise Refusal("sandbox_missing", "There is no sandbox in this run.")
        self._count_act()
        left = max(1.0, run.remaining_s())
        request = ExecRequest(
            command,
            timeout_s=call.number("timeout_s", default=120.0, low=1.0, high=min(3600.0, left)),
            output_cap=KEPT_CAP,
            cwd=call.text("cwd", default=".", cap=4096),
        )
        result = run.sandbox.run(request)
        header, _ = result.to_frame()
        output_id = self._keep(result.stdout, result.stderr)
        stdout, header["stdout_dropped"], header["stdout_head"] = _cut(
            result.stdout, result.stdout_dropped, result.stdout_head
        )
        stderr, header["stderr_dropped"], header["stderr_head"] = _cut(
            result.stderr, result.stderr_dropped, result.stderr_head
        )
        header.update(stdout=len(stdout), stderr=len(stderr), output_id=output_id)
        run.record(
            "command",
            command=command,
            exit_code=result.exit_code,
            signal=result.signal,
            timed_out=result.timed_out,
            survivors=result.survivors,
            duration_ms=round(result.duration_ms, 1),
            output_id=output_id,
            bytes=len(result.stdout) + len(result.stderr) + result.stdout_dropped + result.stderr_dropped,
        )
        return header, stdout + stderr

    def _command(self, call: Call) -> str:
        """The text to run: the model's own by `run_command`, or a declared tool's, which the harness only names."""
        run = self._run
        name = call.fields.get("tool")
        if name is None:
            run.require("run_command", Tier.SHELL)
            command = call.text("command", cap=COMMAND_CAP)
            if "\0" in command:
                raise ToolInputError("`command` holds a NUL character.")
            return command
        tier = run.declared.tier_of(name) if isinstance(name, str) else None
        if tier is None or "command" in call.fields:
            raise ToolInputError("`tool` must name a declared command, and then there is no `command`.")
        run.require(name, tier)
        return run.declared.command(name, call.fields.get("arguments", {}))

    def _keep(self, stdout: bytes, stderr: bytes) -> str:
        """Store a command's output, redacted, in the results folder; empty where the cap is reached."""
        data = self._redactor.known_bytes(stdout + (b"\n[stderr]\n" + stderr if stderr else b""))
        with self._run.lock:
            meter = self._run.meter
            if meter.kept_bytes + len(data) > meter.limits.max_commands_bytes:
                return ""
            meter.kept_bytes += len(data)
            self._count += 1
            number = self._count
        self._commands.mkdir(exist_ok=True)
        (self._commands / f"{number}.txt").write_bytes(data)
        return str(number)

    def output(self, call: Call) -> Reply:
        """A page of a command's stored output."""
        self._run.require("run_command", Tier.SHELL)
        name = call.text("output_id", cap=10)
        path = self._commands / f"{name}.txt"
        if not name.isascii() or not name.isdigit() or not path.is_file():
            raise ToolInputError(f"There is no stored output {name!r}.")
        offset = int(call.number("offset", default=0, low=0, high=1 << 40))
        limit = int(call.number("limit", default=30_000, low=1, high=SENT_CAP))
        with path.open("rb") as file:
            total = file.seek(0, 2)
            file.seek(min(offset, total))
            return {"total": total}, file.read(limit)

    # -- git

    def diff(self, call: Call) -> Reply:
        self._run.require("git_diff", Tier.READ)
        worktree = self._worktree()
        base = call.fields.get("base")
        if base in (None, "", "base"):
            base = self._run.facts.base_sha if base == "base" else None
        elif not isinstance(base, str):
            raise ToolInputError("`base` must be a commit id.")
        with self._run.lock:
            text = worktree.diff(base, call.texts("paths") or ())
        return {}, text.encode("utf-8", "surrogateescape")

    def log(self, call: Call) -> Reply:
        self._run.require("git_log", Tier.READ)
        worktree = self._worktree()
        limit = int(call.number("limit", default=20, low=1, high=200))
        path = call.fields.get("path")
        if path is not None and not isinstance(path, str):
            raise ToolInputError("`path` must be a text.")
        return {}, worktree.shadow.log(worktree.head, limit, path).encode("utf-8", "surrogateescape")

    def commit(self, call: Call) -> Reply:
        run = self._run
        run.require("git_commit", Tier.GIT)
        worktree = self._worktree()
        self._count_act()
        with run.lock:
            before = worktree.head
            made = worktree.commit(call.text("message", cap=20_000), call.texts("paths"))
            try:
                if run.publisher is not None:
                    run.publisher.check_paths(made.changes)
            except Refusal as exc:
                worktree.head = before  # said now, and not only when the push is refused
                raise Refusal(exc.code, f"{exc} Nothing was committed; `paths` can leave it out.") from exc
            run.done.commits.append(made.sha)
        run.record("git.commit", commit=made.sha, tree=made.tree, message=made.message, files=made.files())
        return {"commit": made.sha, "files": made.files(), "problems": list(made.problems)}, b""

    def push(self, call: Call) -> Reply:
        run = self._run
        run.require("git_push", Tier.GIT)
        worktree, publisher = self._worktree(), self._publisher()
        branch = call.text("branch", cap=1000)
        self._count_act()
        with run.lock:
            if worktree.head == worktree.start:
                self._nothing_committed(branch)
            publisher.check(worktree.head, branch)  # the rules first: a refused name needs no gate
            verdict = self._gate(Purpose.PREPUSH, worktree.shadow.tree_of(worktree.head))
            if not verdict.passed:
                raise Refusal("gate_prepush", f"The prepush script did not pass ({verdict.ended}).\n{verdict.output}")
            pushed = publisher.push(worktree.head, branch)
            run.done.pushed[pushed.branch] = pushed
            run.done.tips[pushed.branch] = worktree.head
        run.record("git.push", branch=pushed.branch, sha=pushed.sha, commits=pushed.commits, created=pushed.created)
        return {"branch": pushed.branch, "sha": pushed.sha, "gate": verdict.ended}, b""

    def _nothing_committed(self, branch: str) -> None:
        """Say what stands in the way of a push without a commit: a rule, if one would refuse it, comes first."""
        worktree, publisher = self._worktree(), self._publisher()
        snapshot = worktree.snapshot()
        if snapshot.changes:
            shadow = worktree.shadow
            publisher.check(shadow.commit(snapshot.tree, [worktree.head], "not pushed", AUTHOR), branch)
        raise ToolInputError(
            "There is no commit to push. Call git_commit first; commits that git makes inside run_command stay "
            "in the sandbox's own repository."
        )

    def pull_request(self, call: Call) -> Reply:
        run = self._run
        run.require("create_pull_request", Tier.GIT)
        publisher = self._publisher()
        title = neutralise(call.text("title", cap=256))
        body = call.text("body", default="", cap=100_000)
        head, base = call.text("head", cap=1000), call.text("base", cap=1000)
        self._count_act()
        with run.lock:
            tip = run.done.tips.get(head)
            if tip is None:
                raise ToolInputError(f"Push to {head!r} first: a pull request is opened only for a branch of this run.")
            # what the branch holds is judged, not what was committed since
            verdict = self._gate(Purpose.STOP, self._worktree().shadow.tree_of(tip))
            if not verdict.passed:
                raise Refusal(
                    "gate_stop",
                    f"The stop script does not pass on what was pushed ({verdict.ended}); a pull request would "
                    f"claim a fix. Fix it, or report with comment or file_issue.\n{verdict.output}",
                )
            pull = publisher.create_pull_request(title, self._pull_body(body, tip), head, base)
            run.done.pull = pull
        run.record("pull_request", number=pull.number, url=pull.url, updated=pull.updated, head=head, base=base)
        return {"number": pull.number, "url": pull.url, "updated": pull.updated}, b""

    def _pull_body(self, body: str, tip: str) -> str:
        worktree = self._worktree()
        shadow = worktree.shadow
        changes = shadow.names_changed(shadow.tree_of(worktree.start), shadow.tree_of(tip))
        read = read_by_gates((display(c.path) for c in changes), self._run.gate_files)
        return neutralise(self._redactor.outside(body)) + self._redactor.outside(note(read))

    def _gate(self, purpose: Purpose, tree: str) -> GateVerdict:
        lifecycle = self._run.lifecycle
        if lifecycle is None:
            raise Refusal("sandbox_missing", f"There is no sandbox in which the {purpose} script could run.")
        verdict = lifecycle.judge(purpose, tree)
        if verdict not in self._run.done.gates and lifecycle.has(purpose):
            self._run.done.gates.append(verdict)
        return verdict

    # -- the end

    def verify(self, _: Call) -> Reply:
        """The model says that it is done: run the stop script on what the workspace holds now."""
        run = self._run
        lifecycle = run.lifecycle
        if lifecycle is None or run.worktree is None or not lifecycle.has(Purpose.STOP):
            return {"resume": False}, b""
        with run.lock:
            now = run.worktree.snapshot()
            verdict = self._gate(Purpose.STOP, now.tree)
            if verdict.passed and not now.over:  # a verdict on a part of the workspace says nothing of the rest
                run.stop_tries = 0
                return {"resume": False}, b""
            run.stop_tries += 1
            idle = run.meter.tool_calls == run.calls_at_last_stop
            run.idle_returns = run.idle_returns + 1 if idle else 1
            run.calls_at_last_stop = run.meter.tool_calls
            resume = run.stop_tries < MAX_STOP_TRIES and run.idle_returns < MAX_IDLE_RETURNS and run.remaining_s() > 0
        text = f"[{verdict.ended}]\n{verdict.output}{now.over}"
        return {"resume": resume, "tries": run.stop_tries}, self._redactor.known(text).encode()

    def event(self, call: Call) -> Reply:
        """A transcript event of the harness; it can say only what a harness may say."""
        if len(call.payload) > EVENT_CAP:
            raise ToolInputError(f"An event is over {EVENT_CAP} bytes.")
        try:
            data = json.loads(call.payload)
        except (ValueError, RecursionError) as exc:
            raise ToolInputError("An event is not JSON.") from exc
        if not isinstance(data, dict) or data.get("type") not in HARNESS_TYPES:
            raise ToolInputError("An event needs a type that a harness may write.")
        kind = str(data.pop("type"))
        fields = {str(k): v for k, v in data.items() if str(k) not in ("seq", "ts", "prev", "type")}
        fault = event_fault(kind, fields)
        if fault is not None:
            raise ToolInputError(f"An event of type {kind} is not as the transcript's schema says: {fault}.")
        with self._run.event_lock:
            if not self._run.meter.event(len(call.payload)):
                raise Refusal("limit", "The harness has filled its part of the transcript.")
            if kind == "tool.call":
                self._run.meter.tool_call()
        self._run.record(kind, **fields)
        return {}, b""

    def finish(self, call: Call) -> Reply:
        """The loop has ended; what the harness says of it counts only where it is no better than the truth."""
        try:
            data = json.loads(call.payload)
            reason = StopReason(data["stop_reason"])
        except (ValueError, KeyError, TypeError, RecursionError) as exc:
            raise ToolInputError("`finish` needs a stop_reason.") from exc
        if reason is StopReason.SKIPPED:
            raise ToolInputError("A run that was started is not skipped.")
        usage = data.get("usage")
        with self._run.lock:
            if self._run.ending is None:
                self._run.ending = Ending(
                    stop_reason=reason,
                    reason=_plain(data.get("reason", ""))[:2000],
                    output=_plain(data.get("output", ""))[:200_000],
                    structured=data.get("structured"),
                    usage=usage if isinstance(usage, dict) else {},
                    turns=_count(data.get("turns")),
                    tool_calls=_count(data.get("tool_calls")),
                )
        return {}, b""

    # -- what must be there

    def _count_act(self) -> None:
        if self._run.cancelled:
            raise Refusal("limit", "The run was cancelled.")
        with self._run.lock:
            if not self._run.meter.act():
                raise Refusal("limit", "The cap on tool calls is reached.")

    def _worktree(self) -> Any:
        if self._run.worktree is None:
            raise UpstreamError("git", "the workspace is no git repository, so there is nothing to compare or commit")
        return self._run.worktree

    def _publisher(self) -> Any:
        if self._run.publisher is None:
            raise Refusal("publishing_closed", "This run has no repository to push to.")
        return self._run.publisher


def _plain(value: object) -> str:
    """A text that every report can write: half of a surrogate pair is no character."""
    return str(value).encode("utf-8", "replace").decode("utf-8")


def _cut(data: bytes, dropped: int, head: int) -> tuple[bytes, int, int]:
    """Keep head and tail of what goes to the harness."""
    if len(data) <= SENT_CAP:
        return data, dropped, head
    half = SENT_CAP // 2
    return data[:half] + data[-half:], dropped + len(data) - SENT_CAP, half


def _count(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**9 else 0
