"""Whether what stands where a credential would stand is one: not a placeholder, a number, a date, a path or code."""

from __future__ import annotations

import base64
import binascii
import re

from agent.broker.redact.forms import looks_random
from agent.broker.redact.tables import PLACEHOLDER

_PLACEHOLDER = re.compile(PLACEHOLDER, re.I)
_CLASSES = (rb"[a-z]", rb"[A-Z]", rb"[0-9]")
_VERSION = re.compile(rb"(?i)v?\d+(?:\.\d+)+(?:(?:a|b|c|rc|dev|post|alpha|beta)\d*)?([-+.][\w.+-]*)?")


def placeholder(value: bytes) -> bool:
    return bool(_PLACEHOLDER.match(value))


def credible(word: bytes, value: bytes) -> bool:
    """Whether what stands after a credential's name is a value and not code, a number, a date or a path."""
    if len(value) < 8 or not has_digit(value) or not re.search(rb"[A-Za-z]", value):
        return False
    if value.startswith((b"/", b"./", b"[redacted", b"http://", b"https://")) and word != b"_auth":
        alone = value.startswith(b"/") and b"." not in value and len(value) >= 40
        return alone and mixed(value)  # base64 that begins with a slash, no path
    if re.match(rb"[A-Za-z_][\w.]*[(\[]", value) or _is_code(value):
        return False
    if re.fullmatch(rb"0x[0-9A-Fa-f]+|\d{4}-\d\d-\d\d.*|sha(1|256|384|512)[-:].*", value) or _is_version(value):
        return False
    if word in (b"auth", b"key", b"sig", b"pass") and len(value) < 12:
        return False
    if word == b"auth":
        return len(value) >= 16 and _is_base64_pair(value)
    return len(value) >= 16 or mixed(value) or re.search(rb"[^\w.-]", value) is not None


def _is_code(value: bytes) -> bool:
    """A dotted name such as `settings.API_KEY_V2`."""
    return re.fullmatch(rb"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+", value) is not None and not looks_random(value.decode())


def _is_version(value: bytes) -> bool:
    """`1.2.3`, `v2.0rc1`, `7.12.3-beta.4`; a password can begin like one, and goes on otherwise."""
    found = _VERSION.fullmatch(value)
    return found is not None and (len(found[1] or b"") < 12 or not all(re.search(c, found[1]) for c in _CLASSES))


def _is_base64_pair(value: bytes) -> bool:
    try:
        return b":" in base64.b64decode(value + b"=" * (-len(value) % 4), validate=True)
    except binascii.Error:
        return False


def mixed(value: bytes) -> bool:
    return all(re.search(c, value) for c in _CLASSES) or len(re.findall(rb"[0-9]", value)) >= 3


def telling(value: bytes, label: str) -> bool:
    if label == "auth":
        return _is_base64_pair(value)
    return has_digit(value) or len(re.findall(rb"[a-z][A-Z]", value)) >= 3


def has_digit(value: bytes) -> bool:
    return re.search(rb"[0-9]", value) is not None
