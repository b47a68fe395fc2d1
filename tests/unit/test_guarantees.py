"""docs/guarantees.md: each cell says that something is held, by which test, or why it is not."""

from __future__ import annotations

from tests.support.doc_pages import functions_of, named_tests, rows, text_of

PAGE = "docs/guarantees.md"


def test_each_cell_is_held_by_a_test_or_says_why_not() -> None:
    """Four columns; «held» names tests that exist, «not held» a reason."""
    table = rows(text_of(PAGE), "guarantee")

    assert len(table) > 20
    assert {len(row) for row in table} == {5}
    cells = [(row[0], cell) for row in table for cell in row[1:]]
    held = [(what, cell) for what, cell in cells if cell.startswith("held")]
    told = [(what, cell) for what, cell in cells if cell.startswith("not held, because ")]
    assert [cell for cell in cells if cell not in held and cell not in told] == []
    assert [cell for cell in held if not named_tests(cell[1])] == []
    gone = [(path, name) for _, cell in cells for path, name in named_tests(cell) if name not in functions_of(path)]
    assert gone == []


def test_what_no_backend_of_processes_can_do_is_said() -> None:
    """The page does not claim what only a control group or namespaces give."""
    table = {row[0]: row[1:] for row in rows(text_of(PAGE), "guarantee")}

    together = table["memory of all processes together, at any instant"]
    assert [cell.startswith("held") for cell in together] == [False, False, False, True]
    covers = next(cells for what, cells in table.items() if what.startswith("protected paths are read-only"))
    assert [cell.startswith("held") for cell in covers] == [True, False, True, True]
