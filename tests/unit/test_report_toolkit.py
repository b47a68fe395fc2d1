"""The Actions toolkit is loaded when outputs are written, and without what it loads for calls that are never made."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CODE = """
import sys
sys.path.insert(0, {root!r})
from pathlib import Path
from agent.broker import process
from agent.broker.report import actions
{first}
before = "actions_toolkit.core" in sys.modules, "requests" in sys.modules
actions.write_outputs({{"outcome": "done"}}, Path({outputs!r}))
after = "actions_toolkit.core" in sys.modules, "requests" in sys.modules
import requests
print(before, after, callable(requests.get))
"""


@pytest.mark.parametrize(
    ("first", "said"),
    [
        ("", "(False, False) (True, False) True"),
        ("import requests", "(False, True) (True, True) True"),
    ],
    ids=["not loaded", "loaded for a proxy"],
)
def test_the_toolkit_comes_with_the_outputs_and_without_requests(tmp_path: Path, first: str, said: str) -> None:
    """Whoever uses `requests` gets the true one, before and after."""
    outputs = tmp_path / "outputs"
    code = CODE.format(root=str(ROOT), first=first, outputs=str(outputs))
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == said
    assert "outcome<<" in outputs.read_text()
