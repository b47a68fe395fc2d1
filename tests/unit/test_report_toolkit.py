"""The Actions toolkit is loaded beside the run, not before its first request."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CODE = """
import sys, threading
sys.path.insert(0, {root!r})
from agent.broker import process
from agent.broker.report import actions
loaded = lambda: "actions_toolkit.core" in sys.modules
before = loaded()
actions.LOAD_AFTER_S = 0.0
actions.load_soon()
for thread in threading.enumerate():
    if thread is not threading.current_thread():
        thread.join()
print(before, loaded())
"""


def test_the_toolkit_comes_in_a_thread_and_not_with_the_broker() -> None:
    code = CODE.format(root=str(ROOT))
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False True\n"
