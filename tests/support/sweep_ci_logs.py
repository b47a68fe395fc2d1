"""Costs of the log readers over floods of one token: `python -m tests.support.sweep_ci_logs [BYTES]`.

A table of CPU seconds at the given size and at four times it. Work is bounded, so the last column may be below
four and never far above it. Run by hand after a change to a reader; the worst of its findings are tests.
"""

from __future__ import annotations

import sys
import time

from agent.harness.tools.ci_logs import extract

JOB = {
    "id": 1,
    "name": "t",
    "conclusion": "failure",
    "steps": [{"name": "Run x", "number": 1, "conclusion": "failure"}],
}
TOKENS = (
    "│ Error:\n",
    "Error: x\n",
    "error: x\n",
    "##[error]x\n",
    "##[group]x\n",
    "##[endgroup]\n",
    "FAILED a::b\n",
    "--- FAIL: TestA (0.00s)\n",
    "=== RUN TestA\n",
    "Traceback (most recent call last):\n",
    '  File "a.py", line 3, in f\n',
    "E   assert 1\n",
    "a.py:3: error: x\n",
    "a.go:3:4: x\n",
    "panic: x\n",
    "goroutine 1 [running]:\n",
    "● a › b\n",
    "FAIL a.test.js\n",
    "✗ a\n",
    "× a\n",
    " ✖ x\n",
    "not ok 1 - x\n",
    "# Failed\n",
    "  1) x\n",
    "  1) x:\n     Error: x\n",
    "npm ERR! x\n",
    "npm error x\n",
    "error[E0308]: x\n",
    " --> a.rs:3:4\n",
    "test a ... FAILED\n",
    "failures:\n",
    "---- a stdout ----\n",
    "thread 'a' panicked at a.rs:1:2:\n",
    "error TS2304: x\n",
    "a.ts(1,2): error TS1: x\n",
    "[ERROR] a\n",
    "[ERROR] Tests run: 1, Failures: 1\n",
    "[ERROR] a.java:[1,2] x\n",
    "  Failed a.b [1 ms]\n",
    "BUILD FAILED\n",
    "* What went wrong:\n",
    "FAILURE: Build failed\n",
    "> Task :a FAILED\n",
    "A > b FAILED\n",
    "CMake Error at a:1 (x):\n",
    "a.c:1:2: error: x\n",
    "make: *** [a] Error 1\n",
    "undefined reference to `x'\n",
    "ld: x\n",
    "======================================================================\nFAIL: test_a (a.b)\n",
    "FAIL: test_a (a.b)\n----------\n",
    "____ test_a ____\n",
    "=========== FAILURES ===========\n",
    "=== short test summary info ===\n",
    "ERROR a.py - x\n",
    "rspec ./a.rb:1 # x\n",
    "Failures:\n",
    "  1) A b\n     Failure/Error: x\n",
    "There was 1 failure:\n",
    "1) A::b\n",
    "\n",
    "a",
    "\r",
    "\x1b[31m",
    "\x1b",
    "\ufeff",
    "│",
    "╷\n",
    "╵\n",
    "│ \n",
    "  on a.tf line 1:\n",
    "W1234: x\n",
    "a.rb:1:1: C: X: x\n",
    "a.js\n  1:2  error  x  y\n",
    "  1:2  error  x  y\n",
    "✖ 3 problems\n",
    "would reformat a\n",
    "warning: x\n",
    "note: x\n",
    "   |\n",
    "1 | x\n",
    " ^\n",
    "Process completed with exit code 1.\n",
    "exit code 1\n",
    "exit status 1\n",
    "2026-01-05T10:00:00.0000000Z x\n",
    "2026-01-05T10:00:00.0000000Z ##[group]Run x\n",
    "2026-01-05T10:00:00.0000000Z ##[error]x\n",
    "ok 1\n",
    "1..4\n",
    "(node:1) x\n",
    "Caused by:\n",
    "    at a (b.js:1:2)\n",
    "    at a.b(C.java:1)\n",
    "Expected: x\nActual: y\n",
    "expected\n",
    "- a\n+ b\n",
    "a/",
    "a:",
    "a(",
    "[",
    "]",
    "(",
    ")",
    "/",
    "\\",
    " ",
    "\t",
    "1",
    "-",
    "=",
    "_",
    ".",
    "#",
    ">",
    "<",
    "'",
    '"',
    "|",
    "*",
    "::error::x\n",
    "::error file=a.py,line=1::x\n",
    "ERROR: x\n",
    "FAIL: //a:b (x)\n",
    "FAILED: a\n",
    "ninja: build stopped\n",
    "✕ a (1 ms)\n",
    "ASSERTION: a\n",
    "  failed\n",
    "AssertionError\n",
    'Exception in thread "main" a\n',
    "terminate called\n",
    "Segmentation fault\n",
    "error Command failed\n",
    "yarn error\n",
    "ERR_PNPM_X x\n",
    "ERROR: No matching distribution found for x\n",
    "Could not resolve dependencies\n",
    "go: x: not found\n",
    "cannot find module\n",
    "denied\n",
    "No space left on device\n",
    "timed out\n",
    "The operation was canceled.\n",
    "The hosted runner lost communication\n",
)


def cost(token: str, size: int) -> float:
    """CPU seconds for a log of `size` bytes that repeats a token."""
    data = (token * (size // len(token.encode()) + 1)).encode()
    began = time.process_time()
    extract((data[at : at + 65536] for at in range(0, len(data), 65536)), JOB, repository="r")
    return time.process_time() - began


def main(size: int = 50_000) -> None:
    """Print the table, worst first."""
    cost("error: x\n", 1000)
    rows = [(cost(token, 4 * size), cost(token, size), token) for token in TOKENS]
    for four, one, token in sorted(rows, reverse=True):
        print(f"{one:7.3f} s  {four:7.3f} s  x{four / max(one, 1e-4):4.1f}  {token!r}")


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:2]))
