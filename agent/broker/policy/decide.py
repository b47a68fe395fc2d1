"""The decision on one request (DESIGN section 6). Pure: no clock, no network, and no secret value in reach.

Steps, in this order; the first that fails answers:

1. connection   it is declared                                   egress_connection_unknown
2. path         canonical, and some route of it matches          egress_path_blocked
3. method       some route with that path has it                 egress_method_blocked
4. query        only declared names, each of its shape           egress_query_blocked
5. body         as the route's schema says, re-encoded by us     egress_body_blocked
6. tier         open to the authority                            egress_tier_blocked
7. gate         open to the authority                            egress_gate_closed

The caller still owes step 8, the secret: it is read only after a verdict that allows, and a missing one
answers `secret_unavailable`. Where several routes match, all must permit: the strictest wins.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from agent.broker.policy.path import BadPath, join_path, split_path
from agent.broker.policy.route import Connection, Route
from agent.broker.policy.words import Authority, EgressRequest, RuleMatch, Verdict, WireRequest
from agent.contract.dataclass import replace
from agent.contract.errors import UserError
from agent.contract.schema import problems

QUERY_CAP = 4096  # characters of one value
HEADER_CAP = 1000


class Policy:
    """The frozen connections of one run."""

    def __init__(self, connections: Iterable[Connection], gates: Mapping[str, str] | None = None) -> None:
        """
        Args:
            connections: each name once.
            gates: what to say where a gate is closed, by gate.

        Raises:
            UserError: no connection, or a name twice.
        """
        self._connections: dict[str, Connection] = {}
        for connection in connections:
            if connection.name in self._connections:
                raise UserError(f"The connection {connection.name!r} is declared twice.")
            self._connections[connection.name] = connection
        if not self._connections:
            raise UserError("A policy without a connection would refuse everything; that is a mistake.")
        self._gates = dict(gates or {})

    @property
    def connections(self) -> tuple[Connection, ...]:
        """In the order given."""
        return tuple(self._connections.values())

    def connection(self, name: str) -> Connection:
        """The connection of this name.

        Raises:
            KeyError: there is none.
        """
        return self._connections[name]

    def check(self, request: EgressRequest, authority: Authority) -> Verdict:
        """Decide. Never raises, whatever the request holds."""
        # 1. connection
        connection = self._connections.get(request.connection)
        if connection is None:
            known = ", ".join(self._connections)
            return _refuse("egress_connection_unknown", f"There is no such connection. Declared: {known}.")
        # 2. path
        segments = split_path(request.path)
        if isinstance(segments, BadPath):
            return _refuse("egress_path_blocked", f"The path is refused: {segments.reason}.")
        on_path = [(route, route.path_parameters(segments)) for route in connection.routes]
        matching = [(route, found) for route, found in on_path if found is not None]
        never = _never(connection, request.method, segments)
        if not matching:
            reason = never or "it is not on the list of this connection's routes"
            return _refuse("egress_path_blocked", f"The path is refused: {reason}.")
        narrowed = [(r, f) for r, f in matching if r.parameter_problem(f) is None]
        if not narrowed:
            route, found = matching[0]
            return _refuse("egress_path_blocked", f"The path is refused: {route.parameter_problem(found)}.")
        # 3. method
        routes = [route for route, _ in narrowed if route.method == request.method]
        if never or not routes:
            methods = ", ".join(sorted({route.method for route, _ in narrowed}))
            reason = never or f"this path allows {methods}"
            return _refuse("egress_method_blocked", f"The method is refused: {reason}.")
        return self._check_routes(request, authority, connection, segments, routes)

    def _check_routes(
        self,
        request: EgressRequest,
        authority: Authority,
        connection: Connection,
        segments: tuple[str, ...],
        routes: list[Route],
    ) -> Verdict:
        considered: list[RuleMatch] = []
        # 4. query
        query: tuple[tuple[str, str], ...] = ()
        for route in routes:
            problem, query = _query(route, request.query)
            considered.append(RuleMatch(route.id, problem is None, problem or "path, method and query fit"))
            if problem:
                return _refuse("egress_query_blocked", f"The query is refused: {problem}.", considered)
        # 5. body
        body = request.body
        for route in routes:
            problem, body = _body(route, request.body)
            if problem:
                considered.append(RuleMatch(route.id, False, problem))
                return _refuse("egress_body_blocked", f"The body is refused: {problem}.", considered)
        # 6. tier
        for route in routes:
            if route.tier not in authority.tiers:
                considered.append(RuleMatch(route.id, False, f"needs the tier {route.tier}"))
                reason = f"This request needs the tier {route.tier}, which the run's mode does not have."
                return _refuse("egress_tier_blocked", reason, considered)
        # 7. gate
        for route in routes:
            if route.gate is not None and route.gate not in authority.gates:
                considered.append(RuleMatch(route.id, False, f"the gate {route.gate} is closed to {authority.name}"))
                reason = f"The gate {route.gate} is closed. {self._gates.get(route.gate, '')}".strip()
                return _refuse("egress_gate_closed", reason, considered)
        wire = _wire(request, connection, segments, routes[0], query, body)
        return Verdict(None, f"allowed by {', '.join(route.id for route in routes)}", tuple(considered), wire)


def _wire(
    request: EgressRequest,
    connection: Connection,
    segments: tuple[str, ...],
    route: Route,
    query: tuple[tuple[str, str], ...],
    body: bytes,
) -> WireRequest:
    headers = dict(connection.fixed)
    headers.update(_caller_headers(connection, route, request.headers))
    if route.body is not None and body:
        headers["content-type"] = "application/json"
    attach = connection.attach
    if route.secret is not None:
        attach = tuple(replace(one, secret=route.secret) for one in attach)
    return WireRequest(
        method=route.method,
        url=connection.origin + connection.base + join_path(segments),
        query=query,
        headers=tuple(headers.items()),
        body=body,
        attach=attach,
        redirect=route.redirect,
        tier=route.tier,
        response_cap=route.response_cap,
        timeout_s=connection.timeout_s,
        repeatable=route.repeatable,
    )


def _refuse(code: str, reason: str, considered: Iterable[RuleMatch] = ()) -> Verdict:
    return Verdict(code, reason, tuple(considered) or (RuleMatch(code, False, reason),))


def _never(connection: Connection, method: str, segments: tuple[str, ...]) -> str | None:
    for never in connection.never:
        if never.method == method and never.template.match(segments) is not None:
            return f"it is never allowed, since {never.why}"
    return None


def _query(route: Route, query: Mapping[str, Any]) -> tuple[str | None, tuple[tuple[str, str], ...]]:
    pairs = []
    for name, value in query.items():
        schema = route.query.get(name)
        if schema is None:
            allowed = ", ".join(route.query) or "none"
            return f"a name that this route does not have (allowed: {allowed})", ()
        if not isinstance(value, str | int) or len(str(value)) > QUERY_CAP:
            return f"{name}: expected one text or whole number", ()
        typed = int(value) if schema.get("type") == "integer" and _is_digits(value) else value
        for problem in problems(schema, typed):
            return f"{name}: {problem.message}", ()
        pairs.append((name, str(value).lower() if isinstance(value, bool) else str(value)))
    missing = [name for name in route.required_query if name not in query]
    if missing:
        return f"{missing[0]}: expected, and missing", ()
    return None, tuple(pairs)


def _is_digits(value: str | int) -> bool:
    return isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 19


def _body(route: Route, body: bytes) -> tuple[str | None, bytes]:
    if route.opaque_body:
        return None, body
    if route.body is None:
        return ("this route takes none" if body else None), b""
    try:
        value = json.loads(body.decode("utf-8"), object_pairs_hook=_once, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return "it is not JSON in UTF-8 with every key once", b""
    for problem in problems(route.body, value):
        where = ".".join(map(str, problem.path)) or "the body"
        return f"{where}: {problem.message}", b""
    # Encoded again from what was checked, so that no second reader can see another value in the same bytes.
    return None, json.dumps(value, separators=(",", ":")).encode("ascii")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key twice")
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _caller_headers(connection: Connection, route: Route, headers: Mapping[str, str]) -> dict[str, str]:
    """The headers a caller may set; others (Authorization, Host, method overrides) are dropped."""
    kept = {}
    for name, value in headers.items():
        lower = name.lower() if isinstance(name, str) else ""
        if lower not in connection.caller_headers or not isinstance(value, str):
            continue
        allowed = connection.caller_headers[lower]
        printable = value.isascii() and value.isprintable() and len(value) <= HEADER_CAP
        closed = lower == "accept" and value in route.closed_media
        if printable and not closed and (allowed is None or value in allowed):
            kept[lower] = value
    return kept
