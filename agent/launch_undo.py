"""Puts a workspace back after a run whose first process was killed; the journal in the state folder says how."""

from __future__ import annotations

from agent.broker.git.journal import undo
from agent.launch_place import STATE


def main() -> int:
    """Undo what a run of this state volume left undone, and say what is not as before."""
    for state in sorted(STATE.glob("airlock-*")):
        for sentence in undo(state / "prepare"):
            print(f"::notice title=Airlock::{sentence}", flush=True)
    return 0
