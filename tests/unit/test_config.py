"""Trusted configuration: every key, and errors with file, line, key and what was expected."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.broker.config import AgentConfig, Config, SandboxConfig, ToolConfig, read_config, schema
from agent.contract.errors import UserError
from agent.contract.modes import Mode, Tier

FULL = """\
ai:
  model: anthropic/claude-sonnet-4-5
  fallbackModels: [openai/gpt-5]
  baseUrl: https://llm.example/v1
  maxTokensPerRun: 1000000
  maxCostPerRun: 2.5
  agent:
    setupScript: |
      npm ci
    prepushScript: npm test
    stopScript: npm run lint
    timeoutMinutes: 20
    maxToolCalls: 80
    allowTools: [read_file, run_command, advisory]
    denyTools: [run_command]
    protectedPaths: ["/deploy/**"]
    allowProtectedPaths: [".github/labeler.yml"]
    allowBots: ["renovate[bot]"]
    outsiders: ignore
    commentWhenRestricted: true
    requestChanges: true
    trigger: "/bot"
    labels: {start: [airlock], set: [bug, ci]}
    branchPrefix: agent/
    sandbox:
      backend: process
      image: registry.example/acme/tools@sha256:abc
      network: open
      memory: 2g
      pids: 100
      mounts: [/opt/hostedtoolcache]
      env: {NODE_ENV: test}
    modes:
      triage: {playbook: Sort it., tiers: [read], maxToolCalls: 10}
      tidy: {playbook: Tidy., tiers: [read, write]}
  connections:
    osv:
      origin: https://osv.example
      headers: {Authorization: {secret: OSV_TOKEN, prefix: "Bearer "}, X-A: b}
      routes:
        - {method: GET, path: "/v1/{id}", tier: read, query: {lang: {enum: [en]}}}
      redirects: [cdn.osv.example]
  tools:
    - name: advisory
      tier: read
      description: Look one up.
      schema: {type: object, properties: {id: {type: string}}}
      connection: osv
      route: {method: GET, path: "/v1/{id}"}
    - {name: fmt, tier: shell, description: Format., schema: {type: object}, command: make fmt}
  github:
    logHosts: ["logs.example:8443"]
"""


def test_every_key_is_read() -> None:
    """The whole file as one value."""
    assert read_config(FULL.encode()) == Config(
        model="anthropic/claude-sonnet-4-5",
        fallback_models=("openai/gpt-5",),
        base_url="https://llm.example/v1",
        max_tokens_per_run=1000000,
        max_cost_per_run=2.5,
        agent=AgentConfig(
            setup_script="npm ci\n",
            prepush_script="npm test",
            stop_script="npm run lint",
            timeout_minutes=20,
            max_tool_calls=80,
            allow_tools=("read_file", "run_command", "advisory"),
            deny_tools=("run_command",),
            protected_paths=("/deploy/**",),
            allow_protected_paths=(".github/labeler.yml",),
            allow_bots=("renovate[bot]",),
            outsiders="ignore",
            comment_when_restricted=True,
            request_changes=True,
            trigger="/bot",
            start_labels=("airlock",),
            set_labels=("bug", "ci"),
            branch_prefix="agent/",
            sandbox=SandboxConfig(
                backend="process",
                image="registry.example/acme/tools@sha256:abc",
                network="open",
                memory_mb=2048,
                pids=100,
                mounts=("/opt/hostedtoolcache",),
                env={"NODE_ENV": "test"},
            ),
            modes={
                "triage": Mode("triage", frozenset({Tier.READ}), 10, "Sort it."),
                "tidy": Mode("tidy", frozenset({Tier.READ, Tier.WRITE}), 60, "Tidy."),
            },
        ),
        connections={
            "osv": {
                "origin": "https://osv.example",
                "headers": {"Authorization": {"secret": "OSV_TOKEN", "prefix": "Bearer "}, "X-A": "b"},
                "routes": [{"method": "GET", "path": "/v1/{id}", "tier": "read", "query": {"lang": {"enum": ["en"]}}}],
                "redirects": ["cdn.osv.example"],
            }
        },
        tools=(
            ToolConfig(
                "advisory",
                Tier.READ,
                "Look one up.",
                {"type": "object", "properties": {"id": {"type": "string"}}},
                connection="osv",
                method="GET",
                path="/v1/{id}",
            ),
            ToolConfig("fmt", Tier.SHELL, "Format.", {"type": "object"}, command="make fmt"),
        ),
        log_hosts=("logs.example:8443",),
        present=True,
    )


def keys(part: dict[str, Any], path: str = "") -> set[str]:
    found: set[str] = set()
    for name, sub in part.get("properties", {}).items():
        found |= {f"{path}{name}"} | keys(sub, f"{path}{name}.")
    return found


def test_the_example_above_uses_every_key_of_the_schema() -> None:
    """A key that is added to the schema must be added to the reader and to this test."""
    missing = {key for key in keys(schema()) if f"{key.rpartition('.')[2]}:" not in FULL}

    assert missing == set()


@pytest.mark.parametrize(("data", "present"), [(None, False), (b"", True), (b"# nothing\n", True), (b"ai: {}\n", True)])
def test_without_a_word_the_defaults_apply(data: bytes | None, *, present: bool) -> None:
    """No file, an empty file, an empty object."""
    assert read_config(data) == Config(present=present)


def test_a_plain_list_of_labels_starts_runs_and_sets_none() -> None:
    """The short form never lets the agent set what starts it."""
    agent = read_config(b"ai: {agent: {labels: [airlock]}}").agent

    assert (agent.start_labels, agent.set_labels) == (("airlock",), ())


@pytest.mark.parametrize(("text", "expected"), [("512m", 512), ("2g", 2048), ("300", 300)])
def test_memory_has_units(text: str, expected: int) -> None:
    """Megabytes, or a text with its unit."""
    assert read_config(f"ai: {{agent: {{sandbox: {{memory: {text}}}}}}}".encode()).agent.sandbox.memory_mb == expected


WRONG = {
    "ai:\n  agent:\n    maxToolCals: 3\n": (
        "f.yml, line 3: ai.agent.maxToolCals is not a known key; known here: setupScript, prepushScript, stopScript, "
        "timeoutMinutes, maxToolCalls, allowTools, denyTools, protectedPaths, allowProtectedPaths, allowBots, "
        "outsiders, commentWhenRestricted, requestChanges, trigger, labels, branchPrefix, sandbox, modes. "
        "Did you mean maxToolCalls?"
    ),
    "agent: {}\n": "f.yml, line 1: agent is not a known key; known here: ai.",
    "ai: 3\n": "f.yml, line 1: ai: expected an object.",
    "- ai\n": "f.yml, line 1: the file: expected an object.",
    "ai:\n  maxTokensPerRun: lots\n": "f.yml, line 2: ai.maxTokensPerRun: expected a whole number.",
    "ai:\n  maxTokensPerRun: 0\n": "f.yml, line 2: ai.maxTokensPerRun: expected at least 1.",
    "ai:\n  maxCostPerRun: .inf\n": "f.yml, line 2: a number must be finite.",
    "ai:\n  maxCostPerRun: .nan\n": "f.yml, line 2: a number must be finite.",
    "ai:\n  agent:\n    outsiders: no\n": (
        "f.yml, line 3: ai.agent.outsiders: expected one of 'restricted', 'ignore'."
    ),
    "ai:\n  agent:\n    sandbox: {network: on}\n": (
        "f.yml, line 3: ai.agent.sandbox.network: expected one of 'none', 'open'."
    ),
    "ai:\n  agent:\n    denyTools: [read_file,\n      run_comand]\n": (
        "f.yml, line 4: ai.agent.denyTools names 'run_comand', which is no tool. Did you mean run_command?"
    ),
    "ai: {agent: {allowTools: [x]}}\n": "f.yml, line 1: ai.agent.allowTools names 'x', which is no tool.",
    "ai:\n  agent:\n    modes:\n      review: {playbook: x, tiers: [read]}\n": (
        "f.yml, line 4: ai.agent.modes.review would redefine a built-in mode. Rename it."
    ),
    "ai:\n  agent:\n    modes:\n      auto: {playbook: x, tiers: [read]}\n": (
        "f.yml, line 4: ai.agent.modes.auto would redefine a built-in mode. Rename it."
    ),
    "ai:\n  agent:\n    modes:\n      x: {playbook: x, tiers: [Read]}\n": (
        "f.yml, line 4: ai.agent.modes.x.tiers.0: expected one of 'read', 'comment', 'write', 'shell', 'git'."
    ),
    "ai:\n  agent:\n    modes:\n      Review: {playbook: x, tiers: [read]}\n": (
        "f.yml, line 4: ai.agent.modes.Review is not a known key; known here: none."
    ),
    "ai: {agent: {modes: {x: {playbook: p}}}}\n": "f.yml, line 1: ai.agent.modes.x.tiers: expected, and missing.",
    "ai: {agent: {branchPrefix: m}}\n": (
        "f.yml, line 1: ai.agent.branchPrefix: expected a text of the form ^[A-Za-z0-9][A-Za-z0-9._/-]{0,60}[/_.-]$."
    ),
    "ai: {agent: {branchPrefix: a..b/}}\n": (
        "f.yml, line 1: ai.agent.branchPrefix: no branch that git accepts begins with 'a..b/'."
    ),
    "ai: {agent: {trigger: review}}\n": (
        "f.yml, line 1: ai.agent.trigger: expected a text of the form ^[/@!][A-Za-z0-9][A-Za-z0-9_-]{0,63}$."
    ),
    "ai:\n  model: a/b\n  model: c/d\n": "f.yml, line 3: the key 'model' is there a second time.",
    "ai: &a {x: *a}\n": "f.yml, line 1: an anchor (& * !) is not allowed here; write it out.",
    "ai: *a\n": "f.yml, line 1: an alias (& * !) is not allowed here; write it out.",
    "ai: !!python/object/apply:os.system [id]\n": "f.yml, line 1: a tag (!) is not allowed here; quote the text.",
    "ai: {\n": "f.yml, line 2: this is not YAML: expected the node content, but found '<stream end>'.",
    "? [a]\n: b\n": "f.yml, line 1: a key must be a plain text.",
    "ai:\n  maxTokensPerRun: " + "9" * 5000: None,
    "a: 1\n---\nb: 2\n": "f.yml, line 2: this is not YAML: but found another document.",
    'ai: "\\xZZ"\n': None,
    "ai: " + "[" * 40 + "]" * 40: "f.yml, line 1: nested too deeply.",
    "ai: " + "[" * 5000: "f.yml: this is not YAML, or it is nested too deeply.",
    "ai: {tools: [{name: t, tier: read, description: d, schema: {}}]}\n": (
        "f.yml, line 1: the tool 't' needs either connection and route, or command."
    ),
    "ai: {tools: [{name: t, tier: read, description: d, schema: {}, command: x}]}\n": (
        "f.yml, line 1: the tool 't' runs a command, so its tier is shell."
    ),
    "ai: {tools: [{name: t, tier: read, description: d, schema: {},\n"
    "  connection: c, route: {method: GET, path: /x}}]}\n": (
        "f.yml, line 1: the tool 't' names the connection 'c'. Declared: none."
    ),
    "ai: {tools: [{name: run_command, tier: shell, description: d, schema: {}, command: x}]}\n": (
        "f.yml, line 1: the tool name 'run_command' is taken."
    ),
    "ai: {tools: [{name: t, tier: shell, description: d, schema: {if: {}}, command: x}]}\n": None,
}


@pytest.mark.parametrize("text", WRONG, ids=range(len(WRONG)))
def test_a_mistake_is_told_with_file_line_key_and_what_was_expected(text: str) -> None:
    """One row a mistake: the whole sentence."""
    with pytest.raises(UserError) as error:
        read_config(text.encode(), "f.yml")

    assert str(error.value).startswith("f.yml")
    if WRONG[text] is not None:
        assert str(error.value) == WRONG[text]


def test_bytes_that_are_no_text_and_files_that_are_too_large_are_refused() -> None:
    """A bound before anything is parsed."""
    with pytest.raises(UserError, match="not UTF-8"):
        read_config(b"\xff")
    with pytest.raises(UserError, match="no configuration"):
        read_config(b"#" * (300 << 10))


def test_an_alias_bomb_is_refused_before_it_grows() -> None:
    """Nine levels of nine references would be 387 million entries."""
    bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{chr(98 + i)}: &{chr(98 + i)} [{','.join([f'*{chr(97 + i)}'] * 9)}]\n" for i in range(8)
    )

    with pytest.raises(UserError, match="an anchor"):
        read_config(bomb.encode())


def test_words_that_yaml_reads_as_something_else_stay_keys_and_texts() -> None:
    """A key `on` is the text on; a date is a text."""
    with pytest.raises(UserError, match=r"line 2: ai\.on is not a known key"):
        read_config(b"ai:\n  on: 1\n")
    assert read_config(b"ai: {agent: {sandbox: {env: {A: 2026-01-01}}}}").agent.sandbox.env == {"A": "2026-01-01"}


@given(st.text(alphabet="ai: gent{}[]\n-&*!'\"#|>%@`\t0123", max_size=60))
@settings(max_examples=300, deadline=None)
def test_any_text_gives_a_configuration_or_a_user_error(text: str) -> None:
    """No text of YAML's own characters raises anything else."""
    try:
        assert isinstance(read_config(text.encode()), Config)
    except UserError as exc:
        assert str(exc)  # noqa: PT017


def test_the_schema_describes_every_key() -> None:
    """Documentation is made from it, so no key goes without a description."""

    def undescribed(part: dict[str, Any], path: str) -> list[str]:
        found = []
        for name, sub in part.get("properties", {}).items():
            if "description" not in sub and "enum" not in sub:
                found.append(f"{path}{name}")
            found += undescribed(sub, f"{path}{name}.")
        return found

    assert undescribed(schema(), "") == []
    file = Path(__file__).parents[2] / "agent" / "broker" / "config.schema.json"
    assert schema() == json.loads(file.read_text())
