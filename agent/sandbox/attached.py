"""A container as a session sees it: its attached streams as a channel, its end as a process's."""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import Any


class Attached:
    """The attached streams of a container: input raw, output in the engine's frames of kind and length."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._left = 0

    def settimeout(self, value: float | None) -> None:
        self._sock.settimeout(value)

    def sendall(self, data: bytes) -> None:
        self._sock.sendall(data)

    def recv(self, size: int) -> bytes:
        while self._left == 0:
            header = b""
            while len(header) < 8:
                part = self._sock.recv(8 - len(header))
                if not part:
                    return b""
                header += part
            self._left = int.from_bytes(header[4:], "big")
            if header[0] != 1:  # only standard output is the helper's channel
                raise ConnectionResetError("its engine sent another stream")
        data = self._sock.recv(min(size, self._left))
        self._left -= len(data)
        return data

    def shutdown(self, how: int) -> None:
        self._sock.shutdown(how)

    def close(self) -> None:
        self._sock.close()


class Container:
    """A container as the process that a session waits for."""

    pid = 0

    def __init__(self, client: Any, number: str) -> None:
        self._client = client
        self.number = number

    def wait(self, timeout: float | None = None) -> int:
        from docker.errors import APIError

        with suppress(APIError, OSError):  # the forced removal that follows answers any trouble
            return int(self._client.wait(self.number, timeout=timeout)["StatusCode"])
        return 1

    def kill(self) -> None:
        self.remove()

    def remove(self) -> None:
        from docker.errors import APIError

        with suppress(APIError):  # gone already
            self._client.remove_container(self.number, v=True, force=True)
