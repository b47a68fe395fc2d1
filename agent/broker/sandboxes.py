"""Sandboxes as the broker sees them: messages to launch, which alone can start one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from agent.contract.errors import ToolInputError, UpstreamError
from agent.contract.sandbox import ExecRequest, ExecResult, ProbeReport, SandboxSpec
from agent.kernel.channel import Caller, CallFailed, ChannelError


class Sandboxes:
    """Starts sandboxes through the control channel."""

    def __init__(self, control: Caller) -> None:
        self._control = control

    def start(self, spec: SandboxSpec) -> Sandbox:
        """Start one.

        Raises:
            UpstreamError: it could not be started.
        """
        try:
            frame = self._control.call("sandbox.start", spec=spec.to_json())
        except (CallFailed, ChannelError) as exc:
            raise UpstreamError(f"start the {spec.purpose} sandbox", str(exc)) from exc
        return Sandbox(self._control, int(frame.header["sandbox"]))

    def probe(self, spec: SandboxSpec, forbidden_paths: Sequence[str]) -> ProbeReport:
        """Ask a sandbox to do what none may do (DESIGN section 7); a probe that cannot run has not passed."""
        try:
            frame = self._control.call("sandbox.probe", spec=spec.to_json(), forbidden_paths=list(forbidden_paths))
        except (CallFailed, ChannelError) as exc:
            return ProbeReport(backend="none", ok=False, loopback=False, missing=(str(exc),))
        return ProbeReport.from_json(frame.header["report"])

    def probe_beside(self, spec: SandboxSpec, forbidden_paths: Sequence[str]) -> Callable[[], ProbeReport]:
        """Start a probe, which takes as long as a container takes to start, and go on; the result waits for it."""
        reports: list[ProbeReport] = []
        thread = threading.Thread(target=lambda: reports.append(self.probe(spec, forbidden_paths)), daemon=True)
        thread.start()

        def wait() -> ProbeReport:
            thread.join()
            return reports[0]

        return wait


class Sandbox:
    """One running sandbox; closing it ends every process in it."""

    def __init__(self, control: Caller, number: int) -> None:
        self._control = control
        self._number = number

    def run(self, request: ExecRequest) -> ExecResult:
        """Run one command to its end.

        Raises:
            ToolInputError: the command cannot be run as it was asked for.
            UpstreamError: the sandbox is gone.
        """
        try:
            frame = self._control.call("sandbox.exec", sandbox=self._number, **request.to_json())
        except (CallFailed, ChannelError) as exc:
            if isinstance(exc, CallFailed) and exc.code == "tool_input":
                raise ToolInputError(str(exc)) from exc
            raise UpstreamError("run a command", str(exc)) from exc
        return ExecResult.from_frame(frame.header, frame.payload)

    def close(self) -> None:
        try:
            self._control.call("sandbox.stop", sandbox=self._number)
        except (CallFailed, ChannelError):
            return  # launch ends whatever is left

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
