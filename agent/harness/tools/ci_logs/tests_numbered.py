"""Failed tests of frameworks that number them: RSpec, Mocha, PHPUnit, Playwright, Minitest, ExUnit."""

from __future__ import annotations

import re

from agent.contract.regex import regex
from agent.harness.tools.ci_logs.findings import FIRST, SECOND, THIRD, Findings, Kind, Log, Place, place_of

_HEAD = regex(r"^(\s{0,4})(\d{1,4})\) (\S.*)$")
_SAYS = regex(
    r"(?m)^[ \t]*\d+ failing\b|^Failures:|^Failed examples:|^There (?:was|were) \d+ (?:failure|error)|"
    r"^[ \t]+\d+ failed$|^[ \t]+\d+\) (?:Failure|Error):$|\d+ tests?, \d+ failures?|^FAILURES!|^[ \t]+1\) \["
)
_PLACES = (
    regex(r"^\s+# (\S+?):(\d+):in "),  # RSpec
    regex(r"^(\S+\.php):(\d+)$"),
    regex(r"^\s+at (?:.*? \()?((?:(?:file|webpack)://)?[^\s():]+\.[cm]?[jt]sx?):(\d+):(\d+)\)?$"),
    regex(r"^\s+(\S+\.exs?):(\d+)(?:: .*)?$"),  # ExUnit
    regex(r"^\S.* \[(\S+?):(\d+)\]:$"),  # Minitest
)
_TOTALS = regex(
    r"^\s*(?:\d+ examples?, [1-9]\d* failures?.*|\d+ failing|\d+ failed|"
    r"Tests: \d+, Assertions: .*(?:Failures|Errors): .*|"
    r"\d+ runs, \d+ assertions, .*|(?:\d+ doctests?, )?\d+ tests?, [1-9]\d* failures?.*)$"
)
_RSPEC = regex(r"^rspec (\.?/?\S+?):(\d+) # (.+)$")
_EXUNIT_OWN = regex(r"^\s+(\S+\.exs):(\d+)$")
_EXUNIT_FRAME = regex(r"^\s+\((\w+) [\w.+-]+\) (\S+\.exs?):(\d+): ")
_BLOCK = 60
_HEADS_CAP = 200


def numbered(log: Log, out: Findings) -> None:
    """Blocks that begin with `1) …`, with message, difference and the first frame in the repository."""
    if not _SAYS.search(log.text):
        return
    # Mocha numbers failures in its progress list too; the details come after the count
    begin = next((i for i, text in enumerate(log.lines) if re.match(r"^\s*\d+ failing\b", text)), 0)
    heads = [i for i in range(begin, len(log.lines)) if _HEAD.match(log.lines[i])][:_HEADS_CAP]
    for i in heads:
        _block(log, out, i, set(heads))
    for i, text in enumerate(log.lines):
        if _TOTALS.match(text):
            out.keep(i, FIRST)
        elif _RSPEC.match(text):
            out.keep(i, SECOND)


def _block(log: Log, out: Findings, start: int, heads: set[int]) -> None:
    head = _HEAD.match(log.lines[start])
    assert head is not None
    name, end = head[3].strip(), start + 1
    if name in ("Failure:", "Error:") and start + 1 < len(log.lines):
        name = log.lines[start + 1].split(" [")[0].strip().rstrip(":")
    else:
        name, end = _title(log, start, name, len(head[1]))
    at: Place | None = None
    own = re.search(r"(?:^|› )(\S+\.[cm]?[jt]sx?):(\d+):\d+ › ", name)
    if own:
        at = place_of(log, own[1], own[2])
    own_start: Place | None = None
    said = frames = 0
    explained = False
    for i in range(start + 1, min(start + _BLOCK, len(log.lines))):
        text = log.lines[i]
        if (
            i in heads
            or _TOTALS.match(text)
            or _RSPEC.match(text)
            or text.startswith(("Finished in", "FAILURES!", "##["))
        ):
            break
        if i < end:
            out.keep(i, FIRST)
            continue
        if not text.strip():
            continue
        if i == end and (declared := _EXUNIT_OWN.match(text)):  # where the test begins, not where it fails
            at = own_start = place_of(log, declared[1], declared[2])
            out.keep(i, SECOND)
            out.place(at, i)
            continue
        found = next((m for p in _PLACES if (m := p.match(text))), None)
        app = _EXUNIT_FRAME.match(text)
        if app and app[1] != log.repository.replace("-", "_"):
            explained = True  # a frame of a library
            continue
        if found or app:
            here = _frame(log, found, app)
            if here and frames < 3:
                out.keep(i, FIRST if frames == 0 else SECOND)
                out.place(here, i)
                if frames == 0 and (at is None or own or own_start):
                    at = Place(here.file, here.line)
                frames += 1
            explained = explained or here is not None
        elif re.match(r"^\s*(?:>?\s*\d+ \||\||at )", text):
            if text.lstrip().startswith(">"):
                out.keep(i, THIRD)
        elif said < 14 and not explained:
            said += 1
            out.keep(i, FIRST if said <= 8 else SECOND)
    if explained or said:
        out.keep(start, FIRST)
        out.vote(Kind.TEST, 3)
        out.test(name.rstrip("─ ").rstrip(":"), at, log.numbers[start])


def _frame(log: Log, found: re.Match[str] | None, app: re.Match[str] | None) -> Place | None:
    if app:
        return place_of(log, app[2], app[3])
    assert found is not None
    return place_of(log, found[1], found[2], found[3] if found.re.groups > 2 else None)


def _title(log: Log, start: int, name: str, indent: int) -> tuple[str, int]:
    """A Mocha title runs over several deeper lines up to one that ends with a colon."""
    if name.endswith((":", "─")) or "::" in name or " › " in name or "(" in name:
        return name, start + 1
    parts = [name]
    for i in range(start + 1, min(start + 6, len(log.lines))):
        text = log.lines[i]
        if not text.strip() or len(text) - len(text.lstrip()) <= indent + 2:
            break
        parts.append(text.strip())
        if text.rstrip().endswith(":") and not text.lstrip().startswith(("Failure/Error", "AssertionError")):
            return " ".join(parts), i + 1
        if "Error" in text:
            break
    return name, start + 1
