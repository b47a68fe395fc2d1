"""GitHub's REST API for the broker itself, always through egress: its own requests pass the same policy."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from agent.broker.egress import Egress, EgressResponse
from agent.broker.policy.words import Authority, EgressRequest
from agent.contract.errors import Refusal, UpstreamError

PER_PAGE = 100
PAGES = 30  # 3,000 entries: as many files as a pull request can have


class GitHubApi:
    """Requests relative to the run's repository."""

    def __init__(self, egress: Egress, repository: str, authority: Authority) -> None:
        """
        Args:
            repository: `owner/name`.
            authority: `Authority.broker()` for reads, `Authority.publisher(tiers)` for writes.
        """
        self._egress = egress
        self._root = f"/repos/{repository}"
        self._authority = authority

    def get(
        self,
        path: str,
        *,
        step: str,
        query: Mapping[str, Any] | None = None,
        accept: str = "application/vnd.github+json",
        timeout_s: float | None = None,
    ) -> Any:
        """GET and decode.

        Args:
            path: `pulls/7`; the empty text for the repository; with a leading slash from the API's root.
            step: what is being done, for the error, such as `read pull request`.

        Returns:
            The JSON value.

        Raises:
            UpstreamError: any status but 200; `status` says which.
            Refusal: our own policy said no.
        """
        answer = self.request("GET", path, step=step, query=query, accept=accept, timeout_s=timeout_s)
        return decode(answer, step)

    def post(self, path: str, body: Mapping[str, Any], *, step: str) -> Any:
        """POST a JSON body. Raises as `get`, where any status but 200 and 201 is an error."""
        return decode(self.request("POST", path, step=step, body=body), step)

    def patch(self, path: str, body: Mapping[str, Any], *, step: str) -> Any:
        """PATCH a JSON body. Raises as `post`."""
        return decode(self.request("PATCH", path, step=step, body=body), step)

    def paged(
        self,
        path: str,
        *,
        step: str,
        key: str | None = None,
        query: Mapping[str, Any] | None = None,
        pages: int = PAGES,
    ) -> Iterator[Any]:
        """Entries of a list, page after page.

        The next page is computed, never read from `Link`: its addresses are GitHub's words, not ours (F14).
        The end is a page without a `rel="next"`, or an empty one.

        Args:
            key: name of the list in the answer, such as `check_runs`; None for a bare list.
            pages: most pages read.

        Raises:
            UpstreamError: as `get`, and where the answer holds no such list.
        """
        for page in range(1, pages + 1):
            wanted = {**(query or {}), "per_page": PER_PAGE, "page": page}
            answer = self.request("GET", path, step=step, query=wanted)
            value = decode(answer, step)
            entries = value if key is None else value.get(key) if isinstance(value, dict) else None
            if not isinstance(entries, list):
                raise UpstreamError(step, "GitHub answered without the list that was asked for", answer.status)
            yield from entries
            if not entries or 'rel="next"' not in answer.headers.get("link", ""):
                return

    def request(
        self,
        method: str,
        path: str,
        *,
        step: str = "",
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
        accept: str = "application/vnd.github+json",
        timeout_s: float | None = None,
    ) -> EgressResponse:
        """One request, whatever the status.

        Args:
            step: as `get`; empty names method and host.

        Raises:
            UpstreamError: no answer at all.
        """
        full = path if path.startswith("/") else f"{self._root}/{path}".rstrip("/")
        data = b"" if body is None else json.dumps(body).encode("ascii")
        wanted = EgressRequest("github", method, full, query or {}, {"accept": accept}, data)
        try:
            return self._egress.send(wanted, self._authority, timeout_s=timeout_s)
        except UpstreamError as exc:
            if not step:
                raise
            raise UpstreamError(step, str(exc), exc.status) from exc


def decode(answer: EgressResponse, step: str) -> Any:
    """The JSON value of an answer.

    Raises:
        UpstreamError: the status is not 200 or 201, or the body is not JSON.
        Refusal: the answer is our own refusal.
    """
    if answer.status not in (200, 201):
        raise failure(answer, step)
    try:
        return json.loads(answer.body)
    except (ValueError, RecursionError) as exc:
        raise UpstreamError(step, "GitHub's answer is not JSON", answer.status) from exc


def failure(answer: EgressResponse, step: str) -> UpstreamError | Refusal:
    """The error for an answer, in words that say what to do (github-contract section 5)."""
    if answer.refused:
        return Refusal(answer.code, f"{step}: {answer.status} {answer.code}. {answer.message}")
    return UpstreamError(step, explain(answer), answer.status)


def explain(answer: EgressResponse) -> str:
    """What a failed answer means and what mends it. GitHub's own text is a third party's; it is cut short."""
    said = _said(answer.body)
    status = answer.status
    if status == 401:
        return "GitHub refused the token (401). It is wrong or has expired."
    if status in (403, 429) and (
        "retry-after" in answer.headers
        or answer.headers.get("x-ratelimit-remaining") == "0"
        or "rate limit" in said.lower()
    ):
        return f"GitHub's rate limit was reached ({status}), and the run's time does not allow to wait for it."
    if status == 403:
        needed = answer.headers.get("x-accepted-github-permissions", "")
        hint = f" The workflow's `permissions:` lacks {needed}." if needed else ""
        return f"GitHub says the token may not do this (403): {said}.{hint}"
    if status == 404:
        return "GitHub says 404: it is not there, or the token may not see it."
    return f"GitHub answered {status}: {said}."


def _said(body: bytes) -> str:
    """Message and errors of a body of either shape, in one short line."""
    try:
        data = json.loads(body[: 1 << 20])
    except (ValueError, RecursionError):
        return "no explanation"
    if not isinstance(data, dict):
        return "no explanation"
    parts = [data.get("message")]
    errors = data.get("errors")
    for error in errors if isinstance(errors, list) else []:
        parts.append(
            error
            if isinstance(error, str)
            else (error.get("message") or error.get("code"))
            if isinstance(error, dict)
            else None
        )
    line = "; ".join(" ".join(part.split()) for part in parts if isinstance(part, str) and part.strip())
    return line[:300].rstrip(".") or "no explanation"
