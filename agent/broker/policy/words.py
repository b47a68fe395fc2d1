"""Words of the egress policy: request, authority, verdict. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent.contract.dataclass import dataclass, field
from agent.contract.modes import Tier

PUBLISHER_GATE = "publisher"
OWN_TEXT_GATE = "own_text"
OFFER_GATE = "not_offered"
"""Of a route that no offered tool uses: the broker's own needs stay, a harness never holds it (C4, S5)."""


@dataclass(frozen=True)
class EgressRequest:
    """What somebody asks the broker to send. Every field may be hostile.

    Attributes:
        connection: name of a connection.
        method: HTTP method, exact.
        path: percent-encoded path, relative to the connection's origin and base; no query in it.
        query: one value a name: text, whole number or truth value.
        headers: wishes; what the connection does not let a caller set is dropped.
        body: raw bytes, empty for none.
    """

    connection: str
    method: str
    path: str
    query: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True)
class Authority:
    """On whose behalf a request is sent.

    Attributes:
        name: for the record: `harness`, `broker` or `publisher`.
        tiers: tiers that are open to it.
        gates: gates that are open to it.
    """

    name: str
    tiers: frozenset[Tier]
    gates: frozenset[str] = frozenset()

    @classmethod
    def harness(cls, tiers: frozenset[Tier]) -> Authority:
        """The mode's tiers, every gate closed."""
        return cls("harness", tiers)

    @classmethod
    def broker(cls) -> Authority:
        """The broker's own reads: event facts, trusted config, git fetch."""
        return cls("broker", frozenset({Tier.READ}), frozenset({PUBLISHER_GATE, OFFER_GATE}))

    @classmethod
    def publisher(cls, tiers: frozenset[Tier]) -> Authority:
        """The broker's own writes, after its own checks (branch rules, prepush, protected paths, whose comment)."""
        return cls("publisher", tiers | {Tier.READ}, frozenset({PUBLISHER_GATE, OWN_TEXT_GATE, OFFER_GATE}))


@dataclass(frozen=True)
class RuleMatch:
    """One rule that was considered.

    Attributes:
        rule: id of the route, or the name of a check.
        permits: whether it was passed.
        reason: in words.
    """

    rule: str
    permits: bool
    reason: str


@dataclass(frozen=True)
class Attach:
    """One header whose value holds a secret, named and not read.

    Attributes:
        header: lower-case name.
        secret: secret name.
        prefix: text before the value, such as `Bearer `.
        basic_user: where set, the value is Basic authentication of this user with the secret as password.
    """

    header: str
    secret: str
    prefix: str = ""
    basic_user: str = ""


@dataclass(frozen=True)
class WireRequest:
    """What will be on the wire, less the secret. Made from what was checked, never from what was sent.

    Attributes:
        url: origin, base and canonical path, without query.
        query: pairs in order.
        headers: lower-case names, all but the secret ones.
        repeatable: sent again after a server's fault, since done twice is as good as done once.
    """

    method: str
    url: str
    query: tuple[tuple[str, str], ...]
    headers: tuple[tuple[str, str], ...]
    body: bytes
    attach: tuple[Attach, ...]
    redirect: str | None
    tier: Tier
    response_cap: int
    timeout_s: float
    repeatable: bool


@dataclass(frozen=True)
class Verdict:
    """The decision on one request.

    Attributes:
        code: None when allowed, else a code of DESIGN section 6.
        reason: one sentence or two: what was refused, and what to do instead.
        rules: every rule considered, in order.
        wire: what to send; None when refused.
    """

    code: str | None
    reason: str
    rules: tuple[RuleMatch, ...] = ()
    wire: WireRequest | None = None

    @property
    def allowed(self) -> bool:
        return self.wire is not None
