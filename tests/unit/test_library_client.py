"""The client: what a configuration may say, and that its text shows no secret."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import agent
from agent import RunContext, RunResult, Tier, UserError, create_client, get_mode, run_agent
from agent.contract.errors import UnknownModeError
from agent.contract.modes import Mode
from agent.library.client import _GITHUB_KEYS, _KEYS, _SANDBOX_KEYS

KEY = "sk-ant-api03-" + "LibraryKey" * 3
OTHER = "another-providers-key-0123456789"
TOKEN = "ghs_" + "LibraryToken" * 3


@pytest.mark.parametrize("given", [{}, {"api_key": ""}, {"api_key": "  "}, {"api_key": None}])
def test_without_a_key_there_is_no_client(given: dict[str, Any]) -> None:
    """B10: AI features are off, and that is no error."""
    assert create_client({"model": "openai/gpt-5", **given}) is None


def test_a_server_of_ones_own_needs_no_key() -> None:
    """Ollama and vLLM ask for none, so none is attached."""
    client = create_client({"model": "ollama/qwen3", "base_url": "http://127.0.0.1:11434"})
    assert client is not None
    assert [m.header for m in client.models] == [""]


def test_everything_that_is_given_arrives() -> None:
    """Each key of the mapping has its place."""
    client = create_client(
        {
            "api_key": KEY,
            "model": "openai/gpt-5",
            "fallback_models": ["anthropic/claude-sonnet-4-5"],
            "fallback_api_keys": {"anthropic": OTHER},
            "max_tokens": 1000,
            "max_cost": 2,
            "max_tool_calls": 7,
            "timeout_minutes": 0.5,
            "tool_timeout_s": 3,
            "allow_tools": ["read_file"],
            "deny_tools": ["grep"],
            "protected_paths": ["ops"],
            "allow_protected_paths": [".github/docs"],
            "branch_prefix": "bot/",
            "setup_script": "make deps",
            "stop_script": "make test",
            "prepush_script": "make lint",
            "sandbox": {"network": "open", "memory_mb": 256, "pids": 9, "env": {"CI": "true"}},
            "github": {"token": TOKEN, "repository": "o/r", "api_url": "https://ghe.test/api/v3", "labels": ["ok"]},
            "proxies": {"https": "http://proxy.test:3128"},
            "no_proxy": "localhost",
            "ca_file": "/etc/ca.pem",
        }
    )
    assert client is not None
    assert [(m.connection, m.provider, m.model) for m in client.models] == [
        ("model", "openai", "gpt-5"),
        ("model-1", "anthropic", "claude-sonnet-4-5"),
    ]
    assert [client.secrets.get(model.secret) for model in client.models] == [KEY, OTHER]
    assert (client.max_tokens, client.max_cost, client.max_tool_calls, client.timeout_s) == (1000, 2.0, 7, 30.0)
    assert (client.tool_timeout_s, client.allow_tools, client.deny_tools) == (3.0, ("read_file",), ("grep",))
    assert (client.protected_paths, client.allow_protected_paths) == (("ops",), (".github/docs",))
    assert (client.setup_script, client.stop_script, client.prepush_script) == ("make deps", "make test", "make lint")
    sandbox = client.sandbox
    assert (sandbox.network, sandbox.memory_mb, sandbox.pids, sandbox.env) == ("open", 256, 9, {"CI": "true"})
    assert client.github is not None
    assert (client.github.repository, client.github.api_url) == ("o/r", "https://ghe.test/api/v3")
    assert (client.github.server_url, client.github.labels) == ("https://github.com", ("ok",))
    assert client.branch_prefix == "bot/"
    assert (dict(client.proxies), client.no_proxy, client.ca_file) == (
        {"https": "http://proxy.test:3128"},
        "localhost",
        "/etc/ca.pem",
    )
    assert client.secrets.names == ("github-token", "api-key", "push-token", "ANTHROPIC_API_KEY")


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"apikey": KEY}, "apikey"),
        ({"model": "gpt"}, "gpt"),
        ({"model": 7}, "model"),
        ({"fallback_models": "openai/gpt-5"}, "fallback_models"),
        ({"fallback_models": ["openai/gpt-5"]}, "fallback_api_keys"),
        ({"fallback_api_keys": {"nobody": "k"}}, "nobody"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": True}, "max_tokens"),
        ({"max_tokens": "9"}, "max_tokens"),
        ({"max_cost": -1}, "max_cost"),
        ({"max_cost": float("nan")}, "max_cost"),
        ({"timeout_minutes": "x"}, "timeout_minutes"),
        ({"allow_tools": [1]}, "allow_tools"),
        ({"sandbox": {"network": "host"}}, "sandbox.network"),
        ({"sandbox": {"image": "x"}}, "sandbox.image"),
        ({"sandbox": "none"}, "sandbox"),
        ({"github": {"token": TOKEN}}, "github"),
        ({"github": {"repository": "o/r"}}, "github"),
        ({"github": {"token": TOKEN, "repository": "o"}}, "github"),
        ({"github": {"token": TOKEN, "repository": "o/r/x"}}, "github"),
        ({"github": {"token": TOKEN, "repository": "o/r", "api_url": "ftp://x"}}, "api_url"),
        ({"github": {"token": TOKEN, "repository": "o/r", "request_changes": 1}}, "request_changes"),
        ({"github": []}, "github"),
        ({"proxies": {"http": 1}}, "proxies"),
    ],
)
def test_a_wrong_setting_is_named(given: dict[str, Any], named: str) -> None:
    """A slip is an error that names its key, and never shows a secret's value."""
    with pytest.raises(UserError) as caught:
        create_client({"api_key": KEY, **given})
    assert named in str(caught.value)
    assert [secret for secret in (TOKEN, KEY) if secret in str(caught.value)] == []


def test_a_client_shows_no_secret() -> None:
    """Key, tokens and a proxy's password stand in no representation."""
    client = create_client(
        {
            "api_key": KEY,
            "github": {"token": TOKEN, "repository": "o/r"},
            "proxies": {"https": "http://user:proxypassword@proxy.test"},
        }
    )
    shown = f"{client!r} {client} {vars(client)['secrets']!r}"
    assert [word for word in (KEY, TOKEN, "proxypassword") if word in shown] == []
    assert "api-key" in shown


def test_what_cannot_be_a_run_is_refused(tmp_path: Path) -> None:
    """No client, no mode, a mode that redefines a built-in one, no task, no context, no folder."""
    client = create_client({"api_key": KEY})
    review, context = get_mode("review"), RunContext(tmp_path)
    forged = replace(review, tiers=frozenset(Tier))
    cases: list[tuple[dict[str, Any], str]] = [
        ({"client": None}, "api_key"),
        ({"client": "x"}, "create_client"),
        ({"mode": "review"}, "get_mode"),
        ({"mode": forged}, "redefined"),
        ({"task": "  "}, "task"),
        ({"task": "x" * 100_001}, "task"),
        ({"context": str(tmp_path)}, "RunContext"),
        ({"context": RunContext(tmp_path / "none")}, "no folder"),
    ]
    for wrong, words in cases:
        given: dict[str, Any] = {"client": client, "mode": review, "task": "t", "context": context, **wrong}
        with pytest.raises(UserError, match=words):
            run_agent(given.pop("client"), **given)


@pytest.mark.parametrize("name", ["Review", "review ", "auto", "", "admin"])
def test_a_mode_that_is_none_is_refused(name: str) -> None:
    """B4: exact names alone."""
    with pytest.raises(UnknownModeError):
        get_mode(name)
    assert isinstance(get_mode("review"), Mode)


def test_the_package_alone_loads_nothing() -> None:
    """A zone that starts pays for no other zone: the names come at first use."""
    code = (
        "import sys, agent; before = [m for m in sys.modules if m.startswith('agent.')]; agent.Tier;"
        "print(before, 'agent.library' in sys.modules)"
    )
    root = Path(agent.__file__).parent.parent
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] True"


def test_every_public_name_is_there() -> None:
    """`__all__` says what there is, and nothing else answers."""
    assert [name for name in agent.__all__ if not hasattr(agent, name)] == []
    with pytest.raises(AttributeError, match="no attribute 'run'"):
        agent.__getattr__("run")


def test_the_page_names_every_setting() -> None:
    """docs/library.md has each key of the configuration, and each attribute of a result."""
    page = (Path(agent.__file__).parent.parent / "docs/library.md").read_text()
    names = [*_KEYS, *(key for key in _GITHUB_KEYS | _SANDBOX_KEYS), *RunResult.__dataclass_fields__]
    assert [name for name in names if f"`{name}`" not in page] == []
