"""The project's pages as data: their code blocks, the tests and files they name, their tables."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# The agreement and the public record as they were handed over: their blocks are inputs that tests play, not advice.
HANDED_OVER = frozenset({"docs/design.md", "docs/reports.md"})

_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\S*)\n(?P<text>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL)
_NODE = re.compile(r"\b(tests/[\w/]+\.py)::(\w+)")
_FILE = re.compile(r"`((?:agent|tests|docs|fixtures|action|requirements|\.ci|\.github)/[\w./-]*\w/?)`")
_MODULE = re.compile(r"`((?:\w+/)*\w+\.py)`")
_LINK = re.compile(r"\]\((?!https?://|#|mailto:)([^)#\s]+)(?:#[^)]*)?\)")


@dataclass(frozen=True)
class Block:
    """One fenced block.

    Attributes:
        page: path of the page below the repository.
        line: of the opening fence, from 1.
        language: the word after the fence.
        text: content, without the fence's own indent.
    """

    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def pages() -> list[str]:
    """Every page of the project, by its path below the repository."""
    found = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob(".github/**/*.md")]
    return sorted(str(path.relative_to(ROOT)) for path in found)


def blocks() -> list[Block]:
    """Every fenced block of every page but those handed over."""
    return [block for page in pages() if page not in HANDED_OVER for block in blocks_of(page, text_of(page))]


def blocks_of(page: str, text: str) -> list[Block]:
    """The fenced blocks of one text."""
    found = []
    for match in _FENCE.finditer(text):
        indent = len(match["indent"])
        body = "".join(line[indent:] if line.strip() else line for line in match["text"].splitlines(keepends=True))
        found.append(Block(page, text.count("\n", 0, match.start()) + 1, match["language"], body))
    return found


def text_of(page: str) -> str:
    """A page's text."""
    return (ROOT / page).read_text()


def named_tests(text: str) -> list[tuple[str, str]]:
    """The tests that a text names as `path::name`."""
    return [(match[1], match[2]) for match in _NODE.finditer(text)]


def named_files(page: str, text: str) -> list[Path]:
    """The files that a text names between backticks or links to; of a module its name may stand for its path."""
    found = [ROOT / match[1] for match in _FILE.finditer(text)]
    found += [_module(match[1]) for match in _MODULE.finditer(text)]
    return found + [(ROOT / page).parent / match[1] for match in _LINK.finditer(text)]


def dead_anchors(page: str, text: str) -> list[str]:
    """Links to a heading that the page they name does not have."""
    dead = []
    for match in re.finditer(r"\]\((?!https?://)([^)#\s]*)#([^)]+)\)", text):
        target = (ROOT / page).parent / match[1] if match[1] else ROOT / page
        if not target.is_file() or match[2] not in _anchors(target.read_text()):
            dead.append(match[0])
    return dead


def _anchors(text: str) -> set[str]:
    """Names that GitHub gives to headings: lower case, punctuation left out, hyphens for blanks."""
    headings = re.findall(r"^#{1,6} (.+)$", re.sub(_FENCE, "", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def _module(name: str) -> Path:
    """The file of a module named by the end of its path, or where it would be."""
    return ROOT / next((path for path in _modules() if f"/{path}".endswith(f"/{name}")), Path(name))


@cache
def _modules() -> list[Path]:
    found = [*ROOT.glob("*.py"), *ROOT.glob("agent/**/*.py"), *ROOT.glob("tests/**/*.py"), *ROOT.glob("docs/**/*.py")]
    return [path.relative_to(ROOT) for path in found]


@cache
def functions_of(path: str) -> frozenset[str]:
    """Names of the test functions of a file; empty where there is no such file."""
    file = ROOT / path
    if not file.is_file():
        return frozenset()
    tree = ast.parse(file.read_text())
    return frozenset(
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    )


def rows(text: str, first: str) -> list[list[str]]:
    """The cells of the table whose head begins with a cell `first`."""
    lines = text.splitlines()
    start = next(index for index, line in enumerate(lines) if line.startswith(f"| {first} |"))
    found = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        found.append([cell.strip() for cell in line.strip("|").split(" | ")])
    return found
