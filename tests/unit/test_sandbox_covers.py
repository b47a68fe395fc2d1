"""Protected paths are read-only at their place in a sandbox, and nothing that a command does to folders helps."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from agent.contract.paths import paths_to_cover
from agent.contract.sandbox import Purpose, SandboxSpec
from agent.sandbox.container import ContainerBackend
from agent.sandbox.covers import covers_of
from agent.sandbox.policy import Mount
from agent.sandbox.session import Session
from tests.unit.sandbox_rig import GID, HELPERS, UID, Rig, helper, run, workspace
from tests.unit.test_sandbox_container import ENGINE, needs_engine
from tests.unit.test_sandbox_users import started_by

PROTECTED = (".github", "ci/gates/stop.sh", "Makefile")
TRIES = {
    "a file in a protected folder": "echo x >> .github/workflows/ci.yml",
    "a new file in it": "echo x > .github/new.yml",
    "its mode": "chmod 777 .github",
    "its removal": "rm -rf .github; test ! -e .github",
    "its name": "mv .github aside",
    "a protected file": "echo exit 0 > ci/gates/stop.sh",
    "a file in its place": "echo exit 0 > new && mv -f new ci/gates/stop.sh",
    "its folder's name": "mv ci/gates aside && mkdir ci/gates && echo exit 0 > ci/gates/stop.sh",
    "the name of the folder above": "mv ci aside && mkdir -p ci/gates && echo exit 0 > ci/gates/stop.sh",
    "a second name": "ln Makefile twin && echo x >> twin",
    "its cover": "umount .github",
    "a file at the top": "sed -i s/a/b/ Makefile",
}
CONTROL = (
    "echo ok > src && mkdir -p ci/gates/d && echo ok > ci/gates/d/new && mv ci/gates/d/new ci/gates/also "
    "&& rm -r ci/gates/d && cat .github/workflows/ci.yml && mkdir -p .git && echo ok > .git/x && echo worked"
)


def plant(root: Path) -> None:
    """The protected files, and their neighbours, as the sandbox's user owns them."""
    for name in (".github/workflows/ci.yml", "ci/gates/stop.sh", "Makefile"):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("as it was\n")
    subprocess.run(["chown", "-R", f"{UID}:{GID}", str(root)], check=True)


def check(session: Session, root: Path) -> None:
    """Every attempt fails, no byte or name of a protected path changes, and work beside them goes on."""
    for what, command in TRIES.items():
        result = run(session, command)
        assert not result.ok, f"{what}: {command!r} worked: {result.stdout!r}"
    assert b"Read-only file system" in run(session, "echo x > .github/x").stderr
    assert run(session, CONTROL).stdout == b"as it was\nworked\n"
    assert sorted(p.name for p in (root / ".github").rglob("*")) == ["ci.yml", "workflows"]
    for name in (".github/workflows/ci.yml", "ci/gates/stop.sh", "Makefile"):
        assert (root / name).read_text() == "as it was\n", name
    assert (root / "ci/gates/also").read_text() == "ok\n"


@pytest.mark.parametrize("kind", HELPERS)
def test_commands_cannot_change_a_protected_path(tmp_path: Path, kind: str) -> None:
    """In the process backend where namespaces can be made; the same attempts work on an unprotected twin."""
    rig = Rig(tmp_path, kind, "root")
    plant(rig.root)
    check(rig.start(protected=PROTECTED), rig.root)
    rig.close()

    (tmp_path / "free").mkdir()
    free = Rig(tmp_path / "free", kind, "root")
    plant(free.root)
    session = free.start()
    assert run(session, TRIES["the name of the folder above"]).ok
    assert run(session, TRIES["a file in a protected folder"]).ok
    free.close()


@pytest.mark.parametrize("kind", HELPERS)
def test_a_normal_users_commands_cannot_change_a_protected_path(tmp_path: Path, kind: str) -> None:
    """The same without root, in a user namespace."""
    told = started_by(tmp_path, kind, "root", plant, protected=PROTECTED, commands=[*TRIES.values(), CONTROL])

    *tries, control = told["results"]
    assert [command for command, result in zip(TRIES.values(), tries, strict=True) if result[0] == 0] == []
    assert "Read-only file system" in tries[0][2]
    assert control[:2] == [0, "as it was\nworked\n"]
    assert told["report"]["ok"]


@pytest.mark.docker
@needs_engine
def test_commands_cannot_change_a_protected_path_in_a_container(tmp_path: Path) -> None:
    """The same in the container backend, by the engine's mounts."""
    root = workspace(tmp_path)
    plant(root)
    backend = ContainerBackend(
        image="debian:trixie-slim", run=f"test-{os.getpid()}", socket_path=ENGINE, helper=Path(helper("c")[0])
    )
    session = backend.start(SandboxSpec(Purpose.MAIN, str(root), protected=PROTECTED))
    try:
        check(session, root)
    finally:
        session.close()
        backend.close()


@pytest.mark.parametrize(
    ("protected", "allowed", "expected"),
    [
        ((".git", ".github", ".github/airlock.yml"), (), (".github", ".github/airlock.yml")),
        (("ci/", "/ci/x.sh", "ci"), (), ("ci", "ci/x.sh")),
        (("docs/**", "*.lock", "a[1]", "a/../b", ".", "", "sub/.GIT/hooks"), (), ()),
        ((".github", "ci/x.sh", "cinema"), (".github/labels.yml", "ci"), ("cinema",)),
        ((".github", "ci"), ("*.md",), ()),
        ((".github", "ci/x.sh"), ("/.GitHub/**",), ("ci/x.sh",)),
        ((".github/workflows", "ci/x.sh"), (".github/*/x.yml", "cinema/*"), ("ci/x.sh",)),
    ],
)
def test_which_paths_can_be_covered(
    protected: tuple[str, ...], allowed: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    """No pattern, no git folder, nothing that an allowed entry may reach into."""
    assert paths_to_cover(protected, allowed) == expected


def test_folders_on_the_way_are_mount_points_too(tmp_path: Path) -> None:
    """A folder above a mount could be renamed with it, so it is one itself; what is missing or a link gets none."""
    for name in ("ci/gates/stop.sh", "ci/other.sh", ".github/airlock.yml", "real/x"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "out").symlink_to("/etc")
    os.mkfifo(tmp_path / "pipe")
    top = str(tmp_path)

    made = covers_of(
        top,
        ("ci/gates/stop.sh", ".github/airlock.yml", ".github", "ci/other.sh", "link/x", "out", "pipe", "gone", "ci/no"),
    )

    assert made == (
        Mount("ro", f"{top}/.github", f"{top}/.github"),
        Mount("rw", f"{top}/ci", f"{top}/ci"),
        Mount("ro", f"{top}/ci/other.sh", f"{top}/ci/other.sh"),
        Mount("rw", f"{top}/ci/gates", f"{top}/ci/gates"),
        Mount("ro", f"{top}/ci/gates/stop.sh", f"{top}/ci/gates/stop.sh"),
    )
