"""What test runs leave to be looked at: pictures and tables, in one folder that CI keeps."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

VARIABLE = "AIRLOCK_ARTIFACTS"
PROPERTY = "table"
"""Property of a test, recorded with `record_property`: `(title, line)`; the terminal summary prints them by title."""


def folder() -> Path:
    """The folder; `AIRLOCK_ARTIFACTS` names another."""
    path = Path(os.environ.get(VARIABLE) or Path(tempfile.gettempdir(), f"airlock-artifacts-{os.getuid()}"))
    path.mkdir(parents=True, exist_ok=True)
    return path
