"""The manifest holds all that a run may do, and its digest changes with any of it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import Any

import pytest

from agent.broker.gate import Ceiling, Gate
from agent.broker.manifest import Manifest, freeze, render
from agent.broker.mode import Wish
from agent.broker.policy.builtin import RunParameters, git_connection, github_connection, model_connection
from agent.broker.policy.decide import Policy

RUN = RunParameters("acme/widgets", 1001)


def frozen(run: RunParameters = RUN, **changes: Any) -> Manifest:
    model = model_connection(
        name="model", origin="https://api.anthropic.com", path="/v1/messages", header="x-api-key", scheme=""
    )
    values: dict[str, Any] = {
        "policy": Policy([github_connection(run), git_connection(run), model]),
        "wish": Wish("implement", "A comment asks for implement."),
        "gate": Gate(Ceiling.REVIEW, "review", "The pull request's code is a fork's.", ()),
        "tiers": ["read", "comment"],
        "tools": ["read_file", "comment"],
        "hooks": {"stop": "npm test\nnpm run lint"},
        "limits": {"toolCalls": 60, "usd": None},
        "protected_paths": [".git", ".github"],
        "branch_prefix": "airlock/",
        **changes,
    }
    return freeze(**values)


def test_the_text_is_canonical_and_the_digest_is_its_own() -> None:
    """Same run, same bytes: sorted keys, no white space, ASCII."""
    manifest = frozen(protected_paths=["é"])

    assert manifest.text.isascii()
    assert manifest.text == json.dumps(json.loads(manifest.text), sort_keys=True, separators=(",", ":"))
    assert manifest.digest == hashlib.sha256(manifest.text.encode()).hexdigest()
    assert frozen() == frozen()


@pytest.mark.parametrize(
    "changes",
    [
        {"run": replace(RUN, repository="acme/payments")},
        {"run": replace(RUN, repository_id=1002)},
        {"run": replace(RUN, labels=("ci",))},
        {"run": replace(RUN, request_changes=True)},
        {"run": replace(RUN, further_branches=("feature/x",))},
        {"run": replace(RUN, never_branches=("main",))},
        {"run": replace(RUN, log_hosts=("logs.example",))},
        {"run": replace(RUN, api_url="https://ghe.example/api/v3")},
        {"run": replace(RUN, branch_prefix="agent/")},
        {"gate": Gate(Ceiling.IMPLEMENT, "implement", "x", ())},
        {"wish": Wish("review", "x")},
        {"tiers": ["read"]},
        {"tools": ["read_file"]},
        {"hooks": {}},
        {"limits": {"toolCalls": 61, "usd": None}},
        {"protected_paths": [".git"]},
        {"branch_prefix": "agent/"},
        {"further": {"configCommit": "a" * 40}},
    ],
)
def test_whatever_may_be_done_is_under_the_digest(changes: dict[str, Any]) -> None:
    """Each thing that widens or narrows a run changes the digest."""
    assert frozen(**changes).digest != frozen().digest


def test_changing_the_decoded_value_changes_nothing() -> None:
    """It is frozen: the value is decoded anew each time."""
    manifest = frozen()
    manifest.value["tools"].append("run_command")

    assert manifest.value["tools"] == ["read_file", "comment"]


def test_no_number_that_is_none_gets_in() -> None:
    """A limit of infinity would not be JSON."""
    with pytest.raises(ValueError, match="JSON"):
        frozen(limits={"usd": float("inf")})


def test_a_reader_sees_mode_ceiling_routes_and_digest() -> None:
    """What `manifest` and `explain` print: each route with its tier, closed ones marked, the never list too."""
    lines = render(frozen()).splitlines()

    assert lines[:7] == [
        "mode        review (asked for: implement)",
        "why         A comment asks for implement.",
        "ceiling     review: The pull request's code is a fork's.",
        "tiers       comment, read",
        "tools       read_file, comment",
        "branches    airlock/*",
        "protected   .git, .github",
    ]
    assert "hook        stop: npm test npm run lint" in lines
    assert "limit       toolCalls: 60" in lines
    assert not [line for line in lines if line.startswith("limit") and (line.endswith(".0") or "None" in line)]
    assert "connection  github https://api.github.com (secret: github-token)" in lines
    assert "    GET    /repos/acme/widgets/pulls/{number}  [read]" in lines
    assert "  - POST   /repos/acme/widgets/git/refs  [git, gate publisher, secret push-token]" in lines
    assert "  x PUT    /repos/acme/widgets/pulls/{number}/merge  never: a person merges" in lines
    assert lines[-1] == f"digest      {frozen().digest}"


def test_a_long_hook_is_cut_in_the_text_alone() -> None:
    """The digest covers it whole."""
    long = frozen(hooks={"stop": "x" * 300})

    assert f"hook        stop: {'x' * 99}…" in render(long).splitlines()
    assert long.value["hooks"] == {"stop": "x" * 300}
