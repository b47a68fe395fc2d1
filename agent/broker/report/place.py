"""Where a bug of ours happened, for a log that anybody can read."""

from __future__ import annotations

import os


def place_of(exc: BaseException) -> str:
    """File and line of our own code where it happened; no values."""
    place = "unknown"
    trace = exc.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if f"{os.sep}agent{os.sep}" in file:
            place = f"agent/{file.rpartition(f'{os.sep}agent{os.sep}')[2]}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place
