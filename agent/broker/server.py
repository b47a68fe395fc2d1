"""The broker's side of the harness's channel: any bytes give a typed answer or a closed connection.

The harness may be taken over. So: a frame that is no request is answered with `bad_request`; the number of
requests under way is bounded (nobody reads any more, which is back-pressure); notices are handled in order by
whoever reads; and no exception of a handler ends the loop.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from agent.contract.dataclass import dataclass
from agent.contract.errors import AirlockError, Refusal, ToolInputError, UpstreamError
from agent.kernel.channel import Channel, ChannelError, Frame, FrameTooLarge
from agent.kernel.turns import Turns

IN_FLIGHT = 16
NOTICE = "event"  # the one operation that may run in the reader's thread: it does nothing that takes long


@dataclass(frozen=True)
class Call:
    """One request of the harness.

    Attributes:
        op: name of the operation.
        fields: header of the request; every value is hostile.
        payload: raw bytes.
        more: sends one frame of a streamed answer before the final one.
    """

    op: str
    fields: Mapping[str, Any]
    payload: bytes
    more: Callable[[dict[str, Any], bytes], None]

    def text(self, name: str, *, default: str | None = None, cap: int = 1 << 16) -> str:
        """A text field.

        Raises:
            ToolInputError: absent without default, not a text, or longer than cap characters.
        """
        value = self.fields.get(name, default)
        if not isinstance(value, str) or len(value) > cap:
            raise ToolInputError(f"`{name}` must be a text of at most {cap} characters.")
        return value

    def number(self, name: str, *, default: float, low: float, high: float) -> float:
        """A number field, held between low and high."""
        value = self.fields.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or value != value:
            raise ToolInputError(f"`{name}` must be a number.")
        return min(max(value, low), high)

    def texts(self, name: str, *, cap: int = 10_000) -> tuple[str, ...] | None:
        """A list of texts, or None where it is absent."""
        value = self.fields.get(name)
        if value is None:
            return None
        if not isinstance(value, list) or len(value) > cap or not all(isinstance(v, str) for v in value):
            raise ToolInputError(f"`{name}` must be a list of texts.")
        return tuple(value)


Reply = tuple[dict[str, Any], bytes]
Handler = Callable[[Call], Reply]
_Request = tuple[int, str, Handler, Frame]


class Server:
    """Serves one channel until it closes."""

    def __init__(
        self,
        channel: Channel,
        handlers: Mapping[str, Handler],
        *,
        on_fault: Callable[[str, BaseException], None],
    ) -> None:
        """
        Args:
            channel: to the harness.
            handlers: by operation; `event` is a notice, all others are requests.
            on_fault: told of an exception that is a bug of ours, with the operation's name.
        """
        self._channel = channel
        self._handlers = handlers
        self._on_fault = on_fault
        self._turns = Turns(self._read, lambda request: self._run(*request), most=IN_FLIGHT, name="server")
        self._over = threading.Event()
        self._why = "closed"

    def serve(self) -> str:
        """Serve until the peer closes or sends what is no frame; returns why it ended, for the record.

        Handlers that are under way then go on.
        """
        self._turns.start()
        self._over.wait()
        self._channel.close()
        return self._why

    def end(self) -> None:
        """Have `serve` return. Where all threads are busy nobody reads, and so nobody sees that the harness is gone."""
        self._over.set()

    def _read(self) -> _Request | None:
        """The next request; notices are handled on the way."""
        try:
            while not self._over.is_set() and (frame := self._channel.recv()) is not None:
                if (request := self._dispatch(frame)) is not None:
                    return request
        except ChannelError as exc:
            self._why = str(exc)
        self._over.set()
        return None

    def _dispatch(self, frame: Frame) -> _Request | None:
        number = frame.header.get("id")
        op = frame.header.get("op")
        if isinstance(number, bool) or not isinstance(number, int) or not isinstance(op, str):
            self._refuse(0, "bad_request", "a request needs a whole number `id` and a text `op`")
            return None
        handler = self._handlers.get(op)
        if handler is None:
            self._refuse(number, "bad_request", "no such operation")
            return None
        if number == 0 and op != NOTICE:
            self._refuse(0, "bad_request", "only an event may go without an answer")
            return None
        if number == 0:
            self._run(0, op, handler, frame)
            return None
        return number, op, handler, frame

    def _run(self, number: int, op: str, handler: Handler, frame: Frame) -> None:
        def more(fields: dict[str, Any], payload: bytes) -> None:
            self._channel.send({**fields, "id": number, "more": True}, payload)

        try:
            fields, payload = handler(Call(op, frame.header, frame.payload, more))
        except ToolInputError as exc:
            self._refuse(number, "tool_input", str(exc))
        except Refusal as exc:
            self._refuse(number, exc.code, str(exc))
        except UpstreamError as exc:
            # what cannot be recorded is not sent, and another attempt would not be recorded either
            self._refuse(number, "error" if exc.step == "transcript" else "upstream", str(exc))
        except AirlockError as exc:
            self._refuse(number, "error", str(exc))
        except ChannelError:
            return  # the harness is gone; serve() sees it
        except Exception as exc:  # the other server loop: a bug of ours must not be the harness's way out
            self._on_fault(op, exc)
            self._refuse(number, "error", "internal error; it is in the transcript")
        else:
            if number:
                self._answer(number, fields, payload)

    def _answer(self, number: int, fields: dict[str, Any], payload: bytes) -> None:
        try:
            self._channel.send({**fields, "id": number, "ok": True}, payload)
        except FrameTooLarge as exc:
            self._refuse(number, "error", f"It was done, but the answer is too large to be sent: {exc}")
        except ChannelError:
            return  # the harness is gone; serve() sees it

    def _refuse(self, number: int, code: str, message: str) -> None:
        with suppress(ChannelError):
            self._channel.send({"id": number, "ok": False, "error": {"code": code, "message": message}})
