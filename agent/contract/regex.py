"""Regular expressions that are compiled at their first use.

The modules of a run hold two hundred, and a start needs a few dozen. Compiling them all as they were loaded took
20 ms in the broker and 50 ms in the harness, which loads its readers of CI logs too before it is confined.
"""

from __future__ import annotations

import re
from typing import Any, AnyStr, cast

_NAMES = ("search", "match", "fullmatch", "sub", "subn", "finditer", "findall", "split", "pattern", "flags", "groups")


def regex(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """As `re.compile`, and a wrong pattern is an error when it is used. For patterns that a module holds."""
    return cast("re.Pattern[AnyStr]", _Late(pattern, flags))


class _Late:
    def __init__(self, *source: Any) -> None:
        self._source = source

    def __getattr__(self, name: str) -> Any:
        """Called for what is not there: the first time for anything, later for nothing."""
        if name not in _NAMES:
            raise AttributeError(f"a pattern has no {name!r}")
        compiled = re.compile(*self._source)
        self.__dict__.update({known: getattr(compiled, known) for known in _NAMES})
        return self.__dict__[name]
