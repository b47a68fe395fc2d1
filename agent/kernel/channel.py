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
import select
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from agent.contract.dataclass import dataclass

HEADER_CAP = 1 << 20  # a tool call's arguments with a file's text fit; larger texts go in the payload
PAYLOAD_CAP = 64 << 20  # a model request of a full context window is below 8 MB
HELD_CAP = 1 << 15  # bytes of frames that wait for the next one
TICK_S = 0.1  # between two calls of `waiting`

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
    """Frames over a connected stream socket. `send` may be called from several threads, `recv` from one at a time."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._lock = threading.Lock()
        self._held = b""
        self._unread = bytearray()

    @classmethod
    def from_fd(cls, fd: int) -> Channel:
        """Take over an inherited descriptor."""
        return cls(socket.socket(fileno=fd))

    def fileno(self) -> int:
        return self._sock.fileno()

    def send(self, header: dict[str, Any], payload: bytes = b"", *, hold: bool = False) -> None:
        """Send one frame.

        Args:
            hold: it goes with the next one: each write wakes the peer, which costs more than a small frame does.

        Raises:
            ChannelError: the frame is over a cap, or the peer is gone.
        """
        head = _ENCODE(header).encode()
        if len(head) > HEADER_CAP or len(payload) > PAYLOAD_CAP:
            raise FrameTooLarge(f"frame too large: header {len(head)} bytes, payload {len(payload)} bytes")
        data = _LENGTHS.pack(len(head), len(payload)) + head
        try:
            with self._lock:
                data, self._held = self._held + data, b""
                if len(payload) < HELD_CAP:
                    data += payload
                    payload = b""
                    if hold and len(data) < HELD_CAP:
                        self._held = data
                        return
                self._write(data, payload)
        except OSError as exc:
            raise ChannelError(f"peer is gone: {exc.strerror}") from exc

    def _write(self, *parts: bytes) -> None:
        whole = False
        try:
            for part in parts:
                self._sock.sendall(part)
            whole = True
        finally:
            if not whole:  # a KeyboardInterrupt as well: what follows half a frame would be taken for the rest of it
                with suppress(OSError):
                    self._sock.shutdown(socket.SHUT_RDWR)

    def ready(self, seconds: float) -> bool:
        """Wait so long for the start of a frame, or for the end."""
        if self._unread:
            return True
        poll = select.poll()
        try:
            poll.register(self._sock, select.POLLIN)
        except ValueError:
            return True  # closed meanwhile, which `recv` tells
        return bool(poll.poll(seconds * 1000))

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
        unread = self._unread
        while len(unread) < size:
            try:
                data = self._sock.recv(min(max(size - len(unread), 1 << 16), 1 << 20))
            except OSError as exc:
                raise ChannelError(f"peer is gone: {exc.strerror}") from exc
            if not data:
                if at_start and not unread:
                    return None
                raise ChannelError("cut off inside a frame")
            unread += data
        with memoryview(unread) as view:
            part = bytes(view[:size])
        del unread[:size]
        return part

    def close(self) -> None:
        """Close both directions; a peer blocked in `recv` sees the end."""
        try:
            self._sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # already closed by the peer
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


class Caller:
    """Requests over a channel, from any number of threads.

    Whoever waits for an answer reads, one thread at a time, and hands the others theirs: no thread stands between the
    channel and the caller.
    """

    def __init__(self, channel: Channel) -> None:
        """
        Args:
            channel: the peer answers requests on it, and sends nothing else.
        """
        self._channel = channel
        self._turn = threading.Condition()
        self._pending: dict[int, deque[Frame]] = {}
        self._next = 0
        self._dead: str | None = None
        self._reading = False

    def notice(self, op: str, payload: bytes = b"", *, hold: bool = False, **fields: Any) -> None:
        """Send without an answer; `hold` as in `Channel.send`."""
        self._channel.send({"id": 0, "op": op, **fields}, payload, hold=hold)

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

    def stream(
        self, op: str, payload: bytes = b"", *, waiting: Callable[[], None] | None = None, **fields: Any
    ) -> Iterator[Frame]:
        """Send and yield each frame of the answer; the last one carries `ok: true`.

        Args:
            waiting: called about ten times a second while nothing comes; what it raises ends the wait.

        Raises:
            CallFailed, ChannelError: as `call`.
        """
        arrived: deque[Frame] = deque()
        with self._turn:
            if self._dead is not None:
                raise ChannelError(self._dead)
            self._next += 1
            number = self._next
            self._pending[number] = arrived
        try:
            self._channel.send({"id": number, "op": op, **fields}, payload)
            while True:
                frame = self._wait(arrived, waiting)
                if frame.header.get("more"):
                    yield frame
                    continue
                if frame.header.get("ok"):
                    yield frame
                    return
                error = frame.header.get("error") or {}
                raise CallFailed(str(error.get("code", "error")), str(error.get("message", "")), error)
        finally:
            with self._turn:
                self._pending.pop(number, None)

    def _wait(self, arrived: deque[Frame], waiting: Callable[[], None] | None) -> Frame:
        patience = TICK_S if waiting else None
        while True:
            with self._turn:
                if arrived:
                    return arrived.popleft()
                if self._dead is not None:
                    raise ChannelError(self._dead)
                reads = not self._reading
                if reads:
                    self._reading = True
                else:
                    self._turn.wait(patience)
            if reads:
                self._read(patience)
            if waiting and not arrived:
                waiting()

    def _read(self, patience: float | None) -> None:
        """Read one frame for whom it may concern, if it begins in time."""
        frame, end = None, "the reading was broken off"
        try:
            if patience is None or self._channel.ready(patience):
                frame = self._channel.recv()
                end = "the peer closed the channel" if frame is None else ""
            else:
                end = ""
        except ChannelError as exc:
            end = str(exc)
        finally:  # after a KeyboardInterrupt, too: half a frame may be read, and the others must not wait for ever
            with self._turn:
                self._reading = False
                self._dead = self._dead or end or None
                number = frame.header.get("id") if frame is not None else None
                arrived = self._pending.get(number) if isinstance(number, int) else None
                if frame is not None and arrived is not None:
                    arrived.append(frame)
                self._turn.notify_all()
