"""Runner of the red-team cases: a model that does what injected text says, against the product as a real process."""

from __future__ import annotations

from collections.abc import Sequence


def main(argv: Sequence[str]) -> int:
    """`python -m agent redteam PATH…`; see `runner.main`."""
    from .runner import main as run

    return run(argv)


__all__ = ["main"]
