"""Conformance: what the loop on any `LlmPort` adapter must do, one sentence each.

    python -m agent conformance --llm my.module:factory

The factory gets a list of steps (`agent.conformance.scripted.Step`: replies to give, errors to raise) and
returns an adapter that plays them, by whatever stub of its provider the host has; it may return a context
manager that gives the adapter. `agent.conformance.scripted:Scripted` is the smallest one.
As pytest: parametrise over `BEHAVIOURS` and call `behaviour.run(factory)`.
"""

from __future__ import annotations

import argparse
import pkgutil
import sys
from collections.abc import Sequence

from agent.conformance import batches, cancels, endings, limits, permissions, ports, weather
from agent.conformance.bench import Bench, Factory, NotConforming
from agent.conformance.scripted import Scripted, Step
from agent.conformance.suite import BEHAVIOURS, Behaviour, Finding, each_finding, run_suite

__all__ = [
    "BEHAVIOURS",
    "Behaviour",
    "Bench",
    "Factory",
    "Finding",
    "NotConforming",
    "Scripted",
    "Step",
    "main",
    "run_suite",
]
_TOPICS = (batches, permissions, endings, limits, cancels, weather, ports)  # importing them registers their behaviours


def main(argv: Sequence[str] | None = None) -> int:
    """Run the suite and print one line a behaviour; the exit status is 0 when all held."""
    parser = argparse.ArgumentParser(prog="python -m agent conformance", description="Check an LlmPort adapter.")
    parser.add_argument(
        "--llm", default="agent.conformance.scripted:Scripted", metavar="MODULE:FACTORY", help="makes the adapter"
    )
    options = parser.parse_args(argv)
    try:
        factory: Factory = pkgutil.resolve_name(options.llm)
    except (ImportError, AttributeError, ValueError) as exc:
        said = f"--llm {options.llm} cannot be loaded: {exc}. Give MODULE:FACTORY of a module that Python finds here."
        print(f"airlock conformance: {said}", file=sys.stderr)
        return 2
    if not callable(factory):
        print(
            f"airlock conformance: --llm {options.llm} cannot be called: name a factory, MODULE:FACTORY.",
            file=sys.stderr,
        )
        return 2
    broken = 0
    for finding in each_finding(factory):
        print(f"{'held  ' if not finding.problem else 'BROKEN'} {finding.behaviour.sentence}", flush=True)
        if finding.problem:
            broken += 1
            print(f"       {finding.problem}", flush=True)
    print(f"{len(BEHAVIOURS) - broken} of {len(BEHAVIOURS)} behaviours held for {options.llm}")
    return 1 if broken else 0
