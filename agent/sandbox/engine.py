"""Asks the Docker engine about ourselves, without its SDK: one small request, before it is known to be needed."""

from __future__ import annotations

import json
import socket

from agent.contract.errors import UpstreamError
from agent.sandbox.outside import Own, own_number

_CAP = 1 << 20


def own_container(socket_path: str) -> Own | None:
    """Our own container, or None where we run in none.

    Raises:
        UpstreamError: we run in one that this engine does not know.
    """
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
        number = own_number(file.read())
    if number is None:
        return None
    request = f"GET /containers/{number}/json HTTP/1.0\r\nHost: docker\r\n\r\n"
    try:
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(10)
            sock.connect(socket_path)
            sock.sendall(request.encode())
            answer = bytearray()
            while len(answer) < _CAP and (part := sock.recv(65536)):
                answer += part
    except OSError as exc:
        raise UpstreamError("find Docker", f"the engine does not answer ({exc.strerror or exc})") from exc
    head, _, body = bytes(answer).partition(b"\r\n\r\n")
    status = head.split(b" ", 2)[1:2]
    if status != [b"200"]:
        raise UpstreamError("find Docker", "the engine does not know this container")
    try:
        return Own.from_inspect(json.loads(body))
    except (ValueError, KeyError, TypeError) as exc:
        raise UpstreamError("find Docker", "the engine's answer about this container is odd") from exc
