"""Compatible model servers over real HTTP: where each is asked, with which query, and where its key goes."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent import RunContext, create_client, get_mode, run_agent
from agent.broker.models import PROVIDERS, parse_models
from agent.broker.policy.builtin import model_connection
from agent.broker.policy.decide import Policy
from agent.broker.policy.words import Authority, EgressRequest
from agent.contract.errors import UserError
from agent.contract.modes import Tier
from tests.support.model_server import ModelServer, Turn

KEY = "a-key-of-this-test-77"
BEARER, PLAIN, NONE = ("authorization", f"Bearer {KEY}"), ("api-key", KEY), ("", "")
VERSION = "api-version=2024-10-21"

# name: (model, what follows the host in `base-url`, path, query, header of the key)
SERVERS = {
    "anthropic": ("anthropic/m", "", "/v1/messages", "", ("x-api-key", KEY)),
    "openai": ("openai/m", "", "/v1/chat/completions", "", BEARER),
    "openai-responses": ("openai-responses/m", "/v1", "/v1/responses", "", BEARER),
    "openrouter": ("openrouter/maker/m", "", "/api/v1/chat/completions", "", BEARER),
    "github": ("github/maker/m", "", "/inference/chat/completions", "", BEARER),
    "gemini": ("gemini/m", "", "/v1beta/openai/chat/completions", "", BEARER),
    "azure": ("azure/m", "/openai/v1", "/openai/v1/chat/completions", "", PLAIN),
    "azure, by deployment": ("azure/m", f"/openai/deployments/d?{VERSION}", "/openai/deployments/d/chat/completions",
                             VERSION, PLAIN),
    "ollama": ("ollama/m:7b", "/v1", "/v1/chat/completions", "", NONE),
    "vllm": ("vllm/maker/m", "/v1/", "/v1/chat/completions", "", NONE),
    "openai-compatible": ("openai-compatible/m", "/proxy/llm?tenant=a", "/proxy/llm/chat/completions", "tenant=a",
                          BEARER),
}  # fmt: skip


def test_every_provider_has_a_row() -> None:
    """A provider that is added is tried too."""
    assert {model.partition("/")[0] for model, *_ in SERVERS.values()} == set(PROVIDERS)


@pytest.mark.parametrize("name", SERVERS)
def test_server_is_asked_as_it_wants(name: str, tmp_path: Path) -> None:
    """Path, query and key arrive as the server's reference says, and nothing else that could be a key."""
    model, base, path, query, (header, value) = SERVERS[name]
    workspace = tmp_path / "w"
    workspace.mkdir()
    with ModelServer([Turn("All is well.")]) as server:
        client = create_client({"model": model, "base_url": server.url + base, "api_key": value and KEY})
        assert client is not None
        context = RunContext(workspace, results=tmp_path / "results")
        result = run_agent(client, mode=get_mode("review"), task="Look.", context=context)

    (asked,) = server.requests
    keys = {key: asked.headers[key] for key in ("authorization", "api-key", "x-api-key") if key in asked.headers}
    assert (result.ok, result.output) == (True, "All is well.")
    assert (asked.path, asked.query, asked.json["model"]) == (path, query, model.partition("/")[2])
    assert keys == ({header: value} if header else {})


def test_a_query_is_exactly_the_configured_one() -> None:
    """A harness that is taken over can neither leave it out, nor change it, nor add to it."""
    (model,) = parse_models(["azure/d"], f"https://llm.example/openai/deployments/d?{VERSION}")
    connection = model_connection(
        name="model", origin=model.origin, path=model.path, header="api-key", scheme="", query=model.query
    )
    policy, who = Policy([connection], {}), Authority("harness", frozenset({Tier.READ}))

    def code(query: dict[str, str]) -> str | None:
        return policy.check(EgressRequest("model", "POST", model.path, query, {}, b"{}"), who).code

    good = dict(model.query)
    verdict = policy.check(EgressRequest("model", "POST", model.path, good, {}, b"{}"), who)
    assert verdict.wire is not None
    assert verdict.wire.query == (("api-version", "2024-10-21"),)
    bad: list[dict[str, str]] = [{}, {"api-version": "2020-01-01"}, {**good, "x": "data that leaks"}]
    assert [code(query) for query in bad] == ["egress_query_blocked"] * 3


@pytest.mark.parametrize(
    ("base", "about"),
    [
        ("https://llm.example/v1?api-key=abc", "pass the key"),
        ("https://llm.example/v1?code=abc", "pass the key"),
        ("https://me:abc@llm.example/v1", "pass the key"),
        ("https://llm.example/v1?a=1&a=2", "each name once"),
        ("https://llm.example/v1?novalue", "is no URL"),
    ],
)
def test_an_address_that_holds_a_key_is_refused_and_not_repeated(base: str, about: str) -> None:
    """An address stands in the manifest and the transcript."""
    with pytest.raises(UserError, match=about) as raised:
        parse_models(["openai-compatible/m"], base)
    assert "abc" not in str(raised.value)
