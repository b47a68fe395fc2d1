"""What the broker loads before it asks GitHub anything, and what while it waits for the answers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

CODE = """
import sys
sys.path.insert(0, sys.argv[1])
import agent.broker.process
from agent.broker.ahead import load_ahead
late = ("yaml", "agent.broker.git.prepare", "agent.broker.lifecycle", "agent.broker.operations_egress")
print([name for name in late if name in sys.modules])
load_ahead().join()
print([name for name in late if name not in sys.modules])
"""


def test_what_a_run_needs_later_is_loaded_while_github_answers() -> None:
    """Not before: the first request would wait for it. And all of it: the work tree would wait for it."""
    done = subprocess.run([sys.executable, "-I", "-c", CODE, str(ROOT)], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[]\n[]\n", "")
