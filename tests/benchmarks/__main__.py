"""`make bench`: what things cost here, each beside its own floor in the same run, written to docs/benchmarks.md.

Absolute figures do not carry over to another machine, so read the ratios. No test asserts a time. On a machine that
does something else meanwhile, wall clock is worth little; the load is told beside the figures.
"""

from __future__ import annotations

import contextlib
import datetime
import io
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.benchmarks import container, loop, parts, redact, sandbox, whole
from tests.benchmarks.table import markdown

PAGE = Path(__file__).resolve().parents[2] / "docs" / "benchmarks.md"
HEAD = """# Benchmarks

What `make bench` printed on {date}: {cores} cores, Linux {kernel}, Python {python}; load {load} when it began. The
machine is no reference: each figure stands beside the floor of the same work in the same run, and the ratio is what
carries over. *budget* is the design's ([section 12](design.md#12-budgets)).

A growing conversation is sent whole with every turn, by every harness there is: with 10 KB results turn 200 sends
2 MB where turn 10 sends 100 KB. That part of the growth is the provider's protocol, and the floor has it too, so its
own growth is large: it has nothing else to do. Read the milliseconds that are added between turn 10 and turn 200.
"""


def printed(main: Callable[[], None]) -> str:
    """What a module prints of itself, as a block."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        main()
    return f"```text\n{text.getvalue().rstrip()}\n```"


def main() -> None:
    """Print every table as it is measured, and write the page."""
    sys.argv = sys.argv[:1]
    facts = {
        "date": datetime.datetime.now(tz=datetime.UTC).strftime("%Y-%m-%d"),
        "cores": os.cpu_count(),
        "kernel": ".".join(platform.release().split(".")[:2]),
        "python": platform.python_version(),
        "load": f"{os.getloadavg()[0]:.1f}",
    }
    page = HEAD.format(**facts)
    print(page, flush=True)
    tables: list[tuple[object, Callable[[], str]]] = [
        (whole, lambda: markdown(whole.rows())),
        (parts, lambda: markdown(parts.rows())),
        (container, container.table),
        (loop, lambda: printed(loop.main)),
        (sandbox, lambda: printed(sandbox.main)),
        (redact, lambda: printed(redact.main)),
    ]
    for module, table in tables:
        title, _, about = (module.__doc__ or "").strip().partition("\n\n")
        paragraphs = [part for part in about.split("\n\n") if part and not part.startswith("    ")]
        try:
            figures = table()
        except (SystemExit, AssertionError, OSError, subprocess.SubprocessError) as exc:
            figures = f"Not measured: {type(exc).__name__}: {exc}"
        section = "\n".join(["", f"## {title.rstrip('.')}", "", *(f"{part}\n" for part in paragraphs), figures, ""])
        print(section, flush=True)
        page += section
    PAGE.write_text(page)
    print(f"Written to docs/{PAGE.name}.")


if __name__ == "__main__":
    main()
