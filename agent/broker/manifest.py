"""The manifest: all that a run may do, as one canonical JSON text with a digest (D2). Pure.

It is made once, before the first model-written byte, from what will be enforced and not from a description of
it. The same digest stands in transcript, summary and comment, so that a reader can compare runs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from agent.broker.gate import Gate
from agent.broker.mode import Wish
from agent.broker.policy.decide import Policy
from agent.broker.policy.route import Connection
from agent.broker.policy.words import OFFER_GATE
from agent.contract.dataclass import dataclass


@dataclass(frozen=True)
class Manifest:
    """A frozen manifest.

    Attributes:
        text: canonical JSON: sorted keys, no white space, ASCII.
        digest: SHA-256 of the text, hexadecimal.
    """

    text: str
    digest: str

    @property
    def value(self) -> dict[str, Any]:
        """The JSON object, decoded anew: changing it changes nothing here."""
        value = json.loads(self.text)
        assert isinstance(value, dict)
        return value


def freeze(
    *,
    policy: Policy,
    wish: Wish,
    gate: Gate,
    tiers: Sequence[str],
    tools: Sequence[str],
    hooks: Mapping[str, str],
    limits: Mapping[str, Any],
    protected_paths: Sequence[str],
    branch_prefix: str,
    further: Mapping[str, Any] | None = None,
) -> Manifest:
    """Make the manifest.

    Args:
        policy: connections with their routes, as enforced.
        wish, gate: mode asked for and mode in force, and which fact set the ceiling.
        tiers: of the mode in force.
        tools: offered, in order.
        hooks: command by purpose.
        limits: by name.
        protected_paths: patterns.
        further: what else a run wants under the digest, such as commit ids of configuration and code.
    """
    value = {
        "mode": gate.mode,
        "wished": wish.mode,
        "why": wish.why,
        "ceiling": gate.ceiling.name.lower(),
        "ceilingReason": gate.reason,
        "tiers": sorted(tiers),
        "tools": list(tools),
        "connections": [_connection(connection) for connection in policy.connections],
        "hooks": dict(hooks),
        "limits": dict(limits),
        "protectedPaths": list(protected_paths),
        "branchPrefix": branch_prefix,
        **(further or {}),
    }
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return Manifest(text, hashlib.sha256(text.encode("ascii")).hexdigest())


def render(manifest: Manifest) -> str:
    """The manifest for a reader, as `manifest` and `explain` print it."""
    value = manifest.value
    lines = [
        f"mode        {value['mode']}"
        + ("" if value["mode"] == value["wished"] else f" (asked for: {value['wished']})"),
        f"why         {value['why']}",
        f"ceiling     {value['ceiling']}: {value['ceilingReason']}",
        f"tiers       {', '.join(value['tiers'])}",
        f"tools       {', '.join(value['tools']) or 'none'}",
        f"branches    {value['branchPrefix']}*" + (f", {value['ownHead']}" if value.get("ownHead") else ""),
        f"protected   {', '.join(value['protectedPaths']) or 'none'}",
    ]
    lines += [f"hook        {name}: {_one_line(command)}" for name, command in sorted(value["hooks"].items())]
    lines += [f"command     {name}: {_one_line(text)}" for name, text in sorted(value.get("commands", {}).items())]
    lines += [f"limit       {name}: {_number(limit)}" for name, limit in sorted(value["limits"].items())]
    for connection in value["connections"]:
        secrets = ", ".join(sorted({one["secret"] for one in connection["attach"]})) or "none"
        lines.append(f"connection  {connection['name']} {connection['origin']}{connection['base']} (secret: {secrets})")
        open_tiers = set(value["tiers"])
        for route in connection["routes"]:
            mark = " " if route["tier"] in open_tiers and route["gate"] != OFFER_GATE else "-"
            notes = [route["tier"]]
            notes += [f"gate {route['gate']}"] if route["gate"] else []
            notes += [f"secret {route['secret']}"] if route["secret"] else []
            lines.append(f"  {mark} {route['method']:<6} {route['paths'][0]}  [{', '.join(notes)}]")
        lines += [f"  x {method:<6} {path}  never: {why}" for method, path, why in connection["never"]]
    lines.append(f"digest      {manifest.digest}")
    return "\n".join(lines) + "\n"


def _connection(connection: Connection) -> dict[str, Any]:
    return {
        "name": connection.name,
        "origin": connection.origin,
        "base": connection.base,
        "attach": [
            {"header": one.header, "secret": one.secret, "prefix": one.prefix, "basicUser": one.basic_user}
            for one in connection.attach
        ],
        "fixed": [list(pair) for pair in connection.fixed],
        "callerHeaders": sorted(connection.caller_headers),
        "redirects": {kind: list(hosts) for kind, hosts in connection.redirects.items()},
        "routes": [
            {
                "id": route.id,
                "method": route.method,
                "paths": [template.text for template in route.templates],
                "tier": route.tier.value,
                "gate": route.gate,
                "secret": route.secret,
                "query": dict(route.query),
                "requiredQuery": list(route.required_query),
                "params": dict(route.params),
                "body": "any" if route.opaque_body else route.body,
                "redirect": route.redirect,
                "responseCap": route.response_cap,
                "closedMedia": sorted(route.closed_media),
            }
            for route in connection.routes
        ],
        "never": [[never.method, never.template.text, never.why] for never in connection.never],
    }


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 100 else line[:99] + "…"


def _number(limit: float | None) -> str:
    if limit is None:
        return "none"
    return str(int(limit)) if limit == int(limit) else str(limit)
