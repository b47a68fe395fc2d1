"""Model servers that are not a provider's own, in the action: a local one without a key, Azure by its deployment."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.github_sim import GitHubSim
from tests.support.model_server import ModelServer, Turn
from tests.support.scenario import API_KEY, make_world

SERVERS = {
    "ollama without a key": (
        {"model": "ollama/qwen3:8b", "api-key": ""}, "/v1", "/v1/chat/completions", "", {},
    ),
    "azure": (
        {"model": "azure/d"}, "/openai/deployments/d?api-version=2024-10-21",
        "/openai/deployments/d/chat/completions", "api-version=2024-10-21", {"api-key": API_KEY},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SERVERS)
def test_run_on_another_model_server(name: str, tmp_path: Path) -> None:
    """The run ends well; the server is asked where it listens, with its query, and with a key if it has one."""
    inputs, base, path, query, keys = SERVERS[name]
    with GitHubSim(tmp_path / "github") as github, ModelServer([Turn("Nothing to plan.")]) as server:
        world = make_world(tmp_path, github)
        event = github.event("workflow_dispatch", world.repository)
        given = {"mode": "plan", "task": "Look around.", "base-url": server.url + base, **inputs}
        result = world.run("workflow_dispatch", event, server, inputs=given)

    (asked,) = server.requests
    sent = {key: asked.headers[key] for key in ("authorization", "api-key", "x-api-key") if key in asked.headers}
    assert (result.exit_status, result.outputs["outcome"]) == (0, "done")
    assert (asked.path, asked.query, sent) == (path, query, keys)
