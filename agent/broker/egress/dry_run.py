"""A dry run (input `dry-run`): what would change something is decided as ever, recorded, and not sent.

A write is every request to GitHub or to a declared connection that is no GET or HEAD; asking the model and fetching
commits are none. It is answered as its service would answer, as far as the run goes on by the answer: ids of objects
are git's own, and numbers are ones that nothing at GitHub has. No secret is read for a write that is not sent.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from typing import Any

from agent.broker.egress.answers import EgressStream
from agent.broker.policy.words import WireRequest

NOWHERE = 999_999_999  # id and number in answers: a request to it is well formed and finds nothing
SHOWN = 400  # characters of one text of a body in the record


def is_write(connection: str, wire: WireRequest) -> bool:
    """Whether a request may change something: all that is no read, no model call and no fetch of commits."""
    own = connection in ("model", "git") or connection.startswith("model-")
    return not own and wire.method not in ("GET", "HEAD")


def summarised(body: bytes) -> Any:
    """A body for the record: its JSON with long texts cut, else its length."""
    try:
        return _short(json.loads(body)) if body else None
    except (ValueError, RecursionError):
        return f"{len(body)} bytes"


def stand_in(wire: WireRequest) -> EgressStream:
    """What the service would have answered."""
    try:
        sent = json.loads(wire.body) if wire.body else {}
    except (ValueError, RecursionError):
        sent = {}
    answer: dict[str, Any] = dict(sent) if isinstance(sent, dict) else {}
    last = wire.url.rpartition("/")[2]
    number = int(last) if last.isdecimal() else NOWHERE  # what is changed keeps its number, what is made has none yet
    answer |= {"id": number, "number": number, "html_url": "", "user": {}}
    if wire.url.endswith("/git/blobs"):
        answer["sha"] = _blob_id(answer)
    elif wire.url.endswith("/git/commits"):
        answer["sha"] = hashlib.sha1(wire.body, usedforsecurity=False).hexdigest()
    headers = {"content-type": "application/json"}
    return EgressStream(201 if wire.method == "POST" else 200, headers, iter((json.dumps(answer).encode(),)))


def _blob_id(sent: dict[str, Any]) -> str:
    text = str(sent.get("content", ""))
    try:
        data = base64.b64decode(text) if sent.get("encoding") == "base64" else text.encode()
    except binascii.Error:
        data = b""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def _short(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _short(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_short(item) for item in value]
    if isinstance(value, str) and len(value) > SHOWN:
        return f"{value[:SHOWN]}… ({len(value)} characters)"
    return value
