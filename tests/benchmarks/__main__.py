"""`make bench`: what things cost here, each beside its own baseline in the same run; read the ratios.

The machines are shared and noisy, so no test asserts a time.
"""

from __future__ import annotations

from tests.benchmarks import loop, redact, sandbox


def main() -> None:
    """Print every table."""
    for module in (loop, sandbox, redact):
        print(f"\n## {(module.__doc__ or '').strip().splitlines()[0]}\n", flush=True)
        module.main()


if __name__ == "__main__":
    main()
