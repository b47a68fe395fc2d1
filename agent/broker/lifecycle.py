"""Hooks (A4, B12): setup before the loop, stop when the model says it is done, prepush before any push.

House rules. A gate (stop, prepush) judges a tree, never the workspace: the tree is written into a folder of
its own, the hook's files come from the tip of the base branch (E12), ignored folders are those of before the
model's first command, a fresh sandbox without network runs it where it would run in the workspace, and the verdict
is what `wait` said. A verdict is latched to (gate, tree): the same tree is not judged
twice, and no other tree can use it. A time-out is a failure (E11).
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from agent.broker.sandboxes import Sandbox, Sandboxes
from agent.contract.dataclass import dataclass
from agent.contract.errors import UpstreamError
from agent.contract.sandbox import ExecRequest, ExecResult, Purpose, SandboxSpec

GATE_TIMEOUT_S = 900.0
OUTPUT_CAP = 60_000


@dataclass(frozen=True)
class Hook:
    """One script of the trusted configuration.

    Attributes:
        command: text for the shell.
        files: repository files that the command names, as they are at the tip of the base branch.
    """

    command: str
    files: Mapping[str, bytes]


@dataclass(frozen=True)
class GateVerdict:
    """What a gate said of one tree.

    Attributes:
        passed: exit status 0 in time.
        ended: how it ended, in words.
        output: what it printed, capped.
    """

    purpose: Purpose
    tree: str
    passed: bool
    ended: str
    output: str


class TreeWriter(Protocol):
    """Writes trees by plumbing, owned by the sandbox's user; `agent.broker.git.checkouts` is one."""

    def check_out(self, tree: str, directory: Path, files: Mapping[str, bytes]) -> None:
        """Write a tree into an empty folder, with `files` in place of its own."""

    def keep_ignored(self, folder: Path) -> str:
        """Keep the ignored folders for the checkouts; gives the sentence why it could not."""

    def swap_in(self, files: Mapping[str, bytes]) -> Callable[[], None]:
        """Put `files` into the workspace; the result takes them out again."""


class Lifecycle:
    """Runs the hooks of one run.

    Attributes:
        left_out: empty, or why gates run without the workspace's ignored folders.
    """

    def __init__(
        self,
        hooks: Mapping[Purpose, Hook],
        sandboxes: Sandboxes,
        writer: TreeWriter,
        *,
        folder: Path,
        workspace: str,
        spec: Callable[[Purpose, str], SandboxSpec],
        remaining_s: Callable[[], float],
        record: Callable[..., None],
    ) -> None:
        """
        Args:
            hooks: by purpose; a missing one passes without running anything.
            folder: a folder of ours for the gates' checkouts, on the trusted side.
            spec: makes the sandbox's spec for a purpose and a root.
            remaining_s: seconds left of the run's wall clock.
            record: writes a transcript event.
        """
        self._hooks = hooks
        self._sandboxes = sandboxes
        self._writer = writer
        self._folder = folder
        self._workspace = workspace
        self._spec = spec
        self._remaining_s = remaining_s
        self._record = record
        self._lock = threading.Lock()
        self._latched: dict[tuple[Purpose, str], GateVerdict] = {}
        self._count = 0
        self.left_out = ""
        self._stopped = False
        self._running: Sandbox | None = None

    def has(self, purpose: Purpose) -> bool:
        return purpose in self._hooks

    def stop(self) -> None:
        """End the hook that runs now, and let no other begin: the run was cancelled. From any thread."""
        self._stopped = True
        running = self._running
        if running is not None:
            running.close()

    def setup(self) -> ExecResult | None:
        """Run setup in the workspace, the one hook with network, and keep what gates need of it.

        Nothing hostile has run yet, nor does it while this runs.

        Returns:
            How setup ended; None where there is none.
        """
        result = self._set_up()
        if (result is None or result.ok) and (self.has(Purpose.STOP) or self.has(Purpose.PREPUSH)):
            self.left_out = self._writer.keep_ignored(self._folder / "ignored")
            if self.left_out:
                self._record("log", level="warning", where="gates", message=self.left_out)
        return result

    def _set_up(self) -> ExecResult | None:
        hook = self._hooks.get(Purpose.SETUP)
        if hook is None:
            return None
        self._record("hook.start", purpose=str(Purpose.SETUP), command=hook.command)
        put_back = self._writer.swap_in(hook.files)
        try:
            result = self._in_sandbox(hook, self._spec(Purpose.SETUP, self._workspace))
        finally:
            put_back()
        self._record("hook.end", purpose=str(Purpose.SETUP), **_summary(result))
        return result

    def judge(self, purpose: Purpose, tree: str) -> GateVerdict:
        """Run a gate on a tree, once.

        Raises:
            UpstreamError: the sandbox or the checkout failed; nothing is latched and nothing passed.
        """
        hook = self._hooks.get(purpose)
        if hook is None:
            return GateVerdict(purpose, tree, True, "no script configured", "")
        with self._lock:  # one gate at a time: two pushes of one tree share the verdict
            known = self._latched.get((purpose, tree))
            if known is not None:
                return known
            verdict = self._run_gate(purpose, hook, tree)
            self._latched[(purpose, tree)] = verdict
            return verdict

    def _run_gate(self, purpose: Purpose, hook: Hook, tree: str) -> GateVerdict:
        self._count += 1
        root = self._folder / f"{purpose}-{self._count}" / os.path.basename(self._workspace)
        root.mkdir(parents=True)
        root.parent.chmod(0o711)
        self._record("hook.start", purpose=str(purpose), command=hook.command, tree=tree)
        try:
            self._writer.check_out(tree, root, hook.files)
            result = self._in_sandbox(hook, self._spec(purpose, str(root)).shown_at(self._workspace))
        finally:
            shutil.rmtree(root.parent, ignore_errors=True)
        self._record("hook.end", purpose=str(purpose), tree=tree, **_summary(result))
        output = "\n".join(part for part in (_readable(result), self.left_out) if part)
        return GateVerdict(purpose, tree, result.ok, ended(result), output)

    def _in_sandbox(self, hook: Hook, spec: SandboxSpec) -> ExecResult:
        with self._sandboxes.start(spec) as sandbox:
            self._running = sandbox
            try:
                if self._stopped:
                    raise UpstreamError(f"run the {spec.purpose} script", "the run was cancelled")
                return sandbox.run(self._request(hook))
            finally:
                self._running = None

    def _request(self, hook: Hook) -> ExecRequest:
        seconds = max(1.0, min(GATE_TIMEOUT_S, self._remaining_s()))
        return ExecRequest(hook.command, timeout_s=seconds, output_cap=OUTPUT_CAP)


def ended(result: ExecResult) -> str:
    """How a command ended, in words."""
    if result.timed_out:
        return f"timed out after {result.duration_ms / 1000:.0f} s"
    if result.signal is not None:
        return f"ended by signal {result.signal}"
    return f"exit status {result.exit_code}"


def _readable(result: ExecResult) -> str:
    parts = []
    for name, data, dropped in (
        ("stdout", result.stdout, result.stdout_dropped),
        ("stderr", result.stderr, result.stderr_dropped),
    ):
        if data:
            note = f" ({dropped} bytes left out in the middle)" if dropped else ""
            parts.append(f"[{name}{note}]\n{data.decode('utf-8', 'replace')}")
    return "\n".join(parts)


def _summary(result: ExecResult) -> dict[str, Any]:
    return {
        "passed": result.ok,
        "ended": ended(result),
        "output": _readable(result),
        "duration_ms": round(result.duration_ms, 1),
        "survivors": result.survivors,
    }
