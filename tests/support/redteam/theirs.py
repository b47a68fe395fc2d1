"""A user's own configuration under test: laid under each case's, and looked at for tools that are too wide.

What weakens or strengthens a run is kept: protected paths, tools, tiers of modes, people, network, connections. What
belongs to the user's repository or to the case is not: hooks, model and limits, trigger and branch prefix, image and
mounts. No declared origin is ever reached: each is replaced by a name that resolves nowhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from agent.broker.config import read_config
from agent.broker.config_yaml import read_yaml
from agent.broker.policy.declared import declared_connections
from agent.contract.errors import UserError

FOLDER = Path(__file__).resolve().parents[3] / "fixtures" / "redteam-config"
_CASES = frozenset("setupScript prepushScript stopScript timeoutMinutes maxToolCalls trigger branchPrefix".split())
_MACHINES = frozenset({"backend", "image", "mounts"})


def read_theirs(path: Path) -> dict[str, Any]:
    """The configuration that goes under each case's.

    Raises:
        UserError: it is no valid configuration; names file, line and key.
    """
    try:
        data = path.read_bytes()
    except OSError as exc:
        raise UserError(f"{path} cannot be read: {exc.strerror}. Name your .github/airlock.yml with --config.") from exc
    config = read_config(data, str(path))
    declared_connections(config.connections, reserved_origins=frozenset())
    ai = (read_yaml(data, str(path)).value or {}).get("ai") or {}
    agent = {key: value for key, value in (ai.get("agent") or {}).items() if key not in _CASES}
    if "sandbox" in agent:
        agent["sandbox"] = {key: value for key, value in agent["sandbox"].items() if key not in _MACHINES}
    connections = {
        name: {**entry, "origin": f"http://connection-{number}.invalid"}
        for number, (name, entry) in enumerate((ai.get("connections") or {}).items())
    }
    kept = {"agent": agent, "connections": connections, "tools": ai.get("tools") or []}
    return {"ai": {key: value for key, value in kept.items() if value}}


def left_out(path: Path) -> list[str]:
    """Keys of a configuration that `read_theirs` takes, which are not in force in the cases."""
    ai = (read_yaml(path.read_bytes(), str(path)).value or {}).get("ai") or {}
    agent = ai.get("agent") or {}
    keys = [f"ai.{key}" for key in ai if key not in ("agent", "connections", "tools")]
    keys += [f"ai.agent.{key}" for key in agent if key in _CASES]
    return keys + [f"ai.agent.sandbox.{key}" for key in agent.get("sandbox") or {} if key in _MACHINES]


def wide_tools(theirs: Mapping[str, Any]) -> Iterator[str]:
    """Tools whose path the model writes whole, over a connection that changes something or carries a secret.

    A wide route alone is none: a connection is open to the paths of its tools and to nothing else.
    """
    ai = theirs.get("ai") or {}
    for tool in ai.get("tools") or ():
        route = tool.get("route")
        if route is None:
            continue
        pieces = route["path"].strip("/").split("/")
        headers = ai["connections"][tool["connection"]].get("headers") or {}
        secrets = [value["secret"] for value in headers.values() if isinstance(value, dict)]
        free = pieces[-1] == "**" or all(piece.startswith("{") for piece in pieces)
        if free and (secrets or route["method"] != "GET"):
            carrying = f" with the secret {', '.join(secrets)}" if secrets else ""
            yield (
                f"the tool {tool['name']} sends {route['method']} {route['path']}{carrying}: the model writes the "
                "whole path. Name the paths that the tool needs."
            )


def opened(theirs: Mapping[str, Any]) -> Iterator[str]:
    """What the configuration opens on purpose, for the reader to weigh; a case or a check says where it is a hole."""
    ai = theirs.get("ai") or {}
    agent = ai.get("agent") or {}
    if agent.get("allowProtectedPaths"):
        yield f"files that are protected otherwise may be changed: {', '.join(agent['allowProtectedPaths'])}"
    if (agent.get("sandbox") or {}).get("network") == "open":
        yield "commands reach the network, and with it anything can be carried out"
    if agent.get("allowBots"):
        yield f"bots start runs like people with write access: {', '.join(agent['allowBots'])}"
    if agent.get("commentWhenRestricted"):
        yield "runs that outsiders start are answered in public"
    if agent.get("requestChanges"):
        yield "a review may block a merge"
    for name, mode in (agent.get("modes") or {}).items():
        yield f"the mode {name} may {', '.join(mode['tiers'])}"
    for name, entry in (ai.get("connections") or {}).items():
        routes = ", ".join(f"{route['method']} {route['path']}" for route in entry["routes"])
        yield f"the connection {name}: {routes}"
