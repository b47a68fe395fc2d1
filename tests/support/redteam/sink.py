"""A listener that records whatever tries to leave: TCP connections, UDP datagrams, name look-ups."""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType
from typing import Self


class Sink:
    """Listens on loopback; with `whole_machine` also on UDP 53 and on the metadata address (inside namespaces).

    Attributes:
        seen: one line for each thing that came, first word tcp, udp or dns.
    """

    def __init__(self, *, whole_machine: bool = False) -> None:
        self.seen: list[str] = []
        self._sockets: list[socket.socket] = []
        self._closed = False
        tcp = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.host, self.port = "127.0.0.1", int(tcp.getsockname()[1])
        self._start(tcp, "tcp")
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        udp.bind(("127.0.0.1", self.port))
        self._start(udp, "udp")
        if whole_machine:
            for kind, address in (("dns", ("127.0.0.1", 53)), ("tcp", ("169.254.169.254", 80))):
                with contextlib.suppress(OSError):
                    if kind == "dns":
                        extra = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                        extra.bind(address)
                    else:
                        extra = socket.create_server(address, backlog=16)
                    self._start(extra, kind)

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    def _start(self, sock: socket.socket, kind: str) -> None:
        self._sockets.append(sock)
        target = self._accept if kind == "tcp" else self._datagrams
        threading.Thread(target=target, args=(sock, kind), daemon=True).start()

    def _accept(self, sock: socket.socket, kind: str) -> None:
        while True:
            try:
                peer, _ = sock.accept()
            except OSError:
                return
            place = len(self.seen)
            self.seen.append(f"{kind} {sock.getsockname()} connected")
            threading.Thread(target=self._answer, args=(peer, place), daemon=True).start()

    def _answer(self, peer: socket.socket, place: int) -> None:
        with contextlib.suppress(OSError), peer:
            peer.settimeout(2)
            data = peer.recv(65536)
            self.seen[place] += " " + data.decode("utf-8", "replace")
            peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")

    def _datagrams(self, sock: socket.socket, kind: str) -> None:
        while True:
            try:
                data, _ = sock.recvfrom(65536)
            except OSError:
                return
            if self._closed:
                return
            self.seen.append(f"{kind} {data.decode('utf-8', 'replace')}")

    def close(self) -> None:
        self._closed = True
        for sock in self._sockets:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
