"""What the pages say is so: tests and files they name exist, and each requirement and each attack has its proof."""

from __future__ import annotations

import ast
import re

import pytest

from agent.contract.modes import MODES
from tests.support.doc_pages import (
    HANDED_OVER,
    ROOT,
    dead_anchors,
    functions_of,
    named_files,
    named_tests,
    pages,
    rows,
    text_of,
)

IDS = {
    **{f"A{n}": 0 for n in range(1, 8)},
    **{f"B{n}": 0 for n in range(1, 15)},
    **{f"C{n}": 0 for n in range(1, 9)},
    **{f"D{n}": 0 for n in range(1, 10)},
    **{f"E{n}": 0 for n in range(1, 16)},
}


@pytest.mark.parametrize("page", pages())
def test_every_test_file_and_heading_that_a_page_names_exists(page: str) -> None:
    """A page that outlives what it describes misleads; a renamed test takes its pages along."""
    text = text_of(page)

    assert [f"{path}::{name}" for path, name in named_tests(text) if name not in functions_of(path)] == []
    assert dead_anchors(page, text) == []
    if page not in HANDED_OVER:
        assert [str(file) for file in named_files(page, text) if not file.exists()] == []


def test_a_page_that_names_what_is_not_there_is_found() -> None:
    """The two checks above, held against a page that lies."""
    lie = (
        "`tests/unit/test_docs.py::test_of_nothing`, `agent/broker/nothing.py`, `git/none.py`, [gone](docs/nothing.md)"
    )

    assert named_tests(lie) == [("tests/unit/test_docs.py", "test_of_nothing")]
    assert dead_anchors("README.md", "[a](#try-it) [b](#gone) [c](CHANGELOG.md#gone)") == [
        "](#gone)",
        "](CHANGELOG.md#gone)",
    ]
    assert "test_of_nothing" not in functions_of("tests/unit/test_docs.py")
    assert {file.name for file in named_files("README.md", lie) if not file.exists()} == {
        "nothing.py",
        "none.py",
        "nothing.md",
    }


def test_every_requirement_has_a_test() -> None:
    """The map of docs/requirements.md: each id once, each with tests (whose being there is checked above)."""
    table = rows(text_of("docs/requirements.md"), "id")
    listed = re.findall(r"\b([A-E]\d{1,2}) ", text_of("docs/requirements.md").partition("## Proofs")[0])

    assert [row[0] for row in table] == list(IDS)
    assert set(listed) >= set(IDS)
    assert [row[0] for row in table if not named_tests(row[1])] == []


def test_every_attack_has_a_mechanism_and_a_test() -> None:
    """docs/threat-model.md: a module that stops it, a test that proves it; each red-team case is in the table."""
    text = text_of("docs/threat-model.md")
    table = rows(text, "attack")

    assert len(table) >= 40
    assert [row[0] for row in table if not re.search(r"`(agent|action)/", row[1]) or not named_tests(row[2])] == []
    cases = {path.name[:3] for path in (ROOT / "fixtures/redteam").glob("R*.yaml")}
    assert cases <= set(re.findall(r"\bR\d\d\b", text))


def test_the_top_level_is_what_was_asked_for() -> None:
    """A1: the action, its image, its entrypoint, the agent, tests, fixtures, workflows and this page."""
    wanted = ("action.yml", "Dockerfile", "entrypoint.py", "agent", "tests", "fixtures", ".github", "README.md")

    assert [name for name in wanted if not (ROOT / name).exists()] == []


def test_the_readme_promises_only_modes_that_there_are() -> None:
    """Words after the trigger in README and recipes; a recipe's own mode stands in a configuration beside it."""
    text = text_of("README.md") + text_of("docs/recipes.md")
    words = set(re.findall(r"`/airlock ([a-z-]+)", text))
    declared = set(re.findall(r"^    modes:\n      (\w+):", text, re.MULTILINE))

    assert words > {"review", "fix-ci", "plan", "implement"}
    assert words <= set(MODES) | declared


def test_no_module_is_over_three_hundred_lines_without_its_reason_in_its_docstring() -> None:
    """A docstring that names the number of lines is taken for the reason."""

    def lacks_reason(source: str) -> bool:
        docstring = ast.get_docstring(ast.parse(source)) or ""
        return len(source.splitlines()) > 300 and not re.search(r"\d{3,} lines", docstring)

    modules = [ROOT / "entrypoint.py", *sorted((ROOT / "agent").rglob("*.py"))]
    assert [str(path.relative_to(ROOT)) for path in modules if lacks_reason(path.read_text())] == []
    assert lacks_reason("\n" * 301)
    assert not lacks_reason('"""A table, 310 lines long: one row a route."""' + "\n" * 310)
