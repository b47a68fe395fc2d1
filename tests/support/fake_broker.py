"""A broker in memory for tests of GitHub tools: answers by method and path, keeps what was asked."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from agent.contract.facts import RunFacts
from agent.kernel.channel import Frame

Answer = Callable[[dict[str, Any], Any], tuple[int, Any] | tuple[int, Any, dict[str, str]]]


@dataclass
class FakeBroker:
    """Answers `egress` for the connection `github`; an unknown path is a 404 as GitHub gives it."""

    routes: dict[str, Answer] = field(default_factory=dict)
    asked: list[tuple[str, str, dict[str, str], Any]] = field(default_factory=list)

    def on(self, method: str, path: str, answer: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        """Answer a path below the repository, with a value or a function of (query, body)."""
        made: Answer = answer if callable(answer) else lambda query, body: (status, answer, headers or {})
        self.routes[f"{method} /repos/acme/widgets{path}"] = made

    def call(self, op: str, payload: bytes = b"", **fields: Any) -> Frame:
        assert op == "egress"
        assert fields["connection"] == "github"
        body = json.loads(payload) if payload else None
        self.asked.append((fields["method"], fields["path"], fields["query"], body))
        found = self.routes.get(f"{fields['method']} {fields['path']}")
        status, value, *rest = found(fields["query"], body) if found else (404, {"message": "Not Found"})
        headers = dict(rest[0]) if rest else {}
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        header = {"id": 1, "ok": True, "status": status, "headers": headers}
        if headers.pop("refused", None):
            header["refused"] = True
        return Frame(header, data)

    def stream(self, op: str, payload: bytes = b"", **fields: Any) -> Iterator[Frame]:
        assert fields.pop("stream") is True
        whole = self.call(op, payload, **fields)
        yield Frame({**whole.header, "more": True})
        for at in range(0, len(whole.payload), 1000):
            yield Frame({"more": True}, whole.payload[at : at + 1000])
        yield Frame({"ok": True})

    def notice(self, op: str, payload: bytes = b"", **fields: Any) -> None:
        return None

    def writes(self) -> list[tuple[str, str, Any]]:
        """Everything but reads, paths below the repository."""
        return [(m, p.removeprefix("/repos/acme/widgets"), b) for m, p, _, b in self.asked if m != "GET"]


def facts(**changes: Any) -> RunFacts:
    """Facts of a review of pull request 7."""
    values: dict[str, Any] = {
        "mode": "review", "event": "pull_request", "repository": "acme/widgets", "workspace": "/w",
        "base_sha": "b" * 40, "head_sha": "a" * 40, "number": 7, "is_pull_request": True, "run_id": None, "tools": (),
        "task": "", "playbook": "review", "playbook_is_text": False, "max_tool_calls": 60, "max_turns": 60,
        "timeout_s": 60.0, "max_tokens": None, "models": (), "branch_prefix": "airlock/", "options": {},
    }  # fmt: skip
    return RunFacts(**{**values, **changes})
