"""An extract as text: what failed first, the lines in the log's order, within a limit, and what was cut."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agent.harness.tools.ci_logs.findings import FIRST, SECOND, THIRD, FailedTest, Place
from agent.harness.tools.ci_logs.lines import shorten
from agent.harness.tools.ci_logs.segments import Segment

if TYPE_CHECKING:
    from agent.harness.tools.ci_logs.extract import FailingStep

EXTRACT_CAP = 8192
"""Bytes of one job's extract: about 2,000 tokens, and room for four jobs in one answer."""

_TESTS = 60
_PLACES = 24


def render(failing: Sequence[FailingStep], segments: Sequence[Segment], cap: int) -> tuple[str, bool]:
    """The text and whether anything was left out of it."""
    if not failing:
        total = segments[-1].last if segments else 0
        return f"No step of this job failed. The log has {total} lines.", False
    share = max(800, cap // len(failing) - 40)
    parts: list[str] = []
    cut = False
    left = cap
    for index, step in enumerate(failing):
        room = left if index == len(failing) - 1 else min(left, max(share, 800))
        text, was_cut = _step(step, room - 2)
        parts.append(text)
        left -= _size(text) + 2
        cut = cut or was_cut
    text = "\n\n".join(parts)
    raw = text.encode()
    if len(raw) > cap:
        text, cut = raw[: cap - 20].decode("utf-8", "ignore") + "\n[cut]", True
    return text, cut


def _size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def _step(step: FailingStep, room: int) -> tuple[str, bool]:
    head = [
        f'Step {step.number} "{step.name}": {step.conclusion}'
        if step.number
        else f'Step "{step.name}": {step.conclusion}'
    ]
    if step.exit_code is not None:
        head.append(f"exit code {step.exit_code}")
    head.append(f"kind {step.kind}")
    if step.first_line:
        head.append(f"log lines {step.first_line}-{step.last_line}")
    top = [", ".join(head), *step.notes]
    if not step.first_line:
        top.append("The log holds nothing of this step.")
    tests = _tests(step.tests)
    places = _places(step.places, step.tests)
    best, used = "", -1
    for worst in (THIRD, SECOND, FIRST):
        lines = [(n, shorten(t)) for n, t, worth in step.lines if worth <= worst]
        text = _join(top, tests, places, lines, len(step.lines))
        if _size(text) <= room:
            return text, len(lines) < len(step.lines)
        best, used = text, worst
    assert used == FIRST
    lines = [(n, shorten(t)) for n, t, worth in step.lines if worth == FIRST]
    return _squeeze(top, tests, places, lines, len(step.lines), room) or best, True


def _squeeze(
    top: list[str], tests: list[str], places: list[str], lines: list[tuple[int, str]], total: int, room: int
) -> str:
    """Fewer of the best lines: the beginning and the end of what was found, then fewer tests."""
    for shown_tests in (tests, tests[:21] + ["- …"] * (len(tests) > 21)):
        low, high = 0, len(lines)
        while low < high:
            middle = (low + high + 1) // 2
            if _size(_join(top, shown_tests, places, _ends(lines, middle), total)) <= room:
                low = middle
            else:
                high = middle - 1
        if low >= min(12, len(lines)):
            return _join(top, shown_tests, places, _ends(lines, low), total)
        places = places[:1] + places[1:9]
    return _join(top, tests[:13], [], _ends(lines, 8), total)


def _ends(lines: list[tuple[int, str]], count: int) -> list[tuple[int, str]]:
    """Two thirds from the beginning, one third from the end."""
    head = count - count // 3
    return lines[:head] + (lines[len(lines) - count // 3 :] if count // 3 else [])


def _tests(tests: Sequence[FailedTest]) -> list[str]:
    if not tests:
        return []
    lines = [f"Failed tests ({len(tests)}):"]
    lines += [f"- {t.name}{f' ({t.at})' if t.at else ''}" for t in tests[:_TESTS]]
    if len(tests) > _TESTS:
        lines.append(f"- and {len(tests) - _TESTS} more")
    return lines


def _places(places: Sequence[Place], tests: Sequence[FailedTest]) -> list[str]:
    known = {(t.at.file, t.at.line) for t in tests if t.at}
    others = [str(p) for p in places if (p.file, p.line) not in known]
    if not others:
        return []
    more = f" and {len(others) - _PLACES} more" if len(others) > _PLACES else ""
    return [f"Places: {', '.join(others[:_PLACES])}{more}"]


def _join(top: list[str], tests: list[str], places: list[str], lines: Sequence[tuple[int, str]], total: int) -> str:
    out = [*top, *tests, *places]
    if lines:
        out.append("Log:")
    before = None
    for number, text in lines:
        if before is not None and number > before + 1:
            out.append("…")
        out.append(text)
        before = number
    if len(lines) < total:
        out.append(f"[{total - len(lines)} less telling lines of those found are left out]")
    return "\n".join(out)
