"""The listeners: a threading HTTP server that hands every request, whatever its form, to one function."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from .routing import Reply


@dataclass
class Received:
    """One request as it came in. `raw_path` is the target as sent, query included."""

    host: str
    method: str
    raw_path: str
    headers: list[tuple[str, str]]
    body: bytes
    listener: str
    path: str = ""
    query: str = ""
    status: int = 0
    allowed_auth: bool = False
    injected: bool = False
    extra: dict[str, Any] = field(default_factory=dict)

    def header(self, name: str) -> str:
        return next((v for k, v in self.headers if k.lower() == name.lower()), "")

    @property
    def header_lines(self) -> str:
        return "\n".join(f"{k}: {v}" for k, v in self.headers)

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")

    @property
    def json(self) -> Any:
        """The body parsed, or None."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news."""


class Drop(Exception):
    """The connection is to be closed without an answer."""


class Listener:
    """One bound port. `answer(received) -> Reply`; a body that is a Path is streamed from the file."""

    def __init__(self, name: str, answer: Callable[[Received], Reply], host: str = "127.0.0.1", port: int = 0) -> None:
        self.name = name

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            server_version = "GitHubSim"
            wbufsize = -1

            def setup(self) -> None:
                super().setup()
                self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

            def __getattr__(self, name: str) -> Any:
                if name.startswith("do_"):
                    return self.any_method
                raise AttributeError(name)

            def log_message(self, *args: object) -> None:
                """Silent: the sim keeps its own record."""

            def any_method(self) -> None:
                received = Received(
                    self.headers.get("Host", ""),
                    self.command,
                    self.requestline.split(" ")[1],  # as sent: the base class tidies leading slashes
                    [(k, v) for k, v in self.headers.items()],
                    self._body(),
                    name,
                )
                try:
                    reply = answer(received)
                except Drop:
                    self.close_connection = True
                    with contextlib.suppress(OSError):
                        self.connection.shutdown(socket.SHUT_RDWR)
                    return
                self._send(reply)

            def _body(self) -> bytes:
                if "chunked" in self.headers.get("Transfer-Encoding", "").lower():
                    data = io.BytesIO()
                    while size := int(self.rfile.readline().split(b";")[0] or b"0", 16):
                        data.write(self.rfile.read(size))
                        self.rfile.readline()
                    self.rfile.readline()
                    return data.getvalue()
                length = self.headers.get("Content-Length", "0")
                return self.rfile.read(int(length)) if length.isdigit() else b""

            def _send(self, reply: Reply) -> None:
                body = reply.body
                if body is None:
                    data: bytes | Path = b""
                elif isinstance(body, bytes | Path):
                    data = body
                elif isinstance(body, str):
                    data = body.encode("utf-8", "surrogateescape")
                else:
                    data = json.dumps(body).encode()
                size = data.stat().st_size if isinstance(data, Path) else len(data)
                self.send_response(reply.status)
                names = {k.lower() for k in reply.headers}
                if body is not None and "content-type" not in names:
                    self.send_header("Content-Type", reply.content_type)
                for key, value in reply.headers.items():
                    self.send_header(key, value)
                if reply.status not in (204, 304) and "content-length" not in names:
                    self.send_header("Content-Length", str(size))
                self.end_headers()
                if self.command != "HEAD" and reply.status not in (204, 304):
                    if isinstance(data, Path):
                        with data.open("rb") as source:
                            shutil.copyfileobj(source, self.wfile, 1 << 18)
                    else:
                        self.wfile.write(data)
                self.wfile.flush()

        self._server = _Server((host, port), Handler)
        self.host, self.port = self._server.server_address[0], self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    @property
    def netloc(self) -> str:
        return f"{self.host if isinstance(self.host, str) else self.host.decode()}:{self.port}"

    @property
    def url(self) -> str:
        return f"http://{self.netloc}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)
