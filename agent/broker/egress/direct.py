"""One HTTP/1.1 exchange over `http.client`, connections kept open between requests."""

from __future__ import annotations

import http.client
import select
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from urllib.parse import SplitResult, urlsplit

from agent.broker.egress.inflate import inflate
from agent.broker.egress.transport import CHUNK, CONNECT_TIMEOUT_S, Dropped, Exchange, Reach
from agent.contract.errors import UpstreamError

IDLE = 8  # connections kept for each origin

_Fault = (OSError, http.client.HTTPException, ValueError)


class DirectTransport:
    """Connections straight to the host."""

    def __init__(self, reach: Reach | None = None) -> None:
        self._reach = reach or Reach()
        self._lock = threading.Lock()
        self._idle: dict[str, list[http.client.HTTPConnection]] = {}
        self._context: ssl.SSLContext | None = None

    def send(self, method: str, url: str, headers: Mapping[str, str], body: bytes, timeout_s: float) -> Exchange:
        parts = urlsplit(url)
        step = f"{method} {parts.netloc}"
        kept = self._take(parts)
        if kept is not None:
            try:
                return self._exchange(kept, step, method, parts, headers, body, timeout_s)
            except _Fault as exc:
                kept.close()
                if method != "GET" or isinstance(exc, TimeoutError):
                    # The server may have acted on it, so sending it twice is the caller's decision.
                    raise _no_answer(step, exc) from None
        try:
            fresh = self._open(parts, timeout_s)
            return self._exchange(fresh, step, method, parts, headers, body, timeout_s)
        except _Fault as exc:
            raise _no_answer(step, exc) from None

    def give_back(self, parts: SplitResult, connection: http.client.HTTPConnection) -> None:
        """Keep a connection whose last answer was read to its end."""
        with self._lock:
            idle = self._idle.setdefault(f"{parts.scheme}://{parts.netloc}", [])
            if len(idle) < IDLE:
                idle.append(connection)
                return
        connection.close()

    def _take(self, parts: SplitResult) -> http.client.HTTPConnection | None:
        with self._lock:
            idle = self._idle.get(f"{parts.scheme}://{parts.netloc}", [])
            while idle:
                connection = idle.pop()
                # Bytes or an end before a request was made: the server has hung up meanwhile.
                if connection.sock is not None and not _readable(connection.sock):
                    return connection
                connection.close()
        return None

    def _open(self, parts: SplitResult, timeout_s: float) -> http.client.HTTPConnection:
        wait = min(CONNECT_TIMEOUT_S, timeout_s)
        host = parts.hostname or ""
        connection: http.client.HTTPConnection
        if parts.scheme == "https":
            connection = http.client.HTTPSConnection(host, parts.port, timeout=wait, context=self._tls())
        else:
            connection = http.client.HTTPConnection(host, parts.port, timeout=wait)
        connection.connect()
        return connection

    def _exchange(
        self,
        connection: http.client.HTTPConnection,
        step: str,
        method: str,
        parts: SplitResult,
        headers: Mapping[str, str],
        body: bytes,
        timeout_s: float,
    ) -> Exchange:
        if connection.sock is not None:
            connection.sock.settimeout(timeout_s)
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        connection.putrequest(method, target or "/", skip_accept_encoding=True)
        for name, value in headers.items():
            connection.putheader(name, value)
        if "accept-encoding" not in headers:
            connection.putheader("accept-encoding", "identity")
        if body or method in ("POST", "PUT", "PATCH"):
            connection.putheader("content-length", str(len(body)))
        connection.endheaders(body or None)
        return _Answer(self, step, parts, connection, connection.getresponse())

    def _tls(self) -> ssl.SSLContext:
        with self._lock:
            if self._context is None:
                context = ssl.create_default_context()
                if not context.get_ca_certs() and not self._reach.ca_file:
                    import certifi  # a container without a system store

                    context.load_verify_locations(certifi.where())
                if self._reach.ca_file:
                    context.load_verify_locations(self._reach.ca_file)
                context.minimum_version = ssl.TLSVersion.TLSv1_2
                self._context = context
            return self._context


class _Answer:
    def __init__(
        self,
        transport: DirectTransport,
        step: str,
        parts: SplitResult,
        connection: http.client.HTTPConnection,
        response: http.client.HTTPResponse,
    ) -> None:
        self._transport = transport
        self._step = step
        self._parts = parts
        self._connection: http.client.HTTPConnection | None = connection
        self._response = response
        self.status: int = response.status
        self.headers: Mapping[str, str] = _joined(response)

    def chunks(self) -> Iterator[bytes]:
        if self.headers.get("content-encoding", "identity").lower() == "gzip":
            return inflate(self._raw(), self._step)
        return self._raw()

    def _raw(self) -> Iterator[bytes]:
        response = self._response
        try:
            while chunk := response.read1(CHUNK):
                yield chunk
            if response.length:
                raise UpstreamError(self._step, "the answer was cut off")
        except _Fault as exc:
            raise UpstreamError(self._step, words(exc)) from None
        self._finished()

    def _finished(self) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if self._response.will_close:
            connection.close()
            return
        self._response.close()
        self._transport.give_back(self._parts, connection)

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._response.close()
            connection.close()


def _joined(response: http.client.HTTPResponse) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in response.getheaders():
        lower = name.lower()
        found[lower] = f"{found[lower]}, {value}" if lower in found else value
    return found


def _no_answer(step: str, exc: BaseException) -> UpstreamError:
    """What took time enough already, or would be the same again, is not worth another try."""
    final = isinstance(exc, TimeoutError | ssl.SSLError) or not isinstance(exc, OSError | http.client.HTTPException)
    return (UpstreamError if final else Dropped)(step, words(exc))


def words(exc: BaseException) -> str:
    """What went wrong, without the address: it may carry a signature."""
    if isinstance(exc, TimeoutError):
        return "no answer in time"
    if isinstance(exc, ssl.SSLCertVerificationError):
        return "the server's certificate could not be verified (the input ca-certificates adds one)"
    if isinstance(exc, socket.gaierror):
        return "the host's name could not be resolved"
    if isinstance(exc, ConnectionRefusedError):
        return "the connection was refused"
    if isinstance(exc, ConnectionError | http.client.IncompleteRead):
        return "the connection was cut off"
    return f"the exchange failed ({type(exc).__name__})"


def _readable(sock: socket.socket) -> bool:
    """By poll, which takes any descriptor; select ends at 1,024."""
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))
