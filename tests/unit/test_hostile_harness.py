"""What a harness that is taken over tried, and what now answers it; each with the honest case beside it."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from agent.broker.egress import EgressResponse
from agent.broker.limits import MAX_EVENT_BYTES, Limits, Meter
from agent.broker.operations_egress import OWN_TEXT_GATE, EgressOperation
from agent.broker.policy.words import Authority, EgressRequest
from agent.broker.server import Call, Reply, Server
from agent.broker.state import RunState
from agent.contract.facts import RunFacts
from agent.contract.modes import Tier
from agent.kernel.channel import HEADER_CAP, Caller, CallFailed, Channel

ROOT = Path(__file__).resolve().parents[2]
MARK = "<!-- airlock:note:1 -->"
BOT = {"login": "github-actions[bot]", "type": "Bot"}
HERE = "https://api.example/repos/o/r/issues/7"


def test_an_answer_over_the_cap_is_told_and_the_channel_goes_on() -> None:
    """It used to be dropped without a word, and the call hung for ever."""

    def big(_: Call) -> Reply:
        return {"files": "a" * HEADER_CAP}, b""

    def small(_: Call) -> Reply:
        return {"n": 1}, b""

    ours, theirs = socket.socketpair()
    server = Server(Channel(ours), {"big": big, "small": small}, on_fault=lambda op, exc: None)
    threading.Thread(target=server.serve, daemon=True).start()
    caller = Caller(Channel(theirs))
    with pytest.raises(CallFailed, match="too large"):
        caller.call("big")
    assert caller.call("small").header["n"] == 1


class Api:
    """Answers with one comment."""

    def __init__(self, comment: dict[str, Any]) -> None:
        self.comment = comment

    def get(self, path: str, *, step: str) -> dict[str, Any]:
        return self.comment


def gates(comment: dict[str, Any]) -> frozenset[str]:
    """Gates that are open to an edit of this comment, in a run on pull request 7."""
    facts = RunFacts(
        mode="review", event="pull_request", repository="o/r", workspace="/w", base_sha=None, head_sha=None, number=7,
        is_pull_request=True, run_id=None, tools=("comment",), task="t", playbook="review", playbook_is_text=False,
        max_tool_calls=9, max_turns=9, timeout_s=60.0, max_tokens=None, models=(), branch_prefix="airlock/", options={},
    )  # fmt: skip
    tiers = frozenset({Tier.READ, Tier.COMMENT})
    run = RunState(facts, tiers, Meter(Limits(max_tool_calls=9), started=0.0), lambda kind, **data: None)
    operation = EgressOperation(run, None, Api(comment))  # type: ignore[arg-type]
    return operation._authority("PATCH", "/repos/o/r/issues/comments/5").gates


@pytest.mark.parametrize(
    ("comment", "opened"),
    [
        ({"user": BOT, "body": f"Review\n\n{MARK}", "issue_url": HERE}, True),
        ({"user": BOT, "body": "Deploy: NOT approved", "issue_url": HERE}, False),
        ({"user": BOT, "body": f"Review\n\n{MARK}", "issue_url": HERE.replace("/7", "/8")}, False),
        ({"user": {"login": "outsider", "type": "User"}, "body": MARK, "issue_url": HERE}, False),
        ({}, False),
    ],
)
def test_only_a_comment_of_ours_on_this_very_subject_can_be_edited(comment: dict[str, Any], *, opened: bool) -> None:
    """Every workflow of the repository writes as the same bot, so its login alone proves nothing."""
    assert gates(comment) == (frozenset({OWN_TEXT_GATE}) if opened else frozenset())


def test_the_harness_fills_only_its_part_of_the_transcript() -> None:
    """Events are counted in bytes; the broker's own words always find room."""
    meter = Meter(Limits(max_tool_calls=1), started=0.0)
    assert [meter.event(MAX_EVENT_BYTES), meter.event(1)] == [True, False]


def test_a_review_counts_each_of_its_comments() -> None:
    """Sixty findings in one review are not one comment."""
    meter = Meter(Limits(max_tool_calls=1, max_comments=30), started=0.0)
    assert [meter.comment(61), meter.comment(30), meter.comment()] == [False, True, False]


@pytest.mark.parametrize("closing", [True, False])
def test_a_descriptor_that_the_caller_left_open_is_closed(tmp_path: Path, *, closing: bool) -> None:
    """An inherited descriptor of a secret file would reach the harness; the control shows that it does arrive."""
    secret = tmp_path / "secret"
    secret.write_text("top secret")
    with secret.open() as file:
        code = (
            f"import os, runpy\nm = runpy.run_path({str(ROOT / 'entrypoint.py')!r})\n"
            + ("m['_close_inherited']()\n" if closing else "")
            + f"print(os.pread({file.fileno()}, 10, 0))"
        )
        done = subprocess.run(
            [sys.executable, "-I", "-c", code], pass_fds=[file.fileno()], capture_output=True, text=True, check=False
        )
    assert ("top secret" in done.stdout) is not closing


def test_a_number_that_a_review_got_makes_no_comment_ours() -> None:
    """Reviews and their comments are numbered apart: another's comment may bear the number of our review."""
    facts = RunFacts(
        mode="review", event="pull_request", repository="o/r", workspace="/w", base_sha=None, head_sha=None, number=7,
        is_pull_request=True, run_id=None, tools=("comment",), task="t", playbook="review", playbook_is_text=False,
        max_tool_calls=9, max_turns=9, timeout_s=60.0, max_tokens=None, models=(), branch_prefix="airlock/", options={},
    )  # fmt: skip
    tiers = frozenset({Tier.READ, Tier.COMMENT})
    run = RunState(facts, tiers, Meter(Limits(max_tool_calls=9), started=0.0), lambda kind, /, **data: None)
    theirs = {"user": {"login": "outsider", "type": "User"}, "body": "x", "pull_request_url": "https://x/pulls/7"}
    operation = EgressOperation(run, Sent(b'{"id": 5}'), Api(theirs))  # type: ignore[arg-type]

    def opened(path: str) -> frozenset[str]:
        fields = {"connection": "github", "method": "POST", "path": path}
        operation.handle(Call("egress", fields, b'{"body": "b"}', lambda fields, payload: None))
        return operation._authority("PATCH", "/repos/o/r/pulls/comments/5").gates

    assert opened("/repos/o/r/pulls/7/reviews") == frozenset()
    assert opened("/repos/o/r/pulls/7/comments") == frozenset({OWN_TEXT_GATE}), "control: a comment of ours is"


class Sent:
    """Egress that has sent everything and got this answer."""

    def __init__(self, body: bytes) -> None:
        self.body = body

    def send(self, request: EgressRequest, authority: Authority) -> EgressResponse:
        return EgressResponse(200, {}, self.body)
