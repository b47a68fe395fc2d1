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
from functools import cache
from typing import Any

from agent.broker.redact.tables import (
    NAMED,
    NOT_KEYS,
    PLACEHOLDER,
    PLACES,
    TOKENS,
    TRAILING,
)

_ANSI = re.compile(rb"\x1b\[[0-9;]*m\Z")
_LINE = re.compile(rb"[^\n]*\n?")
_BODY = re.compile(rb"[A-Za-z0-9+/=]{16,}|\\n|=[A-Za-z0-9+/]{4}|(Proc-Type|DEK-Info|Version|Comment): ")
_END = re.compile(rb"-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----")
_PEM_REACH = 1 << 16
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


def _compiled(pattern: str, *, fold: bool) -> Any:
    import re2  # 20 ms, paid at the first text rather than at start

    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1
    options.case_sensitive = not fold
    options.max_mem = 64 << 20
    return re2.compile(pattern.encode(), options)


@cache
def _token_finder() -> tuple[Any, tuple[str, ...], tuple[bool, ...]]:
    pattern = "|".join(f"({rule.pattern})" for rule in TOKENS)
    return (
        _compiled(pattern, fold=False),
        tuple(rule.label for rule in TOKENS),
        tuple(rule.bounded for rule in TOKENS),
    )


@cache
def _name_finder() -> Any:
    return _compiled(NAMED, fold=True)


@cache
def _place_finder() -> Any:
    return _compiled("|".join(pattern for _, pattern in PLACES), fold=True)


def _tokens(data: bytes) -> Iterator[_Found]:
    finder, labels, bounded = _token_finder()
    at = 0
    while (match := finder.search(data, at)) is not None:
        start, end = match.span()
        group = next(i for i in range(1, len(labels) + 1) if match.start(i) >= 0)
        label = labels[group - 1]
        at = end
        if label == "private-key":
            yield from _key_block(data, end)
        elif label in _AROUND:
            yield from _AROUND[label](data, start, end)
        elif bounded[group - 1] and not _starts_word(data, start):
            at = start + 1
        else:
            end = start + len(data[start:end].rstrip(b"."))
            yield start, end, label


def _starts_word(data: bytes, start: int) -> bool:
    """A token with a short prefix begins a word; a colour escape before it ends in a letter and is none."""
    before = data[max(0, start - 12) : start]
    if not before or not (before[-1:].isalnum() or before[-1:] in (b"_", b"-", b"+", b"/")):
        return True
    if before[-1:] == b"/":  # a path; inside base64 a slash has letters on both sides and `=` nowhere near
        return not before[-2:-1].isalnum() or b"=" not in before
    return bool(_ANSI.search(before))


def _key_block(data: bytes, start: int) -> Iterator[_Found]:
    """The body of a private key, also with a log's prefix on each line, in one line, or cut off."""
    end = _END.search(data, start, start + _PEM_REACH)
    if end is not None:
        body = data[start : end.start()]
        if not re.fullmatch(rb"[\s\\nr]*\[redacted:[^\]]*\][\s\\nr]*", body):
            lead = re.match(rb"(?:\r|\n|\\r|\\n)*", body)
            skip = lead.end() if lead else 0
            yield start + skip, end.start(), "private-key"
        return
    at = start
    for match in _LINE.finditer(data, start, start + _PEM_REACH):
        if match.start() > start and not _BODY.search(match[0]):
            break
        at = match.end() - match[0].endswith(b"\n")
    body = data[start:at]
    if body.strip() and not body.strip().startswith(b"[redacted:"):
        lead = re.match(rb"(?:\r|\n|\\r|\\n)*", body)
        yield start + (lead.end() if lead else 0), at, "private-key"


def _left_of(pattern: bytes, label: str) -> Callable[[bytes, int, int], Iterator[_Found]]:
    """A rule whose telling part stands in the middle: the automaton finds it, this checks what is left of it."""
    before = re.compile(pattern + rb"\Z")

    def check(data: bytes, start: int, end: int) -> Iterator[_Found]:
        match = before.search(data[max(0, start - 40) : start])
        if match:
            yield start - len(match[0]), end, label

    return check


def _url_password(data: bytes, start: int, end: int) -> Iterator[_Found]:
    """`scheme://user:password@host`: the password alone goes; a user's own name as password is an example."""
    inner = data[start + 3 : end - 1]
    user, _, password = inner.partition(b":")
    if password.startswith(b"[redacted") or _placeholder(password) or password == user:
        return
    if user in (b"", b"x-access-token") or len(password) >= 6 or _mixed(password):
        yield end - 1 - len(password), end - 1, "url-password"


_AROUND: dict[str, Callable[[bytes, int, int], Iterator[_Found]]] = {
    "azure-client-secret": _left_of(rb"[A-Za-z0-9]{3}[0-9]", "azure-client-secret"),
    "discord-token": _left_of(rb"[MNO][A-Za-z0-9_-]{23,27}", "discord-token"),
    "telegram-token": _left_of(rb"[0-9]{8,10}", "telegram-token"),
    "terraform-token": _left_of(rb"[A-Za-z0-9]{14}", "terraform-token"),
    "url-password": _url_password,
}


def _named(data: bytes) -> Iterator[_Found]:
    at = 0
    finder = _name_finder()
    while (match := finder.search(data, at)) is not None:
        start, end = match.span(3)
        word, mark = match[1].lower(), match[2]
        value = data[start:end]
        at = match.end(1)
        if _placeholder(value) or not _is_name(data, match.start(1), word, mark):
            continue
        value = value[: len(value) - len(_TRAIL.search(value)[0])]  # type: ignore[index]
        if _credible(word, value):
            yield start, start + len(value), word.replace(b"_", b"-").strip(b"-").decode()
            at = end


def _placed(data: bytes) -> Iterator[_Found]:
    at = 0
    finder = _place_finder()
    while (match := finder.search(data, at)) is not None:
        group = next(i for i in range(1, len(PLACES) + 1) if match.start(i) >= 0)
        start, end = match.span(group)
        at = max(match.start() + 1, end)
        label = PLACES[group - 1][0]
        if label == "cookie":
            yield from _cookies(data, start, end)
        elif not _placeholder(data[start:end]) and _telling(data[start:end], label):
            yield start, end, label


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
    if re.match(rb"[A-Za-z_][\w.]*[(\[]", value) or re.fullmatch(rb"[a-z_]+(\.[a-z_0-9]+)+", value):
        return False
    if re.fullmatch(rb"0x[0-9A-Fa-f]+|\d{4}-\d\d-\d\d.*|v?\d+(\.\d+)+[\w.+-]*|sha(1|256|384|512)[-:].*", value):
        return False
    if word in (b"auth", b"key", b"sig", b"pass") and len(value) < 12:
        return False
    if word == b"auth":
        return len(value) >= 16 and _is_base64_pair(value)
    return len(value) >= 16 or _mixed(value) or re.search(rb"[^\w.-]", value) is not None


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
