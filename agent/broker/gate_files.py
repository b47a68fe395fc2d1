"""Files of a change that the checks read, to be named in the pull request (DESIGN section 4.10). Pure.

A gate's scripts come from the base branch, but what they run reads the tree that is judged: a test that was
emptied passes. Nobody can tell an honest change of a test from that, so a person is told where to look.
"""

from __future__ import annotations

from collections.abc import Iterable

from agent.contract.regex import regex

SHOWN = 30

_CONFIGURATION = frozenset(
    "makefile gnumakefile justfile taskfile.yml package.json tsconfig.json pyproject.toml setup.cfg setup.py tox.ini "
    "noxfile.py pytest.ini conftest.py .coveragerc mypy.ini ruff.toml .ruff.toml .flake8 cargo.toml go.mod "
    "build.gradle build.gradle.kts pom.xml gemfile rakefile .rspec phpunit.xml phpunit.xml.dist composer.json "
    "cmakelists.txt .golangci.yml .golangci.yaml .mocharc.json .mocharc.yml .pre-commit-config.yaml".split()
)
_CONFIGURATION_FORM = regex(r"(?:jest|vitest|vite|playwright|eslint|babel|karma|cypress)\.config\.[a-z]+|\.eslintrc.*")
_FOLDERS = frozenset({"test", "tests", "__tests__", "spec", "specs", "e2e", "testdata", "fixtures", "__snapshots__"})
_TEST_FILE = regex(r"test_.*|.*[._-](?:test|tests|spec)\.[a-z]+|.*_test|.*Tests?\.(?:java|kt|cs|swift|php)|.*\.snap")


def read_by_gates(changed: Iterable[str], named: Iterable[str]) -> tuple[str, ...]:
    """Those of the changed paths that a check reads or may read, sorted.

    Args:
        changed: repository-relative.
        named: files that the hooks' commands name.
    """
    scripts = set(named)
    return tuple(sorted(path for path in set(changed) if path in scripts or _is_read(path)))


def note(paths: Iterable[str]) -> str:
    """The paragraph for a pull request's body; empty where there is nothing to say."""
    every = list(paths)
    if not every:
        return ""
    rows = "\n".join(f"- `{_plain(path)}`" for path in every[:SHOWN])
    more = f"\n- and {len(every) - SHOWN} more" if len(every) > SHOWN else ""
    return (
        "\n\n---\nThis change touches files that the checks themselves read. "
        f"Look at these first: a check is as good as what it reads.\n\n{rows}{more}\n"
    )


def _is_read(path: str) -> bool:
    *folders, name = path.split("/")
    if any(folder.lower() in _FOLDERS for folder in folders):
        return True
    lower = name.lower()
    stem = lower.rpartition(".")[0] or lower
    return bool(
        lower in _CONFIGURATION
        or _CONFIGURATION_FORM.fullmatch(lower)
        or _TEST_FILE.fullmatch(name)
        or _TEST_FILE.fullmatch(lower)
        or _TEST_FILE.fullmatch(stem)
    )


def _plain(path: str) -> str:
    """A name that cannot end its code span or its line: paths are a third party's words."""
    return "".join(c if c.isprintable() and c != "`" else "\N{REPLACEMENT CHARACTER}" for c in path)[:300]
