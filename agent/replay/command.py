"""`python -m agent replay TRANSCRIPT --workspace DIR`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent.contract.errors import UserError
from agent.replay.play import replay


def main(argv: list[str]) -> int:
    """Replay and say what came of it: 0 no divergence, 1 a divergence, 2 it could not be replayed."""
    parser = argparse.ArgumentParser(prog="python -m agent replay", description="Run a recorded loop again, offline.")
    parser.add_argument("transcript", type=Path, help="transcript.jsonl, or the folder it lies in")
    parser.add_argument(
        "--workspace", type=Path, required=True, help="the files that the run started with; they are not changed"
    )
    options = parser.parse_args(argv)
    try:
        source: Path = options.transcript
        done = replay(source / "transcript.jsonl" if source.is_dir() else source, options.workspace)
    except UserError as exc:
        print(f"airlock replay: {exc}", file=sys.stderr)
        return 2
    for fault in done.faults:
        print(f"transcript: {fault}")
    recorded = ", ".join(f"{count} {name}" for name, count in sorted(done.from_record.items())) or "none"
    print(f"{done.turns} turns, {done.compared} events agree; answered from the record: {recorded}.")
    if done.divergence is None:
        print("No divergence.")
        return 0
    print(f"Divergence in turn {done.divergence.turn}:")
    print(f"  recorded: {_shown(done.divergence.recorded)}")
    print(f"  replayed: {_shown(done.divergence.replayed)}")
    if done.from_record.get("run_command"):
        print("  Commands were not run again: a file that one of them changed is as it was before.")
    return 1


def _shown(event: Mapping[str, Any] | None) -> str:
    return "(nothing)" if event is None else json.dumps(event, ensure_ascii=True)[:2000]
