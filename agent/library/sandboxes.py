"""Sandboxes of a run in this process: what launch does for the broker over a channel, done by a call."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from agent.broker.sandboxes import Sandbox, Sandboxes
from agent.contract.sandbox import ExecRequest, ExecResult, ProbeReport, SandboxSpec
from agent.kernel.passable import make_passable
from agent.sandbox.probe import ProbeTargets
from agent.sandbox.process import ProcessBackend
from agent.sandbox.session import Session


class LocalSandbox(Sandbox):
    """One running sandbox."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def run(self, request: ExecRequest) -> ExecResult:
        return self._session.exec(request)

    def close(self) -> None:
        self._session.close()


class LocalSandboxes(Sandboxes):
    """Starts process sandboxes; `close` ends all of them."""

    def __init__(self, state: Path, results: Path, uid: int, gid: int) -> None:
        """
        Args:
            state: the run's own folder, out of every command's sight.
            results: the results folder, likewise.
            uid, gid: whom commands run as; never 0.
        """
        folder = state / "sandbox"
        make_passable(folder)
        self._hidden = (str(state), str(results))
        self._backend = ProcessBackend(base=str(folder), uid=uid, gid=gid)
        self._open = ExitStack()  # closes every one, whatever one of them raises
        self._open.callback(self._backend.close)

    def start(self, spec: SandboxSpec) -> Sandbox:
        sandbox = LocalSandbox(self._backend.start(spec))
        self._open.callback(sandbox.close)
        return sandbox

    def probe(self, spec: SandboxSpec, forbidden_paths: Sequence[str]) -> ProbeReport:
        forbidden = tuple(forbidden_paths)
        targets = ProbeTargets(
            unreadable=forbidden,
            unwritable=(*forbidden, *self._hidden),
            pids=(os.getpid(),),
            network=spec.network,
        )
        return self._backend.probe(spec, targets)

    def close(self) -> None:
        """End every sandbox and every process in one."""
        self._open.close()
