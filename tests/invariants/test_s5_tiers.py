"""S5: out-of-tier tools are never shown, and a harness that is taken over gains nothing by sending their messages."""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from agent.broker.limits import Limits, Meter
from agent.broker.operations import Operations
from agent.broker.redact import Redactor
from agent.broker.server import Server
from agent.broker.state import RunState
from agent.contract.facts import RunFacts
from agent.contract.modes import MODES, TOOL_TIERS, Mode, Tier, offered_tools
from agent.contract.sandbox import ExecRequest, ExecResult
from agent.kernel.channel import Caller, CallFailed, Channel


class SpySandbox:
    """Stands where a sandbox would, and remembers what it was asked to run."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    def run(self, request: ExecRequest) -> ExecResult:
        self.ran.append(request.command)
        return ExecResult(0, None, False, b"ran\n", b"")


def broker(mode: Mode, folder: Path, *, deny: tuple[str, ...] = ()) -> tuple[Caller, SpySandbox, list[dict[str, Any]]]:
    """The broker's server with this mode's state; the caller plays a harness that is taken over."""
    facts = RunFacts(
        mode=mode.name, event="pull_request", repository="o/r", workspace=str(folder), base_sha=None, head_sha=None,
        number=7, is_pull_request=True, run_id=None, tools=offered_tools(mode, TOOL_TIERS, None, deny), task="t",
        playbook=mode.playbook, playbook_is_text=False, max_tool_calls=9, max_turns=9, timeout_s=60.0, max_tokens=None,
        models=(), branch_prefix="airlock/", options={"tiers": [str(t) for t in mode.tiers]},
    )  # fmt: skip
    events: list[dict[str, Any]] = []
    spy = SpySandbox()
    state = RunState(
        facts=facts,
        tiers=mode.tiers,
        meter=Meter(Limits(max_tool_calls=9), started=time.monotonic()),
        record=lambda kind, **data: events.append({"type": kind, **data}),
        sandbox=spy,  # type: ignore[arg-type]
    )
    ours, theirs = socket.socketpair()
    operations = Operations(state, Redactor({}), folder)
    server = Server(Channel(ours), operations.handlers(), on_fault=lambda op, exc: events.append({"bug": repr(exc)}))
    threading.Thread(target=server.serve, daemon=True).start()
    return Caller(Channel(theirs)), spy, events


MESSAGES: dict[str, dict[str, Any]] = {
    "exec": {"command": "touch owned"},
    "output": {"output_id": "1"},
    "commit": {"message": "m"},
    "push": {"branch": "airlock/x"},
    "pull_request": {"title": "t", "body": "b", "head": "airlock/x", "base": "main"},
}


@pytest.mark.parametrize("op", MESSAGES)
@pytest.mark.parametrize("mode", ["review", "plan", "restricted"])
def test_a_taken_over_harness_cannot_act_beyond_its_mode(mode: str, op: str, tmp_path: Path) -> None:
    """The broker re-checks the tier at every message: refused, recorded, nothing ran."""
    caller, spy, events = broker(MODES[mode], tmp_path)
    with pytest.raises(CallFailed) as caught:
        caller.call(op, **MESSAGES[op])
    assert caught.value.code == "tool_permission"
    assert spy.ran == []
    assert [e["type"] for e in events] == ["tool.denied"]


def test_the_same_message_is_served_where_the_mode_allows_it(tmp_path: Path) -> None:
    """Positive control: implement runs the command that review refuses."""
    caller, spy, events = broker(MODES["implement"], tmp_path)
    answer = caller.call("exec", command="touch owned")
    assert (answer.payload, spy.ran) == (b"ran\n", ["touch owned"])
    assert [e["type"] for e in events] == ["command"]


def test_a_denied_tool_counts_as_out_of_tier_at_the_broker_too(tmp_path: Path) -> None:
    """C4: `denyTools: [run_command]` holds against a harness that sends the message all the same."""
    caller, spy, _ = broker(MODES["implement"], tmp_path, deny=("run_command",))
    with pytest.raises(CallFailed) as caught:
        caller.call("exec", command="touch owned")
    assert (caught.value.code, spy.ran) == ("tool_permission", [])


def test_every_tool_has_one_tier_and_every_mode_only_its_own() -> None:
    """The table is whole: no tool without a tier, no tier without a tool."""
    assert set(TOOL_TIERS.values()) == set(Tier)
    for mode in MODES.values():
        assert {TOOL_TIERS[name] for name in offered_tools(mode, TOOL_TIERS)} == set(mode.tiers)


@pytest.mark.parametrize(
    ("payload", "written"),
    [
        (b'{"type":"tool.call","name":"x","seq":0,"prev":"0","ts":1}', True),
        (b'{"type":"gate.decision","mode":"implement","reason":"forged"}', False),
        (b'{"type":"run.end","stop_reason":"completed"}', False),
        (b'{"type":"hook.end","purpose":"stop","passed":true}', False),
        (b"[]", False),
        (b"{", False),
    ],
)
def test_a_harness_cannot_forge_the_brokers_words_in_the_transcript(
    payload: bytes, *, written: bool, tmp_path: Path
) -> None:
    """It may report its own turns and calls; a gate's verdict or the end of the run it may not."""
    caller, _, events = broker(MODES["review"], tmp_path)
    code = ""
    try:
        caller.call("event", payload)
    except CallFailed as exc:
        code = exc.code
    assert code == ("" if written else "tool_input")
    assert [e["type"] for e in events] == (["tool.call"] if written else [])
    assert all("seq" not in e and "prev" not in e for e in events)
