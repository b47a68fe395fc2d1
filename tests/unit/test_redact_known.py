"""Known values in every form never pass, pieces of them neither, and nothing else is touched (S3, E9)."""

from __future__ import annotations

import base64
import codecs
import html
import json
import random
import re
import string
import time
import urllib.parse
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.broker.redact import Growing, Redactor, Stream
from agent.broker.redact.known import KnownValues
from tests.support import make_corpus, oracles
from tests.support.seed import run_seed

TOKEN = "ghs_CANARY" + "k7QzXw19bTk7QzXw19bTLm4RpV8nZc"
SYMBOLS = 'pa"ss\\wo/rd-51c0ffee+9Q=='
LONG = make_corpus.value(random.Random(7), "github-app-jwt")
b64 = base64.b64encode


def each(pattern: str) -> Callable[[str], str]:
    return lambda v: "".join(pattern.format(o=ord(c), c=c) for c in v)


FORMS: dict[str, Callable[[str], str]] = {
    "plain": lambda v: v,
    "base64": lambda v: b64(v.encode()).decode(),
    "base64 one byte on": lambda v: b64(b"a" + v.encode()).decode(),
    "base64 two bytes on": lambda v: b64(b"ab" + v.encode() + b"!").decode(),
    "base64 of a header": lambda v: b64(f"x-access-token:{v}".encode()).decode(),
    "base64 url": lambda v: base64.urlsafe_b64encode(b"\xff\xfe" + v.encode()).decode(),
    "base64 in lines": lambda v: "\n    ".join(re.findall(".{1,60}", b64(v.encode()).decode())),
    "base64 in short lines": lambda v: "\n".join(re.findall(".{1,10}", b64(v.encode()).decode())),
    "base64 of utf-16": lambda v: b64(v.encode("utf-16-le")).decode(),
    "base32": lambda v: base64.b32encode(b"q" + v.encode()).decode(),
    "hex": lambda v: v.encode().hex(),
    "HEX": lambda v: v.encode().hex().upper(),
    "hex with colons": lambda v: ":".join(f"{c:02x}" for c in v.encode()),
    "hex in C": lambda v: ", ".join(f"0x{c:02x}" for c in v.encode()),
    "hex escapes": each("\\x{o:02x}"),
    "octal escapes": each("\\{o:03o}"),
    "unicode escapes": each("\\u{o:04x}"),
    "UNICODE escapes": each("\\u{o:04X}"),
    "unicode escapes in braces": each("\\u{{{o:x}}}"),
    "percent": each("%{o:02X}"),
    "percent, twice": lambda v: urllib.parse.quote("".join(f"%{ord(c):02X}" for c in v)),
    "url quoted": lambda v: urllib.parse.quote(v, safe=""),
    "url quoted, plus": urllib.parse.quote_plus,
    "entities": each("&#{o};"),
    "hex entities": each("&#x{o:x};"),
    "html": html.escape,
    "JSON": lambda v: json.dumps({"a": v}),
    "JSON with slashes escaped": lambda v: json.dumps({"a": v}).replace("/", "\\/"),
    "JSON in JSON": lambda v: json.dumps(json.dumps({"a": v})),
    "Python": repr,
    "shell": lambda v: "'" + v.replace("'", "'\\''") + "'",
    "spaced": " ".join,
    "dashed": "-".join,
    "three separators": " - ".join,
    "a character a line": "\n".join,
    "a character a line, in JSON": lambda v: json.dumps("\n".join(v)),
    "short lines, in JSON in JSON": lambda v: json.dumps(json.dumps("\r\n\t".join(re.findall(".{1,5}", v, re.S)))),
    "two of three in percent": lambda v: "".join(f"%{ord(c):02x}" if i % 3 else c for i, c in enumerate(v)),
    "every tenth an entity": lambda v: "".join(f"&#{ord(c)};" if i % 10 == 5 else c for i, c in enumerate(v)),
    "escapes of many kinds": lambda v: "".join(
        ("%{o:02X}", "{c}", "\\x{o:02x}", "&#x{o:x};", "\\u{{{o:x}}}", "{c}", "\\{o:03o}", "\\u{o:04x}")[i % 8].format(
            o=ord(c), c=c
        )
        for i, c in enumerate(v)
    ),
    "pieces joined in code": lambda v: '" + "'.join(re.findall(".{1,5}", v, re.S)),
    "utf-16": lambda v: v.encode("utf-16-le").decode("latin-1"),
    "reversed": lambda v: v[::-1],
    "rot13": lambda v: codecs.encode(v, "rot13"),
    "prefix cut off": lambda v: v[5:],
    "end cut off": lambda v: v[:-6],
    "first half": lambda v: v[: max(20, len(v) // 2)],
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("value", [TOKEN, SYMBOLS, LONG], ids=["token", "symbols", "long token"])
def test_a_known_value_is_found_in_form(form: str, value: str) -> None:
    """The oracle of the red team finds nothing, the text around stays, and once is enough."""
    redact = Redactor({"TOKEN": value}).known
    shown = redact(f"before {FORMS[form](value)} after")
    assert "[redacted:TOKEN]" in shown
    assert shown.startswith("before ")
    assert shown.endswith(" after")
    assert oracles.canary_hits(shown, value, "all") == []
    assert redact(shown) == shown


@pytest.mark.parametrize("seed", [1, run_seed()])
def test_the_corpus_of_registered_values(seed: int) -> None:
    """Each value in each form of the corpus leaves no eight characters behind; a new seed each run."""
    for row in make_corpus.build(seed, per_vendor=1)["registered"]:
        redact = Redactor({"S": row["registered"][0]}).known
        shown = redact(row["text"])
        if row["form"].startswith("gzip"):
            continue  # compressed text is not searched
        assert shown != row["text"], row
        assert [s for s in row["secrets"] if make_corpus.leak(s, shown)] == [], row
        assert redact(shown) == shown


def test_every_brace_is_not_a_secret() -> None:
    """F07: of a JSON secret its value is hidden and its braces are not; empty and short values are nobody's."""
    redactor = Redactor({"SECRET_JSON": '{\n"k": "CANARY-7f3a9c1e5b"\n}', "NONE": "", "SHORT": "a", "WORD": "password"})
    text = '{"a": [1, 2]}\n{\n}\n"k": a password'
    assert redactor.known(text) is text
    assert redactor.known("see CANARY-7f3a9c1e5b here") == "see [redacted:SECRET_JSON] here"
    assert redactor.unregistered == ["NONE", "SHORT", "WORD"]


def test_a_mask_never_breaks_json() -> None:
    """F08: quote and backslash at the very edges of the value, in JSON and in JSON within JSON."""
    for value in ('pa"ss\\word-51c0ffee', '"\\pass-51c0ffee-word\\', '\\"51c0ffee-abc-def"'):
        redact = Redactor({"P": value}).known
        for text in (json.dumps({"t": f"x {value} y"}), json.dumps({"t": json.dumps({"u": value})})):
            shown = redact(text)
            assert "[redacted:P]" in shown
            assert oracles.canary_hits(shown, value) == []
            assert json.loads(shown)


def test_lines_of_a_key_are_hidden_one_by_one() -> None:
    """A multi-line key: each line of its body alone, under a log's prefix; its public frame stays."""
    key = make_corpus.pem(random.Random(3), "RSA PRIVATE KEY", 4)
    redact = Redactor({"KEY": key}).known
    for line in key.split("\n")[1:-1]:
        assert redact(f"12:00:01 {line} |") == "12:00:01 [redacted:KEY] |"
    assert redact("-----BEGIN RSA PRIVATE KEY-----") == "-----BEGIN RSA PRIVATE KEY-----"


def test_the_password_of_a_url_is_hidden_alone() -> None:
    """A connection string is a secret whole, and so is its password in another string."""
    redact = Redactor({"DB": "postgres://app:51c0ffee%21Qz@db.internal:5432/w"}).known
    assert redact("PGPASSWORD=51c0ffee!Qz") == "PGPASSWORD=[redacted:DB]"
    assert redact("host db.internal:5432 is up") == "host db.internal:5432 is up"


def test_other_tokens_of_the_same_kind_are_left_alone() -> None:
    """Public prefixes and headers that every token of a kind shares are no piece of this one."""
    redact = Redactor({"T": LONG, "P": "x-access-token:" + TOKEN}).known
    other = make_corpus.value(random.Random(8), "github-app-jwt")
    for text in (other, "x-access-token: none", "eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCJ9", "ghs_"):
        assert redact(text) == text


def test_binary_data_of_a_tree_names_the_secret_it_holds() -> None:
    """A tree is refused by name, whatever surrounds the value; without the value it passes."""
    redactor = Redactor({"A": TOKEN})
    noise = random.Random(1).randbytes(300_000)
    assert redactor.holds_known(noise) is None
    assert redactor.holds_known(noise + TOKEN.encode("utf-16-be") + noise) == "A"
    assert redactor.holds_known(noise + TOKEN[8:].encode() + noise) == "A"
    assert redactor.known_bytes(b"\xff" + TOKEN.encode() + b"\xfe") == b"\xff[redacted:A]\xfe"


def test_a_value_added_later_is_known_from_then_on() -> None:
    """A token minted during the run."""
    redactor = Redactor({})
    assert redactor.known(TOKEN) == TOKEN
    redactor.add("MINTED", TOKEN)
    assert redactor.known(TOKEN) == "[redacted:MINTED]"


def test_a_text_that_was_clean_is_looked_at_again_once_it_is_a_secret() -> None:
    """Nothing is remembered as clean beyond the values in force, and a field's name counts."""
    redactor = Redactor({"ONE": "first-value-0001"})
    event = {"note": "token-minted-later-77", "names": ["read_file"]}

    assert [redactor.value(event), redactor.value(event)] == [event, event]
    redactor.add("TWO", "token-minted-later-77")
    assert redactor.value(event) == {"note": "[redacted:TWO]", "names": ["read_file"]}
    plain, under_a_name = "Qx7vLm2Zp9Rt4Wk8Yb3N", {"password": "Qx7vLm2Zp9Rt4Wk8Yb3N"}
    assert redactor.value({"about": plain}) == {"about": plain}
    assert redactor.value(under_a_name) != under_a_name


CLEAN = st.text(max_size=30) | st.sampled_from(
    [
        "=",
        "name: my_token",
        "read_file",
        "--password",
        "eyJ",
        "token=",
        "a\\nb",
        "key",
        "Bearer",
        "\\u00",
        "{",
        "-----BEGIN",
        "x" * 20_000,
    ]
)
NPM = "x/npm_" + "aB3dE5gH7jK9" * 3
ADDRESS = "value: your-host.example/?code=Zx81kLmQp0s9dR7tUvW2"
LEAKS = st.sampled_from(
    [TOKEN, TOKEN[:14], "token-minted-later-77", "password: hunter2horse99", "--password hunter2horse99",
     "https://me:s3cr3tpw9@host/", "ghp_" + "aB3dE5gH7jK9" * 3, "Authorization: Bearer aGVsbG8gd29ybGQ5OTk5",
     NPM, ADDRESS, "token-minted-\u2605\u2605\u2605\u2605", "later-77x"]
)  # fmt: skip
VALUE = st.recursive(
    CLEAN | LEAKS | st.none() | st.integers() | st.binary(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(CLEAN | LEAKS | st.sampled_from(["password", "api_key"]), inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(VALUE)
def test_strings_that_are_searched_together_hide_nothing_from_the_search(value: Any) -> None:
    """One search over all strings of a value finds what a search of each would."""
    redactor = Redactor({"A": TOKEN, "B": "token-minted-later-77"})
    each = redactor._value(value, "")
    assert redactor.value(value) == each
    assert redactor.value(each) == redactor._value(each, "")


@pytest.mark.parametrize("lines", [["=", NPM], {"a": "q=1", "b": NPM}, ["name: my_token", ADDRESS]])
def test_a_line_above_another_string_excuses_nothing_in_it(lines: Any) -> None:
    """What stands above a text in the common search must not make a credential in it pass for something else."""
    texts = [*lines.values()] if isinstance(lines, dict) else lines
    hidden = Redactor({}).value(lines)
    assert "[redacted:" in json.dumps(hidden)
    assert hidden == Redactor({})._value(lines, "")
    assert Redactor({}).value(texts[:1]) == texts[:1]


@pytest.mark.parametrize("far", [" \u2605\u2605\u2605\u2605 ", " \u8a9e\u8a9e "])
def test_a_value_inside_a_longer_one_that_is_torn_is_still_found(far: str) -> None:
    """The longer one's letters agree throughout but do not read as one; the shorter one stands there whole."""
    redactor = Redactor({"USER": "user7788Passw0rd12x", "PASSWORD": "Passw0rd12x"})
    assert redactor.known(f"user7788{far}Passw0rd12x") == f"user7788{far}[redacted:PASSWORD]"
    assert redactor.value(["user7788" + far, "Passw0rd12x"]) == ["user7788" + far, "[redacted:PASSWORD]"]
    assert redactor.known("say user7788 Passw0rd12x") == "say [redacted:USER]"


def test_a_value_across_a_chunk_boundary() -> None:
    """Large texts are scanned in chunks; a value may lie on any boundary."""
    redact = Redactor({"A": TOKEN}).known
    for shift in (-20, -1, 0, 1):
        pad = "x " * ((1 << 17) + shift)
        assert redact(pad + TOKEN + pad) == pad + "[redacted:A]" + pad


def test_a_password_of_symbols_and_other_scripts() -> None:
    """Values with too few letters for the flat view are found as they are spelt."""
    for value in ("!§$%&/()=?`´*+", "пароль-секрет-да", "密码是非常秘密的东西"):
        redact = Redactor({"P": value}).known
        for text in (value, value[::-1], json.dumps(value)[1:-1], urllib.parse.quote(value)):
            assert redact(f"a {text} b") == "a [redacted:P] b"


ALPHABET = string.ascii_letters + string.digits + "+/=_-.~!\"\\' "
VALUES = st.text(ALPHABET, min_size=24, max_size=60).filter(
    lambda v: sum(c.isdigit() for c in v) > 4 and sum(c.isalpha() for c in v) > 8 and v == v.strip()
)


@settings(max_examples=150, deadline=None)
@given(VALUES, st.text(max_size=60), st.text(max_size=60), st.sampled_from(sorted(FORMS)))
def test_no_value_passes_in_any_form(value: str, before: str, after: str, form: str) -> None:
    """Random values in random surroundings: the red team's oracle finds none of its `must` forms."""
    shown = Redactor({"V": value}).known(f"{before} {FORMS[form](value)} {after}")
    assert oracles.canary_hits(shown, value) == []


@settings(max_examples=200, deadline=None)
@given(st.text(max_size=400))
def test_text_without_a_secret_is_the_same_object(text: str) -> None:
    """Nothing is masked too much."""
    assert Redactor({"A": TOKEN, "B": SYMBOLS, "C": LONG}).known(text) is text


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 9000), max_size=30), st.integers(0, 40_000), st.sampled_from([TOKEN, LONG, SYMBOLS]))
def test_a_stream_gives_what_the_whole_gives(cuts: list[int], lead: int, value: str) -> None:
    """However a text is cut into pieces, no start of a secret gets out before its end is seen."""
    redactor = Redactor({"A": value})
    text = ("line of words\n" * (lead // 14 + 1))[:lead] + value + "\n" + "more words\n" * 3000 + value
    stream, out, at = Stream(redactor), "", 0
    for cut in [*cuts, len(text)]:
        piece = stream.feed(text[at : at + cut])
        out += piece
        at += cut
        assert value[:12] not in out
    assert out + stream.flush() == redactor.outside(text)


def test_a_stream_lets_text_out_before_its_end() -> None:
    """Holding everything back would be safe and useless."""
    stream = Stream(Redactor({"A": TOKEN}))
    out = "".join(stream.feed("words and words\n") for _ in range(10_000))
    assert len(out) > 100_000


PARTS = st.lists(
    st.sampled_from([TOKEN, TOKEN[:20], TOKEN[20:], SYMBOLS, "words " * 9000, "x", '"}]}', LONG]), max_size=6
)


@settings(max_examples=80, deadline=None)
@given(st.lists(PARTS, min_size=1, max_size=5))
def test_a_growing_text_gives_what_a_full_scan_gives(rounds: list[list[str]]) -> None:
    """Requests that repeat, shrink or change what they said before: never a difference to scanning all of it."""
    redactor = Redactor({"A": TOKEN, "B": SYMBOLS})
    growing, history = Growing(redactor), ""
    for number, parts in enumerate(rounds):
        history += "".join(parts)
        for body in (history + "]}", history[: len(history) // 2], history):
            assert growing.known_bytes(body.encode()) == redactor.known_bytes(body.encode())
        if number == 1:
            redactor.add("C", LONG)


def test_a_growing_text_is_never_scanned_from_the_middle_of_a_secret() -> None:
    """Wherever in it the scan of what is new would begin, the secret stays hidden: its rest alone may look harmless."""
    for value in (LONG, TOKEN):
        redactor = Redactor({"A": value})
        for inside in range(1, len(value), 3):
            growing = Growing(redactor)
            rest = b"word " * redactor.reach
            body = b"said " + value.encode() + b" " + rest[: redactor.reach - len(value) + inside - 1]
            for text in (body, body + b"a new message"):
                assert growing.known_bytes(text) == redactor.known_bytes(text)


def test_a_growing_text_is_not_scanned_again() -> None:
    """The work of a turn is that of what is new: two hundred turns over a megabyte stay cheap."""
    redactor = Redactor({"A": TOKEN})
    growing, body, scanned = Growing(redactor), b"", 0
    _, known = redactor.version_of_known()
    spans = known.spans

    def counted(data: bytes) -> object:
        nonlocal scanned
        scanned += len(data)
        return spans(data)

    known.spans = counted  # type: ignore[assignment,method-assign]
    for _ in range(200):
        body += b"a message of five thousand bytes " * 150
        growing.known_bytes(body + b"]}")
    assert scanned < 200 * (5000 + known.reach + 100)


def test_a_stream_inside_one_endless_key_stays_near_linear() -> None:
    """A megabyte that looks like one key block, in small pieces: nothing of it gets out, and soon."""
    stream, out = Stream(Redactor({"A": TOKEN})), ""
    started = time.process_time()
    out += stream.feed("-----BEGIN PRIVATE KEY-----\n")
    for _ in range(60):
        out += stream.feed("k7QzXw19bTk7QzXw19bTLm4RpV8nZcLm\n" * 250)
    out += stream.flush()
    assert "k7QzXw19" not in out.split("[redacted:private-key]")[0]
    assert time.process_time() - started < 8


@pytest.mark.parametrize("before", ["words\n", "\t", "a\\", "x\r", "\u00e9", "\u2028", "\b\f", "n"])
def test_an_encoded_value_right_after_an_escape_leaves_json_whole(before: str) -> None:
    """The letter of `\\n` is a base64 letter too, and taking it would leave a lone backslash (F08)."""
    value = "sk-ant-api03-" + "K3yK3yQ" * 5
    redactor = Redactor({"key": value})
    body = json.dumps({"text": before + base64.b64encode(value.encode()).decode() + " end"}).encode()
    shown = json.loads(redactor.known_bytes(body))["text"]
    assert shown.endswith("[redacted:key] end")
    assert oracles.canary_hits(shown, value, "all") == []


def test_values_that_come_one_by_one_are_built_into_one_automaton(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fifty secrets took over a second at the start of a run, when each one built all before it anew."""
    built: list[int] = []

    def counted(secrets: dict[str, set[str]]) -> KnownValues:
        built.append(len(secrets))
        return KnownValues(secrets)

    monkeypatch.setattr("agent.broker.redact.redactor.KnownValues", counted)
    values = {f"SECRET_{number}": f"q7Rt-{number:04d}-xK9vLm2PzW8y" for number in range(50)}
    redactor = Redactor({})
    for name, value in values.items():
        redactor.add(name, value)
    assert built == []
    assert redactor.known(" ".join(values.values())) == " ".join(f"[redacted:{name}]" for name in values)
    redactor.known("another text")
    assert built == [50]
