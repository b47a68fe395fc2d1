"""When to wait: GitHub's rate limits and the pace of writes. Pure: the time comes in (F18, github-contract §2, §5)."""

from __future__ import annotations

from collections.abc import Mapping

ATTEMPTS = 4
SECONDARY_S = 60.0  # what GitHub asks for where it names no time
WRITE_PAUSE_S = 1.0  # between requests that change something
SERVER_FAULT_S = (1.0, 3.0)


def rate_limit_wait(status: int, headers: Mapping[str, str], body: bytes, now: float) -> float | None:
    """Seconds to wait until the same request may be sent again; None where it is no rate limit.

    403 is ambiguous, and the order of these questions is GitHub's own: `retry-after`, then the remaining
    count, then the text. Any other 403 is a missing permission, which waiting does not mend.

    Args:
        now: seconds since the epoch.
    """
    if status not in (403, 429):
        return None
    asked = _seconds(headers.get("retry-after"))
    if asked is not None:
        return asked
    if headers.get("x-ratelimit-remaining") == "0":
        reset = _seconds(headers.get("x-ratelimit-reset"))
        return SECONDARY_S if reset is None else max(0.0, reset - now) + 1.0
    if status == 429 or b"secondary rate limit" in body[:4096].lower():
        return SECONDARY_S
    return None


def _seconds(value: str | None) -> float | None:
    text = (value or "").strip()
    return float(text) if text.isascii() and text.isdigit() and len(text) < 13 else None
