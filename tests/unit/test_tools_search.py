"""Searching a hostile tree: in order, bounded, without what git ignores, never through a link."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.contract.framing import DATA_SENTENCE
from agent.harness.tools.matches import required_prefix
from tests.support.tools import Bench
from tests.unit.test_tools_files import body, note


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    root = tmp_path / "ws"
    for path, text in {
        "README.md": "# Widgets\nTODO: write\n",
        "src/app.py": "import os\n\ndef main():\n    return os.getcwd()\n",
        "src/util/text.ts": "export const todo = 1\r\n",
        "build/out.py": "TODO generated\n",
        "src/debug.log": "TODO log\n",
        "src/keep.log": "TODO keep\n",
        ".github/workflows/ci.yml": "on: push # TODO\n",
        "vendor/.git/config": "TODO nested\n",
        ".gitignore": "*.log\n/build\n!keep.log\n",
        "src/.gitignore": "secret.txt\n",
        "src/secret.txt": "TODO ignored\n",
    }.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(text.encode())
    (tmp_path / "out").mkdir()
    (tmp_path / "out/secret.txt").write_text("TODO canary-77aa\nroot:x:0:0\n")
    (root / "out").symlink_to(tmp_path / "out")
    (root / "ref.txt").symlink_to(tmp_path / "out/secret.txt")
    (root / "loop").symlink_to(".")
    (root / "blob.bin").write_bytes(b"TODO\0\0")
    os.mkfifo(root / "pipe")
    return root


def test_glob_finds_by_name_and_by_path(ws: Path) -> None:
    """Without a slash at any depth, with one by path; ignored files, git folders and linked folders are left out."""
    bench = Bench(ws)
    cases = {
        "*.py": ["src/app.py"],
        "**/*.py": ["src/app.py"],
        "src/*.py": ["src/app.py"],
        "*.{py,ts}": ["src/app.py", "src/util/text.ts"],
        "{README,src/ap?}.*": ["README.md", "src/app.py"],
        "*.log": ["src/keep.log"],
        "src/**": ["src/.gitignore", "src/app.py", "src/keep.log", "src/util/text.ts"],
        "*.yml": [".github/workflows/ci.yml"],
        "./src/app.py": ["src/app.py"],
        "ref*": ["ref.txt"],
    }
    for pattern, expected in cases.items():
        assert body(bench("glob", pattern=pattern).text).split("\n") == expected, pattern
    assert body(bench("glob", pattern="*.py", path="src").text) == "src/app.py"
    for pattern in ("out/*", "loop/*", ".git/**", "config", "*.zzz"):
        assert bench("glob", pattern=pattern).text.startswith("(no files)\n"), pattern
    for pattern in ("../*", "/etc/*", "src/../../*", "[a", "{" + "a,b}{" * 10 + "a,b}"):
        result = bench("glob", pattern=pattern)
        assert result.is_error, pattern
        assert "secret" not in result.text


def test_grep_shows_path_line_and_text(ws: Path) -> None:
    """Matches come in the order of paths with line numbers; CR is not part of a line."""
    bench = Bench(ws)
    found = bench("grep", pattern="TODO")
    assert body(found.text).split("\n") == [
        "README.md:2:TODO: write",
        ".github/workflows/ci.yml:1:on: push # TODO",
        "src/keep.log:1:TODO keep",
    ]
    assert note(found.text) == "3 matching lines; 1 binary files match and are not shown"
    assert (
        body(bench("grep", pattern="todo", ignore_case=True, glob="*.ts").text)
        == "src/util/text.ts:1:export const todo = 1"
    )
    assert body(bench("grep", pattern=r"^def \w+\(\):$").text) == "src/app.py:3:def main():"
    assert body(bench("grep", pattern="def", path="src/app.py", context=1).text) == (
        "src/app.py-2-\nsrc/app.py:3:def main():\nsrc/app.py-4-    return os.getcwd()\n--"
    )
    assert bench("grep", pattern="nowhere").text == "(no match)\nno match in 8 files; ignored ones are left out"


def test_grep_never_leaves_the_workspace(ws: Path) -> None:
    """Links to files and folders outside give nothing, asked for or met on the way."""
    bench = Bench(ws)
    assert "canary" not in bench("grep", pattern="canary|root:").text
    for path in ("out", "ref.txt", "..", "/etc", "vendor/.git", "pipe", "missing"):
        result = bench("grep", pattern=".", path=path)
        assert result.is_error, path
        assert "canary" not in result.text
    (ws / "inner").symlink_to("src")
    assert body(bench("grep", pattern="getcwd", path="inner").text).endswith("return os.getcwd()")


def test_an_ignored_place_is_searched_when_asked_for(ws: Path) -> None:
    """`build` is ignored, and searched when it is the path of the call; rules from above still hold in `src`."""
    bench = Bench(ws)
    assert body(bench("grep", pattern="TODO", path="build").text) == "build/out.py:1:TODO generated"
    assert body(bench("grep", pattern="TODO", path="src").text) == "src/keep.log:1:TODO keep"
    assert body(bench("grep", pattern="TODO", path="src/secret.txt").text) == "src/secret.txt:1:TODO ignored"


def test_pages_of_matches_join_to_the_whole(ws: Path) -> None:
    """Going on at the offset the note names gives every match once, for any limit."""
    (ws / "many.txt").write_text("".join(f"hit {i}\n" for i in range(257)))
    bench = Bench(ws)
    seen: list[str] = []
    offset = 1
    while True:
        text = bench("grep", pattern="^hit", offset=offset, limit=50).text
        seen += body(text).split("\n")
        if "more: offset=" not in text:
            break
        offset = int(text.rpartition("offset=")[2].split(";")[0])
    assert seen == [f"many.txt:{i + 1}:hit {i}" for i in range(257)]
    assert bench("grep", pattern="^hit", offset=300).text.startswith("offset=300 is past the end: there are 257")


@pytest.mark.parametrize("pattern", ["(a*)*b", "([a-z]+)+[0-9]", "(a|aa)+$", "(.*)*x", "(?:a?){50}a{50}z", "(x+x+)+y"])
def test_patterns_made_to_hang_end_at_once(ws: Path, pattern: str) -> None:
    """Linear time for expressions that other engines never finish."""
    (ws / "x.txt").write_text("a" * 400_000)
    bench = Bench(ws)
    started = time.monotonic()
    bench("grep", pattern=pattern, path="x.txt")
    assert time.monotonic() - started < 10


@pytest.mark.parametrize("pattern", ["(unclosed", "[a", "a{1001}", r"(?<=a)b", r"\1", "", "\ud800"])
def test_a_bad_expression_is_told(ws: Path, pattern: str) -> None:
    """What RE2 does not take is an error that says so, not a crash and not an empty result."""
    result = Bench(ws)("grep", pattern=pattern)
    assert result.is_error
    assert result.text.startswith("The pattern is ")


def test_long_lines_and_large_files_are_shown_in_part(ws: Path) -> None:
    """A match in a giant line is shown with what stands around it; a giant file is searched to the cap."""
    (ws / "one.txt").write_text("x" * 100_000 + "NEEDLE" + "y" * 100_000)
    with (ws / "big.txt").open("wb") as file:
        file.write(b"filler line\n" * 800_000 + b"NEEDLE late\n")
    bench = Bench(ws)
    text = bench("grep", pattern="NEEDLE").text
    assert len(text) < 1200
    assert "xNEEDLEy" in body(text)
    assert "[line of 200006 bytes]" in body(text)
    assert "1 files were searched in their first 8 MB alone" in note(text)


def test_pages_of_files_join_to_the_whole(ws: Path) -> None:
    """Going on at the named offset gives every file once, in order, over folders large and small."""
    for folder, count in (("m1", 150), ("m2", 3), ("m3", 260)):
        (ws / folder).mkdir()
        for i in range(count):
            (ws / folder / f"f{i:03}.dat").touch()
    bench = Bench(ws)
    seen: list[str] = []
    offset = 1
    while True:
        text = bench("glob", pattern="*.dat", offset=offset).text
        seen += body(text).split("\n")
        if "more: offset=" not in text:
            break
        offset = int(text.rpartition("offset=")[2])
    assert seen == sorted(str(p.relative_to(ws)) for p in ws.rglob("*.dat"))
    assert bench("glob", pattern="*.dat", offset=414).is_error


def test_a_page_is_bounded_in_characters(ws: Path) -> None:
    """Thousands of matches give one page and a way on."""
    (ws / "many.txt").write_text("".join(f"{'z' * 250} {i}\n" for i in range(5000)))
    text = Bench(ws)("grep", pattern="zzz", limit=2000).text
    assert len(text) < 26_000
    assert "more: offset=" in text


def test_names_that_are_no_text_do_not_stop_a_search(ws: Path) -> None:
    """A name of odd bytes is shown as such."""
    os.mkdir(os.fsencode(ws) + b"/caf\xe9")
    Path(os.fsdecode(os.fsencode(ws) + b"/caf\xe9/a.txt")).write_text("odd TODO\n")
    bench = Bench(ws)
    assert body(bench("grep", pattern="odd TODO").text) == "caf[U+DCE9]/a.txt:1:odd TODO"
    assert body(bench("glob", pattern="a.txt").text) == "caf[U+DCE9]/a.txt"


@settings(max_examples=200, deadline=None)
@given(pattern=st.text(alphabet="ab.*+?[]()|\\{}^$1", max_size=10), text=st.text(alphabet="ab1.\n", max_size=30))
def test_the_literal_is_in_every_match(pattern: str, text: str) -> None:
    """The shortcut never hides a match: the bytes it asks for are in whatever matches."""
    import re2

    options = re2.Options()
    options.log_errors = False
    options.never_nl = True
    try:
        found = re2.compile(f"(?m:{pattern})".encode(), options).search(text.encode())
    except re2.error:
        return
    if found is not None:
        assert required_prefix(pattern) in text.encode()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pattern=st.text(max_size=12), path=st.sampled_from([".", "src", "out", "ref.txt", "..", "loop", "pipe"]))
def test_no_search_shows_the_outside(ws: Path, pattern: str, path: str) -> None:
    """Random patterns over every kind of path: never a word from outside, always a result."""
    bench = Bench(ws)
    for result in (bench("grep", pattern=pattern or ".", path=path), bench("glob", pattern=pattern or "*", path=path)):
        assert "canary" not in result.text
        assert "root:x" not in result.text
        assert result.is_error or DATA_SENTENCE in result.text or result.text.startswith("(no ")
