"""A model server in a process of its own that does as little as can be: raw sockets, answers made before.

It says when each request was there and when its answer was gone, by the machine's monotonic clock, which all
processes share. What lies between an answer and the next request is the harness's own cost of a turn.
"""

from __future__ import annotations

import json
import multiprocessing
import socket
import threading
import time
from collections.abc import Mapping
from multiprocessing.connection import Connection
from typing import Any, NamedTuple, Self

PATH = "/v1/messages"


class Mark(NamedTuple):
    """One request: seconds of the monotonic clock when it had arrived and when its answer was sent, and its bytes."""

    came: float
    answered: float
    size: int


class ModelProcess:
    """One scripted Messages server."""

    def __enter__(self) -> Self:
        context = multiprocessing.get_context("spawn")  # not a copy of this process and of what it has loaded
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs,), daemon=True)
        self._process.start()
        self.port: int = self._pipe.recv()
        self.url = f"http://127.0.0.1:{self.port}"
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.join()

    def play(self, turns: int, tool: str, argument: str, text: str) -> None:
        """From now on: `turns` calls of one tool, then the end.

        Args:
            turns: calls.
            tool: its name.
            argument: name of its one argument.
            text: the argument; `{n}` in it is the turn's number, so that no call repeats another.
        """
        calls = [(tool, {argument: text.replace("{n}", str(turn))}) for turn in range(1, turns + 1)]
        self._pipe.send(calls)
        self._pipe.recv()

    def marks(self) -> list[Mark]:
        """What has come since `play`."""
        self._pipe.send(None)
        marks: list[Mark] = self._pipe.recv()
        return marks


class _Script:
    def __init__(self) -> None:
        self.answers: list[bytes] = []
        self.marks: list[Mark] = []

    def next(self) -> bytes:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


def _serve(pipe: Connection) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    script = _Script()
    threading.Thread(target=_accept, args=(listener, script), daemon=True).start()
    pipe.send(listener.getsockname()[1])
    while True:
        calls = pipe.recv()
        if calls is None:
            pipe.send(script.marks)
            continue
        script.answers = [*(_call(n, tool, arguments) for n, (tool, arguments) in enumerate(calls)), _last()]
        script.marks = []
        pipe.send(None)


def _accept(listener: socket.socket, script: _Script) -> None:
    while True:
        link, _ = listener.accept()
        threading.Thread(target=_talk, args=(link, script), daemon=True).start()


def _talk(link: socket.socket, script: _Script) -> None:
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with link, link.makefile("rb") as reader:
        while got := head(reader):
            size = int(got.get(b"content-length", b"0"))
            reader.read(size)
            came = time.monotonic()
            link.sendall(script.next())
            script.marks.append(Mark(came, time.monotonic(), size))


def head(reader: Any) -> dict[bytes, bytes]:
    """Headers of the next request by lower-case name; empty at the end."""
    found: dict[bytes, bytes] = {}
    while (line := reader.readline().strip()) or not found:
        if not line:
            return found
        name, _, value = line.partition(b":")
        found[name.lower()] = value.strip()
    return found


def _call(number: int, tool: str, arguments: Mapping[str, str]) -> bytes:
    block = {"type": "tool_use", "id": f"toolu_{number:06d}", "name": tool, "input": {}}
    return _stream(block, {"type": "input_json_delta", "partial_json": json.dumps(arguments)}, "tool_use")


def _last() -> bytes:
    return _stream({"type": "text", "text": ""}, {"type": "text_delta", "text": "Done."}, "end_turn")


def _stream(block: Mapping[str, Any], delta: Mapping[str, Any], stop: str) -> bytes:
    events = [
        {"type": "message_start", "message": {"model": "m", "usage": {"input_tokens": 9, "output_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 9}},
        {"type": "message_stop"},
    ]
    body = b"".join(b"event: %s\ndata: %s\n\n" % (str(e["type"]).encode(), json.dumps(e).encode()) for e in events)
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n" % len(body)
    return head + body
