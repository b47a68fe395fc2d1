"""What the loop and the wire format cost a turn, beside a bare http.client loop, in one run.

    .venv/bin/python -m tests.benchmarks.loop [turns] [rounds]

One scripted Messages server, in a process of its own, that answers each request with one call of a tool that
gives its argument back. `floor` is a loop written here with http.client and `json.dumps` of each message once;
`dumps` encodes the whole history every turn, as SDK clients do; `loop` is `run_loop` on `ModelClient` over an
http.client transport (no broker, no sandbox). A turn is what passes between two tool results, the server's
answer included; it is the same for all, so that the ratio understates nothing but the difference.
"""

from __future__ import annotations

import http.client
import itertools
import json
import multiprocessing
import socket
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from agent.harness.clients import ModelClient
from agent.harness.loop import Limits, LoopTool, ToolResult, run_loop
from agent.kernel.channel import Frame
from tests.benchmarks.server import head

PATH = "/v1/messages"
POINTS = (25, 100, 200)


def serve(ready: Any) -> None:
    """A server that does as little as can be: raw sockets, answers made before."""
    listener = socket.create_server(("127.0.0.1", 0))
    ready.put(listener.getsockname()[1])
    while True:
        link, _ = listener.accept()
        threading.Thread(target=_talk, args=(link,), daemon=True).start()


def _talk(link: socket.socket) -> None:
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    turn = 0
    with link, link.makefile("rb") as reader:
        while got := head(reader):
            reader.read(int(got.get(b"content-length", b"0")))
            turn += 1
            link.sendall(_answer(turn))


def _answer(turn: int) -> bytes:
    block = {"type": "tool_use", "id": f"toolu_{turn:06d}", "name": "echo", "input": {}}
    delta = {"type": "input_json_delta", "partial_json": json.dumps({"n": turn})}
    events = [
        {"type": "message_start", "message": {"model": "m", "usage": {"input_tokens": 9, "output_tokens": 1}}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 9}},
        {"type": "message_stop"},
    ]
    body = b"".join(b"event: %s\ndata: %s\n\n" % (str(e["type"]).encode(), json.dumps(e).encode()) for e in events)
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n" % len(body)
    return head + body


class Direct:
    """A BrokerPort that is nothing but http.client."""

    def __init__(self, port: int) -> None:
        self._link = http.client.HTTPConnection("127.0.0.1", port)

    def stream(self, _op: str, payload: bytes = b"", **fields: Any) -> Iterator[Frame]:
        self._link.request("POST", fields["path"], payload, fields["headers"])
        answer = self._link.getresponse()
        yield Frame({"status": answer.status, "headers": dict(answer.getheaders()), "more": True})
        yield Frame({"ok": True}, answer.read())

    def call(self, op: str, payload: bytes = b"", **fields: Any) -> Frame:
        raise NotImplementedError

    def notice(self, op: str, payload: bytes = b"", **fields: Any) -> None:
        """Not used here."""


def bare(port: int, turns: int, text: str, *, dumps: bool) -> list[float]:
    """The floor: what anyone would write in twenty lines."""
    link = http.client.HTTPConnection("127.0.0.1", port)
    head = b'{"model":"m","max_tokens":4096,"stream":true,"messages":['
    message: dict[str, Any] = {"role": "user", "content": [{"type": "text", "text": "Do it."}]}
    history, parts, marks = [message], [json.dumps(message).encode()], [time.perf_counter()]
    for _ in range(turns):
        body = json.dumps({"model": "m", "messages": history}).encode() if dumps else head + b",".join(parts) + b"]}"
        link.request("POST", PATH, body, {"content-type": "application/json"})
        call_id, raw = "", ""
        for line in link.getresponse().read().split(b"\n"):
            if not line.startswith(b"data: "):
                continue
            event = json.loads(line[6:])
            if event["type"] == "content_block_start":
                call_id = event["content_block"]["id"]
            elif event["type"] == "content_block_delta":
                raw += event["delta"]["partial_json"]
        use = {"type": "tool_use", "id": call_id, "name": "echo", "input": json.loads(raw)}
        result = {"type": "tool_result", "tool_use_id": call_id, "content": f"{json.loads(raw)['n']} {text}"}
        for message in ({"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}):
            history.append(message)
            parts.append(json.dumps(message).encode())
        marks.append(time.perf_counter())
    return marks


def ours(port: int, turns: int, text: str) -> list[float]:
    """`run_loop` on `ModelClient`."""
    marks = [time.perf_counter()]

    class Log:
        def event(self, name: str, _fields: Mapping[str, Any], /) -> None:
            if name == "tool.result":
                marks.append(time.perf_counter())

    tool = LoopTool("echo", "Echo.", {"type": "object"}, lambda arguments: ToolResult(f"{arguments['n']} {text}"))
    client = ModelClient(Direct(port), [{"wire": "anthropic", "model": "m", "path": PATH}])
    limits = Limits(max_turns=turns)
    run_loop(client, system="Be brief.", task="Do it.", tools=[tool], limits=limits, logger=Log())
    return marks


def at(marks: list[float], turn: int) -> float:
    """Median milliseconds of the turns around one."""
    steps = [(after - before) * 1000 for before, after in itertools.pairwise(marks)]
    return statistics.median(steps[max(0, turn - 10) : turn])


def main() -> None:
    """Print the table."""
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    context = multiprocessing.get_context("spawn")
    ready = context.Queue()
    server = context.Process(target=serve, args=(ready,), daemon=True)
    server.start()
    port = ready.get()
    print(
        f"{'case':22}"
        + "".join(f"{f'turn {point} ms':>14}" for point in POINTS)
        + f"{'growth 200/10':>16}{'x floor':>10}{'CPU ms/turn':>13}{'x floor':>10}"
    )
    for label, text in (("small results", "ok"), ("10 KB results", "x" * 10_000)):
        kinds: dict[str, Callable[[], list[float]]] = {
            "floor": lambda text=text: bare(port, turns, text, dumps=False),  # type: ignore[misc]
            "dumps": lambda text=text: bare(port, turns, text, dumps=True),  # type: ignore[misc]
            "loop": lambda text=text: ours(port, turns, text),  # type: ignore[misc]
        }
        runs: dict[str, list[list[float]]] = {kind: [] for kind in kinds}
        cpu: dict[str, list[float]] = {kind: [] for kind in kinds}
        for _ in range(rounds):  # interleaved, so that the machine's mood hits all
            for kind, work in kinds.items():
                started = time.process_time()
                runs[kind].append(work())
                cpu[kind].append((time.process_time() - started) * 1000 / turns)
        floor = statistics.median(at(marks, turns) for marks in runs["floor"])
        for kind, all_marks in runs.items():
            cells = [statistics.median(at(marks, min(point, turns)) for marks in all_marks) for point in POINTS]
            growth = statistics.median(at(marks, turns) / at(marks, 10) for marks in all_marks)
            row = "".join(f"{cell:14.2f}" for cell in cells)
            used, least = min(cpu[kind]), min(cpu["floor"])  # less of the neighbours' noise than in wall clock
            print(
                f"{kind + ', ' + label:22}{row}{growth:16.2f}{cells[-1] / floor:10.2f}{used:13.2f}{used / least:10.2f}"
            )
    server.kill()


if __name__ == "__main__":
    main()
