"""The words of the transcript: event types and their fields, as data.

A line of `transcript.jsonl` is one JSON object: `seq` (from 0), `ts` (seconds since 1970, UTC), `type`, the
fields of that type, and `prev`, the SHA-256 of the line before (without its newline), 64 zeros in the first.
Fields that a type does not name are allowed: readers ignore what they do not know.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent.contract.dataclass import dataclass, field

FIRST = "0" * 64
SCHEMA_ID = "https://json-schema.org/draft/2020-12/schema"

TEXT = {"type": "string"}
WHOLE = {"type": "integer", "minimum": 0}
NUMBER = {"type": "number", "minimum": 0}
BOOL = {"type": "boolean"}
OBJECT = {"type": "object"}
TEXTS = {"type": "array", "items": {"type": "string"}}
LIST = {"type": "array"}
OPTIONAL_TEXT = {"type": ["string", "null"]}
OPTIONAL_NUMBER = {"type": ["number", "null"]}
OPTIONAL_WHOLE = {"type": ["integer", "null"]}
ANY: dict[str, Any] = {}
USAGE = {
    "type": "object",
    "properties": {
        "input_tokens": WHOLE,
        "cached_tokens": WHOLE,
        "cache_write_tokens": WHOLE,
        "output_tokens": WHOLE,
        "reasoning_tokens": WHOLE,
        "cost": OPTIONAL_NUMBER,
    },
}
CALLS = {"type": "array", "items": {"type": "object", "properties": {"id": TEXT, "name": TEXT}}}


@dataclass(frozen=True)
class EventType:
    """One type of event.

    Attributes:
        about: what it records, one phrase.
        needs: fields that every event of the type has, with their JSON Schemas.
        may: further fields.
        harness: the harness may report it; all others are the broker's own words (a harness that is taken
            over cannot forge a gate's decision).
        outcome: it tells what came of an event before it. What is about to be done is on disk first; an outcome
            waits in the kernel for the next event of that kind, as what the harness reports does.
    """

    about: str
    needs: Mapping[str, Mapping[str, Any]]
    may: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    harness: bool = False
    outcome: bool = False

    @property
    def durable(self) -> bool:
        """Whether it is on disk before the writer returns, and with it all that came before."""
        return not (self.harness or self.outcome)


EVENTS: Mapping[str, EventType] = {
    "run.start": EventType(
        "the run and what it was started for",
        {"mode": TEXT, "event": TEXT, "repository": TEXT},
        {
            "version": TEXT,
            "actor": OPTIONAL_TEXT,
            "number": OPTIONAL_WHOLE,
            "base_sha": OPTIONAL_TEXT,
            "head_sha": OPTIONAL_TEXT,
            "run_id": OPTIONAL_WHOLE,
            "attempt": OPTIONAL_WHOLE,
            "task": TEXT,
            "models": LIST,
            "limits": OBJECT,
            "file_rules": OBJECT,
            "unregistered_secrets": TEXTS,
        },
    ),
    "config": EventType("trusted configuration that was read", {"sha": OPTIONAL_TEXT}, {"path": TEXT, "digest": TEXT}),
    "manifest": EventType("the frozen egress manifest", {"digest": TEXT}, {"document": ANY}),
    "gate.decision": EventType(
        "which mode the actor may start (S6)",
        {"mode": TEXT, "reason": TEXT},
        {"allowed": BOOL, "wished": TEXT, "ceiling": TEXT, "actors": ANY},
    ),
    "sandbox.probe": EventType(
        "forbidden acts tried in the sandbox",
        {"backend": TEXT, "ok": BOOL},
        {"loopback": BOOL, "items": LIST, "missing": TEXTS},
    ),
    "hook.start": EventType("a hook begins", {"purpose": TEXT}, {"command": TEXT, "tree": OPTIONAL_TEXT}),
    "hook.end": EventType(
        "a hook ended",
        {"purpose": TEXT, "passed": BOOL},
        {
            "ended": TEXT,
            "output": TEXT,
            "output_id": OPTIONAL_TEXT,
            "duration_ms": NUMBER,
            "survivors": WHOLE,
            "tree": OPTIONAL_TEXT,
            "attempt": WHOLE,
        },
    ),
    "agent.rendered": EventType(
        "tools that the model is shown this turn (D7)", {"turn": WHOLE, "tools": TEXTS}, {}, True
    ),
    "agent.note": EventType("words of ours in the history", {"turn": WHOLE, "text": TEXT}, {}, True),
    "agent.compacted": EventType(
        "history shortened", {"turn": WHOLE, "before": WHOLE, "after": WHOLE}, {"overflow": BOOL}, True
    ),
    "agent.stop": EventType("the loop ended", {"turn": WHOLE, "stop_reason": TEXT}, {"reason": TEXT}, True),
    "model.request": EventType(
        "a request to the model", {"turn": WHOLE}, {"messages": WHOLE, "model": TEXT, "bytes": WHOLE}, True
    ),
    "model.response": EventType(
        "an answer of the model",
        {"turn": WHOLE},
        {
            "text": TEXT,
            "calls": CALLS,
            "stop": OPTIONAL_TEXT,
            "usage": USAGE,
            "model": TEXT,
            "provider": TEXT,
            "ms": NUMBER,
        },
        True,
    ),
    "model.retry": EventType(
        "a request to the model is tried again", {}, {"reason": TEXT, "attempt": WHOLE, "wait_s": NUMBER}, True
    ),
    "model.failover": EventType("another model takes over", {}, {"before": TEXT, "after": TEXT, "reason": TEXT}, True),
    "tool.call": EventType(
        "a tool call", {"name": TEXT}, {"turn": WHOLE, "id": TEXT, "arguments": ANY, "raw": TEXT}, True
    ),
    "tool.result": EventType(
        "what a tool gave back",
        {"name": TEXT},
        {
            "turn": WHOLE,
            "id": TEXT,
            "text": TEXT,
            "is_error": BOOL,
            "ms": NUMBER,
            "output_id": OPTIONAL_TEXT,
        },
        True,
    ),
    "tool.denied": EventType(
        "a tool call that a rule refused (S5)",
        {"name": TEXT, "reason": TEXT},
        {"turn": WHOLE, "id": TEXT, "code": TEXT},
        True,
    ),
    "egress.request": EventType(
        "a request leaves (D7); `n` joins it with its answer",
        {"connection": TEXT, "method": TEXT, "path": TEXT},
        {"n": WHOLE, "query": ANY, "authority": TEXT, "rules": LIST, "bytes": WHOLE},
    ),
    "egress.response": EventType(
        "its answer; without status where none came",
        {"status": OPTIONAL_WHOLE},
        {"n": WHOLE, "bytes": WHOLE, "ms": NUMBER, "error": TEXT},
        outcome=True,
    ),
    "egress.redirect": EventType("a declared redirect was followed", {"to": TEXT}, {"n": WHOLE}),
    "egress.wait": EventType(
        "a rate limit or fault was waited out", {"seconds": NUMBER}, {"n": WHOLE, "status": WHOLE}
    ),
    "egress.denied": EventType(
        "a request refused before the secret was read",
        {"connection": TEXT, "method": TEXT, "path": TEXT, "code": TEXT},
        {"n": WHOLE, "authority": TEXT, "reason": TEXT, "message": TEXT, "rules": LIST},
    ),
    "egress.dry_run": EventType(
        "a write that was allowed and, in a dry run, not sent",
        {"connection": TEXT, "method": TEXT, "path": TEXT},
        {"n": WHOLE, "query": ANY, "authority": TEXT, "bytes": WHOLE, "body": ANY},
    ),
    "command": EventType(
        "a command in the sandbox, as `wait` saw it",
        {"command": TEXT},
        {
            "exit_code": OPTIONAL_WHOLE,
            "signal": OPTIONAL_WHOLE,
            "timed_out": BOOL,
            "survivors": WHOLE,
            "duration_ms": NUMBER,
            "output_id": OPTIONAL_TEXT,
            "bytes": WHOLE,
        },
        outcome=True,
    ),
    "git.commit": EventType(
        "a commit in the shadow repository", {"commit": TEXT}, {"message": TEXT, "files": LIST, "tree": TEXT}
    ),
    "git.push": EventType("a push", {"branch": TEXT, "sha": TEXT}, {"gate": TEXT}),
    "git.denied": EventType("a commit or push refused (S4)", {"code": TEXT, "reason": TEXT}, {"branch": TEXT}),
    "pull_request": EventType("a pull request", {"number": WHOLE}, {"url": TEXT, "updated": BOOL, "draft": BOOL}),
    "comment": EventType(
        "a comment, review or issue", {"kind": TEXT}, {"number": OPTIONAL_WHOLE, "url": TEXT, "updated": BOOL}
    ),
    "diff": EventType(
        "what the run changed, before it ended", {"text": TEXT}, {"files": LIST, "added": WHOLE, "removed": WHOLE}
    ),
    "limit": EventType("a limit was reached (S7)", {"limit": TEXT}, {"used": ANY, "cap": ANY, "how_to_raise": TEXT}),
    "log": EventType("something worth knowing", {"message": TEXT}, {"level": TEXT, "where": TEXT}),
    "run.end": EventType(
        "the outcome",
        {"stop_reason": TEXT, "outcome": TEXT, "exit_status": WHOLE},
        {"output": TEXT, "structured": ANY, "totals": OBJECT, "reason": TEXT},
    ),
}

HARNESS_TYPES = frozenset(name for name, kind in EVENTS.items() if kind.harness)


def json_schema() -> dict[str, Any]:
    """The JSON Schema of one line, published as `agent/broker/transcript.schema.json`."""
    common = {"seq": WHOLE, "ts": NUMBER, "type": {"enum": list(EVENTS)}, "prev": {"pattern": "^[0-9a-f]{64}$"}}
    return {
        "$schema": SCHEMA_ID,
        "title": "One line of an Airlock transcript",
        "type": "object",
        "properties": common,
        "required": list(common),
        "allOf": [
            {
                "if": {"properties": {"type": {"const": name}}},
                "then": {
                    "description": kind.about,
                    "properties": {**kind.needs, **kind.may},
                    "required": list(kind.needs),
                },
            }
            for name, kind in EVENTS.items()
        ],
    }
