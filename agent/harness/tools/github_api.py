"""GitHub's API as the tools use it: one request, pages by number, and failures in words that say what to do.

Everything goes through the broker, which holds the token, the closed list of routes, the pace and the waits for
rate limits. This side only builds paths, reads answers and explains failures (github-contract sections 3 and 5).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from agent.contract.dataclass import dataclass
from agent.contract.errors import Refusal, ToolInputError, UpstreamError
from agent.harness.tools.context import ToolContext
from agent.harness.tools.github_api_failures import explain

PER_PAGE = 100
"""GitHub's largest page; larger values are cut silently, and some servers give fewer whatever is asked (F14)."""

NUMBER: Mapping[str, Any] = {"type": "integer", "minimum": 1}
"""Schema of every number that becomes part of a path: a text like `9/../..` is refused before anything is sent."""

NUMBER_CAP = 2**53  # beyond it JSON readers disagree about whole numbers

NUMBER_ARG: Mapping[str, Any] = {"number": {**NUMBER, "description": "default: this run's own"}}
BODY_SHOWN = 20_000
"""Characters of one body that a tool shows; GitHub's own limit is 65,536."""


@dataclass(frozen=True)
class Reply:
    """One answer of the API.

    Attributes:
        status: HTTP status.
        headers: names in lower case.
        body: raw bytes.
        refused: the broker's policy answered, not GitHub.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    refused: bool = False

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    def json(self) -> Any:
        """The body as JSON, or None where it is none (a proxy's HTML page)."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            return None


@dataclass(frozen=True)
class Page:
    """Items of a paged list.

    Attributes:
        items: objects only; whatever else a list holds is left out.
        total: GitHub's `total_count` where the list has one.
        more: there are further pages past the cap.
    """

    items: tuple[dict[str, Any], ...]
    total: int | None
    more: bool


class GitHub:
    """The repository of this run, through the broker."""

    def __init__(self, ctx: ToolContext) -> None:
        self._ctx = ctx
        self.root = "/repos/" + ctx.facts.repository

    def send(self, method: str, path: str, query: Mapping[str, Any] | None = None, body: Any = None) -> Reply:
        """Send one request for a path relative to the repository and return whatever came back."""
        return self.send_absolute(method, self.root + path, query, body)

    def send_absolute(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """Send one request for a full API path."""
        payload = b"" if body is None else json.dumps(body).encode()
        frame = self._ctx.broker.call(
            "egress",
            payload,
            connection="github",
            method=method,
            path=path,
            query={k: _query_value(v) for k, v in (query or {}).items()},
            headers=dict(headers or {}),
        )
        return _reply(frame.header, frame.payload)

    def get(self, path: str, step: str, query: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Read one object.

        Raises:
            Refusal, UpstreamError: with what to do next.
        """
        value = self.checked(self.send("GET", path, query), step).json()
        if not isinstance(value, dict):
            raise UpstreamError(step, "GitHub's answer is not a JSON object. Try again later.")
        return value

    def find(self, path: str, query: Mapping[str, Any] | None = None) -> dict[str, Any] | None:
        """Read one object that may be absent or invisible; None for any failure."""
        reply = self.send("GET", path, query)
        value = reply.json() if reply.ok else None
        return value if isinstance(value, dict) else None

    def write(self, method: str, path: str, body: Any, step: str) -> dict[str, Any]:
        """Send one change and return GitHub's object.

        Raises:
            Refusal, UpstreamError: with what to do next.
        """
        value = self.checked(self.send(method, path, None, body), step).json()
        return value if isinstance(value, dict) else {}

    def pages(
        self, path: str, step: str, key: str | None = None, query: Mapping[str, Any] | None = None, cap: int = 10
    ) -> Page:
        """Read up to `cap` pages of a list.

        Pages are asked for by number: the addresses in `Link` have the form `/repositories/{id}/…`, which no
        route of ours needs to allow (github-contract section 3).

        Args:
            path: relative to the repository.
            step: what is being done, for the error.
            key: name of the list inside the object, or None for a bare list.
            query: further parameters.
            cap: most pages to read.

        Raises:
            Refusal, UpstreamError: when the first page fails; a later page that fails ends the list early.
        """
        items: list[dict[str, Any]] = []
        total: int | None = None
        for number in range(1, cap + 1):
            reply = self.send("GET", path, {**(query or {}), "per_page": PER_PAGE, "page": number})
            if not reply.ok and number > 1:
                return Page(tuple(items), total, more=True)
            found, total = _items(self.checked(reply, step).json(), key)
            items += found
            if not found or not _has_next(reply, len(found), len(items), total):
                return Page(tuple(items), total, more=False)
        return Page(tuple(items), total, more=True)

    def download(self, path: str) -> tuple[Reply, Iterator[bytes]]:
        """Open a log: the answer without its body, and the body as chunks.

        The broker follows the redirect to the log's host and shows neither the token to that host nor the
        signed address to this side (F14).
        """
        frames = iter(
            self._ctx.broker.stream(
                "egress",
                b"",
                connection="github",
                method="GET",
                path=self.root + path,
                query={},
                headers={},
                stream=True,
            )
        )
        first = next(frames, None)
        if first is None:
            raise UpstreamError("read log", "The connection ended without an answer.")
        reply = _reply(first.header, first.payload)

        def chunks() -> Iterator[bytes]:
            if first.payload:
                yield first.payload
            for frame in frames:
                yield frame.payload

        return reply, chunks()

    def checked(self, reply: Reply, step: str) -> Reply:
        """Return the reply when it succeeded.

        Raises:
            Refusal: the policy said no.
            UpstreamError: GitHub said no.
        """
        if reply.ok:
            return reply
        if reply.refused:
            error = (reply.json() or {}).get("error") or {}
            raise Refusal(
                str(error.get("code", "refused")), str(error.get("message", "The policy refuses this request."))
            )
        raise UpstreamError(step, explain(reply.status, reply.headers, reply.json()), reply.status)


def _query_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _reply(header: Mapping[str, Any], payload: bytes) -> Reply:
    raw = header.get("headers")
    headers = {str(k).lower(): str(v) for k, v in raw.items()} if isinstance(raw, Mapping) else {}
    status = header.get("status")
    return Reply(status if isinstance(status, int) else 0, headers, payload, refused=bool(header.get("refused")))


def _items(value: Any, key: str | None) -> tuple[list[dict[str, Any]], int | None]:
    total = None
    if key is not None and isinstance(value, dict):
        count = value.get("total_count")
        total = count if isinstance(count, int) else None
        value = value.get(key)
    if not isinstance(value, list):
        return [], total
    return [item for item in value if isinstance(item, dict)], total


def _has_next(reply: Reply, found: int, seen: int, total: int | None) -> bool:
    if 'rel="next"' in reply.headers.get("link", ""):
        return True
    if total is not None:
        return seen < total
    return "link" not in reply.headers and found >= PER_PAGE


def path_segment(value: str) -> str:
    """One path segment, percent-encoded; dots alone are refused because no encoding hides them.

    Raises:
        ToolInputError: empty, `.` or `..`.
    """
    if value in ("", ".", ".."):
        raise ToolInputError(f"{value!r} cannot be part of a path.")
    return quote(value, safe="")


def number_of(args: Mapping[str, Any], ctx: ToolContext, what: str = "number") -> int:
    """The number asked for, or the one this run is about.

    Raises:
        ToolInputError: neither exists, or the value is not a whole number from 1 (R09).
    """
    value = args.get(what, ctx.facts.number if what == "number" else None)
    if value is None:
        raise ToolInputError(f"This run is about no issue or pull request: give `{what}`.")
    if isinstance(value, bool) or not isinstance(value, int | float) or not 1 <= value <= NUMBER_CAP or value % 1:
        raise ToolInputError(f"`{what}` must be a whole number from 1 to {NUMBER_CAP}.")
    return int(value)


def login(user: Any) -> str:
    """A user's name, also where the account is gone."""
    name = user.get("login") if isinstance(user, dict) else None
    return str(name) if name else "ghost (deleted account)"


def text_of(value: Any, empty: str = "(no text)") -> str:
    """A body that may be null."""
    return value if isinstance(value, str) and value.strip() else empty


def clip_body(value: Any) -> str:
    """A body for the model, cut with a remark."""
    text = text_of(value)
    if len(text) <= BODY_SHOWN:
        return text
    return f"{text[:BODY_SHOWN]}\n[{len(text) - BODY_SHOWN} more characters are not shown]"


def schema(*properties: Mapping[str, Any], required: tuple[str, ...] = ()) -> dict[str, Any]:
    """An object schema of these properties; the belt closes it to others."""
    merged: dict[str, Any] = {}
    for part in properties:
        merged.update(part)
    return {"type": "object", "properties": merged, **({"required": list(required)} if required else {})}
