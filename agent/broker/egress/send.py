"""Sending one request: decide, record, read the secret, attach it, send.

House rules:
* The secret is read after the verdict and lives in one local header dictionary; no record, error or
  representation sees it.
* What is asked for is recorded whether it was sent or refused (D7): `egress.request`, `egress.response`,
  `egress.denied`, and on the way `egress.redirect`, `egress.wait`; in a dry run `egress.dry_run` for each write.
* A signed address is a credential while it lasts: it is never recorded, returned or put into an error.
"""

from __future__ import annotations

import base64
import itertools
import threading
from collections.abc import Callable, Iterator

from agent.broker.egress.answers import BUFFER_CAP, EgressResponse, EgressStream, capped, passed_on, refusal
from agent.broker.egress.attempts import Attempts, Clock, RealClock, Record, Sending
from agent.broker.egress.dry_run import is_write, stand_in, summarised
from agent.broker.egress.incoming import IncomingText
from agent.broker.egress.limits import WRITE_PAUSE_S
from agent.broker.egress.outgoing import OutgoingText
from agent.broker.egress.redirects import Blocked
from agent.broker.egress.transport import Transport
from agent.broker.policy.decide import Policy
from agent.broker.policy.words import Authority, EgressRequest, RuleMatch, Verdict, WireRequest
from agent.broker.redact.redactor import Redactor
from agent.broker.secrets import SecretStore, SecretUnavailable
from agent.contract.errors import UpstreamError

REPORT_GRACE_S = 30.0  # a run whose time is over still says what it did (B8)
SHOWN = 500  # characters of a hostile text that a record keeps


class Egress:
    """The one way out. Safe for several threads."""

    def __init__(
        self,
        policy: Policy,
        secrets: SecretStore,
        transport: Transport,
        *,
        record: Record,
        redactor: Redactor,
        remaining_s: Callable[[], float] = lambda: 600.0,
        clock: Clock | None = None,
        write_pause_s: float = WRITE_PAUSE_S,
        dry_run: bool = False,
        numbers: Iterator[int] | None = None,
    ) -> None:
        """
        Args:
            redactor: of the run's known values, for what is sent and for what the harness gets back.
            remaining_s: seconds left of the run's wall clock; nothing waits longer than that.
            write_pause_s: seconds between two requests that create content at GitHub; 0 turns pacing off.
            dry_run: send nothing that changes anything; see `egress.dry_run`.
            numbers: of requests in the transcript, shared where one transcript has several of these.
        """
        self._policy = policy
        self._secrets = secrets
        self._record = record
        self._outgoing = OutgoingText(redactor)
        self._incoming = IncomingText(redactor)
        self._remaining_s = remaining_s
        self._clock = clock or RealClock()
        self._attempts = Attempts(
            policy,
            transport,
            record=record,
            clock=self._clock,
            write_pause_s=write_pause_s,
        )
        self._dry_run = dry_run
        self._number_lock = threading.Lock()
        self._numbers = numbers or itertools.count(1)

    def send(self, request: EgressRequest, authority: Authority, *, timeout_s: float | None = None) -> EgressResponse:
        """Send and read the whole answer.

        Args:
            timeout_s: shorter than the connection's own, for a caller that would rather have no answer.

        Raises:
            UpstreamError: no answer, cut off, or larger than the cap.
        """
        answer = self._open(request, authority, timeout_s)
        try:
            body = b"".join(capped(answer.chunks, BUFFER_CAP))
        finally:
            answer.close()
        if self._is_redacted(request, authority) and not answer.refused:
            body = self._incoming.whole(body)
        return EgressResponse(answer.status, answer.headers, body, answer.refused, answer.code, answer.message)

    def stream(self, request: EgressRequest, authority: Authority, *, timeout_s: float | None = None) -> EgressStream:
        """Send and give the answer's body as it arrives. Raises as `send`."""
        answer = self._open(request, authority, timeout_s)
        if self._is_redacted(request, authority) and not answer.refused:
            answer.chunks = self._incoming.pieces(answer.chunks, answer.headers)
        return answer

    def _open(self, request: EgressRequest, authority: Authority, timeout_s: float | None) -> EgressStream:
        number = self._next()
        verdict = self._policy.check(request, authority)
        wire = verdict.wire
        if wire is not None:
            wire, verdict = self._outgoing.prepare(wire, verdict, request.connection)
        if wire is None:
            return self._denied(number, request, authority, verdict)
        if self._dry_run and is_write(request.connection, wire):
            return self._kept_back(number, request, authority, wire)
        try:
            headers = self._with_secret(wire)
        except SecretUnavailable as exc:
            missing = Verdict(exc.code, str(exc), (*verdict.rules, RuleMatch("secret", False, str(exc))))
            return self._denied(number, request, authority, missing)
        self._record(
            "egress.request",
            n=number,
            connection=request.connection,
            method=wire.method,
            path=request.path,
            query=dict(wire.query),
            authority=authority.name,
            rules=[rule.rule for rule in verdict.rules],
            bytes=len(wire.body),
        )
        started = self._clock.monotonic()
        end = started + self._left_s(authority)
        try:
            answer = self._attempts.answer(
                Sending(number, request.connection, authority, wire, headers, timeout_s, self._left_s(authority))
            )
        except UpstreamError as exc:
            self._record("egress.response", n=number, status=None, error=str(exc), ms=self._since(started))
            raise
        if isinstance(answer, Blocked):
            reason = f"The answer was refused: {answer.reason}."
            rule = RuleMatch("redirect", False, f"{answer.reason}: {answer.host}" if answer.host else answer.reason)
            return self._denied(number, request, authority, Verdict("egress_redirect_blocked", reason, (rule,)))
        self._record("egress.response", n=number, status=answer.status, ms=self._since(started))
        chunks = self._until(end, capped(answer.chunks(), wire.response_cap))
        return EgressStream(answer.status, passed_on(answer.headers), chunks, close=answer.close)

    def _with_secret(self, wire: WireRequest) -> dict[str, str]:
        headers = dict(wire.headers)
        for attach in wire.attach:
            value = self._secrets.get(attach.secret)
            if not value.isprintable() or not value.isascii():
                raise SecretUnavailable(attach.secret)  # a line break in it would be a header of its own
            if attach.basic_user:
                pair = f"{attach.basic_user}:{value}".encode()
                headers[attach.header] = "Basic " + base64.b64encode(pair).decode()
            else:
                headers[attach.header] = attach.prefix + value
        return headers

    def _kept_back(self, number: int, request: EgressRequest, authority: Authority, wire: WireRequest) -> EgressStream:
        self._record(
            "egress.dry_run",
            n=number,
            connection=request.connection,
            method=wire.method,
            path=request.path,
            query=dict(wire.query),
            authority=authority.name,
            bytes=len(wire.body),
            body=summarised(wire.body),
        )
        return stand_in(wire)

    def _denied(self, number: int, request: EgressRequest, authority: Authority, verdict: Verdict) -> EgressStream:
        self._record(
            "egress.denied",
            n=number,
            connection=_shown(request.connection),
            method=_shown(request.method),
            path=_shown(request.path),
            authority=authority.name,
            code=verdict.code,
            reason=verdict.reason,
            rules=[[rule.rule, rule.permits, rule.reason] for rule in verdict.rules],
        )
        return refusal(verdict)

    def _is_redacted(self, request: EgressRequest, authority: Authority) -> bool:
        name = request.connection
        return authority.name == "harness" and name != "model" and not name.startswith("model-")

    def _left_s(self, authority: Authority) -> float:
        """Seconds that this request may take in all."""
        left = self._remaining_s()
        return max(left, REPORT_GRACE_S) if authority.name == "publisher" else left

    def _until(self, end: float, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """A server that sends a byte a minute does not outlive the run's clock."""
        for chunk in chunks:
            if self._clock.monotonic() >= end:
                raise UpstreamError("read", "the run's time is over")
            yield chunk

    def _since(self, started: float) -> float:
        return round((self._clock.monotonic() - started) * 1000, 1)

    def _next(self) -> int:
        with self._number_lock:
            return next(self._numbers)


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= SHOWN else text[:SHOWN] + "…"
