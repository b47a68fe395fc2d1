"""The action's inputs and outputs through the Actions toolkit: the only module that imports it.

The toolkit reads the process environment, so it is imported inside the calls. It writes an output as
`name<<delimiter`, with a delimiter that is random for each value and refused when the name or value contains it
(reports F06); a test holds it to that.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from agent.contract.errors import UserError

OUTPUTS = (
    "outcome",
    "stop-reason",
    "output",
    "structured",
    "branch",
    "pull-request-url",
    "transcript-path",
    "input-tokens",
    "output-tokens",
    "cost-usd",
    "tool-calls",
)
OUTPUT_CAP = 500_000  # characters of one value; a job's outputs together may hold 1 MB


def _core() -> Any:
    """The toolkit, without `requests`: its client for OIDC tokens, which nothing here calls, would load that.

    That took 130 ms of the end of every run. An empty module stands in its place while the toolkit is loaded.
    """
    absent = ModuleType("requests")
    found = sys.modules.setdefault("requests", absent)
    try:
        from actions_toolkit import core
    finally:
        if found is absent:
            del sys.modules["requests"]
    return core


def write_outputs(values: Mapping[str, Any], path: Path) -> None:
    """Write outputs to a file in the runner's format.

    Args:
        values: by names of `OUTPUTS`; missing ones are written empty, so that nothing stale is read.
        path: the file, there whole or not at all, in the results folder and never the runner's own (it lies beside
            files that set the environment of later steps).

    Raises:
        UserError: a name is none of the action's outputs.
    """
    core = _core()
    unknown = set(values) - set(OUTPUTS)
    if unknown:
        raise UserError(f"No outputs of the action: {', '.join(sorted(unknown))}.")
    unfinished = path.with_name(f"{path.name}.part")
    unfinished.write_bytes(b"")
    environment = os.environ  # noqa: TID251 - the toolkit finds its file there; set for these calls alone
    before = environment.get("GITHUB_OUTPUT")
    environment["GITHUB_OUTPUT"] = str(unfinished)
    try:
        for name in OUTPUTS:
            core.set_output(name, _text(values.get(name)))
    finally:
        if before is None:
            del environment["GITHUB_OUTPUT"]
        else:
            environment["GITHUB_OUTPUT"] = before
    unfinished.replace(path)  # a value cut off by a crash would swallow what is written after it


def get_input(name: str) -> str:
    """A non-secret input of the action, trimmed; empty where absent."""
    return str(_core().get_input(name))


def _text(value: Any) -> Any:
    if isinstance(value, str):
        whole = value.encode("utf-8", "replace").decode("utf-8")  # half of a surrogate pair cannot be written
        shown = whole.replace("\r\n", "\n").replace("\r", "\n")
        return shown if len(shown) <= OUTPUT_CAP else shown[:OUTPUT_CAP] + "\n[cut]"
    return value
