"""One running sandbox, seen from the trusted side: requests to its helper over one socket."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import subprocess
import threading
from collections.abc import Callable, Iterable
from typing import Protocol

from agent.contract.errors import ToolInputError, UpstreamError
from agent.contract.sandbox import ExecRequest, ExecResult
from agent.sandbox import protocol

_GRACE_S = 20.0  # beyond a command's own time: killing and reaping a bomb takes the helper a while
_COMMAND_CAP = 120_000  # one argument of exec is limited to 131,071 bytes


class Process(Protocol):
    """The helper's process, or the container it is the first process of."""

    @property
    def pid(self) -> int: ...

    def wait(self, timeout: float | None = None) -> int: ...

    def kill(self) -> None: ...


class Stream(Protocol):
    """The channel to the helper: a socket, or an engine's attached streams."""

    def settimeout(self, value: float | None, /) -> None: ...

    def sendall(self, data: bytes, /) -> None: ...

    def recv(self, size: int, /) -> bytes: ...

    def shutdown(self, how: int, /) -> None: ...

    def close(self) -> None: ...


class Session:
    """A started sandbox. `exec` may be called from several threads; commands run one after another.

    Attributes:
        level: form of confinement in force, such as `root-none`.
        notes: for each stronger form that could not be made, its name and the kernel's words.
    """

    def __init__(self, process: Process, sock: Stream, clean: Callable[[], None]) -> None:
        """Take over a started helper; `clean` removes what was made for it, after its end."""
        self._process = process
        self._sock = sock
        self._clean: Callable[[], None] | None = clean
        self._lock = threading.Lock()
        self.level = ""
        self.notes: tuple[tuple[str, str], ...] = ()

    def begin(self, plan: bytes) -> None:
        """Send the plan and wait until the confinement stands.

        Raises:
            UpstreamError: the helper could not confine itself; the text has the kernel's words.
        """
        kind, body = self._ask(plan, 15.0)
        if kind != b"R":
            raise UpstreamError("start sandbox", body.decode("utf-8", "replace"))
        self.level, *rest = protocol.split(body)
        self.notes = tuple(zip(rest[::2], rest[1::2], strict=False))

    def exec(self, request: ExecRequest) -> ExecResult:
        """Run one command; every process of it is gone when this returns.

        Raises:
            ToolInputError: a folder outside the root, a NUL, or a text too long to start.
            UpstreamError: the sandbox is gone or could not start the command.
        """
        if request.cwd.startswith("/") or ".." in request.cwd.split("/"):
            raise ToolInputError("The command's folder must lie inside the workspace.")
        if len(request.command.encode("utf-8", "surrogateescape")) > _COMMAND_CAP:
            raise ToolInputError(f"The command is longer than {_COMMAND_CAP} bytes. Put it into a script file.")
        try:
            message = protocol.encode_exec(request)
        except ValueError as exc:
            raise ToolInputError("The command holds a NUL character.") from exc
        return self._result(message, request.timeout_s)

    def attempt(self, acts: Iterable[tuple[str, str]]) -> list[int]:
        """Try probe acts under the confinement of a command; returns an errno each, 0 where it worked."""
        result = self._result(protocol.encode_acts(acts), 5.0)
        return [int(line) for line in result.stdout.split()]

    def _result(self, message: bytes, timeout_s: float) -> ExecResult:
        kind, body = self._ask(message, timeout_s + _GRACE_S)
        if kind == b"E":
            text = body.decode("utf-8", "replace")
            if text.startswith("enter folder"):
                raise ToolInputError(f"The command's folder cannot be entered ({text.partition(': ')[2]}).")
            raise UpstreamError("start command", text)
        if kind != b"D":
            raise UpstreamError("sandbox", "its helper answered out of turn")
        try:
            return protocol.decode_done(body)
        except protocol.ProtocolError as exc:
            raise UpstreamError("sandbox", str(exc)) from exc

    def _ask(self, message: bytes, timeout_s: float) -> tuple[bytes, bytes]:
        with self._lock:
            try:
                self._sock.settimeout(timeout_s)
                self._sock.sendall(message)
                length = protocol.LENGTH.unpack(self._read(4))[0]
                if not 1 <= length <= 3 * protocol.MAX_OUTPUT:
                    raise UpstreamError("sandbox", "its helper sent no frame")
                body = self._read(length)
            except OSError as exc:
                # Out of step for good: nothing that comes later may be taken for an answer.
                self._sock.close()
                raise UpstreamError("sandbox", f"its helper is gone ({exc})") from exc
        return body[:1], body[1:]

    def _read(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            part = self._sock.recv(min(size - len(parts), 1 << 20))
            if not part:
                raise ConnectionResetError("it closed its channel")
            parts += part
        return bytes(parts)

    def close(self) -> None:
        """End the sandbox with all its processes and remove what was made for it. Safe to call twice."""
        try:
            self._sock.shutdown(socket.SHUT_RDWR)  # also ends a command that another thread waits for
        except OSError:
            pass  # closed already
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._sock.close()
        clean, self._clean = self._clean, None
        if clean is not None:
            clean()


def remove_tree(folder: str) -> None:
    """Remove a tree whose owner made folders unreadable. No process of the sandbox is alive any more."""

    def open_up(function: Callable[..., object], path: str, _exc: object) -> None:
        parent = os.path.dirname(path)
        try:
            for item in (parent, path):
                if stat.S_ISDIR(os.lstat(item).st_mode):
                    os.chmod(item, 0o700)
            if function is os.unlink:
                os.unlink(path)
            else:
                shutil.rmtree(path, ignore_errors=True)
        except OSError:
            pass  # what cannot be removed stays in the temporary folder

    shutil.rmtree(folder, onerror=open_up)
