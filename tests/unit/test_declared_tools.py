"""Declared tools on the broker's side: a hostile harness can name them and nothing more (C6, S5)."""

from __future__ import annotations

import json
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.broker.config import ToolConfig
from agent.broker.declared_tools import ARGUMENTS_CAP, DeclaredTools
from agent.broker.limits import Limits, Meter
from agent.broker.operations import Operations
from agent.broker.policy.decide import Policy
from agent.broker.policy.declared import declared_connections
from agent.broker.policy.words import Authority, EgressRequest
from agent.broker.redact import Redactor
from agent.broker.server import Call as BrokerCall
from agent.broker.state import RunState
from agent.contract.errors import ToolInputError, ToolPermissionError, UserError
from agent.contract.facts import RunFacts
from agent.contract.modes import Tier
from agent.contract.sandbox import ExecResult

CONNECTIONS = declared_connections(
    {
        "advisories": {
            "origin": "https://osv.example",
            "headers": {"Authorization": {"secret": "OSV_TOKEN", "prefix": "Bearer "}},
            "routes": [
                {"method": "GET", "path": "/v1/vulns/{id}", "tier": "read", "query": {"lang": {"enum": ["en"]}}},
                {"method": "POST", "path": "/v1/notes/**", "tier": "comment", "body": {"type": "object"}},
            ],
        }
    },
    reserved_origins=frozenset(),
)
TEXT = {"type": "object", "properties": {"id": {"type": "string"}, "lang": {"type": "string"}}}
LOOK = ToolConfig("look_up", Tier.READ, "d", TEXT, "advisories", "GET", "/v1/vulns/{id}")
NOTE = ToolConfig("leave_note", Tier.COMMENT, "d", TEXT, "advisories", "POST", "/v1/notes/{id}")
COUNT = ToolConfig(
    "count_words",
    Tier.SHELL,
    "d",
    {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"], "additionalProperties": False},
    command="cat # the arguments",
)
ALL = Authority.harness(frozenset(Tier))


def check(tools: DeclaredTools, method: str, path: str, body: bytes = b"") -> str | None:
    """The policy's code for a request over the connection; None where it is allowed."""
    return Policy(tools.connections()).check(EgressRequest("advisories", method, path, {}, {}, body), ALL).code


def test_the_requests_of_offered_tools_are_the_only_routes() -> None:
    """What the connection could do besides, no tool of this run asks for."""
    tools = DeclaredTools([LOOK, NOTE], CONNECTIONS, ["look_up", "leave_note"])

    assert check(tools, "GET", "/v1/vulns/GHSA-1") is None
    assert check(tools, "POST", "/v1/notes/1", b"{}") is None
    assert check(tools, "POST", "/v1/notes/1/replies", b"{}") == "egress_path_blocked"
    assert check(tools, "DELETE", "/v1/notes/1") == "egress_method_blocked"
    assert check(tools, "GET", "/v1/../admin") == "egress_path_blocked"


def test_a_denied_tool_takes_its_route_with_it() -> None:
    """The other tool of the same connection still works."""
    tools = DeclaredTools([LOOK, NOTE], CONNECTIONS, ["look_up"])

    assert check(tools, "POST", "/v1/notes/1", b"{}") == "egress_path_blocked"
    assert check(tools, "GET", "/v1/vulns/GHSA-1") is None
    assert check(DeclaredTools([LOOK], CONNECTIONS), "GET", "/v1/vulns/GHSA-1") == "egress_path_blocked"


def test_a_tools_query_and_body_are_held_to_the_routes_schemas() -> None:
    """Narrowing keeps what the route asks of a request."""
    policy = Policy(DeclaredTools([LOOK], CONNECTIONS, ["look_up"]).connections())

    def code(query: dict[str, Any]) -> str | None:
        return policy.check(EgressRequest("advisories", "GET", "/v1/vulns/1", query), ALL).code

    assert (code({"lang": "en"}), code({"lang": "xx"}), code({"other": "1"})) == (
        None,
        "egress_query_blocked",
        "egress_query_blocked",
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"method": "PUT"}, "no route of ai.connections.advisories"),
        ({"path": "/v1/{id}/1"}, "no route of ai.connections.advisories"),
        ({"path": "/v1/vulns/{nope}"}, "its schema has no such property"),
        ({"query": ("nope",)}, "its schema has no such property"),
        ({"path": "/v1/vulns//{id}"}, "which is refused|must begin with one slash"),
        ({"tier": Tier.COMMENT}, "they must be the same"),
    ],
)
def test_a_tool_that_does_not_fit_its_connection_is_an_error_at_start(change: dict[str, Any], words: str) -> None:
    """With the tool's name and what is wrong; a placeholder is no way onto a route's literal."""
    with pytest.raises(UserError, match=words):
        DeclaredTools([replace(LOOK, **change)], CONNECTIONS, ["look_up"])


def test_the_harness_is_told_the_form_and_not_the_commands_text() -> None:
    """What it needs to make the call."""
    tools = DeclaredTools([COUNT, NOTE], CONNECTIONS, ["count_words"])
    count, note = tools.for_harness()

    assert (count["command"], note["command"], note["body"], note["path"]) == (True, False, True, "/v1/notes/{id}")
    assert "cat" not in str(count)
    assert tools.commands() == {"count_words": "cat # the arguments"}
    assert (tools.tier_of("count_words"), tools.tier_of("leave_note"), tools.tier_of("x")) == (Tier.SHELL, None, None)


@given(st.text(max_size=200))
def test_arguments_reach_the_command_as_data_whatever_they_hold(text: str) -> None:
    """No quote, dollar or newline leaves its place: a real shell gives back the same JSON."""
    command = DeclaredTools([COUNT], offered=["count_words"]).command("count_words", {"text": text})
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, check=True)

    assert json.loads(done.stdout) == {"text": text}


@pytest.mark.parametrize(
    "arguments", [None, [], "x", {}, {"text": 1}, {"text": "x", "more": 1}, {"text": "x" * ARGUMENTS_CAP}]
)
def test_arguments_that_do_not_fit_are_refused_by_the_broker_too(arguments: object) -> None:
    """A harness that is taken over checks nothing."""
    with pytest.raises(ToolInputError):
        DeclaredTools([COUNT]).command("count_words", arguments)


class Sandbox:
    """Keeps what it was asked to run."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    def run(self, request: Any) -> ExecResult:
        self.ran.append(request.command)
        return ExecResult(exit_code=0, signal=None, timed_out=False, stdout=b"", stderr=b"", duration_ms=1.0)


def operations(tmp_path: Path, *offered: str) -> tuple[Operations, Sandbox]:
    """The broker's operations of a run that offers these tools, over a sandbox that only listens."""
    sandbox = Sandbox()
    facts = RunFacts(
        mode="implement", event="x", repository="a/b", workspace="/", base_sha=None, head_sha=None, number=None,
        is_pull_request=False, run_id=None, tools=offered, task="", playbook="", playbook_is_text=False,
        max_tool_calls=1, max_turns=1, timeout_s=60, max_tokens=None, models=(), branch_prefix="airlock/",
    )  # fmt: skip
    limits = Limits(max_tool_calls=9, max_turns=1, timeout_s=60, max_tokens=None, max_cost_usd=None)
    run = RunState(
        facts=facts,
        tiers=frozenset(Tier),
        meter=Meter(limits, started=time.monotonic()),
        record=lambda *_, **__: None,
        declared=DeclaredTools([COUNT, NOTE], CONNECTIONS, offered),
        sandbox=sandbox,  # type: ignore[arg-type]
    )
    return Operations(run, Redactor({}), tmp_path), sandbox


def call(**fields: Any) -> BrokerCall:
    return BrokerCall("exec", fields, b"", lambda *_: None)


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"command": "id"}, ToolPermissionError),
        ({"tool": "count_words", "arguments": {"text": "x"}, "command": "id"}, ToolInputError),
        ({"tool": "count_words", "arguments": {"text": 1}}, ToolInputError),
        ({"tool": "count_words"}, ToolInputError),
        ({"tool": "leave_note", "arguments": {}}, ToolInputError),
        ({"tool": "run_command", "arguments": {}, "command": "id"}, ToolInputError),
        ({"tool": "nope"}, ToolInputError),
        ({"tool": ["count_words"]}, ToolInputError),
    ],
)
def test_a_hostile_harness_runs_nothing_but_the_declared_text(
    tmp_path: Path, fields: dict[str, Any], error: type[Exception]
) -> None:
    """`run_command` is denied here; no field of the message brings another command in. Then the honest call."""
    broker, sandbox = operations(tmp_path, "count_words")
    with pytest.raises(error):
        broker.handlers()["exec"](call(**fields))

    assert sandbox.ran == []
    broker.handlers()["exec"](call(tool="count_words", arguments={"text": "x"}))
    assert sandbox.ran == ['printf %s \'{"text": "x"}\' | (\ncat # the arguments\n)']


def test_a_declared_command_that_is_denied_does_not_run_for_a_hostile_harness(tmp_path: Path) -> None:
    """The broker asks its own list of offered tools."""
    broker, sandbox = operations(tmp_path, "run_command")
    with pytest.raises(ToolPermissionError):
        broker.handlers()["exec"](call(tool="count_words", arguments={"text": "x"}))

    assert sandbox.ran == []
