"""Runs one case through the Python interface, as a program that embeds the product would: reads a JSON file.

The program's part is here: it makes the case's custom tools, whose effect is a shell command in its own
process, exactly what a careless host would hand over. Everything else is the product's.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from agent import AgentTool, RunContext, ToolOutput, UserError, create_client, get_mode, run_agent


def custom_tool(spec: dict[str, Any]) -> AgentTool:
    """A tool with just what the case gives: a tier that is absent stays absent."""
    given = {key: spec[key] for key in ("name", "tier") if key in spec}

    def run(_arguments: Any, _context: Any) -> ToolOutput:
        done = subprocess.run(spec["effect"], shell=True, capture_output=True, text=True, check=False)
        return ToolOutput(f"exit status {done.returncode}\n{done.stdout}{done.stderr}", is_error=done.returncode != 0)

    return AgentTool(
        description=spec.get("description", "A tool of the program's own."),
        schema=spec.get("schema", {"type": "object", "properties": {}}),
        run=run,
        **given,
    )


def main(path: str) -> int:
    """0 when the run is done; 2 when it could not start; 3 when it ended otherwise."""
    spec = json.loads(Path(path).read_text(encoding="utf-8"))
    client = create_client({key: spec[key] for key in ("model", "base_url", "api_key")})
    try:
        result = run_agent(
            client,
            mode=get_mode(spec["mode"]),
            task=spec["task"],
            context=RunContext(
                spec["workspace"], base_branch=spec["base_branch"], branch=spec["branch"], results=spec["results"]
            ),
            tools=[custom_tool(one) for one in spec["tools"]],
        )
    except (UserError, TypeError) as exc:
        print(f"airlock: {exc}", file=sys.stderr)
        return 2
    print(result.output)
    print(f"{result.stop_reason}: {result.reason}")
    return 0 if result.ok else 3


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
