"""Credentials that nobody registered, known by their shape, by the name before them, or by where they stand.

Two automata (google-re2) find candidates in one pass each; what they cannot say (what stands before, whether
a value is a placeholder) is decided in Python, on candidates alone. Every replacement lies inside one quoted
string and takes no quote or backslash with it, so that JSON stays JSON. The markers themselves match no rule.
"""

from __future__ import annotations

from functools import cache

from agent.broker.redact.finder import Finder
from agent.broker.redact.names import named_values, placed_values
from agent.broker.redact.tables import NAMED, PLACES, TOKENS
from agent.broker.redact.tokens import tokens


@cache
def _any() -> Finder:
    """All rules in one: nearly every text holds none, and one pass says so."""
    return Finder(
        (*(rule.find for rule in TOKENS), *(f"(?i:{p})" for p in (NAMED, *(p for _, p in PLACES)))), fold=False
    )


def redact(text: str) -> str:
    """Text with every credential shape replaced; the same object where there is none."""
    data = text.encode("utf-8", "surrogatepass")
    if _any().search(data, 0) is None:
        return text
    found = sorted([*tokens(data), *named_values(data), *placed_values(data)], key=lambda f: (f[0], -f[1]))
    if not found:
        return text
    parts, at = [], 0
    for start, end, label in found:
        if end <= at:
            continue
        start = max(start, at)
        parts += [data[at:start], f"[redacted:{label}]".encode()]
        at = end
    return b"".join([*parts, data[at:]]).decode("utf-8", "surrogatepass")


def named(key: str, value: str) -> str:
    """A value that stands alone under a key, as in parsed JSON: redacted when the key says credential."""
    if not alone(value):
        return value
    return redact(f"{key}={value}")[len(key) + 1 :] if redact(key) == key else value


def alone(value: str) -> bool:
    """Whether a text may be a credential and nothing else: one word of fitting length."""
    return 8 <= len(value) <= 4096 and not any(c in value for c in ' \n\t"\\')
