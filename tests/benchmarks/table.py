"""A table of figures, each beside its floor of the same run and the design's budget."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One figure.

    Attributes:
        what: what was measured.
        figure, floor: with their units; the floor is the least that the same work can cost.
        ratio: of the two.
        budget: of the design, section 12; empty where it names none.
    """

    what: str
    figure: str
    floor: str = ""
    ratio: str = ""
    budget: str = ""


def beside(what: str, unit: str, figure: float, floor: float, budget: str = "") -> Row:
    """A figure over its floor."""
    return Row(what, f"{figure:.1f} {unit}", f"{floor:.1f} {unit}", f"{figure / floor:.1f} x", budget)


def markdown(rows: Iterable[Row]) -> str:
    """The table, in columns that also read well in a terminal."""
    cells = [("what", "here", "floor", "ratio", "budget"), ("", "", "", "", "")]
    cells += [(row.what, row.figure, row.floor, row.ratio, row.budget) for row in rows]
    wide = [max(3, *(len(line[column]) for line in cells)) for column in range(5)]
    lines = []
    for number, line in enumerate(cells):
        if number == 1:
            lines.append("| " + " | ".join("-" * width for width in wide) + " |")
        else:
            lines.append("| " + " | ".join(text.ljust(width) for text, width in zip(line, wide, strict=True)) + " |")
    return "\n".join(lines)
