"""`python -m agent view TRANSCRIPT [-o PAGE]`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from agent.contract.errors import UserError
from agent.viewer.page import write_page


def main(argv: list[str]) -> int:
    """Make the page of a transcript; returns the exit status, 2 where there is none to read."""
    parser = argparse.ArgumentParser(prog="python -m agent view", description="Make a page of a transcript.")
    parser.add_argument("transcript", type=Path, help="transcript.jsonl, or the folder it lies in")
    parser.add_argument("-o", "--output", type=Path, help="the page; default: beside the transcript, as .html")
    options = parser.parse_args(argv)
    source: Path = options.transcript
    if source.is_dir():
        source = source / "transcript.jsonl"
    page: Path = options.output or source.with_suffix(".html")
    try:
        count = write_page(source, page)
    except UserError as exc:
        print(f"airlock view: {exc}", file=sys.stderr)
        return 2
    print(f"{count} events: {page}")
    return 0
