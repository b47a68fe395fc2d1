"""A scripted HTTP server on loopback: it answers what a test tells it and keeps what it was sent, byte for byte."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Seen:
    """One request as it came over the wire. Header names in lower case."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Stub:
    """The server.

    Attributes:
        answer: gives the raw bytes of each answer, in pieces; an empty list hangs up without an answer.
        seen: requests so far.
        connections: connections accepted so far.
    """

    port: int = 0
    answer: Callable[[Seen], list[bytes | Callable[[], None]]] = field(default=lambda seen: [reply()])
    seen: list[Seen] = field(default_factory=list)
    connections: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


def reply(body: bytes = b"{}", status: int = 200, **headers: str) -> bytes:
    """An answer with Content-Length; underscores in header names become hyphens."""
    lines = [f"HTTP/1.1 {status} X", f"content-length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


@contextmanager
def serving(tls: ssl.SSLContext | None = None) -> Iterator[Stub]:
    """Run a stub until the block ends."""
    stub = Stub()
    listener = socket.create_server(("127.0.0.1", 0))
    stub.port = listener.getsockname()[1]

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            stub.connections += 1
            threading.Thread(target=_serve, args=(stub, connection, tls), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield stub
    finally:
        listener.shutdown(socket.SHUT_RDWR)  # wakes the thread in accept, which would keep the port open
        listener.close()


def _serve(stub: Stub, connection: socket.socket, tls: ssl.SSLContext | None) -> None:
    try:
        if tls is not None:
            connection = tls.wrap_socket(connection, server_side=True)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection, connection.makefile("rb") as reader:
            while (seen := _read(reader)) is not None:
                stub.seen.append(seen)
                pieces = stub.answer(seen)
                if not pieces:
                    return
                for piece in pieces:
                    if callable(piece):
                        piece()
                    else:
                        connection.sendall(piece)
                if b"connection: close" in b"".join(p for p in pieces if isinstance(p, bytes))[:4096].lower():
                    return
    except OSError:
        return  # the client hung up, which tests do on purpose


def _read(reader: object) -> Seen | None:
    readline = reader.readline  # type: ignore[attr-defined]
    first = readline().decode("latin-1").split()
    if len(first) < 2:
        return None
    headers: dict[str, str] = {}
    while line := readline().decode("latin-1").strip():
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    body = reader.read(int(headers.get("content-length", "0")))  # type: ignore[attr-defined]
    return Seen(first[0], first[1], headers, body)
