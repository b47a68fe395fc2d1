"""The main job as a normal user: no root anywhere, the kernel alone separates the zones."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable

import pytest

from tests.support.leaks import hits
from tests.support.model_server import ModelServer
from tests.support.model_turns import Call, Turn
from tests.support.scenario import CONFIG, RUN_ID, World, fixing_turns
from tests.support.user_python import USER, python_for_everybody

SNOOP = (
    "for p in /proc/[0-9]*; do cat $p/environ $p/cmdline; done 2>/dev/null | tr '\\0' '\\n'; "
    "kill -9 -1 2>&1; id -u; echo still here"
)
HOLLOW = "echo exit 0 > node_modules/.bin/check; echo hollowed"


@pytest.mark.root
def test_a_failed_run_ends_in_a_pull_request_without_root(make: Callable[..., World]) -> None:
    """Same job, same gates; commands see no secret, and cannot end the zones though they share a uid.

    Gates have the ignored folders of before the model's first command, at the path that their scripts name.
    """
    config = CONFIG.replace("stopScript: sh scripts/check.sh", "stopScript: node_modules/.bin/check")
    world = make(config=config, files={".gitignore": "__pycache__/\nnode_modules\n"})
    programs = world.workspace / "node_modules/.bin"
    programs.mkdir(parents=True)
    shutil.copy(os.path.realpath("/bin/sh"), programs / "sh")
    (programs / "check").write_text(f"#!{programs}/sh\necho genuine; exec sh scripts/check.sh\n")
    (programs / "check").chmod(0o755)
    python = python_for_everybody(world.folder)
    if python is None:
        pytest.skip("no Python here that another user could start")
    subprocess.run(["chown", "-R", f"{USER}:{USER}", str(world.folder / "work")], check=True)
    temp = world.folder / "temp"
    temp.mkdir()
    os.chown(temp, USER, USER)
    event = world.github.event("workflow_run", world.repository, run=RUN_ID)
    branch = f"airlock/fix-{RUN_ID}"
    turns = [
        Turn(calls=[Call("run_command", {"command": SNOOP})]),
        Turn(calls=[Call("run_command", {"command": HOLLOW})]),
        *fixing_turns(branch),
    ]

    with ModelServer(turns) as model:
        result = world.run("workflow_run", event, model, uid=USER, python=python)

    assert result.exit_status == 0, result.log + result.stderr
    assert (result.outputs["outcome"], result.outputs["branch"]) == ("done", branch)
    (probe,) = result.events("sandbox.probe")
    assert probe["ok"]
    (stop,) = [hook for hook in result.events("hook.end") if hook["purpose"] == "stop"]
    assert stop["output"].startswith("[stdout]\ngenuine\n")
    assert "hollowed" in result.events("tool.result")[1]["text"]
    snoop = result.events("tool.result")[0]["text"]
    assert f"\n{USER}\n" in snoop or "\n0\n" in snoop, "a command runs as the user, or as its own namespace's root"
    assert "still here" in snoop or "killed by signal 9" in snoop
    secrets = {"token": world.token, "key": world.api_key}
    assert hits(snoop.encode(), secrets) == []
    assert hits(result.log.encode(), secrets) == []
    assert {p.stat().st_uid for p in world.workspace.rglob("*")} == {USER}
