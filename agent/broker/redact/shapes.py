"""Credentials that nobody registered, known by their shape, by the name before them, or by where they stand.

Two automata (google-re2) find candidates in one pass each; what they cannot say (what stands before, whether
a value is a placeholder) is decided in Python, on candidates alone. Every replacement lies inside one quoted
string and takes no quote or backslash with it, so that JSON stays JSON. The markers themselves match no rule.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator
from functools import cache, cached_property
from typing import Any

from agent.broker.redact.forms import looks_random
from agent.broker.redact.tables import (
    NAMED,
    NOT_KEYS,
    PLACEHOLDER,
    PLACES,
    TOKENS,
    TRAILING,
    Token,
)

_ANSI = re.compile(rb"\x1b\[[0-9;]*m\Z")
_LINE = re.compile(rb"[^\n]*\n?")
_BODY = re.compile(rb"[A-Za-z0-9+/=]{16,}|\\n|=[A-Za-z0-9+/]{4}|(Proc-Type|DEK-Info|Version|Comment): ")
_END = re.compile(rb"-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----")
_PEM_REACH = 1 << 16
_HEADER_REACH = 4096
_TRIES = 32
_Found = tuple[int, int, str]


def redact(text: str) -> str:
    """Text with every credential shape replaced; the same object where there is none."""
    data = text.encode("utf-8", "surrogatepass")
    found = sorted([*_tokens(data), *_named(data), *_placed(data)], key=lambda f: (f[0], -f[1]))
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
    if len(value) < 8 or len(value) > 4096 or any(c in value for c in ' \n\t"\\'):
        return value
    return redact(f"{key}={value}")[len(key) + 1 :] if redact(key) == key else value


class _Finder:
    """Rules as one automaton. No groups: with them re2 leaves its automaton and is a hundred times slower."""

    def __init__(self, patterns: tuple[str, ...], *, fold: bool) -> None:
        import re2  # 20 ms, paid at the first text rather than at start

        options = re2.Options()
        options.encoding = re2.Options.Encoding.LATIN1
        options.case_sensitive = not fold
        options.never_capture = True
        options.max_mem = 64 << 20
        self._find: Any = re2.compile("|".join(f"(?:{p})" for p in patterns).encode(), options)

    def search(self, data: bytes, at: int) -> tuple[int, int] | None:
        match = self._find.search(data, at)
        return match.span() if match else None


@cache
def _token_finder() -> _Finder:
    return _Finder(tuple(rule.find for rule in TOKENS), fold=False)


@cache
def _name_finder() -> _Finder:
    return _Finder((NAMED,), fold=True)


@cache
def _place_finder() -> _Finder:
    return _Finder(tuple(pattern for _, pattern in PLACES), fold=True)


@cache
def _exact(pattern: str, *, fold: bool = False) -> re.Pattern[bytes]:
    """Python's form of a rule, compiled when a candidate first needs it."""
    return re.compile(pattern.encode(), re.I if fold else 0)


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


def _tokens(data: bytes) -> Iterator[_Found]:
    finder = _token_finder()
    blocks = _KeyBlocks(data)
    at = 0
    while (span := finder.search(data, at)) is not None:
        start = span[0]
        at = start + 1
        for rule in _rules_by_start().get(data[start], ()):
            match = rule.match(data, start)
            if match is None or (rule.bounded and not _starts_word(data, start)):
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
    before = data[max(0, start - 12) : start]
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

    def body(self, start: int) -> Iterator[_Found]:
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


def _left_of(pattern: bytes, label: str) -> Callable[[bytes, int, int], Iterator[_Found]]:
    """A rule whose telling part stands in the middle: the automaton finds it, this checks what is left of it."""
    before = re.compile(pattern + rb"\Z")

    def check(data: bytes, start: int, end: int) -> Iterator[_Found]:
        match = before.search(data[max(0, start - 40) : start])
        if match:
            yield start - len(match[0]), end, label

    return check


def _jwt(data: bytes, start: int, end: int) -> Iterator[_Found]:
    """Found by its second part; the first begins at `eyJ` in the word before, which need not begin there."""
    left = data[max(0, start - _HEADER_REACH) : start]
    run = re.match(rb"[A-Za-z0-9_-]*", left[::-1])
    word = left[len(left) - (run.end() if run else 0) :]
    at = word.find(b"eyJ")
    if 0 <= at <= len(word) - 11:
        yield start - len(word) + at, end, "jwt"


def _url_password(data: bytes, start: int, end: int) -> Iterator[_Found]:
    """`scheme://user:password@host`: the password alone goes; a user's own name as password is an example."""
    inner = data[start + 3 : end - 1]
    user, _, password = inner.partition(b":")
    if password.startswith(b"[redacted") or _placeholder(password) or password == user:
        return
    if user in (b"", b"x-access-token") or len(password) >= 6 or _mixed(password):
        yield end - 1 - len(password), end - 1, "url-password"


_AROUND: dict[str, Callable[[bytes, int, int], Iterator[_Found]]] = {
    "jwt": _jwt,
    "mailchimp-key": _left_of(rb"[0-9a-f]{32}", "mailchimp-key"),
    "azure-client-secret": _left_of(rb"[A-Za-z0-9]{3}[0-9]", "azure-client-secret"),
    "discord-token": _left_of(rb"[MNO][A-Za-z0-9_-]{23,27}", "discord-token"),
    "telegram-token": _left_of(rb"[0-9]{8,10}", "telegram-token"),
    "terraform-token": _left_of(rb"[A-Za-z0-9]{14}", "terraform-token"),
    "url-password": _url_password,
}


def _named(data: bytes) -> Iterator[_Found]:
    finder = _name_finder()
    at = skip = tries = 0
    while (span := finder.search(data, at)) is not None:
        match = _exact(NAMED, fold=True).match(data, *span)
        at = span[0] + 1 if match is None else match.end(1)
        if match is None:
            continue
        tries = tries + 1 if span[1] == skip else 0
        skip = span[1]
        if tries > _TRIES:  # `token=token=token=…` to the end of one word: linear, not quadratic
            at = skip
            continue
        word, mark, value = match[1].lower(), match[2], match[3]
        if _placeholder(value) or not _is_name(data, match.start(1), word, mark):
            continue
        value = _TRAIL.sub(b"", value, count=1)
        if _credible(word, value):
            yield match.start(3), match.start(3) + len(value), word.replace(b"_", b"-").strip(b"-").decode()
            at = match.end(3)


def _placed(data: bytes) -> Iterator[_Found]:
    finder = _place_finder()
    at = 0
    while (span := finder.search(data, at)) is not None:
        at = span[0] + 1
        found = ((label, _exact(pattern, fold=True).match(data, *span)) for label, pattern in PLACES)
        label, match = next((pair for pair in found if pair[1] is not None), ("", None))
        if match is None:
            continue
        at = max(at, match.end(1))
        if label == "cookie":
            yield from _cookies(data, *match.span(1))
        elif not _placeholder(match[1]) and _telling(match[1], label):
            yield *match.span(1), label


_TRAIL = re.compile(TRAILING)


def _cookies(data: bytes, start: int, end: int) -> Iterator[_Found]:
    for pair in re.finditer(rb"=([^;\s\"'\\,]{16,})", data[start:end]):
        if _has_digit(pair[1]) and not _placeholder(pair[1]):
            yield start + pair.start(1), start + pair.end(1), "cookie"


def _placeholder(value: bytes) -> bool:
    return bool(_PLACEHOLDER.match(value))


_PLACEHOLDER = re.compile(PLACEHOLDER, re.I)
_COMPOUND = re.compile(rb"(?i)(api|account|private|access|secret|auth|shared|app|sdk|license|admin)\Z")
_NOT_KEYS = re.compile(NOT_KEYS, re.I)


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


def _credible(word: bytes, value: bytes) -> bool:
    """Whether what stands after a credential's name is a value and not code, a number, a date or a path."""
    if len(value) < 8 or not _has_digit(value) or not re.search(rb"[A-Za-z]", value):
        return False
    if value.startswith((b"/", b"./", b"[redacted", b"http://", b"https://")) and word != b"_auth":
        alone = value.startswith(b"/") and b"." not in value and len(value) >= 40
        return alone and _mixed(value)  # base64 that begins with a slash, no path
    if re.match(rb"[A-Za-z_][\w.]*[(\[]", value) or _is_code(value):
        return False
    if re.fullmatch(rb"0x[0-9A-Fa-f]+|\d{4}-\d\d-\d\d.*|v?\d+(\.\d+)+[\w.+-]*|sha(1|256|384|512)[-:].*", value):
        return False
    if word in (b"auth", b"key", b"sig", b"pass") and len(value) < 12:
        return False
    if word == b"auth":
        return len(value) >= 16 and _is_base64_pair(value)
    return len(value) >= 16 or _mixed(value) or re.search(rb"[^\w.-]", value) is not None


def _is_code(value: bytes) -> bool:
    """A dotted name such as `settings.API_KEY_V2`."""
    return re.fullmatch(rb"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+", value) is not None and not looks_random(value.decode())


def _is_base64_pair(value: bytes) -> bool:
    try:
        return b":" in base64.b64decode(value + b"=" * (-len(value) % 4), validate=True)
    except binascii.Error:
        return False


def _mixed(value: bytes) -> bool:
    classes = (rb"[a-z]", rb"[A-Z]", rb"[0-9]")
    return all(re.search(c, value) for c in classes) or len(re.findall(rb"[0-9]", value)) >= 3


def _telling(value: bytes, label: str) -> bool:
    if label == "auth":
        return _is_base64_pair(value)
    return _has_digit(value) or len(re.findall(rb"[a-z][A-Z]", value)) >= 3


def _has_digit(value: bytes) -> bool:
    return re.search(rb"[0-9]", value) is not None
