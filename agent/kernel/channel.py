"""The framed channel between zones, over one inherited stream socket.

A frame is two big-endian 32-bit lengths, a JSON object (the header) and raw bytes (the payload). Both
lengths are capped before anything is allocated, so that a hostile peer can make this side neither grow
nor fail in any way but `ChannelError`.

A request header is `{"id": n, "op": name, ...}`. The answer is any number of `{"id": n, "more": true}`
frames (a streamed body) and one final `{"id": n, "ok": true, ...}` or
`{"id": n, "ok": false, "error": {"code": ..., "message": ...}}`. A request with id 0 is a notice and has
no answer.
"""

from __future__ import annotations

import json
import queue
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from typing import Any

from agent.contract.dataclass import dataclass, field

HEADER_CAP = 1 << 20  # a tool call's arguments with a file's text fit; larger texts go in the payload
PAYLOAD_CAP = 64 << 20  # a model request of a full context window is below 8 MB

_LENGTHS = struct.Struct(">II")
_ENCODE = json.JSONEncoder(separators=(",", ":")).encode


class ChannelError(Exception):
    """The peer is gone or sent something that is no frame."""


class FrameTooLarge(ChannelError):
    """A frame of our own is over a cap; nothing was sent, the channel is whole."""


@dataclass(frozen=True)
class Frame:
    """One message: JSON object and raw bytes."""

    header: dict[str, Any]
    payload: bytes = b""


class Channel:
    """Frames over a connected stream socket. `send` may be called from several threads, `recv` from one."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._lock = threading.Lock()
        self._reader = sock.makefile("rb", buffering=65536)

    @classmethod
    def from_fd(cls, fd: int) -> Channel:
        """Take over an inherited descriptor."""
        return cls(socket.socket(fileno=fd))

    def fileno(self) -> int:
        return self._sock.fileno()

    def send(self, header: dict[str, Any], payload: bytes = b"") -> None:
        """Send one frame.

        Raises:
            ChannelError: the frame is over a cap, or the peer is gone.
        """
        head = _ENCODE(header).encode()
        if len(head) > HEADER_CAP or len(payload) > PAYLOAD_CAP:
            raise FrameTooLarge(f"frame too large: header {len(head)} bytes, payload {len(payload)} bytes")
        data = _LENGTHS.pack(len(head), len(payload)) + head
        try:
            with self._lock:
                if len(payload) < 65536:
                    self._sock.sendall(data + payload)
                else:
                    self._sock.sendall(data)
                    self._sock.sendall(payload)
        except OSError as exc:
            raise ChannelError(f"peer is gone: {exc.strerror}") from exc

    def recv(self) -> Frame | None:
        """Read one frame; None at a clean end.

        Raises:
            ChannelError: not a frame, over a cap, not a JSON object, or cut off.
        """
        lengths = self._read(_LENGTHS.size, at_start=True)
        if lengths is None:
            return None
        head_len, payload_len = _LENGTHS.unpack(lengths)
        if head_len > HEADER_CAP or payload_len > PAYLOAD_CAP:
            raise ChannelError("a frame's length is over the cap")
        head = self._read(head_len)
        payload = self._read(payload_len)
        try:
            header = json.loads((head or b"").decode())
        except (ValueError, RecursionError) as exc:
            raise ChannelError("a frame's header is not JSON") from exc
        if not isinstance(header, dict):
            raise ChannelError("a frame's header is not an object")
        return Frame(header, payload or b"")

    def _read(self, size: int, *, at_start: bool = False) -> bytes | None:
        if size == 0:
            return b""
        try:
            data: bytes | None = self._reader.read(size)
        except (OSError, ValueError) as exc:  # a ValueError where this side was closed meanwhile
            raise ChannelError(f"peer is gone: {exc}") from exc
        if at_start and not data:
            return None
        if data is None or len(data) < size:
            raise ChannelError("cut off inside a frame")
        return data

    def close(self) -> None:
        """Close both directions; a peer blocked in `recv` sees the end."""
        try:
            self._sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # already closed by the peer
        self._reader.close()
        self._sock.close()


class CallFailed(Exception):
    """The peer answered `ok: false`.

    Attributes:
        code: stable name, such as `egress_path_blocked` or `tool_input`.
        data: the rest of the error object.
    """

    def __init__(self, code: str, message: str, data: dict[str, Any]) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


@dataclass
class _Pending:
    frames: queue.SimpleQueue[Frame | None] = field(default_factory=queue.SimpleQueue)


class Caller:
    """Requests over a channel, from any number of threads; one thread of its own reads the answers."""

    def __init__(self, channel: Channel, *, on_notice: Callable[[dict[str, Any]], None] | None = None) -> None:
        """
        Args:
            on_notice: told the header of each frame that answers nothing, in the reader's thread.
        """
        self._channel = channel
        self._on_notice = on_notice
        self._lock = threading.Lock()
        self._pending: dict[int, _Pending] = {}
        self._next = 0
        self._dead: str | None = None
        threading.Thread(target=self._read, name="channel-reader", daemon=True).start()

    def notice(self, op: str, payload: bytes = b"", **fields: Any) -> None:
        """Send without an answer."""
        self._channel.send({"id": 0, "op": op, **fields}, payload)

    def call(self, op: str, payload: bytes = b"", **fields: Any) -> Frame:
        """Send and wait for the final answer; a streamed body is joined into its payload.

        Raises:
            CallFailed: the peer answered with an error.
            ChannelError: the peer is gone.
        """
        parts: list[bytes] = []
        final: Frame | None = None
        for frame in self.stream(op, payload, **fields):
            final = frame
            parts.append(frame.payload)
        if final is None:
            raise ChannelError("no answer")
        return final if len(parts) == 1 else Frame(final.header, b"".join(parts))

    def stream(self, op: str, payload: bytes = b"", **fields: Any) -> Iterator[Frame]:
        """Send and yield each frame of the answer; the last one carries `ok: true`.

        Raises:
            CallFailed, ChannelError: as `call`.
        """
        pending = _Pending()
        with self._lock:
            if self._dead is not None:
                raise ChannelError(self._dead)
            self._next += 1
            number = self._next
            self._pending[number] = pending
        try:
            self._channel.send({"id": number, "op": op, **fields}, payload)
            while True:
                frame = pending.frames.get()
                if frame is None:
                    raise ChannelError(self._dead or "the peer is gone")
                if frame.header.get("more"):
                    yield frame
                    continue
                if frame.header.get("ok"):
                    yield frame
                    return
                error = frame.header.get("error") or {}
                raise CallFailed(str(error.get("code", "error")), str(error.get("message", "")), error)
        finally:
            with self._lock:
                self._pending.pop(number, None)

    def _read(self) -> None:
        reason = "the peer closed the channel"
        try:
            while (frame := self._channel.recv()) is not None:
                with self._lock:
                    number = frame.header.get("id")
                    pending = self._pending.get(number) if isinstance(number, int) else None
                if pending is not None:
                    pending.frames.put(frame)
                elif self._on_notice is not None:
                    self._on_notice(frame.header)
        except ChannelError as exc:
            reason = str(exc)
        with self._lock:
            self._dead = reason
            waiting = list(self._pending.values())
        for pending in waiting:
            pending.frames.put(None)
