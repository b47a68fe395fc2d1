"""What GitHub and the model's host answer: reachable, at what time, and what each token may do. Reads alone.

Permissions are asked for by one read each. Writes cannot be asked for without writing: what GitHub says of them in
answers to reads (a classic token's scopes, a user's role in the repository) is told, and nothing is guessed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from agent.broker.egress import Reach, make_transport
from agent.broker.policy.builtin import API_VERSION, USER_AGENT
from agent.contract.errors import UpstreamError
from agent.doctor_finding import FAIL, OK, WARNING, Finding

TIMEOUT_S = 10.0
BODY_CAP = 1 << 20
SKEW_WARN_S, SKEW_FAIL_S = 30.0, 300.0

# GitHub's own prefixes; they tell the kind and nothing of the secret
KINDS = {
    "ghs_": "a GITHUB_TOKEN or an App's token",
    "github_pat_": "a fine-grained personal token",
    "ghp_": "a classic personal token",
    "gho_": "an OAuth token",
    "ghu_": "an App's user token",
}

READS = (  # permission of a workflow, what needs it, path below the repository
    ("contents", "configuration and files", "git/ref/heads/{branch}"),
    ("pull-requests", "reviews", "pulls?per_page=1"),
    ("issues", "issues and comments", "issues?per_page=1"),
    ("actions", "logs of failed runs", "actions/runs?per_page=1"),
    ("checks", "results of checks", "commits/{sha}/check-runs?per_page=1"),
)


@dataclass(frozen=True)
class Answer:
    """An answer that was read whole."""

    status: int
    headers: Mapping[str, str]
    value: Any


class Asker:
    """GET and nothing else."""

    def __init__(self, api_url: str, reach: Reach, now: Callable[[], float] = time.time) -> None:
        self.api_url = api_url.rstrip("/")
        self.reach = reach
        self.now = now
        self._transport = make_transport(reach)

    def get(self, url: str, token: str = "") -> Answer:
        """One request.

        Raises:
            UpstreamError: no answer.
        """
        headers = {"accept": "application/vnd.github+json", "user-agent": USER_AGENT}
        if token:
            headers |= {"authorization": f"Bearer {token}", "x-github-api-version": API_VERSION}
        exchange = self._transport.send("GET", url, headers, b"", TIMEOUT_S)
        try:
            body = bytearray()
            for chunk in exchange.chunks():
                body += chunk
                if len(body) > BODY_CAP:
                    break
        finally:
            exchange.close()
        try:
            value = json.loads(body)
        except (ValueError, RecursionError):
            value = None
        return Answer(exchange.status, exchange.headers, value)


def reachable(asker: Asker, name: str, url: str) -> Iterator[Finding]:
    """Whether a host answers at all, and through what."""
    parts = urlsplit(url)
    proxy = asker.reach.proxy_for(url)
    through = f" through the proxy {urlsplit(proxy).hostname}" if proxy else ""
    try:
        answer = asker.get(f"{parts.scheme}://{parts.netloc}{parts.path or '/'}")
    except UpstreamError as exc:
        fix = f"Let this runner reach {parts.netloc}" + (", or mend the proxy." if proxy else ", or set HTTPS_PROXY.")
        yield Finding(name, FAIL, f"{parts.netloc} does not answer{through}: {exc}", fix)
        return
    yield Finding(name, OK, f"{parts.netloc} answers{through}")
    if "date" in answer.headers and name == "github api":
        yield _clock(asker, answer.headers["date"])


def _clock(asker: Asker, date: str) -> Finding:
    try:
        skew = asker.now() - parsedate_to_datetime(date).timestamp()
    except ValueError:
        return Finding("clock", WARNING, f"GitHub's date cannot be read: {date[:60]!r}")
    state = OK if abs(skew) < SKEW_WARN_S else WARNING if abs(skew) < SKEW_FAIL_S else FAIL
    side = "ahead of" if skew > 0 else "behind"
    text = "agrees with GitHub's" if state == OK else f"{abs(skew):.0f} s {side} GitHub's"
    return Finding("clock", state, text, "" if state == OK else "Set the clock (timedatectl set-ntp true).")


def token(asker: Asker, name: str, value: str, repository: str) -> Iterator[Finding]:
    """What one token may do.

    Args:
        name: variable that it came from.
        repository: `owner/name`, or empty: then only its kind is told.
    """
    topic = f"token {name}"
    kind = next((words for prefix, words in KINDS.items() if value.startswith(prefix)), "of a kind unknown here")
    if not (value.isascii() and value.isprintable()):
        yield Finding(topic, FAIL, "it holds a character that no header can carry", "Store it again, on one line.")
        return
    try:
        limit = asker.get(f"{asker.api_url}/rate_limit", value)
    except UpstreamError as exc:
        yield Finding(topic, FAIL, f"could not be asked about: {exc}", "See github api above.")
        return
    if limit.status == 401:
        yield Finding(
            topic, FAIL, f"GitHub refuses it (401); it looks like {kind}", "Make a new one, or pass the right one."
        )
        return
    scopes = limit.headers.get("x-oauth-scopes")
    yield Finding(topic, OK, f"{kind}, accepted" + (f"; scopes: {scopes or 'none'}" if scopes is not None else ""))
    if not repository:
        yield Finding(f"{topic} reads", WARNING, "not asked: no repository is named", "Give --repository OWNER/NAME.")
        return
    yield from _repository(asker, topic, value, repository, scopes)


def _repository(asker: Asker, topic: str, value: str, repository: str, scopes: str | None) -> Iterator[Finding]:
    root = f"{asker.api_url}/repos/{repository}"
    found = _ask(asker, root, value)
    if not isinstance(found, Answer) or found.status != 200 or not isinstance(found.value, dict):
        said = found if isinstance(found, str) else f"GitHub answers {found.status}"
        yield Finding(
            f"{topic} repository", FAIL, f"{repository}: {said}", "Check the name, and that the token may see it."
        )
        return
    branch = str(found.value.get("default_branch") or "main")
    tip = _ask(asker, f"{root}/git/ref/heads/{branch}", value)
    about = tip.value if isinstance(tip, Answer) and isinstance(tip.value, dict) else {}
    sha = str((about.get("object") or {}).get("sha", branch))
    for permission, purpose, path in READS:
        answer = _ask(asker, f"{root}/{path.format(branch=branch, sha=sha)}", value)
        yield _read(topic, permission, purpose, answer)
    yield _writes(topic, found.value, scopes)


def _ask(asker: Asker, url: str, value: str) -> Answer | str:
    try:
        return asker.get(url, value)
    except UpstreamError as exc:
        return str(exc)


def _read(topic: str, permission: str, purpose: str, answer: Answer | str) -> Finding:
    name = f"{topic} {permission}"
    if isinstance(answer, str):
        return Finding(name, FAIL, answer, "See github api above.")
    if answer.status in (200, 404, 409, 410):  # an empty repository, or a feature that is off
        return Finding(name, OK, f"may be read ({purpose})" + ("" if answer.status == 200 else f" ({answer.status})"))
    needed = answer.headers.get("x-accepted-github-permissions", f"{permission.replace('-', '_')}=read")
    state = FAIL if permission == "contents" else WARNING
    return Finding(
        name,
        state,
        f"may not be read ({answer.status}); GitHub wants {needed}",
        f"Add `{permission}: read` to the job's permissions, or the same to the token: it is for {purpose}.",
    )


def _writes(topic: str, repository: Mapping[str, Any], scopes: str | None) -> Finding:
    name = f"{topic} writes"
    role = repository.get("permissions")
    granted = [scope.strip() for scope in (scopes or "").split(",")]
    if scopes is not None and not {"repo", "public_repo"} & set(granted):
        return Finding(name, WARNING, "its scopes allow none", "Give it the scope repo, or use the job's GITHUB_TOKEN.")
    if isinstance(role, dict) and role.get("push") is False:
        text = "GitHub says it may not push; comment and review need a token that may write there"
        return Finding(
            name, WARNING, text, "Add `contents: write` and `pull-requests: write` to the job's permissions."
        )
    if scopes is not None and isinstance(role, dict) and role.get("push") is True:
        return Finding(name, OK, "its scopes and its role in the repository allow them")
    return Finding(
        name,
        WARNING,
        "cannot be asked for without writing, so they were not",
        "See the permission block for your use in the README; the first run names what is lacking.",
    )
