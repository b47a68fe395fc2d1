"""`uses: docker://…`: the runner's own container call, with socket, temp folder and file commands mounted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from typing import Any

import pytest

from agent.broker.transcript import verify
from tests.e2e.job import container_action, tree
from tests.e2e.moments import BRANCH, MOMENTS
from tests.support.action import Result
from tests.support.model_server import ModelServer
from tests.support.model_turns import Call, Turn
from tests.support.scenario import RUN_ID, World, fixing_turns

ATTACK = r"""
try() { if "$@" >/dev/null 2>&1; then echo "REACHED $*"; else echo "refused $*"; fi; }
for place in /github/runner_temp /github/file_commands /github/home /github/workflow "$TEMP_FOLDER"; do
  try ls "$place"; try cat "$place/planted"; try touch "$place/new"
done
try cat /proc/1/environ
try python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect("/var/run/docker.sock")'
try python3 -c 'import socket; socket.create_connection(("172.17.0.1", 80), 2)'
try cat README.md
env | cut -d= -f1 | sort | tr '\n' ' '
"""


def act(
    world: World,
    image: str,
    gateway: str,
    turns: Any,
    *,
    whole: bool = False,
    when: Callable[[Any], None] | None = None,
    **options: Any,
) -> tuple[Result, ModelServer]:
    """The main job as a container action."""
    event = world.github.event("workflow_run", world.repository, run=RUN_ID)
    with ModelServer(turns, host=gateway) as model:
        action = container_action(world, "workflow_run", event, model, image, whole_work=whole, **options)
        return action.run(when=when), model


def check_done(world: World, result: Result, owner: int) -> None:
    branch = f"airlock/fix-{RUN_ID}"
    assert (result.exit_status, result.outputs["outcome"], result.outputs["branch"]) == (0, "done", branch), result.log
    assert [(p["backend"], p["ok"]) for p in result.events("sandbox.probe")] == [("process", True)]
    assert verify(result.results / "transcript.jsonl") == []
    assert branch in result.summary
    assert len(world.repository.pulls()) == 1
    assert (world.workspace / ".git/config").is_file()
    assert {path.lstat().st_uid for path in world.workspace.rglob("*")} == {owner}
    assert list(world.workspace.parent.rglob(".airlock-*")) == []
    secrets = [world.token, world.api_key, "runtime-token-of-the-job"]
    assert [s for s in secrets if s in result.log or any(s.encode() in d for d in result.files.values())] == []


@pytest.mark.parametrize(
    ("docker_socket", "user"),
    [(True, None), (False, None), (False, "1001:1001")],
    ids=["root-with-socket", "root-without-socket", "kubernetes-non-root"],
)
def test_the_main_job_reaches_nothing_of_the_runner(
    make: Callable[..., World],
    image: str,
    gateway: str,
    docker_socket: bool,
    user: str | None,
    matrix: Callable[..., None],
) -> None:
    """The job is done by the process backend; a command of the model's reaches none of the runner's folders."""
    world = make()
    temp = world.folder / "temp"
    for name in (".", "_runner_file_commands", "_github_home", "_github_workflow"):
        folder = temp / name
        folder.mkdir(exist_ok=True)
        (folder / "planted").write_text("secret of an earlier step")
        os.chmod(folder, 0o777)
    branch = f"airlock/fix-{RUN_ID}"
    attack = ATTACK.replace("$TEMP_FOLDER", str(temp))
    turns = [Turn(calls=[Call("run_command", {"command": attack})]), *fixing_turns(branch)]

    start = time.monotonic()
    result, model = act(world, image, gateway, turns, whole=user is not None, docker_socket=docker_socket, user=user)
    shape = f"container action, {'root' if user is None else '1001'}"
    matrix(shape, "workflow_run", image="named", result=result, seconds=time.monotonic() - start)

    check_done(world, result, 1001)
    said = result.events("tool.result")[0]["text"]
    assert "refused cat /proc/1/environ" in said
    assert [line for line in said.splitlines() if "REACHED" in line] == ["REACHED cat README.md"]
    names = set(said.splitlines()[-1].split()) if "PATH" in said.splitlines()[-1] else set()
    assert not {n for n in names if n.startswith(("INPUT_", "GITHUB_", "ACTIONS_", "RUNNER_"))}
    assert "secret of an earlier step" not in json.dumps([r.raw.decode() for r in model.requests])
    assert sorted(p.name for p in temp.rglob("new")) == []


@pytest.mark.parametrize("during", MOMENTS)
def test_a_cancel_reaches_the_container(make: Callable[..., World], image: str, gateway: str, during: str) -> None:
    """The runner signals the docker client, which hands signals on to the first process: the first one is enough."""
    world = make()
    before = tree(world.workspace / ".git")
    moment = MOMENTS[during](world)

    def when(process: subprocess.Popen[str]) -> None:
        moment.wait()
        process.send_signal(signal.SIGINT)

    result, _ = act(world, image, gateway, moment.turns, when=when)

    assert (result.outputs["outcome"], result.outputs["stop-reason"], result.exit_status) == (
        "cancelled",
        "cancelled",
        6,
    ), result.log
    assert result.outputs["branch"] == (BRANCH if during == "publishing" else "")
    assert "cancelled" in result.summary.lower()
    assert verify(result.results / "transcript.jsonl") == []
    assert tree(world.workspace / ".git") == before
    assert {path.lstat().st_uid for path in world.workspace.rglob("*")} == {1001}
    assert list(world.workspace.rglob(".airlock-*")) == []
