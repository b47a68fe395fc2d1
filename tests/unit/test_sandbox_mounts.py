"""`ai.agent.sandbox.mounts`: which folders of the runner commands may be shown, and that they are, read-only."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent.broker.config import SandboxConfig
from agent.broker.git.gitdir import Shape
from agent.broker.git.prepare import Prepared
from agent.broker.git.rules import TreeRules
from agent.broker.mounts import refused_mount
from agent.broker.workbench import spec_maker
from agent.contract.errors import UpstreamError, UserError
from agent.contract.sandbox import Purpose
from tests.unit.sandbox_rig import Rig, run

PRIVATE = ("/home/runner/work/w/w", "/home/runner/work/_temp", "/var/lib/airlock/airlock-x")

ALLOWED = (
    "/opt/hostedtoolcache",
    "/opt/android/sdk",
    "/usr/lib/jvm",
    "/usr/local/lib/android",
    "/home/runner/.cargo/bin",
    "/home/runner/work/w/w2",
    "/home/runner/work/_temporary",
    "/tmp/sdk",
    "/srv/models",
    "/varnish",
)

REFUSED = {
    "opt/x": "is no plain absolute path",
    "": "is no plain absolute path",
    "//opt/x": "is no plain absolute path",
    "/opt/../root": "is no plain absolute path",
    "/opt/./x": "is no plain absolute path",
    "/opt/x/": "is no plain absolute path",
    "/opt/x\0": "is no plain absolute path",
    "/": "holds /proc",
    "/proc/1": "lies in /proc",
    "/sys": "is closed to commands",
    "/dev/shm": "lies in /dev",
    "/run/docker.sock": "lies in /run",
    "/run/user/1001": "lies in /run",
    "/var/run/docker.sock": "lies in /var/run",
    "/var": "holds /var/run",
    "/var/lib": "holds /var/lib/docker",
    "/var/lib/docker/volumes": "lies in /var/lib/docker",
    "/root/.cache": "lies in /root",
    "/airlock": "is closed to commands",
    "/airlock-git/objects": "lies in /airlock-git",
    "/home/runner/work/w/w": "is closed to commands",
    "/home/runner/work/w/w/vendor": "lies in /home/runner/work/w/w",
    "/home/runner": "holds /home/runner/work/w/w",
    "/home/runner/work/_temp/_github_workflow": "lies in /home/runner/work/_temp",
    "/usr": "would cover the sandbox's own",
    "/tmp": "would cover the sandbox's own",
    "/home/other/.ssh": "is a place of credentials (.ssh)",
    "/home/other/.config/gh": "is a place of credentials (.config)",
    "/srv/repo/.GIT": "is a place of credentials (.GIT)",
}  # fmt: skip


def test_folders_of_the_runner_may_be_shown() -> None:
    """Tool chains and data; a name that only begins like a closed one is another folder."""
    assert {path: reason for path in ALLOWED if (reason := refused_mount(path, PRIVATE))} == {}


@pytest.mark.parametrize("path", REFUSED)
def test_what_is_ours_the_runners_or_the_engines_may_not(path: str) -> None:
    """Neither itself, nor what lies in it, nor what holds it; the reason names which."""
    assert refused_mount(path, PRIVATE) == REFUSED[path]


def prepared(*readable: str, hidden: tuple[str, ...] = ()) -> Prepared:
    return Prepared(Shape.FOLDER, None, {}, (), (), readable, None, (), 1001, 1001, hidden)


def test_configuration_reaches_the_spec_of_every_purpose_once() -> None:
    """A folder that commands can read anyway, as the tool cache, is not mounted twice."""
    sandbox = SandboxConfig(mounts=("/opt/sdk", "/objects", "/opt/sdk"))
    make = spec_maker(prepared("/objects"), sandbox, (), ["/w"], TreeRules())

    assert {make(purpose, "/w").mounts for purpose in Purpose} == {("/opt/sdk",)}


def test_a_refused_mount_is_an_error_that_names_it() -> None:
    """The git folder that was put aside counts as ours too."""
    sandbox = SandboxConfig(mounts=("/srv/a", "/srv/place/private"))

    with pytest.raises(UserError) as caught:
        spec_maker(prepared(hidden=("/srv/place/private",)), sandbox, (), ["/w"], TreeRules())

    assert str(caught.value) == ("`ai.agent.sandbox.mounts` names /srv/place/private, which is closed to commands.")


@pytest.fixture
def sdk(tmp_path: Path) -> Path:
    """A folder that its user could write to, were it not for the mount."""
    folder = tmp_path / "sdk/bin"
    folder.mkdir(parents=True)
    (folder / "tool").write_text("#!/bin/sh\necho from the mount\n")
    (folder / "tool").chmod(0o755)
    folder.chmod(0o777)
    return folder


@pytest.mark.parametrize("level", ["root", "net", "bare"])
def test_commands_read_and_run_what_is_mounted_and_cannot_write_it(tmp_path: Path, sdk: Path, level: str) -> None:
    """A folder whose name ends in `bin` is on PATH; without the mount there is nothing."""
    rig = Rig(tmp_path, "c", level)
    try:
        with_it = run(rig.start(mounts=(str(sdk),)), f"tool; touch {sdk}/new || echo refused")
        without = run(rig.start(), f"tool || cat {sdk}/tool || echo nothing")
    finally:
        rig.close()

    assert with_it.stdout == b"from the mount\nrefused\n"
    assert without.stdout == b"nothing\n"
    assert os.listdir(sdk) == ["tool"]


@pytest.mark.parametrize("kind", ["missing", "file", "link", "under a link"])
def test_a_mount_that_is_no_folder_by_that_name_starts_no_sandbox(tmp_path: Path, sdk: Path, kind: str) -> None:
    """A link would show what nobody named, and what no rule has seen."""
    (tmp_path / "link").symlink_to(sdk.parent)
    path = {"missing": tmp_path / "none", "file": sdk / "tool", "link": tmp_path / "link"}.get(kind)
    path = path or tmp_path / "link/bin"
    rig = Rig(tmp_path, "c", "root")

    with pytest.raises(UpstreamError, match=f"the mount {path} is no folder here"):
        rig.start(mounts=(str(path),))
