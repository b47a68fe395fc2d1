"""Runs a case through the Python interface: the caller's process is the trusted side, with custom tools of its own.

`library_run.py SPEC.json`. Ends with status 0 for a completed run, 4 for a blocked one, 2 where the interface refused
what it was given; the reason is one line on stderr, as a careful caller would print it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))


def tool_of(row: dict[str, Any]) -> Any:
    """A custom tool whose only act is the row's `effect`; what the row leaves out is left out here too."""
    from agent import AgentTool, ToolOutput

    def run(_: Any, __: Any) -> Any:
        if row.get("effect"):
            subprocess.run(["/bin/sh", "-c", row["effect"]], check=True)
        return ToolOutput("did it")

    shape = {"type": "object", "properties": {}, "additionalProperties": False}
    given = {k: row[k] for k in ("name", "tier") if k in row}
    return AgentTool(**given, description="A tool of the test.", schema=shape, run=run)


def main() -> int:
    """Makes the run that the spec describes."""
    spec = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    try:
        from agent import RunContext, create_client, get_mode, run_agent
    except ImportError as exc:
        print(f"library: the Python interface is not there: {exc}", file=sys.stderr)
        return 70
    try:
        tools = [tool_of(row) for row in spec["tools"]]
        client = create_client({"model": spec["model"], "api_key": spec["api_key"], "base_url": spec["base_url"]})
        context = RunContext(workspace=spec["workspace"], base_branch=spec["base_branch"], branch=spec["branch"])
        result = run_agent(client, mode=get_mode(spec["mode"]), task=spec["task"], context=context, tools=tools)
    except Exception as exc:  # noqa: BLE001 - whatever the interface raises is its refusal
        print(f"library: {type(exc).__name__}: {exc}", file=sys.stderr)
        return 2
    results = Path(spec["results"])
    results.mkdir(parents=True, exist_ok=True)
    transcript = Path(str(result.transcript or ""))
    if transcript.is_file():
        shutil.copyfile(transcript, results / "transcript.jsonl")
    with open(os.environ["GITHUB_OUTPUT"], "a", encoding="utf-8") as file:
        file.write(f"stop-reason={result.stop_reason}\n")
    return 0 if str(result.stop_reason) == "completed" else 4


if __name__ == "__main__":
    sys.exit(main())
