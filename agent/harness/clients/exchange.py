"""One request to a model and its answer, streamed through the broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from agent.contract.dataclass import replace
from agent.harness.clients.faults import Fault, FaultKind, ProviderError, from_status, refused
from agent.harness.clients.sse import SseParser
from agent.harness.clients.wire import Assembler, Wire, estimated, loads, mapping, string
from agent.harness.loop import BudgetError, CancelToken, LlmError, LlmReply, Usage
from agent.harness.ports import BrokerPort
from agent.kernel.channel import CallFailed, ChannelError, Frame

_ANSWER_CAP = 64 << 20
_LINGER_S = 3.0  # after the provider has said that the turn is complete: usage may follow, the end may not


class Exchange:
    """Attributes: wasted: what a failed exchange has cost all the same, as far as the provider said."""

    def __init__(
        self,
        broker: BrokerPort,
        wire: Wire,
        cancel: CancelToken,
        clock: Callable[[], float],
        now: Callable[[], float],
    ) -> None:
        self.wasted = Usage()
        self._broker, self._wire = broker, wire
        self._cancel, self._clock, self._now = cancel, clock, now
        self._sent_bytes = 0
        self._idle_s = 0.0
        self._complete = False  # the provider has said so; what still comes is not waited on for long

    def run(
        self, connection: str, path: str, query: Any, body: bytes, idle_s: float, deadline: float | None
    ) -> LlmReply:
        """Send and wait for a finished turn.

        Raises:
            ProviderError: anything the provider or the way to it did wrong, a cut stream included.
            BudgetError: the broker's own count says that a limit is reached.
            LlmError: the broker is gone.
        """
        self._sent_bytes, self._idle_s = len(body), idle_s
        headers = {"content-type": "application/json", "accept": "text/event-stream", **self._wire.headers}
        fields: dict[str, Any] = {"connection": connection, "method": "POST", "path": path, "headers": headers}
        if query:
            fields["query"] = query
        frames = self._frames(fields, body, deadline)
        first = next(frames, Frame({}))
        header = first.header
        status = header.get("status")
        got_headers = {str(k).lower(): str(v) for k, v in mapping(header.get("headers")).items()}
        if header.get("refused"):
            raise ProviderError(_refusal(b"".join([first.payload, *(frame.payload for frame in frames)])))
        if not isinstance(status, int) or not 200 <= status < 300:
            rest = b"".join([first.payload, *(frame.payload for frame in frames)])
            raise ProviderError(from_status(status if isinstance(status, int) else 0, got_headers, rest, self._now()))
        if "json" in got_headers.get("content-type", ""):
            whole = b"".join([first.payload, *(frame.payload for frame in frames)])
            if not whole.lstrip().startswith((b"data:", b"event:", b":")):  # some proxies mislabel a stream
                return self._reply(_object(whole))
            first, frames = Frame({}, whole), iter(())
        return self._stream(first, frames)

    def _stream(self, first: Frame, frames: Iterator[Frame]) -> LlmReply:
        parser, assembler = SseParser(), self._wire.assembler()
        try:
            self._feed(parser, assembler, first.payload)
            for frame in frames:
                self._feed(parser, assembler, frame.payload)
                if assembler.finished and not self._complete:
                    self._complete, self._idle_s = True, min(self._idle_s, _LINGER_S)
            self._feed(parser, assembler, b"\n\n")  # an event that ended with the stream
        except ProviderError:
            if not assembler.finished:
                self._count_waste(assembler)
                raise
        if not assembler.finished:
            self._count_waste(assembler)
            raise ProviderError(Fault(FaultKind.RETRY, "The model's answer was cut off before its end."))
        return self._reply(assembler.response())

    @staticmethod
    def _feed(parser: SseParser, assembler: Assembler, chunk: bytes) -> None:
        for event, data in parser.feed(chunk):
            if data.strip() != "[DONE]":
                assembler.feed(event, _object(data.encode()))

    def _reply(self, response: Mapping[str, Any]) -> LlmReply:
        reply = self._wire.reply(response)
        if reply.usage.total_tokens:
            return reply
        return replace(reply, usage=estimated(self._sent_bytes, _said(reply)))

    def _count_waste(self, assembler: Assembler) -> None:
        try:
            reply = self._wire.reply(assembler.response())
        except ProviderError:
            return
        said = _said(reply)
        if said or reply.usage.total_tokens:
            guess = estimated(self._sent_bytes, said)
            self.wasted = Usage(
                input_tokens=reply.usage.input_tokens or guess.input_tokens,
                cached_tokens=reply.usage.cached_tokens,
                cache_write_tokens=reply.usage.cache_write_tokens,
                output_tokens=max(reply.usage.output_tokens, guess.output_tokens),
            )

    def _frames(self, fields: Mapping[str, Any], body: bytes, deadline: float | None) -> Iterator[Frame]:
        """Frames as they come, as long as the run goes on and the provider is not silent for too long.

        Each frame looks at the clock, too: a provider that never pauses must not outlast a cancel or the deadline.
        """
        silent_from, total = self._clock(), 0

        def waiting() -> None:
            now = self._clock()
            if self._cancel.cancelled or (deadline is not None and now >= deadline):
                raise ProviderError(Fault(FaultKind.RETRY, "The run ended while the model was answering."))
            if now - silent_from >= self._idle_s:
                raise ProviderError(Fault(FaultKind.RETRY, f"The model's provider was silent for {self._idle_s:g} s."))

        try:
            for frame in self._broker.stream("egress", body, stream=True, waiting=waiting, **fields):
                if frame.header.get("more"):
                    waiting()
                total += len(frame.payload)
                if total > _ANSWER_CAP:
                    raise ProviderError(Fault(FaultKind.PERMANENT, "The model's answer is over 64 MiB."))
                lingers = self._complete
                yield frame
                if not lingers:
                    silent_from = self._clock()
        except CallFailed as exc:
            raise self._failed(exc) from exc
        except ChannelError as exc:
            raise LlmError(f"The broker is gone: {exc}") from exc

    @staticmethod
    def _failed(error: CallFailed) -> Exception:
        if error.code == "limit":
            return BudgetError(str(error))
        if error.code == "upstream":
            return ProviderError(Fault(FaultKind.RETRY, f"The way to the model's provider failed: {error}"))
        return ProviderError(refused(error.code, str(error)))


def _said(reply: LlmReply) -> int:
    """Characters of all that the model wrote, its thoughts among them: they are paid for too."""
    thoughts = (block.get(key) for block in reply.blocks for key in ("thinking", "reasoning_content", "reasoning"))
    return len(reply.text) + sum(len(call.raw) for call in reply.calls) + sum(len(string(text)) for text in thoughts)


def _object(text: bytes) -> Mapping[str, Any]:
    try:
        value = loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise ProviderError(Fault(FaultKind.RETRY, "The model's provider sent something that is no JSON object."))
    return value


def _refusal(body: bytes) -> Fault:
    try:
        error = mapping(mapping(loads(body)).get("error"))
    except ValueError:
        error = {}
    return refused(string(error.get("code")) or "refused", string(error.get("message")))
