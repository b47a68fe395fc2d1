"""Typed reads from a webhook payload, whose every value a stranger may have chosen.

Each function gives a value of the asked shape or None and never raises: a payload may be old, partial or
hostile, and a wrong shape must read as absent, which the gate takes as "restricted" (S6).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from agent.contract.errors import UserError
from agent.contract.regex import regex

PAYLOAD_CAP = 32 << 20  # GitHub's own cap on a payload is 25 MB

_LOGIN = regex(r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,98}[A-Za-z0-9_-])?(?:\[bot\])?")
_FULL_NAME = regex(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}/(?!\.{1,2}$)[A-Za-z0-9._-]{1,100}")
_SHA = regex(r"[0-9a-f]{40}|[0-9a-f]{64}")


def parse(payload: bytes) -> dict[str, Any]:
    """The payload as a JSON object.

    Raises:
        UserError: too large, not UTF-8, not JSON, nested too deeply, or not an object.
    """
    if len(payload) > PAYLOAD_CAP:
        raise UserError(f"The event file is {len(payload)} bytes long; more than {PAYLOAD_CAP} is no event.")
    try:
        data = json.loads(payload.decode("utf-8-sig"))
    except (ValueError, RecursionError) as exc:
        raise UserError("The event file (GITHUB_EVENT_PATH) does not hold JSON.") from exc
    if not isinstance(data, dict):
        raise UserError("The event file (GITHUB_EVENT_PATH) does not hold a JSON object.")
    return data


def obj(data: object, *keys: str) -> Mapping[str, Any]:
    """The object under these keys, or an empty one."""
    for key in keys:
        data = data.get(key) if isinstance(data, dict) else None
    return data if isinstance(data, dict) else {}


def items(data: Mapping[str, Any], key: str) -> list[Any]:
    """The list under this key, or an empty one."""
    value = data.get(key)
    return value if isinstance(value, list) else []


def text(data: Mapping[str, Any], key: str) -> str | None:
    """The string under this key; lone surrogates, which no encoder takes, become `?`."""
    value = data.get(key)
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else None


def number(data: Mapping[str, Any], key: str) -> int | None:
    """The positive integer of at most 63 bits under this key."""
    value = data.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 1 << 63:
        return None
    return value


def login(value: object) -> str | None:
    """A login that GitHub could have issued; anything else would be a path trick in a request."""
    return value if isinstance(value, str) and _LOGIN.fullmatch(value) else None


def full_name(value: object) -> str | None:
    """A repository's `owner/name`."""
    return value if isinstance(value, str) and _FULL_NAME.fullmatch(value) else None


def sha(data: Mapping[str, Any], key: str) -> str | None:
    """A full object id, SHA-1 or SHA-256."""
    value = data.get(key)
    return value if isinstance(value, str) and _SHA.fullmatch(value) else None
