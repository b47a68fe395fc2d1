"""Credentials known by the name before them, or by where they stand: headers, cookies, arguments, queries."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from agent.broker.redact.finder import Finder, Found, exact
from agent.broker.redact.judge import credible, has_digit, placeholder, telling
from agent.broker.redact.tables import NAMED, NOT_KEYS, PLACES, TRAILING

_TRIES = 32
_TRAIL = re.compile(TRAILING)
_COMPOUND = re.compile(rb"(?i)(api|account|private|access|secret|auth|shared|app|sdk|license|admin)\Z")
_NOT_KEYS = re.compile(NOT_KEYS, re.I)


@cache
def _name_finder() -> Finder:
    return Finder((NAMED,), fold=True)


@cache
def _place_finder() -> Finder:
    return Finder(tuple(pattern for _, pattern in PLACES), fold=True)


def named_values(data: bytes) -> Iterator[Found]:
    finder = _name_finder()
    at = skip = tries = 0
    while (span := finder.search(data, at)) is not None:
        match = exact(NAMED, fold=True).match(data, *span)
        at = span[0] + 1 if match is None else match.end(1)
        if match is None:
            continue
        tries = tries + 1 if span[1] == skip else 0
        skip = span[1]
        if tries > _TRIES:  # `token=token=token=…` to the end of one word: linear, not quadratic
            at = skip
            continue
        word, mark, value = match[1].lower(), match[2], match[3]
        if placeholder(value) or not _is_name(data, match.start(1), word, mark):
            continue
        value = _TRAIL.sub(b"", value, count=1)
        if credible(word, value):
            yield match.start(3), match.start(3) + len(value), word.replace(b"_", b"-").strip(b"-").decode()
            at = match.end(3)


def placed_values(data: bytes) -> Iterator[Found]:
    finder = _place_finder()
    at = skip = tries = 0
    while (span := finder.search(data, at)) is not None:
        at = span[0] + 1
        found = ((label, exact(pattern, fold=True).match(data, *span)) for label, pattern in PLACES)
        label, match = next((pair for pair in found if pair[1] is not None), ("", None))
        if match is None:
            continue
        tries = tries + 1 if span[1] == skip else 0
        skip = span[1]
        # what is not replaced whole may hold another: `cookie: …; authorization: …`, a query in an example's address
        at = max(at, match.start(1) if tries < _TRIES else match.end(1))
        if label == "cookie":
            yield from _cookies(data, *match.span(1))
        elif not placeholder(match[1]) and telling(match[1], label):
            yield *match.span(1), label
            at = match.end(1)


def _cookies(data: bytes, start: int, end: int) -> Iterator[Found]:
    for pair in re.finditer(rb"=([^;\s\"'\\,]{16,})", data[start:end]):
        if has_digit(pair[1]) and not placeholder(pair[1]):
            yield start + pair.start(1), start + pair.end(1), "cookie"


def _is_name(data: bytes, start: int, word: bytes, mark: bytes) -> bool:
    """Whether the word is the end of a name: `api_key`, `apiKey`, `DB_PASSWORD`, not `monkey`."""
    before = data[max(0, start - 40) : start]
    if mark == b":" and re.search(rb"://[^\s/@]*\Z", before):
        return False  # the user of a URL with a password: that rule keeps the host
    if mark == b">" and not re.search(rb"<[\w.:-]*\Z", before):
        return False
    if not mark.strip() and not re.search(rb"(?:^|[\s\"'])--?[\w-]*\Z", before):
        return False
    own = data[start : start + len(word)]
    if before[-1:].isalnum():
        camel = own[:1].isupper() and not (own[1:2].isupper() and before[-1:].isupper())
        if not camel and word in (b"key", b"auth", b"pass", b"pwd", b"sig"):
            return bool(_COMPOUND.search(before))
        if not camel and not re.search(rb"(?i)[a-z]\Z", before):
            return False
    if word == b"key":
        return not _NOT_KEYS.search(before) and (before[-1:] not in (b"", b" ", b"\n", b"{", b"\t") or own.isupper())
    return True
