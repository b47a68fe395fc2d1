"""The clothes a known value may come in, as strings of letters and digits alone.

Text is compared after everything but ASCII letters and digits is dropped from it (`flat`). That one step
undoes spaces and separators between characters, line breaks, quoting, UTF-16, and the difference between
the two alphabets of base64. What is left to enumerate are encodings that change letters.
"""

from __future__ import annotations

import base64
import codecs
import html
import itertools
import json
import re
import urllib.parse
from collections.abc import Iterator

from agent.broker.redact.escapes import normal
from agent.contract.dataclass import dataclass

SHORTEST = 8  # shorter values and pieces are ordinary text too often (reports F07)
RUN = 12  # letters and digits in a row of a random value that count as a piece of it: 48 bits at least in hex
ENCODED_RUN = 64  # the same for encoded forms, which are longer
ANCHOR = 8  # characters that the first pass looks for

_DROP = bytes(b for b in range(256) if not chr(b).isalnum() or b > 127)
_WORDS = frozenset(
    "password passwords passphrase changeme changeit localhost production development staging testing "
    "undefined disabled enabled default administrator username postgres postgresql anonymous example "
    "placeholder redacted xxxxxxxx 00000000 11111111 12345678 github-actions".split()
)
_HEADER = re.compile(r"eyJ[A-Za-z0-9_-]{8,}(?=\.)")
_FRAME = re.compile(r"^-+(BEGIN|END) [A-Z0-9 ]+-+$")
_CREDENTIAL_KEY = re.compile(r"(?i)(token|secret|passw|passphrase|key|credential)s?\"?$")
_PUBLIC = (  # starts that every JWT or every PKCS key share: finding only these says nothing
    "eyJhbGciOi",
    "eyJ0eXAiOi",
    "BgkqhkiG9w0BAQ",
    "b3BlbnNzaC1rZXktdjE",
    "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC",
)


def flat(data: bytes) -> bytes:
    """The ASCII letters and digits of data, in order."""
    return data.translate(None, _DROP)


def to_bytes(text: str) -> bytes:
    """UTF-8, with lone surrogates (which JSON can carry) kept rather than raised over."""
    return text.encode("utf-8", "surrogatepass")


def _flats(text: str) -> tuple[bytes, ...]:
    """The flat view of a spelling as it stands, and with its `\\n` taken for line breaks where that differs."""
    data = to_bytes(text)
    return tuple(dict.fromkeys((flat(data), flat(normal(data)))))


@dataclass(frozen=True)
class Form:
    """One way a value can look.

    Attributes:
        name: secret name, as the marker shows it.
        text: what the flat view of a text holds.
        run: shortest run of `text` that is taken for the secret.
        anchors: offsets in `text` of the strings the first pass looks for.
        wide: the match grows over the rest of its base64 word.
        heads, tails: bytes before and after the letters and digits, in the ways they may be written.
        gaps: how many other bytes the value itself has before each character of `text` (plain and reversed).
    """

    name: str
    text: bytes
    run: int
    anchors: tuple[int, ...]
    wide: bool = False
    heads: tuple[bytes, ...] = ()
    tails: tuple[bytes, ...] = ()
    gaps: tuple[int, ...] = ()


def looks_random(text: str) -> bool:
    """Whether a piece this short can stand for a secret: a mix that words and numbers do not have."""
    kinds = ["d" if c.isdigit() else "u" if c.isupper() else "l" for c in text if c.isalnum()]
    turns = sum(a != b and (a, b) != ("u", "l") for a, b in itertools.pairwise(kinds))
    return turns >= 3


def ordinary(value: str) -> bool:
    """Whether hiding this value would hide ordinary words: too short, too uniform, or a common word."""
    bare = value.strip()
    return len(bare) < SHORTEST or len(set(bare)) < 4 or bare.lower() in _WORDS


def values(secret: str) -> Iterator[str]:
    """The secret and those of its pieces that must not be seen alone: lines, JSON leaves, URL passwords."""
    whole = secret.strip()
    if ordinary(whole):
        return
    yield whole
    if "\n" in whole or "\r" in whole:
        for line in re.split(r"[\r\n]+", whole):
            if _telling(line.strip()) and not _FRAME.match(line.strip()):
                yield line.strip()
            key, mark, rest = line.partition("=")
            if mark and _telling(rest.strip().strip("\"'"), key):
                yield rest.strip().strip("\"'")
    if whole[:1] in "{[":
        yield from _leaves(whole)
    match = re.match(r"[A-Za-z][A-Za-z0-9+.-]*://[^/@\s]*:([^/@\s]+)@", whole)
    if match and not ordinary(match[1]):
        yield match[1]
        if urllib.parse.unquote(match[1]) != match[1]:
            yield urllib.parse.unquote(match[1])


def _telling(piece: str, key: str = "") -> bool:
    """Whether a piece of a secret is itself one: not braces, not words, not an address (F07)."""
    if ordinary(piece):
        return False
    if _CREDENTIAL_KEY.search(key.strip()):
        return True
    if re.match(r"(?i)[a-z][a-z0-9+.-]*://[^@]*$|[^@\s]+@[a-z0-9.-]+$", piece):
        return False
    return any(looks_random(word) for word in re.findall(r"[A-Za-z0-9+/=]{8,}", piece))


def _leaves(text: str) -> Iterator[str]:
    try:
        stack: list[tuple[str, object]] = [("", json.loads(text))]
    except (ValueError, RecursionError):
        return
    while stack:
        key, value = stack.pop()
        if isinstance(value, dict):
            stack += [(str(k), v) for k, v in value.items()]
        elif isinstance(value, list):
            stack += [(key, v) for v in value]
        elif isinstance(value, str) and _telling(value.strip(), key):
            yield from values(value)


def forms(name: str, value: str) -> Iterator[Form]:
    """Every form of one value. A value with fewer than eight letters and digits has none (see `literals`)."""
    raw = to_bytes(value)
    plain = _flats(value)
    if len(plain[-1]) >= SHORTEST:
        heads, tails = _edges(value)
        for text, spelt in zip(plain, (raw, normal(raw)), strict=False):
            yield _form(name, text, RUN, value=value, heads=heads, tails=tails, gaps=_gaps(spelt))
        for text, spelt in zip(_flats(value[::-1]), (raw[::-1], normal(raw[::-1])), strict=False):
            yield _form(name, text, RUN, gaps=_gaps(spelt))
        for text in {text for spelt in _escaped(value) for text in _flats(spelt)} - {*plain}:
            yield _form(name, text, ENCODED_RUN)
        if codecs.encode(value, "rot13") != value:
            for text in _flats(codecs.encode(value, "rot13")):
                yield _form(name, text, len(text))
    for data in (raw, value.encode("utf-16-le", "surrogatepass")):
        for core in _base64(data):
            yield _form(name, flat(core), ENCODED_RUN, wide=True)
    for core in _base32(raw):
        yield _form(name, core, ENCODED_RUN, wide=True)
        yield _form(name, core.lower(), ENCODED_RUN, wide=True)
    if len(raw) >= SHORTEST:
        for digits in (raw.hex(), raw.hex().upper()):
            pairs = [digits[i : i + 2] for i in range(0, len(digits), 2)]
            for lead in ("", "x", "0x", "u", "u00", "25"):
                yield _form(name, lead.join(["", *pairs]).encode(), ENCODED_RUN)
        yield _form(name, "".join(str(b) for b in raw).encode(), ENCODED_RUN)
        yield _form(name, "".join(f"{b:03o}" for b in raw).encode(), ENCODED_RUN)


def literals(value: str) -> tuple[bytes, ...]:
    """Exact spellings of a value that has too few letters and digits for the flat view."""
    if len(_flats(value)[-1]) >= SHORTEST:
        return ()
    spelt = {value, value[::-1], *_escaped(value)}
    return tuple(sorted((to_bytes(s) for s in spelt if len(s) >= SHORTEST), key=len, reverse=True))


def _form(
    name: str,
    text: bytes,
    run: int,
    *,
    value: str = "",
    wide: bool = False,
    heads: tuple[bytes, ...] = (),
    tails: tuple[bytes, ...] = (),
    gaps: tuple[int, ...] = (),
) -> Form:
    """Choose the anchors: close enough that every run of `run` characters holds one whole anchor."""
    run = min(run, len(text))
    step = max(1, run - ANCHOR + 1)
    last = len(text) - ANCHOR
    offsets = sorted({*range(0, last + 1, step), last})
    if value:  # pieces of the plain form: only where they are telling
        public = {m.span() for m in _HEADER.finditer(value)}
        hidden = {o for o in offsets if _is_public(text, o) or _in_header(value, o, public)}
        pieces = [o for o in offsets if o not in hidden and looks_random(text[o : o + RUN].decode())]
        offsets = pieces or [o for o in offsets if o not in hidden] or offsets
        if not pieces:
            run = len(text)
    if len(text) < ANCHOR:
        offsets = [0]
    return Form(name, text, run, tuple(offsets), wide, heads, tails, gaps)


def _is_public(text: bytes, offset: int) -> bool:
    piece = text[offset : offset + ANCHOR]
    return any(piece in flat(start.encode()) for start in _PUBLIC)


def _in_header(value: str, offset: int, spans: set[tuple[int, int]]) -> bool:
    for start, end in spans:
        before = len(flat(to_bytes(value[:start])))
        if before <= offset < before + len(flat(to_bytes(value[start:end]))):
            return True
    return False


def _escaped(value: str) -> list[str]:
    """Spellings that add letters: percent, JSON, entities, Python, shell; and twice over."""
    as_json = json.dumps(value)[1:-1]
    percent = urllib.parse.quote(value, safe="", errors="replace")
    found = [
        as_json,
        json.dumps(as_json)[1:-1],
        json.dumps(value, ensure_ascii=False)[1:-1],
        json.dumps(value).translate({ord("/"): "\\/"})[1:-1],
        percent,
        percent.lower() if percent != value else value,
        urllib.parse.quote(value, errors="replace"),
        urllib.parse.quote_plus(value, errors="replace"),
        urllib.parse.quote(percent, safe=""),
        html.escape(value),
        html.escape(value, quote=False),
        repr(value)[1:-1],
        repr(value.encode("utf-8", "replace"))[2:-1],
        value.replace("'", "'\\''"),
        value.replace("\n", "\\n"),
    ]
    return list(dict.fromkeys(found))


def _edges(value: str) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
    """What stands before the first and after the last letter or digit, in each spelling, longest first."""
    first = re.search(r"[A-Za-z0-9]", value)
    last = re.search(r"[A-Za-z0-9](?=[^A-Za-z0-9]*\Z)", value)
    head = value[: first.start()] if first else ""
    tail = value[last.end() :] if last else ""

    def spell(part: str) -> tuple[bytes, ...]:
        once = json.dumps(part)[1:-1]
        spelt = {
            part,
            once,
            json.dumps(once)[1:-1],
            json.dumps(part, ensure_ascii=False)[1:-1],
            urllib.parse.quote(part, safe="", errors="replace"),
            html.escape(part),
            repr(part)[1:-1],
            repr(part.encode("utf-8", "replace"))[2:-1],
        }
        return tuple(sorted((to_bytes(s) for s in spelt if s), key=len, reverse=True))

    return spell(head), spell(tail)


def _gaps(raw: bytes) -> tuple[int, ...]:
    """For each letter or digit, how many other bytes stand before it in the value itself."""
    gaps, gap = [], 0
    for byte in raw:
        if byte < 128 and chr(byte).isalnum():
            gaps.append(gap)
            gap = 0
        else:
            gap += 1
    return tuple(gaps)


def _base64(raw: bytes) -> Iterator[bytes]:
    """base64 of raw as it stands inside a longer encoded text, at each of the three offsets."""
    for offset in range(3):
        encoded = base64.b64encode(b"\0" * offset + raw)
        core = encoded[(0, 2, 3)[offset] : len(encoded) - (0, 4, 4)[(offset + len(raw)) % 3]]
        if len(flat(core)) >= ANCHOR:
            yield core


def _base32(raw: bytes) -> Iterator[bytes]:
    for offset in range(5):
        encoded = base64.b32encode(b"\0" * offset + raw)
        core = encoded[-(-offset * 8 // 5) : len(encoded) - (8 if (offset + len(raw)) % 5 else 0)]
        if len(core) >= ANCHOR:
            yield core
