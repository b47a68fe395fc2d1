"""Which backend a run uses: the first that passes its probe, in the order given, and never one that does not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from agent.contract.sandbox import ProbeReport, SandboxSpec
from agent.sandbox.probe import ProbeTargets
from agent.sandbox.session import Session


class Backend(Protocol):
    """What launch needs of a backend."""

    name: str

    def start(self, spec: SandboxSpec) -> Session: ...

    def probe(self, spec: SandboxSpec, targets: ProbeTargets) -> ProbeReport: ...


def choose(
    candidates: Sequence[Backend], spec: SandboxSpec, targets: ProbeTargets
) -> tuple[Backend | None, tuple[ProbeReport, ...]]:
    """Probe the candidates, strongest first, until one holds.

    Args:
        candidates: one backend where the user named it, so that nothing else is taken silently; for `auto`
            container before process.

    Returns:
        The backend, or None when none holds (shell-tier modes are then refused), and every report made.
    """
    reports: list[ProbeReport] = []
    for backend in candidates:
        report = backend.probe(spec, targets)
        reports.append(report)
        if report.ok:
            return backend, tuple(reports)
    return None, tuple(reports)
