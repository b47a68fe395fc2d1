"""`ModelClient`: the loop's LlmPort over the broker's `egress` op. Holds no key; the broker attaches it.

A request is tried on one model until it succeeds, until retrying is pointless, or until the clock of the run
leaves no room; then the next model of the list is asked, and stays in use for the rest of the run.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from agent.contract.dataclass import dataclass, replace
from agent.contract.prices import Price, find_price
from agent.harness.clients.exchange import Exchange
from agent.harness.clients.faults import Fault, FaultKind, ProviderError
from agent.harness.clients.fragments import Fragments
from agent.harness.clients.wire import CHARS_PER_TOKEN, Settings, Wire
from agent.harness.clients.wires import wire_named
from agent.harness.loop import (
    AuthError,
    BudgetError,
    CancelledError,
    ContextError,
    DeadlineError,
    LlmError,
    LlmReply,
    LlmRequest,
    LoggerPort,
    SilentLogger,
    Usage,
)
from agent.harness.ports import BrokerPort

# "max_tokens: 16384 > 4096, which is the maximum", "supports at most 4096", "must be less than or equal to 4096"
_OUTPUT_CAP = re.compile(r"(?:> |at most |less than or equal to |<= ?)(\d{3,7})\b")
MIN_OUTPUT = 256  # a turn that may say less than this is not worth its input
IDLE_S = 300.0  # seconds; a model that thinks may be silent for minutes, and the run's clock is the real cap


@dataclass(frozen=True)
class Retry:
    """How long one model is tried.

    Attributes:
        attempts: requests in all.
        first_s, most_s: waits double from the first to the most; half of each is jitter.
        longest_retry_after_s: a provider that asks for a longer wait counts as down.
    """

    attempts: int = 8
    first_s: float = 0.5
    most_s: float = 30.0
    longest_retry_after_s: float = 120.0


class _Model:
    """One entry of `RunFacts.models` with what is learned about it during the run."""

    def __init__(self, entry: Mapping[str, Any]) -> None:
        self.wire: Wire = wire_named(entry["wire"])
        self.connection = str(entry.get("connection") or "model")
        self.path = str(entry.get("path") or self.wire.path)
        self.query = dict(entry.get("query") or {})
        self.settings = Settings(
            model=entry["model"],
            max_output=entry.get("max_output") or Settings.max_output,
            output_field=_output_field(entry["model"]),
        )
        self.price: Price | None = find_price(entry["model"])
        self.maker = f"{self.wire.name} {self.connection} {self.settings.model}"
        self.fragments = Fragments(self.wire, self.maker)


class ModelClient:
    """The models of one run, in order of preference."""

    punctual = True  # every wait of it looks at the clock and at the cancel

    def __init__(
        self,
        broker: BrokerPort,
        models: Iterable[Mapping[str, Any]],
        *,
        logger: LoggerPort | None = None,
        retry: Retry | None = None,
        idle_s: float = IDLE_S,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
        wait: Callable[[LlmRequest, float], bool] = lambda request, seconds: request.cancel.wait(seconds),
        jitter: Callable[[], float] = lambda: os.urandom(1)[0] / 256,
    ) -> None:
        """Prepare; nothing is sent.

        Args:
            broker: carries the requests.
            models: entries as in `RunFacts.models`; at least one.
            logger: gets `model.retry` and `model.failover`.
            retry: patience.
            idle_s: seconds that a provider may be silent, before its answer and in the middle of it.
            clock, now, wait, jitter: injectable; `wait` returns True when cancelled meanwhile.

        Raises:
            ValueError: no model, or an unknown wire format.
        """
        self._models = [_Model(entry) for entry in models]
        if not self._models:
            raise ValueError("There is no model.")
        self._idle_s = idle_s
        self._broker, self._logger = broker, logger or SilentLogger()
        self._retry, self._clock, self._now, self._wait, self._jitter = retry or Retry(), clock, now, wait, jitter
        self._current = 0
        self._wasted = Usage()

    @property
    def priced(self) -> bool:
        """Whether the cost of every model in the list is known; without, a money budget cannot bind."""
        return all(model.price is not None for model in self._models)

    def complete(self, request: LlmRequest, /) -> LlmReply:
        """Answer one request; see `agent.harness.loop.LlmPort`."""
        deadline = None if request.timeout_s is None else self._clock() + request.timeout_s
        self._wasted = Usage()
        while True:
            model = self._models[self._current]
            try:
                reply = self._persist(model, request, deadline)
            except (BudgetError, ContextError, CancelledError, DeadlineError):
                raise
            except LlmError as exc:
                if self._current + 1 >= len(self._models):
                    raise
                self._current += 1
                after = self._models[self._current].settings.model
                self._log("model.failover", before=model.settings.model, after=after, reason=str(exc))
                continue
            return replace(reply, usage=self._wasted + reply.usage, model=reply.model or model.settings.model)

    def _persist(self, model: _Model, request: LlmRequest, deadline: float | None) -> LlmReply:
        attempt = 0
        while True:
            attempt += 1
            left = None if deadline is None else deadline - self._clock()
            if left is not None and left <= 0:
                raise DeadlineError("The run's time was up before the model answered.", self._wasted)
            body = self._body(model, request)
            exchange = Exchange(self._broker, model.wire, request.cancel, self._clock, self._now)
            try:
                reply = exchange.run(model.connection, model.path, model.query, body, self._idle_s, deadline)
                return replace(reply, usage=_priced(reply.usage, model.price), wire=model.maker)
            except LlmError as exc:  # of the broker: its limit is reached, or it is gone
                exc.usage = self._wasted
                raise
            except ProviderError as exc:
                self._wasted += _priced(exchange.wasted, model.price)
                self._answer_fault(model, request, exc.fault, attempt, deadline)

    def _answer_fault(
        self, model: _Model, request: LlmRequest, fault: Fault, attempt: int, deadline: float | None
    ) -> None:
        """Return when another attempt makes sense, after the wait it needs."""
        if request.cancel.cancelled:
            raise CancelledError("The run was cancelled.", self._wasted)
        if deadline is not None and self._clock() >= deadline:
            raise DeadlineError("The run's time was up before the model had answered.", self._wasted)
        if fault.kind is FaultKind.CONTEXT:
            if 0 < fault.room < model.settings.max_output:  # it is our output limit that does not fit
                model.settings.max_output = fault.room
                self._log("model.retry", reason=fault.message, attempt=attempt, wait_s=0.0)
                return
            raise ContextError(fault.message, self._wasted)
        if fault.kind is FaultKind.FIELD and _learn(model.settings, fault):
            self._log("model.retry", reason=fault.message, attempt=attempt, wait_s=0.0)
            return
        if fault.kind is FaultKind.AUTH:
            raise AuthError(fault.message, self._wasted)
        if fault.kind is not FaultKind.RETRY:
            raise LlmError(fault.message, self._wasted)
        wait_s = self._pause(fault, attempt)
        if attempt >= self._retry.attempts or wait_s > self._retry.longest_retry_after_s:
            raise LlmError(f"{fault.message} (after {attempt} attempts)", self._wasted)
        if deadline is not None and self._clock() + wait_s >= deadline:
            raise LlmError(f"{fault.message} (no time left to wait {wait_s:.1f} s)", self._wasted)
        self._log("model.retry", reason=fault.message, attempt=attempt, wait_s=round(wait_s, 3))
        if self._wait(request, wait_s):
            raise CancelledError("The run was cancelled.", self._wasted)

    def _pause(self, fault: Fault, attempt: int) -> float:
        step = min(self._retry.most_s, self._retry.first_s * 2.0 ** (attempt - 1))
        jittered = step * (0.5 + 0.5 * self._jitter())
        # Never sooner than the provider asked; the jitter on top keeps parallel runs apart.
        return jittered if fault.retry_after_s is None else fault.retry_after_s + 0.25 * jittered

    def _body(self, model: _Model, request: LlmRequest) -> bytes:
        settings, most = model.settings, model.settings.max_output
        body = model.fragments.body(settings, request.system, request.tools, request.messages, most)
        output = self._allowed_output(model, request, len(body))
        if output == most:
            return body
        return model.fragments.body(settings, request.system, request.tools, request.messages, output)

    def _allowed_output(self, model: _Model, request: LlmRequest, size: int) -> int:
        """The output cap that keeps this request within the budgets (S7)."""
        output, needs = model.settings.max_output, size // CHARS_PER_TOKEN
        if request.tokens_left is not None:
            output = min(output, request.tokens_left - self._wasted.total_tokens - needs)
        if request.cost_left is not None and model.price is not None and model.price.output > 0:
            money = request.cost_left - (self._wasted.cost or 0.0) - needs * model.price.cached / 1e6
            output = min(output, int(money * 1e6 / model.price.output))
        if output < min(MIN_OUTPUT, model.settings.max_output):
            raise BudgetError("What is left of the budget does not allow another turn.", self._wasted)
        return output

    def _log(self, name: str, **fields: Any) -> None:
        self._logger.event(name, fields)


def _priced(usage: Usage, price: Price | None) -> Usage:
    if not usage.total_tokens:
        return usage
    counts = (usage.input_tokens, usage.cached_tokens, usage.cache_write_tokens, usage.output_tokens)
    return replace(usage, cost=None if price is None else price.cost(*counts))


def _learn(settings: Settings, fault: Fault) -> bool:
    """Take note of what a server refuses; False when that is nothing new."""
    field = fault.field
    if field in ("max_tokens", "max_completion_tokens"):
        most = _OUTPUT_CAP.search(fault.message)
        if most is not None and 0 < int(most[1]) < settings.max_output:
            settings.max_output = int(most[1])
            return True
        if "other output field" in settings.drop:
            return False
        settings.output_field = "max_completion_tokens" if field == "max_tokens" else "max_tokens"
        settings.drop.add("other output field")
        return True
    if field in settings.drop:
        return False
    settings.drop.add(field)
    return True


def _output_field(model: str) -> str:
    """OpenAI's own reasoning models refuse `max_tokens`; most compatible servers know only that."""
    name = model.rpartition("/")[2].lower()
    new = name.startswith(("o1", "o3", "o4", "gpt-5", "gpt-6", "codex"))
    return "max_completion_tokens" if new else "max_tokens"
