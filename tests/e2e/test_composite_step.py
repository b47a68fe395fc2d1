"""The composite's own steps, started as the runner does, with a real container and both backends."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.broker.transcript import verify
from tests.e2e.conftest import docker
from tests.e2e.job import composite, tree
from tests.e2e.moments import BRANCH, MOMENTS, command, publishing
from tests.support.action import Result
from tests.support.model_server import ModelServer
from tests.support.model_turns import Call, Turn
from tests.support.runner_harness import cancel
from tests.support.scenario import RUN_ID, World, fixing_turns


@pytest.mark.parametrize("sandbox", ["container", "process"])
def test_a_failed_run_ends_in_a_pull_request(
    make: Callable[..., World], image: str, gateway: str, sandbox: str, matrix: Callable[..., None]
) -> None:
    """The main job with the container's own mounts; outputs, summary and files as a following step finds them.

    The workspace is the runner's user's; one of root's is `test_act.py`'s.
    """
    owner = 1001
    world = make()
    before = tree(world.workspace)
    branch = f"airlock/fix-{RUN_ID}"
    event = world.github.event("workflow_run", world.repository, run=RUN_ID)
    start = time.monotonic()
    with ModelServer(fixing_turns(branch), host=gateway) as model:
        result: Result = composite(world, "workflow_run", event, model, sandbox=sandbox).run()

    matrix(f"composite, uid {owner}", "workflow_run", image="named", result=result, seconds=time.monotonic() - start)
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


@pytest.mark.parametrize(
    ("during", "sandbox", "owner"),
    [
        ("model call", "container", 0),
        ("model call", "process", 1001),
        ("command", "container", 1001),
        ("command", "process", 0),
    ],
)
def test_a_cancel_leaves_a_partial_report_in_time(
    make: Callable[..., World], image: str, gateway: str, during: str, sandbox: str, owner: int
) -> None:
    """SIGINT, 7.5 s, SIGTERM, 2.5 s, SIGKILL at the step's shell: reported before the kill, nothing left."""
    world = make(owner=owner)
    before = tree(world.workspace / ".git")
    event = world.github.event("workflow_run", world.repository, run=RUN_ID)
    moment = MOMENTS[during](world)

    def when(process: subprocess.Popen[str]) -> None:
        moment.wait()
        cancel(process)

    with ModelServer(moment.turns, host=gateway) as model:
        result = composite(world, "workflow_run", event, model, sandbox=sandbox).run(when=when, cleanup=False)

    assert (result.outputs["stop-reason"], result.outputs["outcome"], result.exit_status) == (
        "cancelled",
        "cancelled",
        6,
    ), result.log
    assert verify(result.results / "transcript.jsonl") == []
    assert result.events("run.end")[0]["stop_reason"] == "cancelled"
    assert "cancelled" in result.summary.lower()
    assert tree(world.workspace / ".git") == before
    assert {path.lstat().st_uid for path in world.workspace.rglob("*")} == {owner}


def test_a_cancel_during_publishing_is_reported(make: Callable[..., World], image: str, gateway: str) -> None:
    """GitHub takes long to answer; what was pushed stands in the report."""
    world = make()
    event = world.github.event("workflow_run", world.repository, run=RUN_ID)
    moment = publishing(world)

    def when(process: subprocess.Popen[str]) -> None:
        moment.wait()
        cancel(process)

    with ModelServer(moment.turns, host=gateway) as model:
        result = composite(world, "workflow_run", event, model, sandbox="process").run(when=when, cleanup=False)

    assert (result.outputs["outcome"], result.outputs["branch"], result.exit_status) == ("cancelled", BRANCH, 6)
    assert world.repository.branch(BRANCH) is not None
    assert world.repository.pulls() == []
    assert BRANCH in result.summary
    assert {path.lstat().st_uid for path in world.workspace.rglob("*")} == {1001}


@pytest.mark.parametrize("owner", [1001, 0])
def test_after_a_kill_the_second_step_puts_the_workspace_back(
    make: Callable[..., World], image: str, gateway: str, owner: int
) -> None:
    """SIGKILL at once, during a command: containers gone, owner and git folder put back, transcript kept."""
    world = make(owner=owner)
    before = tree(world.workspace / ".git")
    event = world.github.event("workflow_run", world.repository, run=RUN_ID)
    running: list[str] = []

    moment = command(world)

    def when(process: subprocess.Popen[str]) -> None:
        moment.wait()
        running.extend(docker("ps", "--quiet", "--filter", f"volume={world.workspace}").split())
        os.kill(process.pid, signal.SIGKILL)

    with ModelServer(moment.turns, host=gateway) as model:
        result = composite(world, "workflow_run", event, model, sandbox="container").run(when=when)

    assert result.exit_status == -signal.SIGKILL
    assert len(running) == 2, "the action's container and the sandbox's"
    assert [call["name"] for call in result.events("tool.call")] == ["run_command"]
    assert tree(world.workspace / ".git") == before
    assert {path.lstat().st_uid for path in world.workspace.rglob("*")} == {owner}


def test_a_new_attempt_updates_the_report(make: Callable[..., World], image: str, gateway: str) -> None:
    """A6: the same run id, next attempt: one comment, one pull request."""
    world = make()
    repo = world.repository
    number = repo.create_issue("Discount", "It is wrong.").number
    repo.add_comment(number, "/airlock plan", "maintainer")
    event = world.github.event("issue_comment", repo, number=number)
    for attempt in ("1", "2"):
        with ModelServer([Turn(text=f"Plan of attempt {attempt}.")], host=gateway) as model:
            action = composite(world, "issue_comment", event, model)
            action.environment["GITHUB_RUN_ATTEMPT"] = attempt
            assert action.run().exit_status == 0

    bodies = [comment.body for comment in repo.issue(number).comments]
    assert len(bodies) == 2
    assert "Plan of attempt 2." in bodies[1]


ODD = {
    "PYTHONPATH": "/nowhere",
    "PYTHONHOME": "/nowhere",
    "PYTHONSTARTUP": "/nowhere/x.py",
    "LD_LIBRARY_PATH": "/nowhere",
    "DOCKER_HOST": "tcp://192.0.2.1:2375",
    "DOCKER_CONTEXT": "elsewhere",
    "DOCKER_CONFIG": "/nowhere",
    "DOCKER_DEFAULT_PLATFORM": "linux/s390x",
    "NODE_OPTIONS": "--require /nowhere.js",
    "GIT_DIR": "/nowhere",
    "CDPATH": "/",
    "POSIXLY_CORRECT": "1",
    "LD_PRELOAD": "/nowhere/x.so",
    "LD_AUDIT": "/nowhere/y.so",
    "TMPDIR": "/nowhere",
    "IFS": "/",
    "SHELLOPTS": "xtrace:noexec",
}


def test_the_container_holds_no_secret_in_sight_and_the_jobs_environment_does_not_matter(
    make: Callable[..., World], image: str, gateway: str
) -> None:
    """`docker inspect` of both containers: no secret in environment or arguments, and exactly the agreed limits."""
    world = make()
    event = world.github.event("workflow_run", world.repository, run=RUN_ID)
    seen: list[dict[str, Any]] = []
    labels: dict[str, Any] = {}

    def look(_: object) -> Turn:
        if not seen:
            numbers = docker("ps", "--quiet", "--filter", f"volume={world.workspace}").split()
            seen.extend(json.loads(docker("inspect", *numbers)))
            names = {m["Name"] for one in seen for m in one["Mounts"] if m["Type"] == "volume"}
            labels.update({v["Name"]: v["Labels"] for v in json.loads(docker("volume", "inspect", *names))})
        return Turn(text="Looked.")

    with ModelServer(look, host=gateway) as model:
        action = composite(world, "workflow_run", event, model, sandbox="container", secrets="EXTRA=a-further-secret")
        planted = world.folder / "ran"
        (world.folder / "env.sh").write_text(f"touch {planted}\n")
        touch = f"() {{ /bin/touch {planted}; }}"
        code = {"BASH_ENV": f"{world.folder}/env.sh", "BASH_FUNC_docker%%": touch, "BASH_FUNC_printf%%": touch}
        action.environment |= ODD | code
        configuration = Path(action.environment["HOME"]) / ".docker/config.json"
        configuration.parent.mkdir()
        configuration.write_text('{"proxies": {"default": {"httpProxy": "http://u:a-proxys-password@192.0.2.1:1"}}}')
        result = action.run()
        assert not planted.exists()
        subprocess.run(["bash", "-c", "docker"], env={"PATH": "/usr/bin:/bin", **code}, check=True)
        assert planted.exists(), "code of an environment does run in an ordinary shell"

    assert result.exit_status == 5, result.log  # it did not fix anything; the stop script says so
    own, sandbox = sorted(seen, key=lambda c: c["Config"]["Hostname"])
    assert (own["Config"]["Hostname"], sandbox["Config"]["Hostname"]) == ("airlock", "sandbox")
    text = json.dumps(seen)
    secrets = [world.token, world.api_key, "a-further-secret", "a-proxys-password", event["repository"]["html_url"]]
    assert [secret for secret in secrets if secret in text] == []
    assert [v for v in own["Config"]["Env"] if not v.startswith("PATH=")] == []
    assert own["Args"][-1] == "--stdin"
    host = own["HostConfig"]
    assert sorted(name.removeprefix("CAP_") for name in host["CapAdd"]) == [
        "CHOWN",
        "DAC_OVERRIDE",
        "KILL",
        "SETGID",
        "SETUID",
    ]
    assert (host["CapDrop"], host["SecurityOpt"]) == (["ALL"], ["no-new-privileges"])
    assert (host["ReadonlyRootfs"], host["Privileged"], host["NetworkMode"]) == (True, False, "default")
    work = str(world.workspace)
    binds = {(m["Destination"], m["RW"]) for m in own["Mounts"] if m["Type"] == "bind"}
    assert binds == {(work, True), ("/airlock-git", False), ("/var/run/docker.sock", True)}
    volumes = {m["Destination"] for m in own["Mounts"] if m["Type"] == "volume"}
    assert volumes == {f"{work}/.git", "/var/lib/airlock", str(result.results)}
    # the three, and that of the sandbox's helper; none is left
    assert list(labels.values()) == 4 * [{"airlock.run": own["Name"].removeprefix("/")}]
    assert labels.keys() & set(docker("volume", "ls", "--quiet").split()) == set()
    places = {(m["Destination"], m["RW"]) for m in sandbox["Mounts"]}
    protected = {(f"{work}/.github", False), (f"{work}/scripts", True), (f"{work}/scripts/check.sh", False)}
    git = {(f"{work}/.git", True), ("/airlock-git/objects", False)}
    assert places == {(work, True), ("/airlock", True)} | git | protected
    assert sandbox["HostConfig"]["NetworkMode"] == "none"


def test_a_runner_without_docker_is_told_what_to_do(make: Callable[..., World], tmp_path: Path) -> None:
    """One sentence with the alternatives, an outcome for the next step, exit status 1."""
    world = make()
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("bash", "mkdir", "cat", "env"):
        (programs / name).symlink_to(shutil.which(name) or "")
    with ModelServer() as model:
        action = composite(world, "workflow_run", {}, model)
        action.environment["PATH"] = str(programs)
        result = action.run()

    assert (result.exit_status, result.outputs["outcome"]) == (1, "error")
    assert [line for line in result.log.splitlines() if line.startswith("::error")] == [
        "::error title=Airlock::Airlock runs in a container, and there is no docker client on this runner's PATH. "
        "Use a runner with Docker, or run the image as a container action (`uses: docker://…`, also on Kubernetes), "
        "where commands are confined without Docker."
    ]


@pytest.mark.parametrize("sandbox", ["container", "process"])
def test_a_tool_of_an_earlier_setup_step_is_on_the_path(
    make: Callable[..., World], image: str, gateway: str, sandbox: str
) -> None:
    """The tool cache is there at its own path, read-only; nothing else of the job's PATH is."""
    world = make()
    cache = world.folder / "hostedtoolcache"
    tools = {cache / "hello/1.2.3/x64/bin": "from the cache", world.folder / "elsewhere/bin": "from elsewhere"}
    for folder, words in tools.items():
        folder.mkdir(parents=True)
        program = folder / ("hello" if folder.is_relative_to(cache) else "other")
        program.write_text(f"#!/bin/sh\necho {words}\n")
        program.chmod(0o755)
    command = f"hello; other; touch {cache}/new; command -v hello"
    turns = [Turn(calls=[Call("run_command", {"command": command})]), Turn(text="Done.")]
    event = world.github.event("workflow_run", world.repository, run=RUN_ID)
    with ModelServer(turns, host=gateway) as model:
        action = composite(world, "workflow_run", event, model, sandbox=sandbox)
        action.environment["RUNNER_TOOL_CACHE"] = str(cache)
        action.environment["PATH"] = ":".join([*map(str, tools), action.environment["PATH"]])
        result = action.run()

    said = result.events("tool.result")[0]["text"]
    assert "from the cache" in said
    assert f"{cache}/hello/1.2.3/x64/bin/hello" in said
    assert "from elsewhere" not in said
    assert not (cache / "new").exists()
