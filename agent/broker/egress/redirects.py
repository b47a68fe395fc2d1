"""Where a redirect may lead. Pure (F14, R10).

House rules: only on GET, at most three, never to plain http unless the connection itself is plain http, never
with user information. Two kinds of target exist: the API itself (a renamed repository answers with its
numeric form), which is decided on anew like any request; and a host that the route's kind of redirect names,
which gets no Authorization, since the address carries its own signature.
"""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, urljoin, urlsplit

from agent.broker.policy.route import Connection
from agent.broker.policy.words import EgressRequest, WireRequest
from agent.contract.dataclass import dataclass

HOPS = 3
STATUSES = frozenset({301, 302, 303, 307, 308})


@dataclass(frozen=True)
class Elsewhere:
    """A declared storage host: send there, without the secret."""

    url: str


@dataclass(frozen=True)
class Blocked:
    """Where it led is not declared.

    Attributes:
        reason: a sentence of ours for whoever asked.
        host: where it led, for the record alone: a third party's words (S1). The rest may be a signature.
    """

    reason: str
    host: str = ""


def follow(
    wire: WireRequest, connection: Connection, current: str, location: str, hops: int
) -> EgressRequest | Elsewhere | Blocked:
    """Decide on one redirect.

    Args:
        wire: the request as first allowed.
        current: address that answered.
        location: its Location header.
        hops: redirects followed so far.
    """
    if wire.method != "GET":
        return Blocked("a redirect of a request that is not a GET")
    if hops >= HOPS:
        return Blocked(f"more than {HOPS} redirects")
    try:
        target = urlsplit(urljoin(current, location))
        port = target.port
    except ValueError:
        return Blocked("a redirect to what is no address")
    host = (target.hostname or "").lower()
    if "@" in target.netloc or not host or not location.isascii() or not location.isprintable():
        return Blocked("a redirect to an address of another form")
    origin = f"{target.scheme}://{target.netloc}".lower()
    if origin == connection.origin.lower():
        return _within(connection, target.path, target.query)
    if target.scheme != "https" and not (target.scheme == "http" and connection.insecure):
        return Blocked("a redirect to an address that is not https")
    names = [f"{host}:{port}"] if port else [host]
    allowed = connection.redirects.get(wire.redirect or "", ())
    if any(re.fullmatch(pattern, name) for pattern in allowed for name in names):
        return Elsewhere(target._replace(fragment="").geturl())
    shown = names[0] if re.fullmatch(r"[a-z0-9.:\[\]-]{1,100}", names[0]) else "another host"
    return Blocked("a redirect to a host that is not declared for this route; the transcript names it", shown)


def _within(connection: Connection, path: str, query: str) -> EgressRequest | Blocked:
    if not path.startswith(f"{connection.base}/"):
        return Blocked("a redirect out of the API")
    pairs = parse_qsl(query, keep_blank_values=True)
    if len(dict(pairs)) != len(pairs):
        return Blocked("a redirect with a repeated query name")
    return EgressRequest(connection.name, "GET", path[len(connection.base) :], dict(pairs))
