"""The composite's own steps, started as the runner does, with a real container and both backends."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.broker.transcript import verify
from tests.e2e.conftest import environment
from tests.support.action import Result
from tests.support.model_server import ModelServer
from tests.support.runner_harness import Composite
from tests.support.scenario import RUN_ID, World, fixing_turns


def composite(world: World, event_name: str, event: dict[str, Any], model: ModelServer, **inputs: str) -> Composite:
    """The action as a workflow would use it."""
    path = world.folder / "event.json"
    path.write_text(json.dumps(event))
    given = {
        "github-token": world.token,
        "api-key": world.api_key,
        "model": "anthropic/claude-sonnet-4-5",
        "base-url": model.url,
        "image": "airlock:local",
        **{name.replace("_", "-"): value for name, value in inputs.items()},
    }
    return Composite(environment(world, event_name, path), given)


def tree(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Owner, mode and content of every file."""
    return {
        str(path.relative_to(folder)): (
            path.lstat().st_uid,
            path.lstat().st_mode,
            path.read_bytes() if path.is_file() and not path.is_symlink() else b"",
        )
        for path in sorted(folder.rglob("*"))
    }


@pytest.mark.parametrize("owner", [1001, 0])
@pytest.mark.parametrize("sandbox", ["container", "process"])
def test_a_failed_run_ends_in_a_pull_request(
    make: Callable[..., World], image: str, gateway: str, sandbox: str, owner: int
) -> None:
    """The main job with the container's own mounts; outputs, summary and files as a following step finds them."""
    world = make(owner=owner)
    before = tree(world.workspace)
    branch = f"airlock/fix-{RUN_ID}"
    event = world.github.event("workflow_run", world.repository, run=RUN_ID)
    with ModelServer(fixing_turns(branch), host=gateway) as model:
        result: Result = composite(world, "workflow_run", event, model, sandbox=sandbox).run()

    assert (result.exit_status, result.outputs["outcome"], result.outputs["branch"]) == (0, "done", branch), result.log
    assert result.outputs["transcript-path"] == str(result.results / "transcript.jsonl")
    assert verify(result.results / "transcript.jsonl") == []
    assert [(p["backend"], p["ok"]) for p in result.events("sandbox.probe")] == [(sandbox, True)]
    assert [(h["purpose"], h["passed"]) for h in result.events("hook.end")] == [("prepush", True), ("stop", True)]
    assert "airlock/fix" in result.summary
    (pull,) = world.repository.pulls()
    assert pull.pull is not None
    assert pull.pull.head_ref == branch
    after = tree(world.workspace)
    changed = {name for name in before | after if before.get(name) != after.get(name)}
    assert changed - {n for n in changed if "__pycache__" in n} == {"prices/cart.py"}
    assert {info[0] for info in after.values()} == {owner}
    secrets = [world.token.encode(), world.api_key.encode()]
    assert [s for s in secrets if s in result.log.encode() or any(s in d for d in result.files.values())] == []
    assert os.environ.get("GITHUB_TOKEN") is None
