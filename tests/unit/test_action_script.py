"""The composite's script against a client that plays the engine: which image, what a build is given, early cancels."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.action import Result, job_environment
from tests.support.runner_harness import Composite

ROOT = Path(__file__).resolve().parents[2]
RELEASED = "registry.example/someone/airlock@sha256:" + "0" * 64

# Acts are told apart by the first word after `--host SOCKET` and the like; each leaves what it was given beside the
# client.
CLIENT = r"""#!/bin/bash
here=${0%/*}
while [[ $1 == --* ]]; do options+=("$1" "$2"); shift 2; done
act=$1
printf '%s\n' "${options[@]}" >"$here/$act.options"
printf '%s\n' "$@" >>"$here/$act.arguments"
env >"$here/$act.environment"
case $act in
version) echo 20.10 ;;
image) exit 1 ;;
pull) [ -e "$here/slow-pull" ] || exit 1; echo $$ >"$here/pull.pid"; exec sleep 60 ;;
kill) [ "$(grep -c '^kill$' "$here/kill.arguments")" -ge 3 ] || exit 1; touch "$here/killed" ;;
run)
  cat >/dev/null
  touch "$here/run.started"
  [ ! -e "$here/slow-run" ] || until [ -e "$here/killed" ]; do sleep 0.02; done
  ;;
esac
"""


@pytest.fixture
def start(tmp_path: Path) -> Callable[..., Result]:
    """Runs the step from a copy of the action that names a released image, with that client first on PATH."""
    shutil.copytree(ROOT / "action", tmp_path / "root/action")
    shutil.copy(ROOT / "action.yml", tmp_path / "root")
    (tmp_path / "root/action/released-image").write_text(RELEASED + "\n")
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "docker").write_text(CLIENT)
    (programs / "docker").chmod(0o755)
    for name in ("workspace", "temp"):
        (tmp_path / name).mkdir()
    (tmp_path / "event.json").write_text("{}")

    def run(when: Callable[[subprocess.Popen[str]], None] | None = None, **environment: str) -> Result:
        facts = job_environment(
            event_name="issues", event=tmp_path / "event.json", workspace=tmp_path / "workspace",
            temp=tmp_path / "temp", repository="example/prices", api_url="http://192.0.2.1", server_url="http://192.0.2.1",
            inputs={}, extra=environment,
        )  # fmt: skip
        facts["PATH"] = f"{programs}:{facts['PATH']}"
        inputs = {"api-key": "the-models-key", "github-token": "the-jobs-token"}
        return Composite(facts, inputs, root=tmp_path / "root").run(when=when, cleanup=False)

    return run


def lines(tmp_path: Path, name: str) -> list[str]:
    return (tmp_path / "bin" / name).read_text().splitlines()


def test_a_released_image_that_cannot_be_pulled_is_built_here(tmp_path: Path, start: Callable[..., Result]) -> None:
    """The build gets the job's proxies, by name, and nothing else of its environment."""
    function = {"BASH_FUNC_env%%": "() { touch planted; }"}
    proxy = "http://user:password@proxy:3128"
    result = start(https_proxy=proxy, DOCKER_BUILDKIT="0", SOMETHING="of the job", **function)

    assert lines(tmp_path, "pull.arguments") == ["pull", "--quiet", RELEASED]
    assert "building it from the action's own Dockerfile" in result.log
    assert lines(tmp_path, "build.arguments") == ["build", "--build-arg", "https_proxy", "--tag", "airlock:local", ".."]
    names = {line.partition("=")[0] for line in lines(tmp_path, "build.environment")}
    assert names - {"PWD", "SHLVL", "_", "OLDPWD"} == {"PATH", "HOME", "https_proxy"}
    assert "airlock:local" in lines(tmp_path, "run.arguments")


def test_no_client_is_given_a_secret(tmp_path: Path, start: Callable[..., Result]) -> None:
    """Neither as an argument nor in its environment, where any process of the same user could read it."""
    start()
    files = {path.name: path.read_text() for path in (tmp_path / "bin").iterdir()}
    assert {"run.environment", "build.environment", "version.arguments"} <= set(files)
    assert [name for name, text in files.items() if "the-models-key" in text or "the-jobs-token" in text] == []


def test_the_clients_configuration_counts_for_pulls_alone(tmp_path: Path, start: Callable[..., Result]) -> None:
    """Its logins are for a registry; its proxies would be set in the container's environment, passwords among them."""
    start(DOCKER_CONFIG="/of/the/user", DOCKER_CONTEXT="elsewhere")
    own = f"--config={tmp_path}/root/action/no-configuration"
    acts = ("version", "pull", "run", "cp", "rm")
    found = {}
    for act in acts:
        words = lines(tmp_path, f"{act}.options")
        configuration = [f"{name}={value}" for name, value in zip(words[::2], words[1::2], strict=True)][1:]
        named = {line.partition("=")[0] for line in lines(tmp_path, f"{act}.environment")} - {"PWD", "SHLVL", "_"}
        found[act] = (configuration, named)

    assert found == {act: ([own], {"PATH"}) for act in acts} | {"pull": ([], {"PATH", "HOME", "DOCKER_CONFIG"})}
    assert not (tmp_path / "root/action/no-configuration").exists()


def test_a_cancel_ends_a_pull_and_reads_as_cancelled(tmp_path: Path, start: Callable[..., Result]) -> None:
    """The runner signals the step's shell alone; the client goes with it, and nothing is built or started then."""
    (tmp_path / "bin/slow-pull").touch()
    client: list[int] = []

    def when(process: subprocess.Popen[str]) -> None:
        file = tmp_path / "bin/pull.pid"
        while not (file.exists() and file.read_text().endswith("\n")):
            time.sleep(0.01)
        client.append(int(file.read_text()))
        os.kill(process.pid, signal.SIGINT)

    result = start(when)

    assert (result.exit_status, result.outputs["outcome"], result.outputs["stop-reason"]) == (
        6,
        "cancelled",
        "cancelled",
    )
    with pytest.raises(ProcessLookupError):
        os.kill(client[0], 0)
    assert not (tmp_path / "bin/build.arguments").exists()
    assert not (tmp_path / "bin/run.arguments").exists()


def test_a_cancel_while_the_container_is_made_is_told_when_it_is_there(
    tmp_path: Path, start: Callable[..., Result]
) -> None:
    """The engine knows the container's name only a moment later; no report of it still reads as cancelled."""
    (tmp_path / "bin/slow-run").touch()

    def when(process: subprocess.Popen[str]) -> None:
        while not (tmp_path / "bin/run.started").exists():
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGINT)

    result = start(when)

    assert lines(tmp_path, "kill.arguments")[:3] == ["kill", "--signal", "INT"]
    assert lines(tmp_path, "kill.arguments").count("kill") == 3
    assert (result.outputs["outcome"], result.outputs["stop-reason"]) == ("cancelled", "cancelled")
