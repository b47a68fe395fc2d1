"""What a provider's failure means: retry, mend, or give up. Pure; decided on status and typed codes first."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from agent.contract.dataclass import dataclass
from agent.harness.clients.wire import loads, mapping, string


class FaultKind(StrEnum):
    """What can be done about a fault."""

    RETRY = "retry"
    AUTH = "auth"
    CONTEXT = "context"
    FIELD = "field"
    PERMANENT = "permanent"


@dataclass(frozen=True)
class Fault:
    """One failure.

    Attributes:
        kind: what can be done.
        message: one sentence for a person; holds no key, since the harness has none.
        retry_after_s: seconds the provider asked to wait, or None.
        field: for FIELD, the optional request field the server does not take.
        sent: False when the broker refused the request, so that nothing reached the provider.
        room: for CONTEXT, output tokens that the window has left beside this input, where that is a good part of it.
    """

    kind: FaultKind
    message: str
    retry_after_s: float | None = None
    field: str = ""
    sent: bool = True
    room: int = 0


class ProviderError(Exception):
    """A fault on its way up to `ModelClient`."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message)
        self.fault = fault


_RETRY_STATUS = frozenset({408, 409, 425, 429, 499})
_RETRY_TYPES = frozenset(
    {"overloaded_error", "api_error", "rate_limit_error", "timeout_error", "server_error", "rate_limit_exceeded",
     "server_is_overloaded", "internal_error", "overloaded", "engine_overloaded", "slow_down"}
)  # fmt: skip
_QUOTA_TYPES = frozenset({"insufficient_quota", "billing_error", "billing_not_active", "billing_hard_limit_reached"})
_AUTH_TYPES = frozenset({"authentication_error", "permission_error", "invalid_api_key"})
# The one date form that HTTP senders may write (RFC 9110, 5.6.7). `email.utils` would cost 10 ms at start.
_HTTP_DATE = re.compile(r"(\d{2}) (\w{3}) (\d{4}) (\d{2}):(\d{2}):(\d{2}) GMT", re.ASCII)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
# Texts, since only some providers give a code: Anthropic, OpenAI-compatible servers, vLLM, Gemini, Ollama, llama.cpp,
# LM Studio, TGI, xAI, Moonshot. The last: more than the tokens that a minute allows, which no wait will change.
_CONTEXT_TEXTS = (
    "prompt is too long", "exceed context limit", "maximum context length", "context_length_exceeded",
    "context window", "exceeds the maximum number of tokens", "input is too long", "too many tokens in the prompt",
    "model's context length", "maximum model length", "available context size", "greater than the context length",
    "`inputs` tokens", "maximum prompt length", "exceeded model token limit", "reduce the length of the messages",
    "request too large",
)  # fmt: skip
# "maximum context length is 16384 tokens … (500 in the messages, 16384 in the completion)", "… 500 input tokens",
# "input length and `max_tokens` exceed context limit: 188240 + 16384 > 200000"
_WINDOW = re.compile(r"context length is (?:only )?(\d{1,9})|context limit: \d{1,9} \+ \d{1,9} > (\d{1,9})")
_INPUT = re.compile(
    r"(\d{1,9}) (?:in (?:the|your) (?:messages|functions|prompt)|input tokens)|context limit: (\d{1,9}) \+"
)
# Request fields that only some servers or models take, with the words a refusal names them by.
_OPTIONAL_FIELDS = {
    "max_tokens": "max_tokens", "max_completion_tokens": "max_completion_tokens",
    "stream_options": "stream_options", "include": "encrypted", "cache_control": "cache_control",
}  # fmt: skip
# Thoughts sent back to a model that cannot open them or knows no such field: OpenAI, Anthropic, Groq, Mistral.
_THOUGHT_TEXTS = (
    "could not be verified", "blocks in the latest assistant message cannot be modified", "`signature` in `thinking`",
    "signature in thinking", "property 'reasoning", "reasoning is not supported", "reasoning input is not enabled",
    "reasoning_content", "reasoning_details",
)  # fmt: skip
THOUGHTS = "thoughts"


def from_status(status: int, headers: Mapping[str, str], body: bytes, now: float) -> Fault:
    """Read an answer that is not 2xx.

    Args:
        status: HTTP status.
        headers: names in any case.
        body: as received.
        now: Unix time, for a `Retry-After` that is a date.
    """
    error = _error_object(body)
    text = _sentence(f"HTTP {status}", error, body)
    kind, field = _kind(status, error, body)
    return Fault(kind, text, retry_after(headers, now), field, room=_room(_text(error, body)))


def from_error_object(error: Mapping[str, Any]) -> Fault:
    """Read an error that came inside a 200, as an event or instead of a response."""
    status = error.get("status") or error.get("code")
    kind, field = _kind(status if isinstance(status, int) else 0, error, b"")
    return Fault(kind, _sentence("error inside the answer", error, b""), None, field, room=_room(_text(error, b"")))


def refused(code: str, message: str) -> Fault:
    """The broker's own refusal: nothing was sent."""
    kind = FaultKind.AUTH if code == "secret_unavailable" else FaultKind.PERMANENT
    return Fault(kind, f"The broker refused the request to the model: {code}: {message}", sent=False)


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds to wait by `Retry-After-Ms` or `Retry-After` (a number or a date), or None."""
    low = {name.lower(): value for name, value in headers.items()}
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            seconds = float(low[name]) / unit
        except (KeyError, ValueError):
            continue
        if 0 <= seconds < 1e9:
            return seconds
    match = _HTTP_DATE.search(low.get("retry-after", ""))
    if match is None or match[2] not in _MONTHS:
        return None
    try:
        day, year, hour, minute, second = (int(match[group]) for group in (1, 3, 4, 5, 6))
        when = datetime(year, _MONTHS.index(match[2]) + 1, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        return None
    return max(0.0, when.timestamp() - now)


def _kind(status: int, error: Mapping[str, Any], body: bytes) -> tuple[FaultKind, str]:
    codes = {string(error.get("type")), string(error.get("code"))}
    text = _text(error, body).lower()
    if codes & _QUOTA_TYPES:
        return FaultKind.PERMANENT, ""
    if status in (401, 403) or codes & _AUTH_TYPES:
        return FaultKind.AUTH, ""
    if status == 413 or "context_length_exceeded" in codes or any(words in text for words in _CONTEXT_TEXTS):
        return FaultKind.CONTEXT, ""
    if status in _RETRY_STATUS or status >= 500 or codes & _RETRY_TYPES:
        return FaultKind.RETRY, ""
    if status in (400, 422):
        if "invalid_encrypted_content" in codes or any(words in text for words in _THOUGHT_TEXTS):
            return FaultKind.FIELD, THOUGHTS
        param = string(error.get("param")).split("[")[0].split(".")[0]
        for field, words in _OPTIONAL_FIELDS.items():
            if param == field or (not param and words in text):
                return FaultKind.FIELD, field
    return FaultKind.PERMANENT, ""


def _room(text: str) -> int:
    """Output tokens that are left, or 0: where less than a quarter of the window is, the history has to go instead."""
    window = _WINDOW.search(text)
    taken = [int(number) for found in _INPUT.findall(text) for number in found if number]
    if window is None or not taken:
        return 0
    most = int(window[1] or window[2])
    left = most - sum(taken)
    return left if left >= most // 4 else 0


def _error_object(body: bytes) -> Mapping[str, Any]:
    try:
        data = loads(body)
    except ValueError:
        return {}
    if isinstance(data, list) and data:  # Gemini's compatible endpoint wraps its errors in a list
        data = data[0]
    error = mapping(data).get("error", data)
    return {"message": error} if isinstance(error, str) else mapping(error)


def _text(error: Mapping[str, Any], body: bytes) -> str:
    """What the provider said; a router such as OpenRouter quotes what the model's own provider told it."""
    said = string(error.get("message")) or body[:2000].decode("utf-8", "replace")
    quoted = string(mapping(error.get("metadata")).get("raw"))
    return f"{said} {quoted[:2000]}" if quoted else said


def _sentence(what: str, error: Mapping[str, Any], body: bytes) -> str:
    name = string(error.get("type")) or string(error.get("code"))
    return " ".join(f"The model's provider answered {what} {name}: {_text(error, body)[:500]}".split())
