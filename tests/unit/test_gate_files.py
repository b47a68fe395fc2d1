"""Which files of a change the checks read, as a reviewer is told."""

from __future__ import annotations

import pytest

from agent.broker.gate_files import note, read_by_gates


@pytest.mark.parametrize(
    "path",
    [
        "tests/test_cart.py", "src/__tests__/cart.ts", "cart_test.go", "src/cart.spec.ts", "CartTest.java",
        "src/CartTests.cs", "spec/cart_spec.rb", "a/__snapshots__/b.snap", "fixtures/data.bin", "Makefile",
        "package.json", "web/vite.config.ts", ".eslintrc.json", "pyproject.toml", "conftest.py", "scripts/check.sh",
    ],
)  # fmt: skip
def test_what_checks_read_is_named(path: str) -> None:
    """Tests, their data, tools' configuration, and the hooks' own files."""
    assert read_by_gates([path, "src/cart.py"], {"scripts/check.sh"}) == (path,)


@pytest.mark.parametrize(
    "path", ["src/cart.py", "README.md", "src/contest.py", "latest.py", "src/protest/a.py", "x.sh"]
)
def test_the_code_itself_is_not(path: str) -> None:
    """A name that merely holds the word test is ordinary code."""
    assert read_by_gates([path], {"scripts/check.sh"}) == ()


def test_a_hostile_name_stays_inside_its_code_span() -> None:
    """Paths are a third party's words: no backtick, no line break, and at most thirty of them."""
    text = note(["tests/`x`\n@everyone", *[f"tests/{n}" for n in range(40)]])

    assert "\n@everyone" not in text
    assert text.count("`") == 60
    assert "and 11 more" in text
    assert note([]) == ""
