"""Patterns that are compiled at their first use."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from agent.contract.regex import regex

ROOT = Path(__file__).resolve().parents[2]


def test_a_late_pattern_is_the_pattern() -> None:
    """Methods, flags and bytes; a second use is of the same compiled one."""
    late = regex("(a+)(b?)", re.IGNORECASE)
    assert late.sub(r"<\1>", "xAAby") == "x<AA>y"
    assert [m[0] for m in late.finditer("ab aa")] == ["ab", "aa"]
    assert (late.pattern, late.flags, late.groups) == ("(a+)(b?)", re.compile("a", re.IGNORECASE).flags, 2)
    assert late.search is late.search
    assert regex(rb"\d").findall(b"a1b2") == [b"1", b"2"]


def test_a_wrong_late_pattern_is_an_error_at_its_use() -> None:
    wrong = regex("(")
    with pytest.raises(re.error):
        wrong.search("")


CODE = """
import gc, re, sys
sys.path.insert(0, sys.argv[1])
compiled = []
real = re.compile
re.compile = lambda *given: compiled.append((sys._getframe(1).f_globals["__name__"], given[0])) or real(*given)
import {stage}
late = [thing for thing in gc.get_objects() if type(thing).__module__ == "agent.contract.regex"]
at_import = [name for name, _ in compiled if name.startswith("agent.") and not name.startswith({kept!r})]
print(at_import, len(late) > 5)
for thing in late:
    thing.search  # each is a right one
"""


@pytest.mark.parametrize(
    ("stage", "kept"),
    [
        ("agent.broker.process", ("agent.broker.redact",)),  # needed at once
        ("agent.harness.main, agent.harness.tools.ci_logs", ("agent.harness.loop", "agent.harness.clients")),
    ],
)
def test_no_part_compiles_its_patterns_while_it_loads(stage: str, kept: tuple[str, ...]) -> None:
    """The time to the first request to a model is the time to load; and all of them can be compiled."""
    code = CODE.format(stage=stage, kept=kept)
    done = subprocess.run([sys.executable, "-I", "-c", code, str(ROOT)], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[] True\n", "")
