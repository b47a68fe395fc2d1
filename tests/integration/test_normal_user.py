"""The main job as a normal user: no root anywhere, the kernel alone separates the zones."""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.support.leaks import hits
from tests.support.model_server import ModelServer
from tests.support.model_turns import Call, Turn
from tests.support.scenario import RUN_ID, World, fixing_turns
from tests.support.user_python import USER, python_for_everybody

SNOOP = (
    "for p in /proc/[0-9]*; do cat $p/environ $p/cmdline; done 2>/dev/null | tr '\\0' '\\n'; "
    "kill -9 -1 2>&1; id -u; echo still here"
)


@pytest.mark.root
def test_a_failed_run_ends_in_a_pull_request_without_root(world: World) -> None:
    """Same job, same gates; commands see no secret, and cannot end the zones though they share a uid."""
    python = python_for_everybody(world.folder)
    if python is None:
        pytest.skip("no Python here that another user could start")
    subprocess.run(["chown", "-R", f"{USER}:{USER}", str(world.folder / "work")], check=True)
    temp = world.folder / "temp"
    temp.mkdir()
    os.chown(temp, USER, USER)
    event = world.github.event("workflow_run", world.repository, run=RUN_ID)
    branch = f"airlock/fix-{RUN_ID}"
    turns = [Turn(calls=[Call("run_command", {"command": SNOOP})]), *fixing_turns(branch)]

    with ModelServer(turns) as model:
        result = world.run("workflow_run", event, model, uid=USER, python=python)

    assert result.exit_status == 0, result.log + result.stderr
    assert (result.outputs["outcome"], result.outputs["branch"]) == ("done", branch)
    (probe,) = result.events("sandbox.probe")
    assert probe["ok"]
    snoop = result.events("tool.result")[0]["text"]
    assert f"\n{USER}\n" in snoop or "\n0\n" in snoop, "a command runs as the user, or as its own namespace's root"
    assert "still here" in snoop or "killed by signal 9" in snoop
    secrets = {"token": world.token, "key": world.api_key}
    assert hits(snoop.encode(), secrets) == []
    assert hits(result.log.encode(), secrets) == []
    assert {p.stat().st_uid for p in world.workspace.rglob("*")} == {USER}
