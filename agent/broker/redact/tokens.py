"""Credentials known by their own shape: tokens, key blocks, passwords in URLs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache, cached_property

from agent.broker.redact.finder import Finder, Found
from agent.broker.redact.judge import mixed, placeholder
from agent.broker.redact.tables import TOKENS, Token

_ANSI = re.compile(rb"\x1b\[[0-9;]*m\Z")
_LINE = re.compile(rb"[^\n]*\n?")
_BODY = re.compile(rb"[A-Za-z0-9+/=]{16,}|\\n|=[A-Za-z0-9+/]{4}|(Proc-Type|DEK-Info|Version|Comment): ")
_END = re.compile(rb"-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----")
_PEM_REACH = 1 << 16
_HEADER_REACH = 4096


@cache
def _token_finder() -> Finder:
    return Finder(tuple(rule.find for rule in TOKENS), fold=False)


class _Rule:
    """A token's shape whole, compiled when a candidate first needs it."""

    def __init__(self, token: Token) -> None:
        self.label = token.label
        self.bounded = token.bounded
        self._pattern = f"(?:{token.find})(?:{token.rest})".encode()

    @cached_property
    def match(self) -> Callable[[bytes, int], re.Match[bytes] | None]:
        return re.compile(self._pattern).match


@cache
def _rules_by_start() -> dict[int, list[_Rule]]:
    """Rules by the byte they begin with: a literal, a class, or a group of literals."""
    rules: dict[int, list[_Rule]] = {}
    for token in TOKENS:
        rule = _Rule(token)
        if token.find.startswith("(?:"):
            starts = {part[0] for part in token.find[3:].split(")")[0].split("|")}
        elif token.find.startswith("["):
            starts = set(token.find[1 : token.find.index("]")])
        else:
            starts = {token.find.removeprefix("\\")[0]}
        for start in starts:
            rules.setdefault(ord(start), []).append(rule)
    return rules


def tokens(data: bytes) -> Iterator[Found]:
    finder = _token_finder()
    blocks = _KeyBlocks(data)
    at = 0
    while (span := finder.search(data, at)) is not None:
        start = span[0]
        at = start + 1
        begins = _starts_word(data, start)
        for rule in _rules_by_start().get(data[start], ()):
            match = rule.match(data, start) if begins or not rule.bounded else None
            if match is None:
                continue
            end = match.end()
            if rule.label == "private-key":
                for found in blocks.body(end):
                    yield found
                    end = found[1]
            elif rule.label in _AROUND:
                yield from _AROUND[rule.label](data, start, end)
            else:
                yield start, start + len(data[start:end].rstrip(b".")), rule.label
            at = end
            break


def _starts_word(data: bytes, start: int) -> bool:
    """A token with a short prefix begins a word; a colour escape before it ends in a letter and is none."""
    before = data[max(0, start - 12) : start].rpartition(b"\n")[2]  # of its own line: what is above says nothing
    if not before or not (before[-1:].isalnum() or before[-1:] in (b"_", b"-", b"+", b"/")):
        return True
    if before[-1:] == b"/":  # a path; inside base64 a slash has letters on both sides and `=` nowhere near
        return not before[-2:-1].isalnum() or b"=" not in before
    return bool(_ANSI.search(before))


class _KeyBlocks:
    """Bodies of private keys: with a log's prefix on each line, in one line, or cut off."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._end: re.Match[bytes] | None = None
        self._searched = -1  # no END frame begins before here, after the last search's start

    def body(self, start: int) -> Iterator[Found]:
        """What stands after the BEGIN frame that ends at `start`."""
        data = self._data
        if self._searched < start:  # one search for all BEGIN frames before the next END: linear in all
            self._end = _END.search(data, start)
            self._searched = self._end.start() if self._end else len(data)
        end = self._searched if self._end and self._searched - start <= _PEM_REACH else self._cut_off(start)
        lead = re.compile(rb"(?:\r|\n|\\r|\\n)*").match(data, start, end)
        begin = lead.end() if lead else start
        if data[begin:end].strip() and not data.startswith(b"[redacted:", begin):
            yield begin, end, "private-key"

    def _cut_off(self, start: int) -> int:
        """End of the lines that still look like a key's body."""
        at = start
        for match in _LINE.finditer(self._data, start, start + _PEM_REACH):
            if not match[0] or (match.start() > start and not _BODY.search(match[0])):
                break
            at = match.end() - match[0].endswith(b"\n")
        return at


def _left_of(pattern: bytes, label: str) -> Callable[[bytes, int, int], Iterator[Found]]:
    """A rule whose telling part stands in the middle: the automaton finds it, this checks what is left of it."""
    before = re.compile(pattern + rb"\Z")

    def check(data: bytes, start: int, end: int) -> Iterator[Found]:
        match = before.search(data[max(0, start - 40) : start])
        if match:
            yield start - len(match[0]), end, label

    return check


def _jwt(data: bytes, start: int, end: int) -> Iterator[Found]:
    """Found by its second part; the first begins at `eyJ` in the word before, which need not begin there."""
    left = data[max(0, start - _HEADER_REACH) : start]
    run = re.match(rb"[A-Za-z0-9_-]*", left[::-1])
    word = left[len(left) - (run.end() if run else 0) :]
    at = word.find(b"eyJ")
    if 0 <= at <= len(word) - 11:
        yield start - len(word) + at, end, "jwt"


def _url_password(data: bytes, start: int, end: int) -> Iterator[Found]:
    """`scheme://user:password@host`: the password alone goes; a user's own name as password is an example."""
    inner = data[start + 3 : end - 1]
    user, _, password = inner.partition(b":")
    if password.startswith(b"[redacted") or placeholder(password) or password == user:
        return
    if user in (b"", b"x-access-token") or len(password) >= 6 or mixed(password):
        yield end - 1 - len(password), end - 1, "url-password"


_AROUND: dict[str, Callable[[bytes, int, int], Iterator[Found]]] = {
    "jwt": _jwt,
    "mailchimp-key": _left_of(rb"[0-9a-f]{32}", "mailchimp-key"),
    "azure-client-secret": _left_of(rb"[A-Za-z0-9]{3}[0-9]", "azure-client-secret"),
    "discord-token": _left_of(rb"[MNO][A-Za-z0-9_-]{23,27}", "discord-token"),
    "telegram-token": _left_of(rb"[0-9]{8,10}", "telegram-token"),
    "terraform-token": _left_of(rb"[A-Za-z0-9]{14}", "terraform-token"),
    "url-password": _url_password,
}
