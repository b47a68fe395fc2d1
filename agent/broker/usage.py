"""What a model's answer used, read from the provider's own bytes (S7). Pure.

The harness counts too, from the same answers, and may lie; budgets of last resort rest on this count. A quote
inside the model's text is escaped in JSON, so text cannot imitate a usage field, nor the end of an answer.
"""

from __future__ import annotations

from agent.contract.dataclass import dataclass, replace
from agent.contract.regex import regex

_FIELD = regex(
    rb'(?<!\\)"(input_tokens|prompt_tokens|output_tokens|completion_tokens|'
    rb'cache_read_input_tokens|cache_creation_input_tokens|cached_tokens)"\s*:\s*(\d{1,12})'
)


_END = regex(
    rb'(?<!\\)"type"\s*:\s*"(?:message_stop|response\.(?:completed|incomplete|failed))"|'
    rb'(?<!\\)"(?:finish_reason|stop_reason)"\s*:\s*"'
)
_SAID = regex(
    rb'(?<!\\)"(?:text|thinking|partial_json|content|refusal|reasoning|reasoning_content|arguments|delta)"\s*:\s*'
    rb'"((?:[^"\\]|\\.)*+)"'
)
_BYTES_PER_TOKEN = 4  # rough, as everywhere that a provider reports none


@dataclass(frozen=True)
class Used:
    """Tokens of one answer; `read` is all input, of which `cached` came from a cache and `kept` went into one."""

    read: int = 0
    cached: int = 0
    kept: int = 0
    written: int = 0


def used_by(answer: bytes) -> Used:
    """What one answer used, streamed or whole; 0 where it does not say.

    Streams repeat a field with a growing value, so the largest of each counts. Anthropic counts cached input
    apart from `input_tokens`; the OpenAI formats count it inside.
    """
    most: dict[bytes, int] = {}
    for name, digits in _FIELD.findall(answer):
        most[name] = max(most.get(name, 0), int(digits))
    fresh = max(most.get(b"input_tokens", 0), most.get(b"prompt_tokens", 0))
    apart, kept = most.get(b"cache_read_input_tokens", 0), most.get(b"cache_creation_input_tokens", 0)
    written = max(most.get(b"output_tokens", 0), most.get(b"completion_tokens", 0))
    read = fresh + apart + kept
    return Used(read, min(read, apart + most.get(b"cached_tokens", 0)), kept, written)


def used_or_guessed(answer: bytes, sent_bytes: int) -> Used:
    """As `used_by`, and a guess where the provider did not come to say it: a cut, cancelled or silent answer.

    Args:
        sent_bytes: size of the request, for an answer that broke off before its input was told.
    """
    used = used_by(answer)
    ended = _END.search(answer) is not None
    if ended and used.read and used.written:
        return used
    said = sum(map(len, _SAID.findall(answer))) // _BYTES_PER_TOKEN
    return replace(used, read=used.read or sent_bytes // _BYTES_PER_TOKEN, written=max(used.written, said))
