"""Pieces of Markdown around untrusted words: code that cannot be left, tables whose cells stay cells."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from agent.broker.report.plain import one_line, visible


def code(text: str, *, cap: int = 200) -> str:
    """Untrusted words as one code span: path, branch, command, code of a rule."""
    shown = one_line(text, cap=cap) or " "
    run = max((len(m) for m in re.findall(r"`+", shown)), default=0) + 1
    pad = " " if shown[0] == "`" or shown[-1] == "`" else ""
    return f"{'`' * run}{pad}{shown}{pad}{'`' * run}"


def block(text: str, *, info: str = "") -> str:
    """Untrusted lines as a fenced block with a fence longer than any inside."""
    shown = visible(text).rstrip("\n")
    run = max((len(m) for m in re.findall(r"`+", shown)), default=0)
    fence = "`" * max(3, run + 1)
    return f"{fence}{info}\n{shown}\n{fence}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; cells are Markdown of ours, a bar or a line break in one cannot end it."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(_cell(c) for c in line) + " |" for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def details(title: str, body: str) -> str:
    """A folded part; the title is ours."""
    return f"<details><summary>{title}</summary>\n\n{body}\n\n</details>"
