"""The ignore rules say what git says, and no pattern takes more than linear time."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agent.contract.gitignore import Ignores, PatternError, Rules, glob_regex


def git_says(folder: Path, rules: str, paths: list[str]) -> list[bool]:
    """What `git check-ignore` says of files that need not exist."""
    (folder / ".gitignore").write_bytes(rules.encode())
    run = subprocess.run(
        ["git", "check-ignore", "--stdin", "-z", "-v", "-n", "--no-index"],
        cwd=folder, input="\0".join(paths).encode(), capture_output=True, check=False,
    )  # fmt: skip
    fields = run.stdout.decode().split("\0")
    return [bool(fields[i + 2]) and not fields[i + 2].startswith("!") for i in range(0, len(fields) - 1, 4)]


def we_say(rules: str, paths: list[str]) -> list[bool]:
    """The same by our rules: a path below an ignored folder is ignored."""
    chain = Ignores().below("", rules)
    said = []
    for path in paths:
        names = path.split("/")
        said.append(any(chain.ignored("/".join(names[: i + 1]), folder=i < len(names) - 1) for i in range(len(names))))
    return said


PATHS = [
    "a", "b", "ab", "a.txt", "b.log", "a/b", "a/b/c", "a/x/b", "a/x/y/b", "x/a", "x/a/b", "x/a.txt", "x/y/b.log",
    "a b", "a ", "#a", "!a", "-", "]", "[", "a]", "a/b/c/d", "abcabc", "aXb", "a\\b", ".a", "..a", "a*b", "x/y/a",
]  # fmt: skip


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    return tmp_path


@pytest.mark.parametrize(
    "rules",
    [
        "a", "/a", "a/", "a/b", "/a/b", "**/b", "a/**", "a/**/b", "**", "*", "*.txt", "!a", "*\n!a",
        "*.*\n!*.txt", "x/**/b.log", "**/a/**", "a*b", "*a*b*c", "a?b", "?", "[ab]", "[!a]", "[^a]",
        "[a-c]*", "[]]", "[]-]", "[[:alpha:]]", "[[:digit:][:punct:]]", "\\#a", "\\!a", "#a", "a\\ ",
        "a ", "a  ", " a", "\\a", "a\\*b", "[\\]]", "[", "[a", "a\\", "/", "//", "", "\r", "a\r\nb\r",
        "a/b/", "a/*", "a/*/b", "*/b", "/*", "/*\n!/a", ".*", "**a", "a**", "a**b", "x/**", "[c-a]",
        "[!-~]", "\ufeffa", "a/**/**/b", "**/**/b", "a//b", "*//", "//a", "*//*", "[[:nope:]]", "x/\\a", "***",
    ],
)  # fmt: skip
def test_known_rules_as_git_reads_them(repository: Path, rules: str) -> None:
    """Each form of a rule gives git's own verdict for every path of the list."""
    assert dict(zip(PATHS, we_say(rules, PATHS), strict=True)) == dict(
        zip(PATHS, git_says(repository, rules, PATHS), strict=True)
    )


_PIECES = st.sampled_from(["a", "b", "x", "*", "**", "?", "/", "[ab]", "[!a]", ".txt", ".", "\\", "!", "-", "[a-c]"])


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=st.lists(st.lists(_PIECES, min_size=1, max_size=6).map("".join), min_size=1, max_size=4))
def test_random_rules_as_git_reads_them(repository: Path, lines: list[str]) -> None:
    """Random rules give git's own verdicts."""
    rules = "\n".join(lines)
    assert dict(zip(PATHS, we_say(rules, PATHS), strict=True)) == dict(
        zip(PATHS, git_says(repository, rules, PATHS), strict=True)
    )


def test_nested_files_and_the_nearest_decides(repository: Path) -> None:
    """A folder's own file comes before the one above, and is relative to its folder."""
    chain = Ignores().below("", "*.log\n/top\n").below("sub", "!keep.log\n/top\nx/y\n")
    asked = {
        "sub/a.log": True, "sub/keep.log": False, "sub/top": True, "sub/deep/top": False, "sub/x/y": True,
        "sub/deep/x/y": False, "sub/deep/keep.log": False, "sub/other": False,
    }  # fmt: skip
    assert {path: chain.ignored(path, folder=False) for path in asked} == asked
    assert chain.kept("sub", ["a.log", "keep.log", "b"], folders=False) == ["keep.log", "b"]


@pytest.mark.parametrize(
    "pattern",
    ["*a" * 400 + "*b", "**/a/" * 150 + "b", "*" * 900 + "b", "a*" * 300 + "/" + "*a" * 100 + "b", "[!b]*" * 200 + "b"],
)
def test_hostile_patterns_are_linear(pattern: str) -> None:
    """Patterns that would take a naive matcher for ever answer at once on the longest path."""
    rules = Rules.parse(pattern)
    started = time.monotonic()
    for path in ("a" * 255, "/".join(["a" * 200] * 20), "a/" * 2000 + "c"):
        assert rules.verdict(path, path.rpartition("/")[2], folder=False) is None
    assert time.monotonic() - started < 5


def test_globs_over_whole_paths() -> None:
    """The compiled glob takes the whole path, and `**` any number of folders."""
    cases = {
        "src/**/*.py": (["src/a.py", "src/x/y/a.py"], ["a.py", "src/a.pyc", "xsrc/a.py"]),
        "*.py": (["a.py"], ["x/a.py"]),
        "**/*.py": (["a.py", "x/a.py"], ["a.txt"]),
        "docs/**": (["docs/a", "docs/a/b"], ["docs", "docsx/a"]),
        "a/*/c": (["a/b/c"], ["a/c", "a/b/b/c"]),
    }
    for pattern, (hits, misses) in cases.items():
        glob = glob_regex(pattern)
        assert [p for p in hits + misses if glob.match(p)] == hits, pattern
    for pattern in ("[a", "a\\", "x" * 1001):
        with pytest.raises(PatternError):
            glob_regex(pattern)
