"""Diagnostics of compilers and linters: one message, one place."""

from __future__ import annotations

import re

from agent.contract.regex import regex
from agent.harness.tools.ci_logs.findings import FIRST, SECOND, THIRD, Findings, Kind, Log, Place, place_of

_P = (  # bounded, so that no line of a hostile log can make the match quadratic
    r"(?:##\[error\])?\s{0,4}((?:[A-Za-z]:[\\/]|file://)?"
    r"(?:[^\s:(),;'\"|]{1,240}(?: [^\s:(),;'\"|.]{1,60}){0,1}\.[A-Za-z]\w{0,9}|"
    r"(?:[^\s:]{0,200}/)?(?:Dockerfile|Makefile|Rakefile|Gemfile)[^\s:(]{0,60}))"
)
_COLONS = regex(rf"^{_P}:(\d+)(?::(\d+))?(?:[:-]\d+)?(?: -)?:? +(?:fatal |syntax )?(error|Error|ERROR|E)\b:?(.*)$")
_PARENS = regex(rf"^{_P}\((\d+)(?:,(\d+))?(?:,\d+,\d+)?\) ?: (?:fatal )?error\b(.*)$")
_JAVAC = regex(r"^\[ERROR\] (\S.*?\.\w+):\[(\d+)(?:,(\d+))?\] (.*)$")
_KOTLIN = regex(r"^e: (?:file://)?(\S+\.kts?):(\d+):(\d+):? (.*)$")
_PLAIN = regex(rf"^{_P}:(\d+)(?::(\d+))?:? (?!(?:warning|note|info|warn)\b)(\S.*)$")
_ARROW = regex(r"^\s*(?:-->|╭─\[|┌─) ?([^\s:\]]+):(\d+):(\d+)\]?")
_RUSTC = regex(r"^error(?:\[E\d+\])?: (?!could not compile|test failed|aborting|\d+ targets? failed)")
_RUFF = regex(r"^(?:[A-Z]{1,5}\d{2,5}|invalid-syntax|error\[[\w-]+\])(?: \[\*\])?:? \S")
_STYLISH = regex(r"^(?:##\[error\])?\s+(\d+):(\d+)\s+(?:✖\s+)?error\s+(\S.*)$")
_STYLISH_FILE = regex(r"^(?:\S.*[\\/])?[^\s\\/:]+\.\w{1,8}$|^\S*[\\/]\S+$")
_LINT_TAIL = regex(
    r" \(([a-z][\w-]{1,30})(?::.*)?\)$|  \[[a-z][a-z-]+\]$| \[[A-Z][A-Za-z]{3,40}\]$|"
    r"(?:^|: )[A-Z]{1,4}\d{3,4}\b|: [CWEFRS]: |\bMD\d{3}/|\bSC\d{4}\b"
)
_TOTAL = regex(
    r"^(?:✖|x) \d+ problems? \((?!0 errors)|^Found \d+ errors?\b|^\d+ errors? (?:generated|found)|"
    r"^\s*[1-9]\d* Error\(s\)|"
    r"^error: could not compile |^error: aborting due to|^\d+ files? inspected, [1-9]|^\d+ issues:|^Oh no! |"
    r"^\[ERROR\] Found \d+ error|^\d+ files? would be reformatted|^Code style issues|^Found \d+ errors? in"
)
_LINKER = regex(
    r"undefined reference to|undefined symbols? |: multiple definition of|^collect2: error|^ld: |cannot find -l"
)
_MAKE = regex(
    r"^(?:[\w./-]*/)?(?:g?make|ninja|mingw32-make)(?:\[\d+\])?: (?:\*\*\* .*(?:Error \d+|Stop|No rule)|build stopped)"
)
_FORMAT = regex(
    r"^would reformat (\S.*)$|^(?:\[warn\]|error:) (\S+\.\w+)(?: is not formatted)?$|"
    r"^ERROR: (\S+) Imports are incorrectly"
)
_SHELLCHECK = regex(r"^In (\S+) line (\d+):$")
_LINTERS = regex(
    r"(?i)\b(?:eslint|ruff|flake8|mypy|pylint|pyright|golangci-lint|clippy|rubocop|shellcheck|stylelint|prettier|black|"
    r"biome|hadolint|markdownlint|yamllint|actionlint|checkstyle|ktlint|detekt|swiftlint|phpstan|psalm|phpcs|staticcheck|"
    r"isort|tflint|sqlfluff|oxlint|bandit)\b|(?<![\w/.-])lint\w*(?![\w/.])"
)


def is_lint(commands: str) -> bool:
    """Whether the step runs a linter, by the text of its commands."""
    return _LINTERS.search(commands) is not None


def compilers(log: Log, out: Findings, *, lint: bool) -> None:
    """`file:line:column: error: …` in its many spellings, with the source line below."""
    kind = Kind.LINT if lint else Kind.COMPILE
    seen: set[str] = set()
    for i in log.suspects:
        text = log.lines[i]
        if _MAKE.match(text) or _LINKER.search(text) or _TOTAL.match(text):
            out.keep(i, FIRST)
            if _LINKER.search(text):
                out.vote(Kind.COMPILE, 2)
            continue
        found = _COLONS.match(text) or _PARENS.match(text) or _JAVAC.match(text) or _KOTLIN.match(text)
        if not found or (i in out.kept and out.kept[i] == FIRST and out.tests):
            continue
        if re.match(r"^\S+Error\b", text):
            continue
        at = place_of(log, found[1], found[2], found[3])
        message = text.removeprefix("##[error]").strip()
        out.keep(i, THIRD if message in seen else FIRST)
        seen.add(message)
        out.place(at, i)
        out.vote(Kind.LINT if lint or _LINT_TAIL.search(text) else kind, 1)
        _below(log, out, i)


def _below(log: Log, out: Findings, i: int) -> None:
    """The message's continuation: deeper text (tsc), or the source line that is quoted (gcc)."""
    for k in range(i + 1, min(i + 6, len(log.lines))):
        text = log.lines[k]
        if re.match(r"^\s*\d+ \|", text):
            out.keep(k, FIRST)
            return
        if not text.startswith("  ") or re.match(r"^\s*(?:\||\^|at )", text):
            return
        if re.match(r"^\s+(?:symbol|location|required|found|Types? |Property|Argument|Overload|The |'|\")", text):
            out.keep(k, FIRST)
        elif k == i + 1:
            out.keep(k, SECOND)


def rust_like(log: Log, out: Findings, *, lint: bool) -> None:
    """A message line with ` --> file:line:column` below: rustc, Clippy, Ruff, Biome."""
    if not log.has("--> ", "╭─[", "┌─ "):
        return
    ruff = False
    for i, text in enumerate(log.lines):
        arrow = _ARROW.match(text)
        if not arrow or i == 0:
            continue
        head = next((k for k in (i - 1, i - 2) if k >= 0 and log.lines[k].strip()), i - 1)
        title = log.lines[head]
        is_rustc = bool(_RUSTC.match(title))
        is_ruff = not is_rustc and bool(_RUFF.match(title))
        if not is_ruff and not is_rustc:
            continue
        ruff = ruff or is_ruff
        at = place_of(log, arrow[1], arrow[2], arrow[3])
        out.keep(head, FIRST)
        out.keep(i, FIRST)
        out.place(at, i)
        out.vote(Kind.LINT if lint or is_ruff else Kind.COMPILE, 1)
        if is_rustc:
            _rust_source(log, out, i)
    for i, text in enumerate(log.lines):
        if _RUSTC.match(text) and i + 1 < len(log.lines) and not _ARROW.match(log.lines[i + 1]):
            out.keep(i, FIRST)


def _rust_source(log: Log, out: Findings, i: int) -> None:
    for k in range(i + 1, min(i + 14, len(log.lines))):
        text = log.lines[k]
        if not text.strip():
            return
        if re.match(r"^\s*\|.*\^", text) or re.match(
            r"^\s*= (?:note: expected|help: (?!for further|to override))", text
        ):
            out.keep(k, SECOND)
        elif re.match(r"^\s*(?:\d+ )?\|", text):
            out.keep(k, THIRD)


def linters(log: Log, out: Findings, *, lint: bool) -> None:
    """File headings with rows below (ESLint), `file:line:column: message`, formatters' lists."""
    file: tuple[int, str] | None = None
    plain: list[tuple[int, Place]] = []
    for i, text in enumerate(log.lines):
        bare = text.removeprefix("##[error]")
        row = _STYLISH.match(text)
        if row and file:
            at = place_of(log, file[1], row[1], row[2])
            out.keep(file[0], FIRST)
            out.keep(i, FIRST)
            out.place(at, i)
            out.vote(Kind.LINT, 1)
            continue
        if _STYLISH_FILE.match(bare) and not text.startswith(" "):
            file = (i, bare)
            continue
        formatted = _FORMAT.match(text)
        if formatted and lint:
            out.keep(i, FIRST)
            name = next(filter(None, formatted.groups()))
            out.place(place_of(log, name), i)
            out.vote(Kind.LINT, 1)
            continue
        shell = _SHELLCHECK.match(text)
        if shell:
            out.keep(i, FIRST)
            out.place(place_of(log, shell[1], shell[2]), i)
            for k in range(i + 1, min(i + 6, len(log.lines))):
                if "SC" in log.lines[k]:
                    out.keep(k, FIRST)
                elif k == i + 1:
                    out.keep(k, SECOND)
            out.vote(Kind.LINT, 1)
            continue
        found = _PLAIN.match(bare)
        if found and (at2 := place_of(log, found[1], found[2], found[3])):
            if _LINT_TAIL.search(bare):
                out.keep(i, FIRST)
                out.place(at2, i)
                out.vote(Kind.LINT, 1)
            else:
                plain.append((i, at2))
    if not out.kept or (lint and not out.votes.get(Kind.LINT)):
        for i, at2 in plain[:60]:
            out.keep(i, FIRST)
            out.place(at2, i)
            out.vote(Kind.LINT if lint else Kind.COMPILE, 0.5)


def go_build(log: Log, out: Findings, *, lint: bool) -> None:
    """`# package` with `file.go:12:3: message` below."""
    package = False
    for i, text in enumerate(log.lines):
        if re.match(r"^# \S+", text):
            package = True
            out.keep(i, SECOND)
            continue
        found = re.match(r"^(?:vet: )?(\.{0,2}/?\S+\.go):(\d+)(?::(\d+))?: (\S.*)$", text) if package else None
        if found:
            out.keep(i, FIRST)
            out.place(place_of(log, found[1], found[2], found[3]), i)
            out.vote(Kind.LINT if lint else Kind.COMPILE, 2)
        elif not text.startswith(("\t", " ")):
            package = False


def boxes(log: Log, out: Findings) -> None:
    """Terraform's boxes: `│ Error: …` with `on main.tf line 12` below."""
    if not log.has("│ Error: ", "Error: "):
        return
    for i, text in enumerate(log.lines):
        bare = text.lstrip("│ ").rstrip()
        boxed = text.startswith("│") or any("│" in line for line in log.lines[i + 1 : i + 2])
        if not bare.startswith("Error: ") or not boxed:
            continue
        out.keep(i, FIRST)
        out.vote(Kind.CONFIGURATION, 2)
        for k in range(i + 1, min(i + 16, len(log.lines))):
            line = log.lines[k]
            if line.startswith("╵"):
                break
            found = re.match(r"^│?\s*on (\S+) line (\d+)", line)
            if found:
                out.place(place_of(log, found[1], found[2]), k)
            if line.strip("│ "):
                out.keep(k, FIRST if found or re.match(r"^│\s+\d+: ", line) else SECOND)


def cmake(log: Log, out: Findings) -> None:
    """`CMake Error at CMakeLists.txt:12 (command):` with its message below."""
    for i, text in enumerate(log.lines):
        found = re.match(r"^CMake Error(?: at (\S+?):(\d+) .*)?:?", text)
        if not found:
            continue
        out.keep(i, FIRST)
        out.vote(Kind.CONFIGURATION, 1)
        if found[1]:
            out.place(place_of(log, found[1], found[2]), i)
        for k in range(i + 1, min(i + 8, len(log.lines))):
            if not log.lines[k].startswith("  "):
                break
            out.keep(k, FIRST)
    if not out.kept:
        return
    for i, text in enumerate(log.lines):
        if text.startswith("-- Configuring incomplete"):
            out.keep(i, THIRD)
