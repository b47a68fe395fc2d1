"""One canonical form of a path: every other spelling of it is refused."""

from __future__ import annotations

from urllib.parse import quote, unquote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent.broker.policy.path import BadPath, join_path, split_path

AMBIGUOUS = {
    "dot dot": "/repos/acme/widgets/../payments/issues",
    "dot": "/repos/acme/widgets/./issues",
    "encoded dot dot": "/repos/acme/widgets/%2e%2e/payments/issues",
    "half encoded dot dot": "/repos/acme/widgets/.%2e/payments",
    "encoded slashes": "/repos/acme/widgets/%2E%2E%2Fpayments%2Fissues",
    "doubly encoded": "/repos/acme/widgets/%252e%252e/payments/issues",
    "encoded slash in a name": "/repos/acme%2Fwidgets/../payments",
    "encoded slash alone": "/repos/acme%2Fwidgets",
    "double slash at the start": "//repos/acme/payments",
    "double slash inside": "/repos/acme/widgets//issues",
    "trailing slash": "/repos/acme/widgets/",
    "matrix parameter": "/repos/acme/widgets/issues/7;/../../../payments/issues",
    "matrix parameter alone": "/repos/acme/widgets/issues/7;x=1",
    "encoded semicolon": "/repos/acme/widgets/issues/7%3Bx",
    "query": "/repos/acme/widgets/issues?path=/repos/acme/payments",
    "encoded question mark": "/repos/acme/widgets/issues%3Fx=1",
    "fragment": "/repos/acme/widgets/issues#/../../payments",
    "backslash": "/repos/acme/widgets\\..\\payments",
    "encoded backslash": "/repos/acme/widgets/..%5C..%5Cpayments",
    "encoded backslash alone": "/repos/acme/widgets/a%5Cb",
    "encoded percent": "/repos/acme/widgets/contents/100%25",
    "encoded letter": "/repos/acme/widgets/%69ssues",
    "encoded dash": "/repos/acme/widgets%2Dother",
    "lower-case encoding": "/repos/acme/widgets/contents/caf%c3%a9",
    "not UTF-8": "/repos/acme/widgets/contents/caf%E9",
    "overlong dot": "/repos/acme/widgets/%C0%AE%C0%AE/payments",
    "broken encoding": "/repos/acme/widgets/contents/%zz",
    "cut off encoding": "/repos/acme/widgets/contents/%2",
    "raw non-ASCII": "/repos/acme/widgets/contents/café",
    "full-width dots": "/repos/acme/widgets/%EF%BC%8E%EF%BC%8E/payments",
    "full-width slash": "/repos/acme/widgets/a%EF%BC%8Fb",
    "one dot leader": "/repos/acme/widgets/%E2%80%A4%E2%80%A4/payments",
    "two dot leader": "/repos/acme/widgets/%E2%80%A5/payments",
    "zero width space": "/repos/acme/widgets/%E2%80%8B/x",
    "direction mark": "/repos/acme/widgets/a%E2%80%AEb",
    "line separator": "/repos/acme/widgets/a%E2%80%A8b",
    "blank": "/repos/acme/wid gets",
    "encoded blank before dots": "/repos/acme/widgets/%20../payments",
    "encoded blank alone": "/repos/acme/widgets/%20",
    "three dots": "/repos/acme/widgets/.../payments",
    "line break": "/repos/acme/widgets/issues\r\nX: y",
    "encoded line break": "/repos/acme/widgets/issues%0D%0AX:%20y",
    "encoded NUL": "/repos/acme/widgets/issues%00",
    "encoded C1 control": "/repos/acme/widgets/a%C2%85b",
    "another host": "https://evil.invalid/repos/acme/widgets",
    "user information": "https://api.github.com@evil.invalid/repos/acme/widgets",
    "host without scheme": "evil.invalid/repos/acme/widgets",
    "empty": "",
    "root alone": "/",
    "too long": "/" + "a" * 4096,
    "lone surrogate": "/repos/acme/\ud800",
}


@pytest.mark.parametrize("name", AMBIGUOUS)
def test_a_path_of_more_than_one_reading_is_refused_with_a_reason(name: str) -> None:
    """R09, R10, F03: refused rather than tidied."""
    found = split_path(AMBIGUOUS[name])

    assert isinstance(found, BadPath)
    assert found.reason


@pytest.mark.parametrize(
    ("path", "segments"),
    [
        ("/repos/acme/widgets", ("repos", "acme", "widgets")),
        ("/a/b%20c", ("a", "b c")),
        ("/heads/fix%2342", ("heads", "fix#42")),
        ("/contents/caf%C3%A9.md", ("contents", "café.md")),
        ("/x/it's-me+build@1,2=(3)!*&$:", ("x", "it's-me+build@1,2=(3)!*&$:")),
        ("/compare/main...topic", ("compare", "main...topic")),
        ("/contents/.github/..rc", ("contents", ".github", "..rc")),
        ("/labels/%22%3C%3E%5B%5D%5E%60%7B%7C%7D", ("labels", '"<>[]^`{|}')),
    ],
)
def test_ordinary_names_pass_and_come_back(path: str, segments: tuple[str, ...]) -> None:
    """Odd but harmless names have one form, and it survives the way to the wire."""
    assert split_path(path) == segments
    assert split_path(join_path(segments)) == segments


@given(st.text(max_size=60) | st.text(alphabet="/.%25eEfF2;?#\\ab", max_size=40).map(lambda t: "/" + t))
@example("/%2e")
def test_whatever_passes_reads_the_same_to_a_lenient_reader(path: str) -> None:
    """A proxy that decodes as often as it likes and tidies dots and slashes reads the very same segments."""
    found = split_path(path)
    if isinstance(found, BadPath):
        return
    wire = join_path(found)
    lenient = wire
    for _ in range(3):
        lenient = unquote(lenient)
    parts = lenient.replace("\\", "/").split("?")[0].split(";")[0].split("/")

    assert tuple(parts[1:]) == found
    assert not {"", ".", ".."} & set(found)
    assert wire.isascii()
    assert wire.isprintable()


@given(st.lists(st.text(min_size=1, max_size=12), min_size=1, max_size=4))
def test_no_encoding_of_any_text_gives_a_path_that_differs_after_a_round_trip(texts: list[str]) -> None:
    """Decoding and encoding again is stable, so policy and wire never part."""
    path = "".join("/" + quote(text, safe="", errors="replace") for text in texts)
    found = split_path(path)

    if not isinstance(found, BadPath):
        assert split_path(join_path(found)) == found
