"""The operation `egress`: what a harness may send, over the frozen policy.

Beside the policy, which knows routes and tiers, this module holds what needs the run's state: caps on turns and
comments, which comments are our own, and that every text bound for GitHub is neutralised here, whatever the
harness did to it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

from agent.broker.egress import Egress
from agent.broker.github import GitHubApi
from agent.broker.money import cost_of
from agent.broker.policy.model_body import Conversation, problem
from agent.broker.policy.words import Authority, EgressRequest
from agent.broker.server import Call, Reply
from agent.broker.state import RunState
from agent.broker.usage import used_or_guessed
from agent.contract.errors import Refusal, ToolInputError, UpstreamError
from agent.contract.fingerprint import is_own
from agent.contract.modes import Tier
from agent.contract.neutral import neutralise
from agent.contract.regex import regex

OWN_TEXT_GATE = "own_text"
USAGE_CAP = 32 << 20  # bytes of one answer looked at for its usage
BODY_CAP = 8 << 20  # bytes of one body: a review's hundred comments, of the longest that GitHub takes, fit
TEXT_KEYS = ("body", "title")

OWN_MARK = "<!-- airlock"
_OWN = regex(r"/(issues|pulls)/comments/(\d+)$")


class EgressOperation:
    """Handler of one run."""

    def __init__(self, run: RunState, egress: Egress, api: GitHubApi) -> None:
        """
        Args:
            api: the broker's own reads, to see whose comment one is.
        """
        self._run = run
        self._egress = egress
        self._api = api
        self._own: set[str] = set()
        self._models = {str(m.get("connection")): str(m.get("model", "")) for m in run.facts.models}
        self._bodies = {
            str(m.get("connection")): Conversation(str(m.get("wire", "")), str(m.get("model", "")))
            for m in run.facts.models
        }

    def handle(self, call: Call) -> Reply:
        """Send one request; a refusal is an answer of status 403 or 409, never an error of the channel."""
        connection = call.text("connection", cap=100)
        method, path = call.text("method", cap=100), call.text("path", cap=8192)
        query, headers = call.fields.get("query") or {}, call.fields.get("headers") or {}
        if not isinstance(query, dict) or not isinstance(headers, dict):
            raise ToolInputError("`query` and `headers` must be objects.")
        headers = {str(k): str(v) for k, v in headers.items()}
        if connection == "model" or connection.startswith("model-"):
            return self._model(call, EgressRequest(connection, method, path, query, headers, call.payload))
        with self._run.lock:
            if not self._run.meter.request():
                raise Refusal("limit", "The run has sent more requests than its cap on tool calls allows.")
        body = call.payload
        if len(body) > BODY_CAP:
            raise ToolInputError(f"The body is over {BODY_CAP} bytes.")
        writes = connection == "github" and method != "GET"
        if writes:
            self._allow(method, call.payload)
            body = neutralised(body)
        request = EgressRequest(connection, method, path, query, headers, body)
        # what is written is written before the report, which waits for the lock, tells what was
        with self._run.lock if writes else nullcontext():
            answer = self._egress.send(request, self._authority(method, path))
            if writes and answer.status in (200, 201):
                self._written(path, answer.body)
        fields: dict[str, Any] = {"status": answer.status, "headers": dict(answer.headers)}
        if answer.refused:
            fields["refused"] = True
            with self._run.lock:
                self._run.done.denials.append(f"{method} {path[:200]}: {answer.code}")
        return fields, answer.body

    def _authority(self, method: str, path: str) -> Authority:
        gates = frozenset({OWN_TEXT_GATE}) if method == "PATCH" and self._is_own(path) else frozenset()
        return Authority("harness", self._run.tiers, gates)

    def _allow(self, method: str, body: bytes) -> None:
        """The cap on comments. A refusal here is softer than a tier's: the run goes on."""
        run = self._run
        if method in ("POST", "PATCH") and Tier.COMMENT in run.tiers:
            with run.lock:
                if not run.meter.comment(_texts_in(body)):
                    raise Refusal("limit", f"The cap of {run.meter.limits.max_comments} comments is reached.")

    def _is_own(self, path: str) -> bool:
        """Only a comment that this identity wrote may be edited; a mark in it proves nothing (R17)."""
        found = _OWN.search(path)
        if found is None:
            return False
        kind, number = found[1], found[2]
        if f"{kind}/{number}" in self._own:
            return True
        try:
            comment = self._api.get(f"{kind}/comments/{number}", step="see whose comment it is")
        except (UpstreamError, Refusal):
            return False
        if not isinstance(comment, dict) or not is_own(comment, self._run.facts.options.get("own_login")):
            return False
        # every workflow of the repository writes as this login: ours bears our mark and stands where the run is
        about = str(comment.get("issue_url") or comment.get("pull_request_url") or "").rpartition("/")[2]
        return OWN_MARK in str(comment.get("body", "")) and about == str(self._run.facts.number)

    def _written(self, path: str, body: bytes) -> None:
        try:
            data = json.loads(body)
        except ValueError:
            return
        if not isinstance(data, dict):
            return
        url, number = data.get("html_url"), data.get("id")
        kind = "pulls" if "/pulls/" in path else "issues"
        issue = path.endswith("/issues")
        with self._run.lock:
            if isinstance(number, int) and path.endswith(("/comments", "/replies")):  # a review's id is no comment's
                self._own.add(f"{kind}/{number}")
            if isinstance(url, str):
                done = self._run.done
                (done.issues if issue else done.comments).append(url)
        self._run.record("comment", kind="issue" if issue else kind, url=str(url or ""), number=data.get("number"))

    def _refused_body(self, call: Call, request: EgressRequest, sentence: str) -> Reply:
        code = "egress_body_blocked"
        where = {"connection": request.connection, "method": request.method, "path": request.path[:200]}
        self._run.record("egress.denied", code=code, reason=sentence, **where)
        with self._run.lock:
            self._run.done.denials.append(f"{request.method} {request.path[:200]}: {code}")
        call.more({"status": 403, "headers": {}, "refused": True}, b"")
        body = {"status": 403, "error": {"code": code, "message": sentence}}
        return {"status": 403, "refused": True}, json.dumps(body).encode()

    def _model(self, call: Call, request: EgressRequest) -> Reply:
        """A turn. Its usage is counted from the provider's bytes, not from what the harness reports."""
        run = self._run
        with run.lock:
            if not run.meter.turn():
                raise Refusal("limit", f"The run has reached its limit: {run.meter.reached}.")
        name = request.connection
        bodies = self._bodies.get(name)
        bad = bodies.problem(request.body) if bodies is not None else problem("", "", request.body)
        if bad is not None:
            return self._refused_body(call, request, f"The body is refused: {bad}.")
        stream = self._egress.stream(request, Authority("harness", frozenset({Tier.READ})))
        seen = bytearray()
        try:
            first: dict[str, Any] = {"status": stream.status, "headers": dict(stream.headers)}
            if stream.refused:
                first["refused"] = True
            for chunk in stream.chunks:
                call.more(first, chunk)
                first = {}
                if len(seen) < USAGE_CAP:
                    seen += chunk
            if first:
                call.more(first, b"")
        finally:
            stream.close()
            if 200 <= stream.status < 300:  # any other was not paid for
                used = used_or_guessed(bytes(seen), len(request.body))
                cost = cost_of(self._models.get(request.connection, ""), used)
                with run.lock:
                    run.meter.used(used.read, used.written, cost)
        return {"status": stream.status}, b""


def _texts_in(body: bytes) -> int:
    """How many texts a write posts: a review's comments count one by one."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return 1
    comments = value.get("comments") if isinstance(value, dict) else None
    return 1 + (len(comments) if isinstance(comments, list) else 0)


def neutralised(body: bytes) -> bytes:
    """A JSON body with every text for people neutralised; a body that is no JSON is left for the policy."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return body
    if not isinstance(value, dict):
        return body
    return json.dumps(_inert(value)).encode()


def _inert(value: Mapping[str, Any]) -> dict[str, Any]:
    done: dict[str, Any] = {}
    for key, item in value.items():
        if key in TEXT_KEYS and isinstance(item, str):
            done[key] = neutralise(item, keep_mark=key == "body")
        elif key == "comments" and isinstance(item, list):
            done[key] = [_inert(one) if isinstance(one, dict) else one for one in item]
        else:
            done[key] = item
    return done
