"""Whether an event of the harness is as the published schema says: a harness cannot break the record. Pure."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from agent.contract.schema import problems
from agent.contract.transcript import EVENTS


def event_fault(kind: str, fields: Mapping[str, Any]) -> str | None:
    """What is wrong with an event's fields, in words; None when nothing is."""
    for fault in problems(_schema(kind), dict(fields)):
        return f"{'.'.join(str(part) for part in fault.path) or 'the event'} {fault.message}"[:300]
    return None


@functools.cache
def _schema(kind: str) -> dict[str, Any]:
    known = EVENTS[kind]
    return {"type": "object", "properties": {**known.needs, **known.may}, "required": list(known.needs)}
