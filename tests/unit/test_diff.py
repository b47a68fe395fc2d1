"""Hunks, commentable lines and anchors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.contract.diff import Anchor, AnchorVerdict, numbered, parse_patch, place, ranges

PATCH = "@@ -10,3 +10,4 @@\n x\n+y\n z\n w"
TWO = "@@ -1,2 +1,2 @@ def f():\n-a\n+b\n c\n\\ No newline at end of file\n@@ -20 +20,2 @@\n q\n+r"


def test_commentable_lines_are_those_of_the_hunks() -> None:
    """Added and context lines right, deleted and context lines left."""
    assert ranges(parse_patch(PATCH), "RIGHT") == "10-13"
    assert ranges(parse_patch(PATCH), "LEFT") == "10-12"
    assert ranges(parse_patch(TWO), "RIGHT") == "1-2, 20-21"
    assert ranges(parse_patch(TWO), "LEFT") == "1-2, 20"


def test_a_header_that_counts_too_much_or_too_little_makes_no_line_commentable() -> None:
    """Lines past the header's counts do not belong to the hunk."""
    assert ranges(parse_patch("@@ -1 +1 @@\n-a\n+b\n+c\n d"), "RIGHT") == "1"
    assert ranges(parse_patch("not a hunk\n+x"), "RIGHT") == ""


@pytest.mark.parametrize(
    ("anchor", "verdict"),
    [
        (Anchor("a.py", 11), AnchorVerdict(Anchor("a.py", 11))),
        (Anchor("a.py", 13), AnchorVerdict(Anchor("a.py", 13))),
        (Anchor("a.py", 14), AnchorVerdict(None, "line 14 (RIGHT) is outside the diff, which has 10-13")),
        (Anchor("a.py", 13, "LEFT"), AnchorVerdict(None, "line 13 (LEFT) is outside the diff, which has 10-12")),
        (Anchor("a.py", 12, start_line=11), AnchorVerdict(Anchor("a.py", 12, start_line=11))),
        (Anchor("a.py", 11, start_line=12), AnchorVerdict(Anchor("a.py", 12, start_line=11))),
        (
            Anchor("a.py", 12, start_line=3),
            AnchorVerdict(Anchor("a.py", 12, start_line=10), "the range is cut to its hunk"),
        ),
        (Anchor("a.py", 10, start_line=3), AnchorVerdict(Anchor("a.py", 10), "the range is cut to its hunk")),
        (
            Anchor("bin.dat", 1),
            AnchorVerdict(None, "the diff shows no lines of this file (binary, too large, or only renamed)"),
        ),
        (Anchor("other.py", 1), AnchorVerdict(None, "the pull request does not change this file")),
    ],
)
def test_an_anchor_is_kept_mended_or_refused_but_never_moved(anchor: Anchor, verdict: AnchorVerdict) -> None:
    """The input of F17 and its like."""
    assert place(anchor, {"a.py": parse_patch(PATCH), "bin.dat": ()}) == verdict


def test_a_numbered_hunk_can_be_cited() -> None:
    """Old number, new number, kind, text."""
    assert numbered(parse_patch(PATCH)).split("\n") == [
        "@@ -10,3 +10,4 @@",
        "   10    10  x",
        "         11 +y",
        "   11    12  z",
        "   12    13  w",
    ]


@given(st.text(alphabet="@ -+,0123456789\n\\x", max_size=120), st.integers(1, 40), st.integers(1, 40))
def test_any_patch_parses_and_a_placed_anchor_lies_in_it(patch: str, line: int, start: int) -> None:
    """Whatever a server sends, a verdict's anchor is commentable."""
    hunks = parse_patch(patch)
    got = place(Anchor("a", line, start_line=start), {"a": hunks}).anchor
    if got is not None:
        numbers = next(h.numbers("RIGHT") for h in hunks if got.line in h.numbers("RIGHT"))
        assert got.start_line is None or (got.start_line in numbers and got.start_line < got.line)
