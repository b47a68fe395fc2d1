"""Where the helper comes from: never from a place that somebody else could have written."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from agent.sandbox import build
from agent.sandbox.build import helper_command, helper_name, standin_command

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="no compiler")


@pytest.fixture(autouse=True)
def no_installed_helper(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As outside the image."""
    monkeypatch.setattr(build, "INSTALLED", tmp_path / "absent")


@needs_compiler
def test_helper_is_compiled_once(tmp_path: Path) -> None:
    """The first call compiles into a private folder, the second takes what is there."""
    cache = tmp_path / "cache"
    first = helper_command(cache)
    made = Path(first[0]).stat()
    second = helper_command(cache)

    assert first == second
    assert Path(second[0]).stat() == made
    assert made.st_mode & 0o7777 == 0o755
    assert cache.stat().st_mode & 0o7777 == 0o700
    assert [p.name for p in cache.iterdir()] == [Path(first[0]).name]


@needs_compiler
def test_compiled_helper_has_no_warning_and_needs_no_library(tmp_path: Path) -> None:
    """It runs in any image, so it is static; the source compiles cleanly."""
    done = subprocess.run(
        ["cc", "-O2", "-Wall", "-Wextra", "-Werror", "-static", "-o", str(tmp_path / "h"), str(build.SOURCE)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    kind = subprocess.run(["ldd", str(tmp_path / "h")], capture_output=True, text=True, check=False)
    assert "not a dynamic executable" in kind.stderr + kind.stdout


@needs_compiler
@pytest.mark.parametrize("mode", [0o777, 0o720])
def test_helper_in_a_folder_others_can_write_is_not_used(tmp_path: Path, mode: int) -> None:
    """A cache that another user could have filled gives the stand-in, and is left alone."""
    cache = tmp_path / "cache"
    cache.mkdir()
    planted = helper_name()
    (cache / planted).write_text("#!/bin/sh\necho planted\n")
    (cache / planted).chmod(0o755)
    cache.chmod(mode)

    assert helper_command(cache) == standin_command()


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user's file")
@pytest.mark.parametrize("what", ["folder", "file", "link"])
def test_helper_of_another_user_is_not_used(tmp_path: Path, what: str) -> None:
    """A planted folder, file or link of another user is no helper."""
    name = helper_name()
    cache = tmp_path / "cache"
    cache.mkdir(mode=0o700)
    (cache / name).write_text("#!/bin/sh\necho planted\n")
    (cache / name).chmod(0o755)
    if what == "folder":
        os.chown(cache, 20001, 20001)
    if what == "file":
        os.chown(cache / name, 20001, 20001)
    if what == "link":
        (cache / name).unlink()
        (cache / name).symlink_to("/bin/true")
    command = helper_command(cache)

    if what == "folder":
        assert command == standin_command()
    else:  # ours to write: it was replaced by the real one
        assert Path(command[0]).read_bytes()[:4] == b"\x7fELF"
        assert not Path(command[0]).is_symlink()


def test_without_a_compiler_the_stand_in_speaks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bare machine still has a sandbox."""
    monkeypatch.setitem(build._BUILD_ENV, "PATH", str(tmp_path))
    assert helper_command(tmp_path / "cache") == standin_command()
