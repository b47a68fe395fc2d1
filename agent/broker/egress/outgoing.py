"""What is sent holds no secret (S3): redacted where people read it, refused where a changed byte would lie.

* To a model: known values are replaced, nothing else is touched. A conversation only grows, so what a request
  shares with the one before is not searched again: the cost of a run stays linear in its length.
* Git objects: a body that holds a known value is refused; altering it would give another tree than was checked.
* Other bodies at GitHub or at a declared connection: known values and the shapes of credentials are replaced.
"""

from __future__ import annotations

import json
from dataclasses import replace

from agent.broker.policy.words import RuleMatch, Verdict, WireRequest
from agent.broker.redact.redactor import Redactor
from agent.contract.modes import Tier


class OutgoingText:
    """Redacts or refuses bodies; keeps the last request to each model connection to search only what is new."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._clean: dict[str, bytes] = {}

    def prepare(self, wire: WireRequest, verdict: Verdict, connection: str) -> tuple[WireRequest | None, Verdict]:
        """The request as it may be sent, or None and the refusal."""
        name = self._redactor.holds_known(f"{wire.url} {wire.query}".encode("utf-8", "replace"))
        if name is not None:
            return _refuse("egress_path_blocked", f"The address holds the secret {name}.", verdict)
        if not wire.body:
            return wire, verdict
        if connection == "model" or connection.startswith("model-"):
            return replace(wire, body=self._model(connection, wire.body)), verdict
        if wire.tier is Tier.GIT or connection == "git":
            name = self._redactor.holds_known(wire.body)
            if name is None:
                return wire, verdict
            return _refuse("egress_body_blocked", f"The body holds the secret {name}.", verdict)
        return replace(wire, body=self._text(wire.body)), verdict

    def _text(self, body: bytes) -> bytes:
        try:
            value = json.loads(body)
        except (ValueError, RecursionError):
            return self._redactor.known_bytes(body)
        return json.dumps(self._redactor.value(value), separators=(",", ":")).encode("ascii")

    def _model(self, connection: str, body: bytes) -> bytes:
        """Search only what the last clean request to this connection did not hold already."""
        last = self._clean.get(connection, b"")
        shared = _shared(last, body)
        # A value may straddle the seam, so the search begins as far before it as a value is long.
        start = max(0, shared - self._redactor.reach)
        tail = body[start:]
        clean = self._redactor.known_bytes(tail)
        if clean == tail:
            self._clean[connection] = body
            return body
        self._clean.pop(connection, None)
        return self._redactor.known_bytes(body)


def _shared(one: bytes, other: bytes) -> int:
    """Length of the common prefix, by halving: each step is one memory comparison."""
    low, high = 0, min(len(one), len(other))
    if one[:high] == other[:high]:
        return high
    while high - low > 1:
        middle = (low + high) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle
    return low


def _refuse(code: str, reason: str, verdict: Verdict) -> tuple[None, Verdict]:
    reason += " It was not sent."
    return None, Verdict(code, reason, (*verdict.rules, RuleMatch("redaction", False, reason)))
