"""From one allowed request to one answer: pace, rate limits, faulty servers, declared redirects."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any, Protocol
from urllib.parse import quote, urlencode, urlsplit

from agent.broker.egress.answers import capped
from agent.broker.egress.limits import ATTEMPTS, SERVER_FAULT_S, WRITE_PAUSE_S, rate_limit_wait
from agent.broker.egress.pace import Pace
from agent.broker.egress.redirects import STATUSES, Blocked, Elsewhere, follow
from agent.broker.egress.transport import Dropped, Exchange, Transport
from agent.broker.policy.builtin import GITHUB
from agent.broker.policy.decide import Policy
from agent.broker.policy.words import Authority, WireRequest
from agent.contract.dataclass import dataclass

ERROR_CAP = 1 << 20  # bytes read of an answer that is an error
MARGIN_S = 5.0  # a wait that ends this near to the run's end is not worth it


class Record(Protocol):
    """Writes one transcript event."""

    def __call__(self, type: str, /, **data: Any) -> None: ...


class Clock(Protocol):
    """What tests replace."""

    def now(self) -> float:
        """Seconds since the epoch."""

    def monotonic(self) -> float: ...

    def sleep(self, seconds: float) -> None: ...


class RealClock:
    """The machine's."""

    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)
    sleep = staticmethod(time.sleep)


@dataclass(frozen=True)
class Sending:
    """One allowed request on its way.

    Attributes:
        number: for the record.
        headers: complete, the secret among them; so it has no representation.
        timeout_s: the caller's own patience, or None.
        left_s: seconds of the run's clock that it may take, waits among them.
    """

    number: int
    connection: str
    authority: Authority
    wire: WireRequest
    headers: Mapping[str, str]
    timeout_s: float | None
    left_s: float

    def __repr__(self) -> str:
        return f"Sending({self.number}, {self.connection!r}, {self.wire.method!r})"


class Attempts:
    """Sends until there is an answer that waiting would not change. Safe for several threads."""

    def __init__(
        self,
        policy: Policy,
        transport: Transport,
        *,
        record: Record,
        clock: Clock,
        write_pause_s: float = WRITE_PAUSE_S,
    ) -> None:
        self._policy = policy
        self._transport = transport
        self._record = record
        self._clock = clock
        self._pace = Pace(write_pause_s, monotonic=clock.monotonic, sleep=clock.sleep)

    def answer(self, sending: Sending) -> Exchange | Blocked:
        """The answer, or why its redirect was not followed.

        Raises:
            UpstreamError: no answer.
        """
        started = self._clock.monotonic()
        for attempt in range(ATTEMPTS):
            if sending.connection == GITHUB:
                self._pace.wait(sending.wire.method, sending.wire.url)
            answer = self._once(sending)
            if isinstance(answer, Blocked):
                return answer
            wait, answer = self._wait(sending, answer, attempt)
            patience = min(sending.left_s - MARGIN_S, sending.timeout_s or float("inf"))
            spent = self._clock.monotonic() - started
            if wait is None or spent + wait > patience or attempt == ATTEMPTS - 1:
                break
            known = {}
            if not isinstance(answer, Dropped):
                known["status"] = answer.status
                answer.close()
            self._record("egress.wait", n=sending.number, seconds=round(wait, 1), **known)
            self._clock.sleep(wait)
        if isinstance(answer, Dropped):
            raise answer
        return answer

    def _once(self, sending: Sending) -> Exchange | Blocked | Dropped:
        try:
            return self._follow(sending)
        except Dropped as exc:
            return exc

    def _wait(
        self, sending: Sending, answer: Exchange | Dropped, attempt: int
    ) -> tuple[float | None, Exchange | Dropped]:
        """How long to wait before asking again, or None where that would change nothing or might do it twice."""
        if isinstance(answer, Dropped) or answer.status >= 500:
            again = sending.wire.repeatable and attempt < len(SERVER_FAULT_S)
            return (SERVER_FAULT_S[attempt] if again else None), answer
        if answer.status in (403, 429) and sending.connection == GITHUB:
            read = _read(answer)
            return rate_limit_wait(read.status, read.headers, read.body, self._clock.now()), read
        return None, answer

    def _follow(self, sending: Sending) -> Exchange | Blocked:
        """Send once, and follow the redirects that are declared."""
        wire, connection = sending.wire, self._policy.connection(sending.connection)
        url, headers, hops = address(wire), sending.headers, 0
        while True:
            timeout = min(wire.timeout_s, sending.timeout_s or wire.timeout_s, max(1.0, sending.left_s))
            answer = self._transport.send(wire.method, url, headers, wire.body, timeout)
            location = answer.headers.get("location")
            if answer.status not in STATUSES or location is None:
                return answer
            answer.close()
            target = follow(wire, connection, url, location, hops)
            hops += 1
            if isinstance(target, Blocked):
                return target
            if isinstance(target, Elsewhere):
                # No Authorization: the address is signed, and the host is not the API's.
                url, headers = target.url, {"user-agent": sending.headers.get("user-agent", "")}
                self._record("egress.redirect", n=sending.number, to=urlsplit(url).netloc)
                continue
            verdict = self._policy.check(target, sending.authority)
            if verdict.wire is None:
                return Blocked(f"a redirect that the policy does not allow ({verdict.code})")
            url, headers = address(verdict.wire), sending.headers
            self._record("egress.redirect", n=sending.number, to=target.path)


@dataclass
class _Read:
    """An answer that was read because its text decides whether to wait."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def chunks(self) -> Iterator[bytes]:
        yield self.body

    def close(self) -> None:
        """Nothing is open."""


def _read(answer: Exchange) -> _Read:
    try:
        return _Read(answer.status, answer.headers, b"".join(capped(answer.chunks(), ERROR_CAP)))
    finally:
        answer.close()


def address(wire: WireRequest) -> str:
    """The complete address of a request."""
    return wire.url + ("?" + urlencode(wire.query, quote_via=quote, safe="") if wire.query else "")
