"""Connections that the trusted configuration declares, compiled to the same form as the built-in ones.

House rules: literals only; a name of ours cannot be taken; the same host as GitHub's API cannot be declared
again, which would be a way around the closed list; a header that carries a secret is named, never a query.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from agent.broker.policy.builtin import GIT, GITHUB, MODEL, USER_AGENT, split_address
from agent.broker.policy.route import Connection, Route
from agent.broker.policy.template import compile_template
from agent.broker.policy.words import Attach
from agent.contract.errors import UserError
from agent.contract.modes import Tier
from agent.contract.schema import check_schema

ANY_SEGMENT = r"[^\x00-\x1f\x7f/]{1,255}"
_NOT_SETTABLE = frozenset(
    "host connection content-length transfer-encoding content-type upgrade te trailer proxy-authorization "
    "x-http-method-override x-http-method x-method-override x-forwarded-host x-forwarded-for cookie".split()
)


def declared_connections(declared: Mapping[str, Any], *, reserved_origins: frozenset[str]) -> tuple[Connection, ...]:
    """Compile `ai.connections`, which the configuration's schema has passed.

    Args:
        reserved_origins: origins of the built-in connections.

    Raises:
        UserError: a reserved name or origin, a header that may not be set, a template or schema that is none.
    """
    return tuple(_connection(name, entry, reserved_origins) for name, entry in declared.items())


def _connection(name: str, entry: Mapping[str, Any], reserved: frozenset[str]) -> Connection:
    where = f"ai.connections.{name}"
    if name in {GITHUB, GIT, MODEL} or name.startswith(f"{MODEL}-"):
        raise UserError(f"{where} takes the name of a built-in connection. Rename it.")
    origin, base, insecure = split_address(f"{where}.origin", entry["origin"])
    if _place(origin) in {_place(one) for one in reserved}:
        raise UserError(f"{where}.origin is an address that a built-in connection guards.")
    attach, fixed = [], [("user-agent", USER_AGENT)]
    for header, value in entry.get("headers", {}).items():
        if header.lower() in _NOT_SETTABLE:
            raise UserError(f"{where}.headers: {header} cannot be set.")
        if isinstance(value, str):
            fixed.append((header.lower(), value))
        else:
            attach.append(Attach(header.lower(), value["secret"], prefix=value.get("prefix", "")))
    routes = tuple(_route(f"{name}.{index}", where, route) for index, route in enumerate(entry["routes"]))
    return Connection(
        name=name,
        origin=origin,
        base=base,
        routes=routes,
        attach=tuple(attach),
        fixed=tuple(fixed),
        caller_headers={"accept": None},
        redirects={"declared": tuple(_literal(host) for host in entry.get("redirects", ()))},
        insecure=insecure,
    )


def _route(route_id: str, where: str, entry: Mapping[str, Any]) -> Route:
    path = entry["path"]
    names = {piece[1:-1] for piece in path.split("/") if piece.startswith("{") and piece.endswith("}")}
    try:
        for schema in [*entry.get("query", {}).values(), *([entry["body"]] if "body" in entry else [])]:
            check_schema(schema)
        template = compile_template(path, dict.fromkeys(names, ANY_SEGMENT))
    except UserError as exc:
        raise UserError(f"{where}.routes: {exc}") from exc
    if any(piece.endswith("...}") for piece in path.split("/")) or "**" in path[:-2]:
        raise UserError(f"{where}.routes: {path}: several segments are written as a final /** alone.")
    return Route(
        id=route_id,
        method=entry["method"],
        templates=(template,),
        tier=Tier(entry["tier"]),
        query=entry.get("query", {}),
        body=entry.get("body"),
        redirect="declared",
        match=(),
    )


def _place(origin: str) -> tuple[str, int]:
    """Host and port: the same place under another spelling is the same place."""
    parts = urlsplit(origin)
    return (parts.hostname or "").rstrip("."), parts.port or {"http": 80, "https": 443}[parts.scheme]


def _literal(host: str) -> str:
    return "".join(char if char.isalnum() or char == "-" else f"\\{char}" for char in host)
