"""One new seed a test run, the same in all its workers, printed so that a failure can be repeated."""

from __future__ import annotations

import os
import secrets

VARIABLE = "AIRLOCK_TEST_SEED"


def run_seed() -> int:
    """The seed of this test run; set the variable to repeat one."""
    return int(os.environ.setdefault(VARIABLE, str(secrets.randbelow(10**9))))
