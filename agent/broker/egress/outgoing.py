"""What is sent holds no secret (S3): redacted where people read it, refused where a changed byte would lie.

* To a model: known values are replaced, nothing else is touched. A conversation only grows, so what a request
  shares with the one before is not searched again: the cost of a run stays linear in its length.
* Git objects: a body that holds a known value is refused; altering it would give another tree than was checked.
* Other bodies at GitHub or at a declared connection: known values and the shapes of credentials are replaced.
"""

from __future__ import annotations

import json
import re
import threading

from agent.broker.policy.words import RuleMatch, Verdict, WireRequest
from agent.broker.redact.growing import Growing
from agent.broker.redact.redactor import Redactor
from agent.contract.dataclass import replace
from agent.contract.modes import Tier
from agent.contract.regex import regex

_NAME = regex(rb'(?<!\\)"name":"([^"\\]*\[redacted:[^"\\]*)"')


class OutgoingText:
    """Redacts or refuses bodies. Safe for several threads."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._lock = threading.Lock()
        self._requests: dict[str, Growing] = {}
        self._clean = (-1, "")  # the last address that held nothing, and of which values

    def prepare(self, wire: WireRequest, verdict: Verdict, connection: str) -> tuple[WireRequest | None, Verdict]:
        """The request as it may be sent, or None and the refusal."""
        name = self._in_address(f"{wire.url} {wire.query}")
        if name is not None:
            return _refuse("egress_path_blocked", f"The address holds the secret {name}.", verdict)
        if not wire.body:
            return wire, verdict
        if connection == "model" or connection.startswith("model-"):
            body = self._growing(connection).known_bytes(wire.body)
            return (wire if body is wire.body else replace(wire, body=_named(body))), verdict
        if wire.tier is Tier.GIT or connection == "git":
            name = self._redactor.holds_known(wire.body)
            if name is None:
                return wire, verdict
            return _refuse("egress_body_blocked", f"The body holds the secret {name}.", verdict)
        return replace(wire, body=self._text(wire.body)), verdict

    def _in_address(self, address: str) -> str | None:
        """Name of a secret in it; the address of every turn's request to a model is looked at once."""
        seen = (self._redactor.version_of_known()[0], address)
        if seen == self._clean:
            return None
        name = self._redactor.holds_known(address.encode("utf-8", "replace"))
        if name is None:
            self._clean = seen
        return name

    def _growing(self, connection: str) -> Growing:
        with self._lock:
            return self._requests.setdefault(connection, Growing(self._redactor))

    def _text(self, body: bytes) -> bytes:
        try:
            value = json.loads(body)
        except (ValueError, RecursionError):
            return self._redactor.known_bytes(body)
        return json.dumps(self._redactor.value(value), separators=(",", ":")).encode("ascii")


def _named(body: bytes) -> bytes:
    """A call of a tool that was named like a secret: providers take letters, digits, `_` and `-` in a name alone."""
    return _NAME.sub(lambda found: b'"name":"' + re.sub(rb"[^A-Za-z0-9_-]", b"_", found[1])[:64] + b'"', body)


def _refuse(code: str, reason: str, verdict: Verdict) -> tuple[None, Verdict]:
    reason += " It was not sent."
    return None, Verdict(code, reason, (*verdict.rules, RuleMatch("redaction", False, reason)))
