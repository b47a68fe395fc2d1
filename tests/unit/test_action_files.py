"""action.yml, its script and the broker's list of inputs say the same; paths as the engine knows them."""

from __future__ import annotations

import re
import socket
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml

from agent.broker.report.actions import OUTPUTS
from agent.contract.errors import UpstreamError
from agent.contract.inputs import SECRET_INPUTS, SETTING_INPUTS, take
from agent.launch_place import mount_points
from agent.sandbox.outside import Mount, Own, binds, outside, own_number

ROOT = Path(__file__).resolve().parents[2]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text())
SCRIPT = (ROOT / "action/run.sh").read_text()


def listed(name: str) -> set[str]:
    """Words of an array of the script."""
    found = re.search(rf"^{name}=\(([^)]*)\)", SCRIPT, re.MULTILINE)
    assert found
    return set(found[1].split())


def test_inputs_are_the_same_in_action_script_and_broker() -> None:
    """An input that one of them lacks would silently count for nothing."""
    step = ACTION["runs"]["steps"][0]
    names = {name.upper().replace("-", "_") for name in SECRET_INPUTS | SETTING_INPUTS}

    assert set(ACTION["inputs"]) == SECRET_INPUTS | SETTING_INPUTS
    assert listed("inputs") == names
    assert step["env"] == {
        f"INPUT_{name.upper().replace('-', '_')}": f"${{{{ inputs.{name} }}}}" for name in ACTION["inputs"]
    }


def test_everything_the_script_sends_is_taken() -> None:
    """No fact on its list is dropped at the other end, and none sets where outputs go."""
    facts = listed("facts") | listed("own")
    settings, secrets = take(dict.fromkeys(facts, "x"))

    assert set(settings) | set(secrets) == facts
    assert not facts & {"GITHUB_OUTPUT", "GITHUB_ENV", "GITHUB_PATH", "GITHUB_STATE", "GITHUB_STEP_SUMMARY"}


def test_outputs_of_the_action_are_those_that_the_broker_writes() -> None:
    """Each is handed on from the `run` step under its own name."""
    assert {name: output["value"] for name, output in ACTION["outputs"].items()} == {
        name: f"${{{{ steps.run.outputs.{name} }}}}" for name in OUTPUTS
    }


def test_no_expression_stands_in_a_script() -> None:
    """Template injection: values reach scripts by environment variables alone."""
    assert [step["run"] for step in ACTION["runs"]["steps"] if "${{" in step.get("run", "")] == []


@pytest.mark.parametrize(
    ("environment", "there", "used", "found"),
    [
        ({}, ["system"], "system", True),
        ({"DOCKER_HOST": "unix://{}/other"}, ["system", "other"], "other", True),
        ({"DOCKER_HOST": "unix://{}/gone"}, ["system"], "system", True),
        ({"DOCKER_HOST": "tcp://192.0.2.1:2375"}, ["system"], "system", True),
        ({"DOCKER_HOST": "tcp://192.0.2.1:2375"}, [], "system", False),
        ({"XDG_RUNTIME_DIR": "{}/user"}, ["user/docker.sock"], "user/docker.sock", True),
        ({"XDG_RUNTIME_DIR": "{}/user"}, ["system", "user/docker.sock"], "system", True),
        ({}, [], "system", True),
    ],
    ids=["plain", "named", "named-gone", "remote-too", "remote-only", "rootless", "both", "none"],
)
def test_the_engine_of_this_machine_is_found(
    tmp_path: Path, environment: dict[str, str], there: list[str], used: str, found: bool
) -> None:
    """A socket that the job names, the system's, a rootless one; an engine on another machine is none."""
    with ExitStack() as stack:
        for name in there:
            (tmp_path / name).parent.mkdir(exist_ok=True)
            stack.enter_context(socket.socket(socket.AF_UNIX)).bind(str(tmp_path / name))
        script = f". ./docker.sh; SYSTEM_SOCKET={tmp_path}/system; find_socket; echo $? $socket"
        given = {name: value.format(tmp_path) for name, value in environment.items()}
        done = subprocess.run(
            ["bash", "-c", script], cwd=ROOT / "action", env={"PATH": "/usr/bin:/bin", **given}, capture_output=True,
            text=True, check=True,
        )  # fmt: skip

    assert done.stdout.split() == ["0" if found else "1", str(tmp_path / used)]


MOUNTS = (
    Mount("/w", "/home/runner/work/r/r"),
    Mount("/w/.git", "/var/lib/docker/volumes/v1/_data"),
    Mount("/airlock-git", "/home/runner/work/r/r/.git"),
    Mount("/var/lib/airlock", "/var/lib/docker/volumes/v2/_data"),
)


def test_a_sibling_sees_the_covered_git_folder_and_never_the_real_one() -> None:
    """The host's folder has the real `.git`; the cover must be bound over it."""
    assert binds("/w", ["/airlock-git/objects"], MOUNTS) == [
        "/home/runner/work/r/r:/w:rw",
        "/var/lib/docker/volumes/v1/_data:/w/.git:rw",
        "/home/runner/work/r/r/.git/objects:/airlock-git/objects:ro",
    ]


def test_a_gate_in_the_state_volume_is_found_by_the_engine() -> None:
    """A path below a mount, shown at another; a path beside one of the same beginning is in none."""
    assert binds("/var/lib/airlock/gates/1", ["/airlock-git/objects"], MOUNTS, at="/w") == [
        "/var/lib/docker/volumes/v2/_data/gates/1:/w:rw",
        "/home/runner/work/r/r/.git/objects:/airlock-git/objects:ro",
    ]
    assert binds("/var/lib/airlock/gates/1", [], MOUNTS) == [
        "/var/lib/docker/volumes/v2/_data/gates/1:/var/lib/airlock/gates/1:rw"
    ]
    with pytest.raises(UpstreamError, match="/workspace lies in no mount"):
        outside("/workspace", MOUNTS)
    assert outside("/workspace", None) == "/workspace"


def test_our_container_is_known_by_its_host_name_file_and_not_by_another_containers_mounts() -> None:
    """On a host the mounts of running containers are listed too."""
    number = "4f" * 32
    other = f"900 30 0:50 / /var/lib/docker/containers/{'ab' * 32}/mounts/shm rw - tmpfs shm rw\n"
    ours = f"901 800 254:0 /var/lib/docker/containers/{number}/hostname /etc/hostname rw - ext4 /dev/vda rw\n"

    assert own_number(other) is None
    assert own_number(other + ours) == number


def test_mounts_with_blanks_in_their_names_are_read() -> None:
    """The kernel writes a blank as \\040."""
    line = rb"36 35 98:0 / /home/my\040work/.git rw,noatime - ext3 /dev/root rw"
    assert mount_points(line) == {"/home/my work/.git"}


def test_an_engines_description_is_reduced_to_what_is_needed() -> None:
    """tmpfs mounts have no source; a container without labels is nobody's run."""
    data = {
        "Id": "1" * 64,
        "Image": "sha256:2",
        "Config": {"Labels": None},
        "Mounts": [
            {"Type": "bind", "Source": "/a", "Destination": "/b/"},
            {"Type": "tmpfs", "Source": "", "Destination": "/tmp"},
        ],
    }
    assert Own.from_inspect(data) == Own("1" * 64, "sha256:2", "", (Mount("/b", "/a"),))
