"""`python -m tests.support.configuration_page`: writes docs/configuration.md from what the code itself reads.

The sources are `action.yml`, `agent/broker/config.schema.json`, and the tables of outcomes, modes and tools. A test
compares the page with them, so that none can change alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from agent.broker.config import schema
from agent.contract.inputs import SECRET_INPUTS
from agent.contract.modes import MODES, TOOL_TIERS, Tier
from agent.contract.outcomes import OUTCOMES

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "configuration.md"
Schema = Mapping[str, Any]

_HEAD = """\
# Configuration

Written by `make docs` from `action.yml` and `agent/broker/config.schema.json`; change those.

There are two places. The workflow's `with:` says how one step runs and holds the secrets. `.github/airlock.yml` on
the default branch says what the repository wants of every run; it is read from there alone, through the API, so no
pull request can change the rules it is judged by. Where both name the same thing the input counts; `allow-bots`
adds to the file's.
"""


def page() -> str:
    """The whole page."""
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    return "\n".join([_HEAD, *_inputs(action), *_outputs(action), *_outcomes(), *_modes(), *_keys()]) + "\n"


def walk(node: Schema, key: str) -> Iterator[tuple[str, Schema]]:
    """Every key of the file with its schema; `NAME` stands for a name of your own, `[]` for each entry."""
    for name, sub in node.get("properties", {}).items():
        yield f"{key}{name}", sub
        yield from walk(sub, f"{key}{name}.")
    for sub in node.get("patternProperties", {}).values():
        if "description" in sub:
            yield f"{key}NAME", sub
        yield from walk(sub, f"{key}NAME.")
    for sub in node.get("anyOf", ()):
        yield from walk(sub, key)
    if isinstance(node.get("items"), dict):
        yield from walk(node["items"], f"{key.rstrip('.')}[].")


def _inputs(action: Mapping[str, Any]) -> Iterator[str]:
    yield "## Inputs of the action\n"
    yield "All are optional. Those marked *secret* never stand in an environment, an argument or a file of a process"
    yield "that runs the model or a command.\n"
    yield from _head("input", "default", "meaning")
    for name, entry in action["inputs"].items():
        secret = "*Secret.* " if name in SECRET_INPUTS else ""
        yield _row(f"`{name}`", _code(entry["default"]) if entry["default"] else "", secret + entry["description"])


def _outputs(action: Mapping[str, Any]) -> Iterator[str]:
    yield "\n## Outputs of the action\n"
    yield from _head("output", "meaning")
    for name, entry in action["outputs"].items():
        yield _row(f"`{name}`", entry["description"])


def _outcomes() -> Iterator[str]:
    yield "\n## Outcomes\n"
    yield "Green means done, or that there was nothing to do.\n"
    yield from _head("stop reason", "outcome", "exit status", "what the report says")
    for reason, row in OUTCOMES.items():
        yield _row(f"`{reason}`", f"`{row.outcome}`", str(row.exit_status), row.sentence)


def _modes() -> Iterator[str]:
    yield "\n## Modes and tools\n"
    yield from _head("mode", "tiers", "tool calls")
    for mode in MODES.values():
        yield _row(f"`{mode.name}`", ", ".join(tier for tier in Tier if tier in mode.tiers), str(mode.max_tool_calls))
    yield ""
    yield from _head("tier", "tools")
    for tier in Tier:
        yield _row(tier, " ".join(f"`{name}`" for name, of in TOOL_TIERS.items() if of == tier))


def _keys() -> Iterator[str]:
    yield "\n## Keys of `.github/airlock.yml`\n"
    yield "An unknown key, a wrong type or a name that names nothing is an error with file, line and what was expected."
    yield "`NAME` is a name of your own, `[]` each entry of a list. Without a default the key is not set.\n"
    yield from _head("key", "type", "default", "meaning", "example")
    for key, node in walk(schema(), ""):
        default = _code(_flow(node["default"])) if "default" in node else ""
        example = _code(_flow(node["examples"][0])) if "examples" in node else ""
        yield _row(f"`{key}`", _type(node), default, node.get("description", ""), example)


def _type(node: Schema) -> str:
    if "anyOf" in node:
        return " or ".join(dict.fromkeys(_type(part) for part in node["anyOf"]))
    if "enum" in node:
        return " or ".join(f"`{value}`" for value in node["enum"])
    words = {"array": "list", "object": "map", "boolean": "true or false", "string": "text"}
    kind = words.get(node["type"], str(node["type"]))
    if kind == "list" and "enum" in node["items"]:
        kind = f"list of {_type(node['items'])}"
    low, above, high = node.get("minimum"), node.get("exclusiveMinimum"), node.get("maximum")
    bounds = [f"at least {low}"] if low is not None else []
    bounds += [f"above {above}"] if above is not None else []
    bounds += [f"at most {high}"] if high is not None else []
    return ", ".join([kind, *bounds])


def _flow(value: object) -> str:
    text = yaml.safe_dump(value, default_flow_style=True, width=10**6, sort_keys=False)
    return text.removesuffix("\n").removesuffix("\n...")


def _code(text: str) -> str:
    return f"`{text}`"


def _head(*names: str) -> Iterator[str]:
    yield _row(*names)
    yield _row(*["---"] * len(names))


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


if __name__ == "__main__":
    PAGE.write_text(page())
