"""One job of a world, as the composite's own steps or as a container action; what its files are before and after."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.e2e.conftest import built_image, environment
from tests.e2e.replayed import begin
from tests.support.model_server import ModelServer
from tests.support.runner_containers import ContainerAction
from tests.support.runner_harness import Composite
from tests.support.scenario import World


def composite(world: World, event_name: str, event: dict[str, Any], model: ModelServer, **inputs: str) -> Composite:
    """The action as a workflow would use it."""
    given = {**_inputs(world, model), "image": built_image()}
    given |= {name.replace("_", "-"): value for name, value in inputs.items()}
    facts = environment(world, event_name, _deliver(world, event))
    return Composite(facts, given, after=begin(world.workspace, world.folder))


def container_action(
    world: World, event_name: str, event: dict[str, Any], model: ModelServer, image: str, **options: Any
) -> ContainerAction:
    """The image as `uses: docker://`, in a job whose environment would load code of the workspace."""
    facts = environment(
        world, event_name, _deliver(world, event), PYTHONPATH="/github/workspace", LD_PRELOAD="/nowhere/x.so"
    )
    after = begin(world.workspace, world.folder)
    return ContainerAction(facts, _inputs(world, model), image, after=after, **options)


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


def _deliver(world: World, event: dict[str, Any]) -> Path:
    path = world.folder / "event.json"
    path.write_text(json.dumps(event))
    return path


def _inputs(world: World, model: ModelServer) -> dict[str, str]:
    return {
        "github-token": world.token,
        "api-key": world.api_key,
        "model": "anthropic/claude-sonnet-4-5",
        "base-url": model.url,
    }
