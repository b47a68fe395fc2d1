"""Failed tests of Go, Cargo, GoogleTest, CTest and XCTest."""

from __future__ import annotations

import posixpath
import re

from agent.contract.regex import regex
from agent.harness.tools.ci_logs.findings import FIRST, SECOND, THIRD, Findings, Kind, Log, Place, place_of

_GO_BEGIN = regex(r"\s*=== (?:RUN|CONT|NAME)\s")
_GO_FAIL = regex(r"^(\s*)--- FAIL: (\S+) \(")
_GO_PACKAGE = regex(r"^(?:FAIL|ok  )\t(\S+)(?:\t| \[)")
_GO_AT = regex(r"^\s+(?:Error Trace:\s+)?(\S+\.go):(\d+):?(?: .*)?$")
_GO_FRAME = regex(r"^\t(\S+\.go):(\d+)(?: \+0x[0-9a-f]+)?$")


def go(log: Log, out: Findings) -> None:
    """`--- FAIL` with the messages indented below (or above, with -v), panics, failing packages."""
    if not log.has("--- FAIL: ", "\nFAIL\t", "\npanic: ", "[build failed]"):
        return
    lines = log.lines
    packages = [m[1] for text in lines if (m := _GO_PACKAGE.match(text)) or (m := re.match(r"^\?   \t(\S+)\t", text))]
    module = _module(packages, log.repository)
    waiting: list[tuple[str, Place | None, int]] = []
    parents = _go_parents(lines)
    for i, text in enumerate(lines):
        found = _GO_FAIL.match(text)
        if found:
            parent = found[2] in parents
            out.keep(i, SECOND if parent else FIRST)
            at = _go_messages(log, out, i, len(found[1])) or (None if parent else _go_above(log, out, i, found[2]))
            if not parent:
                waiting.append((found[2], at, i))
            continue
        if text.startswith("panic: "):
            out.keep(i, FIRST)
            at = _go_panic(log, out, i)
            if waiting and waiting[-1][1] is None:
                waiting[-1] = (waiting[-1][0], at, waiting[-1][2])
        package = _GO_PACKAGE.match(text)
        if not package:
            continue
        if text.startswith("FAIL"):
            out.keep(i, FIRST)
            out.vote(Kind.COMPILE if "[build failed]" in text or "[setup failed]" in text else Kind.TEST, 3)
            folder = _folder(package[1], module)
            for name, at, index in waiting:
                out.test(f"{folder}.{name}" if folder else name, _in_folder(at, folder), log.numbers[index])
        waiting = []
    for name, at, index in waiting:
        out.test(name, at, log.numbers[index])


def _go_parents(lines: list[str]) -> set[str]:
    names = {m[2] for text in lines if (m := _GO_FAIL.match(text))}
    return {n[:at] for n in names for at, c in enumerate(n) if c == "/"}


def _go_messages(log: Log, out: Findings, i: int, depth: int) -> Place | None:
    first: Place | None = None
    for k in range(i + 1, min(i + 40, len(log.lines))):
        text = log.lines[k]
        if not text.startswith(" " * (depth + 4)) or _GO_FAIL.match(text):
            break
        found = _GO_AT.match(text)
        if found:
            at = place_of(log, found[1], found[2])
            first = first or at
            out.place(at, k)
            out.keep(k, FIRST)
        else:
            out.keep(k, FIRST if re.search(r"(?i)error|expected|actual|got|want|[-+] ", text) else SECOND)
    return first


def _go_above(log: Log, out: Findings, i: int, name: str) -> Place | None:
    """With -v a test's messages stand between its `=== RUN` and its result."""
    first: Place | None = None
    for k in range(i - 1, max(-1, i - 60), -1):
        text = log.lines[k]
        if text.split()[-1:] == [name] and _GO_BEGIN.match(text):
            break
        if re.match(r"^\s*(?:=== RUN|--- (?:PASS|FAIL|SKIP))", text):
            return first
        found = _GO_AT.match(text)
        if found:
            first = place_of(log, found[1], found[2])
            out.keep(k, FIRST)
            out.place(first, k)
    return first


def _go_panic(log: Log, out: Findings, i: int) -> Place | None:
    first: Place | None = None
    got = 0
    for k in range(i + 1, min(i + 80, len(log.lines))):
        text = log.lines[k]
        if text.startswith(("FAIL\t", "ok  \t", "panic: ")) or got >= 3:
            break
        found = _GO_FRAME.match(text)
        at = place_of(log, found[1], found[2]) if found else None
        if at:
            out.keep(k, FIRST if first is None else SECOND)
            out.place(at, k)
            first = first or at
            got += 1
    return first


def _module(packages: list[str], repository: str) -> str:
    """The module's path: what all packages share, or what ends in the repository's name."""
    for package in packages:
        parts = package.split("/")
        if repository in parts[1:3]:
            return "/".join(parts[: parts.index(repository) + 1])
    if len(set(packages)) > 1:
        return posixpath.commonpath(packages)
    parts = packages[0].split("/") if packages else []
    return "/".join(parts[:3] if parts and parts[0].endswith((".com", ".org", ".io")) else parts[:2])


def _folder(package: str, module: str) -> str:
    return package[len(module) :].strip("/") if module and package.startswith(module) else package


def _in_folder(at: Place | None, folder: str) -> Place | None:
    if at is None or "/" in at.file or not folder:
        return at
    return Place(f"{folder}/{at.file}", at.line, at.column)


_CARGO_FAIL = regex(r"^test (.+?)(?: - should panic(?: .*)?)? \.\.\. FAILED$")
_CARGO_BLOCK = regex(r"^---- (.+?) std(?:out|err) ----$")
_PANICKED = regex(r"^thread '.*' (?:\(\d+\) )?panicked at (?:'(.*)', )?(\S+?):(\d+):(\d+):?$")


def cargo(log: Log, out: Findings) -> None:
    """`test … FAILED` lines and the panics in their blocks."""
    if not log.has("... FAILED", "panicked at "):
        return
    name: str | None = None
    for i, text in enumerate(log.lines):
        failed, block = _CARGO_FAIL.match(text), _CARGO_BLOCK.match(text)
        if failed:
            out.keep(i, FIRST)
            out.test(failed[1], None, log.numbers[i])
            out.vote(Kind.TEST, 3)
        elif block:
            name = block[1]
            out.keep(i, THIRD)
        elif text.startswith("test result: FAILED") or re.match(r"^error: \d+ targets? failed:", text):
            out.keep(i, FIRST)
            name = None
        elif text.startswith("error: test failed, to rerun"):
            out.keep(i, THIRD)
        panicked = _PANICKED.match(text)
        if panicked:
            at = place_of(log, panicked[2], panicked[3], panicked[4])
            out.keep(i, FIRST)
            out.place(at, i)
            if name:
                out.test(name, Place(at.file, at.line) if at else None, log.numbers[i])
            for k in range(i + 1, min(i + 14, len(log.lines))):
                line = log.lines[k]
                if not line.strip() or line.startswith(("note: run with", "stack backtrace", "----", "failures:")):
                    break
                out.keep(k, FIRST)


_GTEST = regex(r"^\[  FAILED  \] ([\w./]+)(?:,|$| \()")
_GTEST_AT = regex(r"^(\S+?)[:(](\d+)\)?: (?:Failure|error: .*)$")
_CTEST = regex(r"^\s+\d+ - (\S+) \((Failed|Timeout|SEGFAULT|ILLEGAL|Subprocess aborted|Exception|Not Run)[^)]*\)")


_CTEST_ROW = regex(r"^\s*\d+/\d+ Test\s+#\d+: (\S+) \.*\*\*\*(\S+)")


def gtest(log: Log, out: Findings) -> None:
    """GoogleTest's `[  FAILED  ]` with the failures above, and CTest's closing list."""
    if log.has("[  FAILED  ]"):
        at: Place | None = None
        for i, text in enumerate(log.lines):
            place = _GTEST_AT.match(text)
            if place:
                here = place_of(log, place[1], place[2])
                at = at or here
                out.keep(i, FIRST)
                out.place(here, i)
                for k in range(i + 1, min(i + 8, len(log.lines))):
                    if not log.lines[k].strip() or log.lines[k].startswith("["):
                        break
                    out.keep(k, FIRST)
            found = _GTEST.match(text)
            if found and not re.match(r"^\[  FAILED  \] \d+ test", text):
                out.keep(i, FIRST if found[1] not in out.tests else THIRD)
                out.test(found[1], at, log.numbers[i])
                out.vote(Kind.TEST, 3)
            if text.startswith(("[  FAILED  ]", "[       OK", "[ RUN ")):
                at = None
    if log.has("The following tests FAILED"):
        for i, text in enumerate(log.lines):
            found, row = _CTEST.match(text), _CTEST_ROW.match(text)
            if row:  # a test that fails by itself says why above; one that was stopped says it here alone
                out.keep(i, SECOND if row[2] == "Failed" else FIRST)
            elif found:
                out.keep(i, FIRST)
                out.test(found[1], None, log.numbers[i])
                out.vote(Kind.TEST, 3)
            elif re.match(r"^\d+% tests passed, \d+ tests? failed", text):
                out.keep(i, FIRST)


_XCTEST = regex(r"^(\S.*?):(\d+): error: (?:-\[(\S+ \S+)\]|(\w[\w.]*\.\w+)) : (.+)$")
_SWIFT_TESTING = regex(r"^[✘\U00100000-\U0010ffff] +Test \"?(.+?)\"? recorded an issue at ([^:\s]+):(\d+):(\d+): ")


def xctest(log: Log, out: Findings) -> None:
    """XCTest's assertion lines and Swift Testing's recorded issues."""
    if not log.has(": error: ", "recorded an issue"):
        return
    for i, text in enumerate(log.lines):
        found, issue = _XCTEST.match(text), _SWIFT_TESTING.match(text)
        if found:
            at = place_of(log, found[1], found[2])
            name = (found[3] or found[4] or "").replace(" ", ".")
            out.test(name, at, log.numbers[i])
        elif issue:
            at = place_of(log, issue[2], issue[3], issue[4])
            out.test(issue[1], Place(at.file, at.line) if at else None, log.numbers[i])
        elif re.match(r"^\s*Executed \d+ tests?, with [1-9]\d* failure", text) or re.match(
            r"^✘ Test run with .* failed", text
        ):
            out.keep(i, FIRST)
            continue
        else:
            continue
        out.keep(i, FIRST)
        out.place(at, i)
        out.vote(Kind.TEST, 3)
