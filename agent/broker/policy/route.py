"""Routes and connections: the closed list of what may leave, as compiled from data. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from agent.broker.policy.template import Template
from agent.broker.policy.words import Attach
from agent.contract.dataclass import dataclass, field
from agent.contract.modes import Tier
from agent.contract.schema import Schema, problems

RESPONSE_CAP = 64 << 20  # bytes; what fits one frame of the channel
TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Route:
    """One thing that may be asked for.

    Attributes:
        id: stable name for the record.
        method: exact.
        templates: any of these paths; the second form is the repository's numeric one, for reads.
        tier: tier that must be open.
        query: schema of each allowed name; empty means no query.
        required_query: names that must be there.
        body: schema of the JSON body; None means no body.
        opaque_body: any bytes as body (the model's wire, git's protocol).
        params: further schema of a path parameter by name.
        gate: gate that must be open, or None.
        secret: secret name in place of the connection's own, or None.
        redirect: kind of declared redirect, or None for none but a rename within the API.
        response_cap: bytes of the answer.
        repeatable: may be sent again where nobody knows whether it was done: built-in reads, and the writes of Git
            objects, which nothing refers to yet. What declared connections and models do twice is not ours to say.
        closed_media: values of `accept` that are dropped here: forms of the answer that no offered tool reads.
        match, not_match: paths that must and must not match, checked at load and by a test.
    """

    id: str
    method: str
    templates: tuple[Template, ...]
    tier: Tier
    query: Mapping[str, Schema] = field(default_factory=dict)
    required_query: tuple[str, ...] = ()
    body: Schema | None = None
    opaque_body: bool = False
    params: Mapping[str, Schema] = field(default_factory=dict)
    gate: str | None = None
    secret: str | None = None
    redirect: str | None = None
    response_cap: int = RESPONSE_CAP
    repeatable: bool = False
    closed_media: frozenset[str] = frozenset()
    match: tuple[str, ...] = ()
    not_match: tuple[str, ...] = ()

    def path_parameters(self, segments: tuple[str, ...]) -> dict[str, str] | None:
        """Parameters of the first template that the path fits, or None."""
        for template in self.templates:
            found = template.match(segments)
            if found is not None:
                return found
        return None

    def parameter_problem(self, found: Mapping[str, str]) -> str | None:
        """What is wrong with the path's parameters, beyond their shape."""
        for name, schema in self.params.items():
            for problem in problems(schema, found[name]):
                return f"{name}: {problem.message}"
        return None


@dataclass(frozen=True)
class Never:
    """What no mode may ever reach, whatever else is declared: it beats every route."""

    method: str
    template: Template
    why: str


@dataclass(frozen=True)
class Connection:
    """One declared way out.

    Attributes:
        name: as requests name it.
        origin: scheme, host and port, such as `https://api.github.com`.
        base: fixed path before every request's own, such as `/api/v3`; may be empty.
        routes: closed list.
        attach: headers that carry secrets, by secret name.
        fixed: further headers of every request, lower-case names.
        caller_headers: lower-case header names that a caller may set, and the values it may set (None: any
            printable text).
        never: refused whatever the routes say.
        redirects: by kind, patterns of `host` or `host:port` to full-match.
        insecure: plain http is this connection's own scheme, so its redirects may use it too.
        timeout_s: for connecting and for each wait for bytes.
    """

    name: str
    origin: str
    base: str
    routes: tuple[Route, ...]
    attach: tuple[Attach, ...] = ()
    fixed: tuple[tuple[str, str], ...] = ()
    caller_headers: Mapping[str, frozenset[str] | None] = field(default_factory=dict)
    never: tuple[Never, ...] = ()
    redirects: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    insecure: bool = False
    timeout_s: float = TIMEOUT_S
