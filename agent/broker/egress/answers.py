"""What a caller of egress gets: a whole answer, or one whose body comes in pieces; or a refusal in the same form."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping

from agent.broker.policy.words import Verdict
from agent.contract.dataclass import dataclass, field
from agent.contract.errors import UpstreamError

BUFFER_CAP = 64 << 20  # bytes of a whole answer; what fits one frame of the channel
_PASSED_ON = frozenset({"content-type", "content-length", "etag", "link", "retry-after", "date"})
_PASSED_ON_PREFIXES = ("x-ratelimit-", "x-accepted-github-", "x-github-", "request-", "x-request-", "anthropic-")


@dataclass(frozen=True)
class EgressResponse:
    """An answer, or a refusal of our own.

    Attributes:
        status: HTTP status; 403 or 409 for a refusal.
        headers: lower-case names, the harmless ones alone.
        body: whole.
        refused: the request was not sent, or its redirect not followed.
        code, message: of a refusal.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    refused: bool = False
    code: str = ""
    message: str = ""


@dataclass
class EgressStream:
    """An answer whose body comes in pieces. A refusal has its whole body in one piece.

    Attributes:
        chunks: raises `UpstreamError` when cut off or over the cap; to be read to its end or closed.
    """

    status: int
    headers: Mapping[str, str]
    chunks: Iterator[bytes]
    refused: bool = False
    code: str = ""
    message: str = ""
    close: Callable[[], None] = field(default=lambda: None, repr=False)


def refusal(verdict: Verdict) -> EgressStream:
    """A verdict that does not allow, as an answer."""
    code = verdict.code or "egress_path_blocked"
    status = 409 if code == "secret_unavailable" else 403
    body = json.dumps({"status": status, "error": {"code": code, "message": verdict.reason}}).encode()
    headers = {"content-type": "application/json"}
    return EgressStream(status, headers, iter((body,)), refused=True, code=code, message=verdict.reason)


def passed_on(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers a caller may see: no Location (it may be signed), no cookie, nothing unknown."""
    return {k: v for k, v in headers.items() if k in _PASSED_ON or k.startswith(_PASSED_ON_PREFIXES)}


def capped(chunks: Iterator[bytes], cap: int) -> Iterator[bytes]:
    """The chunks, up to a cap in bytes.

    Raises:
        UpstreamError: there is more.
    """
    total = 0
    for chunk in chunks:
        total += len(chunk)
        if total > cap:
            raise UpstreamError("read", f"the answer is larger than {cap} bytes")
        yield chunk
