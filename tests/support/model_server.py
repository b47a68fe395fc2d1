"""A model provider on loopback: a real HTTP server that speaks three APIs from one script of neutral turns.

    with ModelServer([Turn(calls=[Call("read_file", {"path": "a"})]), Turn("done")]) as server:
        ... server.url + "/v1/messages"

It refuses what the real APIs refuse (repeated ids, blank text, missing results, thoughts not sent back), so a
client that passes here has the shapes right. It records every request. It needs no test framework.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import urlsplit

from tests.support.model_dialects import Anthropic, Chat, Event, Invalid, Responses
from tests.support.model_turns import Call, Cut, Inside, Raw, Recorded, Script, Slow, Status, Turn

__all__ = ["Call", "Cut", "Inside", "ModelServer", "Raw", "Recorded", "Slow", "Status", "Turn"]

PATHS = {"anthropic": "/v1/messages", "openai-chat": "/v1/chat/completions", "openai-responses": "/v1/responses"}


class ModelServer:
    """One scripted provider.

    Args:
        script: turns in order (each may be a function of the request), or one function for all requests. After
            the last turn it says `done`.
        key: when set, a request without it (x-api-key, api-key or bearer) gets 401.
        output_field: when set, Chat Completions takes the output limit by this name alone.
        delay_s: time before each answer.
        host: address to listen on.
    """

    def __init__(
        self,
        script: Script = (),
        *,
        key: str = "",
        output_field: str = "",
        delay_s: float = 0.0,
        host: str = "127.0.0.1",
    ) -> None:
        self.requests: list[Recorded] = []
        self.key, self.delay_s = key, delay_s
        self.stopping = threading.Event()
        self._turns = self._each(script)
        self._lock = threading.Lock()
        self._calls = 0
        self.dialects = (Anthropic(), Chat(output_field), Responses())
        outer = self

        class Handler(_Handler):
            server_model = outer

        self._http = _Http((host, 0), Handler)
        self.url = f"http://{host}:{self._http.server_port}"

    @staticmethod
    def _each(script: Script) -> Iterator[Turn | Callable[[Recorded], Turn]]:
        if callable(script):
            while True:
                yield script
        yield from script
        while True:
            yield Turn("done")

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopping.set()
        self._http.shutdown()
        self._http.server_close()

    def add(self, turns: Iterable[Turn]) -> None:
        """Say these turns before what is left of the script."""
        rest = self._turns

        def chained() -> Iterator[Turn | Callable[[Recorded], Turn]]:
            yield from turns
            yield from rest

        self._turns = chained()

    def next_turn(self, request: Recorded) -> Turn:
        with self._lock:
            turn = next(self._turns)
        return turn(request) if callable(turn) else turn

    def new_ids(self, turn: Turn) -> list[str]:
        with self._lock:
            ids = []
            for call in turn.calls:
                self._calls += 1
                ids.append(f"call_{self._calls:04d}" if call.id is None else call.id)
            return ids

    def record(self, request: Recorded) -> None:
        with self._lock:
            self.requests.append(request)


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._open: set[Any] = set()

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def server_close(self) -> None:
        """Also the connections that clients keep: thousands of tests share one process and its descriptors."""
        super().server_close()
        for request in [*self._open]:
            with contextlib.suppress(OSError):
                request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is part of the tests."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    server_model: ModelServer

    def log_message(self, format: str, *args: Any) -> None:
        """Silent."""

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        url = urlsplit(self.path)
        dialect = next((d for d in self.server_model.dialects if url.path.endswith(d.path)), None)
        try:
            body = json.loads(raw, parse_constant=_no_number)
        except ValueError:
            body = {}
        request = Recorded(url.path, url.query, headers, raw, body)
        if dialect is None:
            return self._json(request, 404, {"error": {"message": f"no such path: {url.path}"}})
        if self.server_model.key and self.server_model.key not in _keys(headers):
            return self._json(request, 401, dialect.error(401, "", "invalid x-api-key"))
        try:
            dialect.check(body, headers)
        except Invalid as exc:
            return self._json(request, 400, dialect.error(400, exc.code, str(exc), exc.param))
        self.server_model.stopping.wait(self.server_model.delay_s)
        return self._turn(request, dialect, self.server_model.next_turn(request))

    def _turn(self, request: Recorded, dialect: Any, turn: Turn) -> None:
        fault = turn.fault
        if isinstance(fault, Status):
            default = json.dumps(dialect.error(fault.status, fault.type, fault.message)).encode()
            body = default if fault.body is None else fault.body
            return self._bytes(request, fault.status, body, "application/json", fault.headers)
        if isinstance(fault, Raw):
            return self._bytes(request, fault.status, fault.body, fault.content_type)
        turn = dataclasses.replace(turn, calls=tuple(turn.calls))
        model, ids, size = str(request.json.get("model")), self.server_model.new_ids(turn), len(request.raw)
        if not request.json.get("stream"):
            if isinstance(fault, Inside):
                return self._json(request, 200, dict(dialect.inside(fault)[1]))
            return self._json(request, 200, dialect.whole(turn, ids, model, size))
        events = dialect.events(turn, ids, model, size)
        if isinstance(fault, Inside):
            events = self._then_error(events, fault.events, dialect.inside(fault))
        return self._stream(request, events, fault)

    @staticmethod
    def _then_error(events: Iterator[Event], count: int, error: Event) -> Iterator[Event]:
        for _ in range(count):
            yield next(events)
        yield error

    def _stream(self, request: Recorded, events: Iterator[Event], fault: Any) -> None:
        self._head(request, 200, {"content-type": "text/event-stream; charset=utf-8", "transfer-encoding": "chunked"})
        for number, (name, data) in enumerate(events):
            if isinstance(fault, Cut) and number == fault.events:
                break
            if isinstance(fault, Slow) and number == fault.events:
                self.wfile.flush()
                self.server_model.stopping.wait(fault.seconds)
            text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
            line = (f"event: {name}\n" if name else "") + f"data: {text}\n\n"
            chunk = line.encode()
            self.wfile.write(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n")
        if isinstance(fault, Cut) and not fault.clean:
            self.wfile.flush()
            self.close_connection = True
            with contextlib.suppress(OSError):
                self.connection.shutdown(2)
            return
        self.wfile.write(b"0\r\n\r\n")
        self.wfile.flush()

    def _json(self, request: Recorded, status: int, value: Mapping[str, Any]) -> None:
        self._bytes(request, status, json.dumps(value).encode(), "application/json")

    def _bytes(
        self, request: Recorded, status: int, body: bytes, kind: str, headers: Mapping[str, str] | None = None
    ) -> None:
        self._head(request, status, {"content-type": kind, "content-length": str(len(body)), **(headers or {})})
        self.wfile.write(body)
        self.wfile.flush()

    def _head(self, request: Recorded, status: int, headers: Mapping[str, str]) -> None:
        self.server_model.record(dataclasses.replace(request, status=status))
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is not JSON")


def _keys(headers: Mapping[str, str]) -> set[str]:
    bearer = headers.get("authorization", "").removeprefix("Bearer ")
    return {bearer, headers.get("x-api-key", ""), headers.get("api-key", "")}
