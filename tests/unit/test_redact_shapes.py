"""Credentials nobody registered: known by shape, by name or by place; what only looks so is left alone (S3)."""

from __future__ import annotations

import io
import json
import random
import re
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.broker.redact import Redactor, Stream
from tests.support import make_corpus
from tests.support.artifacts import PROPERTY
from tests.support.seed import run_seed

REDACTOR = Redactor({})


@pytest.fixture(scope="module", params=[1, run_seed()])
def corpus(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The shared corpus, of seed 1 and of one that nobody has seen."""
    return make_corpus.build(request.param)


@pytest.mark.parametrize("seed", [1, 2, run_seed()])
def test_the_corpus_reaches_its_own_bars(seed: int, record_property: Callable[[str, object], None]) -> None:
    """Every `must` credential gone with its line kept, at least 98 % of the look-alikes untouched."""
    table = io.StringIO()
    good = make_corpus.score(REDACTOR.outside, make_corpus.build(seed), out=table)
    scores = [line for line in table.getvalue().splitlines() if re.match(r"(positive|negative) \w+: ", line)]
    record_property(PROPERTY, ("redaction scores by seed", f"{seed:<10} {'; '.join(scores)}"))
    assert good, table.getvalue()


def test_redacting_twice_changes_nothing(corpus: dict[str, Any]) -> None:
    """Text passes the filter on several ways out; the markers match no rule."""
    for row in corpus["positive"] + corpus["negative"]:
        once = REDACTOR.outside(row["text"])
        assert REDACTOR.outside(once) == once


def test_json_stays_json(corpus: dict[str, Any]) -> None:
    """Any text of the corpus as a value, a key and JSON in JSON."""
    for row in corpus["positive"]:
        for document in ({"t": row["text"], "n": [1, None]}, {"deep": json.dumps({"t": row["text"]})}):
            shown = REDACTOR.outside(json.dumps(document))
            assert set(json.loads(shown)) == set(document)
            assert REDACTOR.value(document).keys() == document.keys()


def test_a_secret_over_several_chunks(corpus: dict[str, Any]) -> None:
    """The corpus's streams: one token or key over pieces of any size."""
    for row in corpus["stream"]:
        stream = Stream(REDACTOR)
        shown = "".join(stream.feed(piece) for piece in row["chunks"]) + stream.flush()
        assert [s for s in row["secrets"] if make_corpus.leak(s, shown)] == [], row


@pytest.mark.parametrize("vendor", ["github-app-short", "github-app-jwt"])
def test_both_forms_of_the_installation_token(vendor: str) -> None:
    """The old form of 40 characters and the new one of some 520, neither cut short."""
    token = make_corpus.value(random.Random(5), vendor)
    for text in (f"is {token}.", f"'{token}'", f"https://x-access-token:{token}@github.com/a/b"):
        shown = REDACTOR.outside(text)
        assert make_corpus.leak(token[4:], shown) is None
        assert shown[-1] == text[-1]


def test_a_key_of_parsed_json_names_its_value() -> None:
    """In a document that is redacted value by value the name stands in the key."""
    document = {"password": "Zx81-kq77-pool", "note": "Zx81-kq77-pool", "retries": 3, "api_key": None, "token": "abc"}
    assert REDACTOR.value(document) == {**document, "password": "[redacted:password]"}


@pytest.mark.parametrize(
    "before", ["cookie: lang=de; theme=dark; authorization: Bearer ", "name: my_token\nvalue: your-host.example/?code="]
)
def test_what_is_not_taken_whole_is_searched_inside(before: str) -> None:
    """A cookie line reaches to its end and an address may be an example's: neither covers what else is in it."""
    assert REDACTOR.outside(before + "Zx81kLmQp0s9dR7tUvW2").startswith(before + "[redacted:")


@pytest.mark.parametrize("value", ["90.7AphPQE54SOF", "1.2AphPQE54SOF", "v3.1x-Kq77Zpool9", "7.12.3-AbCd9fgHiJk2"])
def test_a_password_may_begin_as_a_version_does(value: str) -> None:
    """The next ones are versions, and stay."""
    assert REDACTOR.outside(f"ADMIN_PASSWORD={value}") == "ADMIN_PASSWORD=[redacted:password]"
    for version in (
        "1.29.0-gke.1510000",
        "7.12.3-beta.4",
        "v2.0.0rc1.dev3+abc",
        "1.2.3-SNAPSHOT",
        "2024.11.30-nightly",
    ):
        assert REDACTOR.outside(f"password_plugin: {version}") == f"password_plugin: {version}"
        assert REDACTOR.outside(f"PASSWORD={version}") == f"PASSWORD={version}"


def test_code_that_handles_credentials_is_left_alone() -> None:
    """Reviews quote code; a reader needs it as it is."""
    text = (
        'token = os.environ["GITHUB_TOKEN2"]\n'
        "self.api_key = settings.API_KEY_V2\n"
        "password: str = field(default_factory=lambda: gen(16))\n"
        "for key, value in items2.items(): secret1 = key\n"
        "assert token == b64decode(x1)\n"
        "cache_key: Linux-x64-node20-1f2e3d4c5b6a\n"
        "max_tokens=4096, tokens: 128000, key=lambda p: p[0]\n"
        "postgres://postgres:postgres@localhost:5432/test\n"
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\n"
        "commit 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b\n"
    )
    assert REDACTOR.outside(text) is text


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=300))
def test_any_text_is_taken(text: str) -> None:
    """Never an exception, and a second pass changes nothing."""
    once = REDACTOR.outside(text)
    assert REDACTOR.outside(once) == once


JSONS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner, max_size=3),
    max_leaves=12,
)
NAMES = st.sampled_from(["password", "api_key", "Authorization", "cookie", "note", 'odd" \\name'])


@settings(max_examples=200, deadline=None)
@given(JSONS, NAMES, st.sampled_from(sorted(make_corpus.V)), st.integers(0, 10**6))
def test_any_json_document_with_a_credential_stays_json(document: Any, name: str, vendor: str, seed: int) -> None:
    """Serialised text is redacted where it comes from outside already serialised (API bodies)."""
    value = make_corpus.value(random.Random(seed), vendor)
    json.loads(REDACTOR.outside(json.dumps({"d": document, name: value, "t": f'say "{value}"'})))


@pytest.mark.parametrize(
    "piece",
    [
        "eyJA", "eyJAAAAAAAAA.", ".eyJAAAAAAAAA", "token=/", "token=", "key: ", "://a:", "-----BEGIN PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\n", "mysql ", "cookie: a=", "authorization: ", "Q~", ":AA_", "SG.aaaa", "sk-ant-a",
        "{\n", "\\", '"', "%41", "AKIA", "ghp_", "login a password ", "name: key\n", "?key=", "\x1b[0m",
    ],
)  # fmt: skip
def test_hostile_repetition_takes_linear_time(piece: str) -> None:
    """A model or a log can be a megabyte of half a credential; quadratic work would take minutes."""
    text = piece * (600_000 // len(piece)) + "1"
    started = time.process_time()
    REDACTOR.outside(text)
    assert time.process_time() - started < 8
