"""Path templates match whole segments and nothing by halves."""

from __future__ import annotations

import pytest

from agent.broker.policy.template import compile_template
from agent.contract.errors import UserError

PATTERNS = {"n": "[1-9][0-9]*", "name": "[a-z]+", "file": r"[^\x00]+"}


@pytest.mark.parametrize(
    ("template", "segments", "expected"),
    [
        ("/a/{n}", ("a", "7"), {"n": "7"}),
        ("/a/{n}", ("a", "07"), None),
        ("/a/{n}", ("a", "7\n"), None),
        ("/a/{n}", ("a",), None),
        ("/a/{n}", ("a", "7", "b"), None),
        ("/a/{n}", ("A", "7"), None),
        ("/a/{file...}", ("a", "b", "c"), {"file": "b/c"}),
        ("/a/{file...}", ("a",), None),
        ("/a/{file...}/end", ("a", "b", "c", "end"), {"file": "b/c"}),
        ("/a/{file...}/end", ("a", "b", "c"), None),
        ("/a/**", ("a", "b", "c"), {"rest": "b/c"}),
        ("/a/**", ("a",), None),
        ("/a/**", ("ab", "c"), None),
    ],
)
def test_a_template_matches_whole_segments(
    template: str, segments: tuple[str, ...], expected: dict[str, str] | None
) -> None:
    """One row a rule."""
    assert compile_template(template, PATTERNS).match(segments) == expected


@pytest.mark.parametrize(
    "template",
    [
        "a",
        "",
        "//a",
        "/a//b",
        "/a/",
        "/a/x{n}",
        "/a/{n}x",
        "/a/{other}",
        "/a/*",
        "/a?b",
        "/{file...}/**",
        "/a/{N}",
        "/a;b",
    ],
)
def test_a_text_that_is_no_template_is_refused(template: str) -> None:
    """A typing mistake in a rule is an error at load, not a rule of another meaning."""
    with pytest.raises(UserError):
        compile_template(template, PATTERNS)
