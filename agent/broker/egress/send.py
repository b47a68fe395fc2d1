"""Sending one request: decide, record, read the secret, attach it, send, follow declared redirects.

House rules:
* The secret is read after the verdict and lives in one local header dictionary; no record, error or
  representation sees it.
* What is recorded is recorded whether it was sent or refused (D7): `egress.request`, `egress.response`,
  `egress.denied`.
* A signed address is a credential while it lasts: it is never recorded, returned or put into an error.
"""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol
from urllib.parse import quote, urlencode, urlsplit

from agent.broker.egress.limits import ATTEMPTS, SERVER_FAULT_S, WRITE_PAUSE_S, rate_limit_wait
from agent.broker.egress.outgoing import OutgoingText, Redactor
from agent.broker.egress.own_text import GATE, OwnAccount
from agent.broker.egress.redirects import STATUSES, Blocked, Elsewhere, follow
from agent.broker.egress.transport import Exchange, Transport
from agent.broker.policy.decide import Policy
from agent.broker.policy.words import Authority, EgressRequest, RuleMatch, Verdict, WireRequest
from agent.broker.secrets import SecretStore, SecretUnavailable
from agent.contract.errors import UpstreamError

BUFFER_CAP = 64 << 20  # bytes of a whole answer; what fits one frame of the channel
ERROR_CAP = 1 << 20  # bytes read of an answer that is an error
SHOWN = 500  # characters of a hostile path that a record keeps
_PASSED_ON = ("content-type", "content-length", "etag", "link", "retry-after", "date")
_PASSED_ON_PREFIXES = ("x-ratelimit-", "x-accepted-github-", "x-github-", "request-", "x-request-", "anthropic-")


@dataclass(frozen=True)
class EgressResponse:
    """An answer, or a refusal of our own.

    Attributes:
        status: HTTP status; 403 or 409 for a refusal.
        headers: lower-case names, the harmless ones alone.
        body: whole.
        refused: the request was not sent, or its redirect not followed.
        code, message: of a refusal.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    refused: bool = False
    code: str = ""
    message: str = ""


@dataclass
class EgressStream:
    """An answer whose body comes in pieces. A refusal has its whole body in one piece.

    Attributes:
        chunks: raises `UpstreamError` when cut off or over the cap; to be read to its end or closed.
    """

    status: int
    headers: Mapping[str, str]
    chunks: Iterator[bytes]
    refused: bool = False
    code: str = ""
    message: str = ""
    close: Callable[[], None] = field(default=lambda: None, repr=False)


class Record(Protocol):
    """Writes one transcript event."""

    def __call__(self, type: str, /, **data: Any) -> None: ...


class Clock(Protocol):
    """What tests replace."""

    def now(self) -> float:
        """Seconds since the epoch."""

    def monotonic(self) -> float: ...

    def sleep(self, seconds: float) -> None: ...


class _RealClock:
    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)
    sleep = staticmethod(time.sleep)


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
        own_logins: Iterable[str] = (),
    ) -> None:
        """
        Args:
            redactor: of the run's known values, for what is sent.
            remaining_s: seconds left of the run's wall clock; nothing waits longer than that.
            write_pause_s: seconds between two requests that change something at GitHub.
            own_logins: accounts that the run's tokens write under, where known beforehand.
        """
        self._policy = policy
        self._secrets = secrets
        self._transport = transport
        self._record = record
        self._outgoing = OutgoingText(redactor)
        self._own = OwnAccount(own_logins)
        self._remaining_s = remaining_s
        self._clock = clock or _RealClock()
        self._write_pause_s = write_pause_s
        self._write_lock = threading.Lock()
        self._last_write: float | None = None
        self._count_lock = threading.Lock()
        self._count = 0

    def send(self, request: EgressRequest, authority: Authority, *, timeout_s: float | None = None) -> EgressResponse:
        """Send and read the whole answer.

        Args:
            timeout_s: shorter than the connection's own, for a caller that would rather have no answer.

        Raises:
            UpstreamError: no answer, cut off, or larger than the cap.
        """
        stream = self.stream(request, authority, timeout_s=timeout_s)
        try:
            body = b"".join(_capped(stream.chunks, BUFFER_CAP, "the answer"))
        finally:
            stream.close()
        if stream.status == 201 and request.connection == "github":
            self._own.learn(body)
        return EgressResponse(stream.status, stream.headers, body, stream.refused, stream.code, stream.message)

    def stream(self, request: EgressRequest, authority: Authority, *, timeout_s: float | None = None) -> EgressStream:
        """Send and give the answer's body as it arrives. Raises as `send`."""
        number = self._next()
        verdict = self._decide(request, authority)
        wire = verdict.wire
        if wire is not None:
            wire, verdict = self._outgoing.prepare(wire, verdict, request.connection)
        if wire is None:
            return self._denied(number, request, authority, verdict)
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
        answer = self._attempts(number, request, authority, wire, headers, timeout_s)
        if isinstance(answer, EgressStream):
            return answer
        self._record(
            "egress.response",
            n=number,
            status=answer.status,
            ms=round((self._clock.monotonic() - started) * 1000, 1),
        )
        return EgressStream(
            answer.status,
            _passed_on(answer.headers),
            self._in_time(_capped(answer.chunks(), wire.response_cap, "the answer")),
            close=answer.close,
        )

    def _decide(self, request: EgressRequest, authority: Authority) -> Verdict:
        """The policy's verdict; the gate `own_text` opens for one request, after a look at the comment."""
        verdict = self._policy.check(request, authority)
        if verdict.code != "egress_gate_closed":
            return verdict
        opened = replace(authority, gates=authority.gates | {GATE})
        if not (wider := self._policy.check(request, opened)).allowed:
            return verdict
        there = self.send(EgressRequest(request.connection, "GET", request.path), Authority.broker())
        return wider if there.status == 200 and self._own.wrote(there.body) else verdict

    def _attempts(
        self,
        number: int,
        request: EgressRequest,
        authority: Authority,
        wire: WireRequest,
        headers: dict[str, str],
        timeout_s: float | None,
    ) -> Exchange | EgressStream:
        """Send until there is an answer that waiting would not change."""
        paced = request.connection == "github"
        waited = 0
        for attempt in range(ATTEMPTS):
            if paced and wire.method != "GET":
                self._pace()
            answer = self._follow(number, request, authority, wire, headers, timeout_s)
            if not paced or isinstance(answer, EgressStream):
                return answer
            wait: float | None = None
            if answer.status in (403, 429):
                answer = _buffered(answer)
                wait = rate_limit_wait(answer.status, answer.headers, answer.body, self._clock.now())
            elif answer.status >= 500 and wire.method == "GET" and attempt < len(SERVER_FAULT_S):
                wait = SERVER_FAULT_S[attempt]
            if wait is None or attempt == ATTEMPTS - 1 or wait + 5.0 > self._remaining_s():
                return answer
            if timeout_s is not None and waited + wait > timeout_s:
                return answer
            answer.close()
            waited += int(wait)
            self._record("egress.wait", n=number, status=answer.status, seconds=round(wait, 1))
            self._clock.sleep(wait)
        raise AssertionError("the last attempt returns")

    def _follow(
        self,
        number: int,
        request: EgressRequest,
        authority: Authority,
        wire: WireRequest,
        headers: dict[str, str],
        timeout_s: float | None,
    ) -> Exchange | EgressStream:
        """Send once, and follow the redirects that are declared."""
        connection = self._policy.connection(request.connection)
        url = _address(wire)
        with_secret = headers
        hops = 0
        while True:
            timeout = min(wire.timeout_s, timeout_s or wire.timeout_s, max(1.0, self._remaining_s()))
            answer = self._transport.send(wire.method, url, headers, wire.body, timeout)
            location = answer.headers.get("location")
            if answer.status not in STATUSES or location is None:
                return answer
            answer.close()
            target = follow(wire, connection, url, location, hops)
            hops += 1
            if isinstance(target, EgressRequest):
                verdict = self._policy.check(target, authority)
                if verdict.wire is None:
                    target = Blocked(f"a redirect that the policy does not allow ({verdict.code})")
                else:
                    url, headers = _address(verdict.wire), with_secret
                    self._record("egress.redirect", n=number, to=target.path)
                    continue
            if isinstance(target, Elsewhere):
                url, headers = target.url, {"user-agent": with_secret.get("user-agent", "")}
                self._record("egress.redirect", n=number, to=urlsplit(url).netloc)
                continue
            reason = f"The answer was refused: {target.reason}."
            blocked = Verdict("egress_redirect_blocked", reason, (RuleMatch("redirect", False, target.reason),))
            return self._denied(number, request, authority, blocked)

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

    def _denied(self, number: int, request: EgressRequest, authority: Authority, verdict: Verdict) -> EgressStream:
        code = verdict.code or "egress_path_blocked"
        status = 409 if code == "secret_unavailable" else 403
        self._record(
            "egress.denied",
            n=number,
            connection=_shown(request.connection),
            method=_shown(request.method),
            path=_shown(request.path),
            authority=authority.name,
            code=code,
            reason=verdict.reason,
            rules=[[rule.rule, rule.permits, rule.reason] for rule in verdict.rules],
        )
        body = json.dumps({"status": status, "error": {"code": code, "message": verdict.reason}}).encode()
        headers = {"content-type": "application/json"}
        return EgressStream(status, headers, iter((body,)), refused=True, code=code, message=verdict.reason)

    def _in_time(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """A server that sends a byte a minute does not outlive the run's clock."""
        for chunk in chunks:
            if self._remaining_s() <= 0:
                raise UpstreamError("read", "the run's time is over")
            yield chunk

    def _pace(self) -> None:
        with self._write_lock:
            if self._last_write is not None:
                pause = self._last_write + self._write_pause_s - self._clock.monotonic()
                if pause > 0:
                    self._clock.sleep(pause)
            self._last_write = self._clock.monotonic()

    def _next(self) -> int:
        with self._count_lock:
            self._count += 1
            return self._count


@dataclass
class _Buffered:
    """An answer that was read because its text decides whether to wait."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def chunks(self) -> Iterator[bytes]:
        yield self.body

    def close(self) -> None:
        """Nothing is open."""


def _buffered(answer: Exchange) -> _Buffered:
    try:
        return _Buffered(answer.status, answer.headers, b"".join(_capped(answer.chunks(), ERROR_CAP, "an error")))
    finally:
        answer.close()


def _address(wire: WireRequest) -> str:
    return wire.url + ("?" + urlencode(wire.query, quote_via=quote, safe="") if wire.query else "")


def _capped(chunks: Iterator[bytes], cap: int, what: str) -> Iterator[bytes]:
    total = 0
    for chunk in chunks:
        total += len(chunk)
        if total > cap:
            raise UpstreamError("read", f"{what} is larger than {cap} bytes")
        yield chunk


def _passed_on(headers: Mapping[str, str]) -> dict[str, str]:
    return {k: v for k, v in headers.items() if k in _PASSED_ON or k.startswith(_PASSED_ON_PREFIXES)}


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= SHOWN else text[:SHOWN] + "…"
