"""Connections of the configuration: literals, compiled to the same form, unable to go around the built-in ones."""

from __future__ import annotations

from typing import Any

import pytest

from agent.broker.policy.decide import Policy
from agent.broker.policy.declared import declared_connections
from agent.broker.policy.words import Attach, Authority, EgressRequest
from agent.contract.errors import UserError
from agent.contract.modes import Tier

RESERVED = frozenset({"https://api.github.com", "https://github.com", "http://127.0.0.1:9000"})
READ = Authority.harness(frozenset({Tier.READ}))


def declared(**changes: Any) -> dict[str, Any]:
    return {
        "advisories": {
            "origin": "https://osv.example:8443",
            "headers": {"X-Team": "widgets", "Authorization": {"secret": "OSV_TOKEN", "prefix": "Bearer "}},
            "routes": [
                {
                    "method": "GET",
                    "path": "/v1/vulns/{id}",
                    "tier": "read",
                    "query": {"lang": {"enum": ["en"]}},
                },
                {
                    "method": "POST",
                    "path": "/v1/query",
                    "tier": "read",
                    "body": {"type": "object", "properties": {"q": {"type": "string"}}, "additionalProperties": False},
                },
                {"method": "GET", "path": "/files/**", "tier": "read"},
            ],
            "redirects": ["cdn.osv.example", "store.example:8080"],
            **changes,
        }
    }


def policy(**changes: Any) -> Policy:
    return Policy(declared_connections(declared(**changes), reserved_origins=RESERVED))


def test_a_declared_connection_is_held_like_a_built_in_one() -> None:
    """Origin, route, secret by name, headers and redirects as written; nothing more."""
    connection = policy().connection("advisories")
    found = policy().check(EgressRequest("advisories", "GET", "/v1/vulns/GHSA-1", {"lang": "en"}), READ)

    assert found.wire is not None
    assert found.wire.url == "https://osv.example:8443/v1/vulns/GHSA-1"
    assert found.wire.attach == (Attach("authorization", "OSV_TOKEN", prefix="Bearer "),)
    assert dict(found.wire.headers) == {"user-agent": "airlock-agent", "x-team": "widgets"}
    assert connection.redirects == {"declared": (r"cdn\.osv\.example", r"store\.example\:8080")}


@pytest.mark.parametrize(
    ("method", "path", "query", "body", "code"),
    [
        ("GET", "/v1/vulns", {}, b"", "egress_path_blocked"),
        ("GET", "/v1/vulns/a/b", {}, b"", "egress_path_blocked"),
        ("GET", "/v1/vulns/../admin", {}, b"", "egress_path_blocked"),
        ("GET", "/files", {}, b"", "egress_path_blocked"),
        ("GET", "/filesystem/x", {}, b"", "egress_path_blocked"),
        ("POST", "/v1/vulns/x", {}, b"", "egress_method_blocked"),
        ("GET", "/v1/vulns/x", {"other": "1"}, b"", "egress_query_blocked"),
        ("POST", "/v1/query", {}, b'{"z":1}', "egress_body_blocked"),
        ("GET", "/v1/vulns/x", {}, b"{}", "egress_body_blocked"),
        ("GET", "/files/a/b", {}, b"", None),
        ("POST", "/v1/query", {}, b'{"q":"x"}', None),
    ],
)
def test_the_same_checks_apply(method: str, path: str, query: dict[str, str], body: bytes, code: str | None) -> None:
    """A prefix is a boundary, a query needs a schema, a body too (F03)."""
    assert policy().check(EgressRequest("advisories", method, path, query, {}, body), READ).code == code


def route(**changes: Any) -> list[dict[str, Any]]:
    return [{"method": "GET", "path": "/x", "tier": "read", **changes}]


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"origin": "https://api.github.com"}, "guards"),
        ({"origin": "https://API.github.com:443"}, "guards"),
        ({"origin": "https://api.github.com."}, "guards"),
        ({"origin": "http://127.0.0.1:9000"}, "guards"),
        ({"origin": "https://x@y"}, "origin"),
        ({"headers": {"Host": "evil.invalid"}}, "cannot be set"),
        ({"headers": {"X-HTTP-Method-Override": "DELETE"}}, "cannot be set"),
        ({"headers": {"cookie": {"secret": "A"}}}, "cannot be set"),
        ({"routes": route(path="/a/*/b")}, "neither a literal"),
        ({"routes": route(path="/{a...}")}, "no pattern|several segments"),
        ({"routes": route(path="/**/b")}, "final"),
        ({"routes": route(query={"a": {"oneOf": []}})}, "keyword 'oneOf'"),
        ({"routes": route(body={"typ": "x"})}, "keyword 'typ'"),
    ],
)
def test_a_declaration_that_is_not_plain_is_refused(changes: dict[str, Any], match: str) -> None:
    """Not GitHub's own address again, no header that steers, no pattern of another meaning."""
    with pytest.raises(UserError, match=match):
        policy(**changes)


@pytest.mark.parametrize("name", ["github", "git", "model", "model-1"])
def test_a_built_in_name_cannot_be_taken(name: str) -> None:
    """A connection of ours is never redefined."""
    with pytest.raises(UserError, match="built-in"):
        declared_connections({name: declared()["advisories"]}, reserved_origins=RESERVED)
