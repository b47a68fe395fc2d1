"""How git is started: time, size, errors, and a writer that fails."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.broker.git.batch import BatchReader
from agent.broker.git.run import OPTIONS, Git
from agent.broker.git.shadow import ShadowGit
from agent.contract.errors import UpstreamError


@pytest.fixture
def shadow(tmp_path: Path) -> ShadowGit:
    return ShadowGit.create(tmp_path / "shadow")


def slow_git(folder: Path, script: str) -> str:
    """A PATH on which `git` is this shell script."""
    folder.mkdir()
    program = folder / "git"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return f"{folder}:/usr/bin:/bin"


def test_a_command_that_hangs_is_killed_and_told(tmp_path: Path) -> None:
    """The time cap ends it, with its step named; nothing is left behind."""
    path = slow_git(tmp_path / "bin", f"echo $$ > {tmp_path}/pid; exec sleep 600")
    git = Git(tmp_path, search_path=path)

    for stdin in (b"", iter([b""])):
        with pytest.raises(UpstreamError, match=r"git config: took longer than 0.5 s"):
            git.run("config", "--list", stdin=stdin, timeout_s=0.5)
        with pytest.raises(ProcessLookupError):
            os.kill(int((tmp_path / "pid").read_text()), 0)


def test_output_beyond_the_limit_is_not_read(tmp_path: Path) -> None:
    """An endless output ends at the limit, at once."""
    git = Git(tmp_path, search_path=slow_git(tmp_path / "bin", "exec yes"))
    start = time.monotonic()

    assert git.run("config", "--list", limit=1000) == b"y\n" * 500
    assert time.monotonic() - start < 60


def test_a_failure_is_told_in_gits_words(shadow: ShadowGit) -> None:
    """An unknown object: git's own sentence, cut short, and no output."""
    with pytest.raises(UpstreamError, match="git ls-tree: fatal: "):
        shadow.git.run("ls-tree", "--end-of-options", "a" * 40)


@pytest.mark.parametrize("use", ["run", "reader"])
def test_a_missing_git_is_an_error_of_the_outside(tmp_path: Path, use: str) -> None:
    """No git on the PATH: told as such, not as our bug."""
    git = Git(tmp_path, search_path=str(tmp_path))

    with pytest.raises(UpstreamError, match="could not be started"):
        git.run("config", "--list") if use == "run" else BatchReader(git)


def test_an_error_of_the_writer_reaches_the_caller(shadow: ShadowGit) -> None:
    """When what is fed to git fails in the middle, that error is raised and git is ended."""

    def feed() -> Iterator[bytes]:
        yield b"PACK"
        raise UpstreamError("fetch", "lost")

    with pytest.raises(UpstreamError, match="fetch: lost"):
        shadow.git.run("index-pack", "--stdin", stdin=feed())


def test_thousands_of_objects_pass_through_one_reader(shadow: ShadowGit) -> None:
    """More than any pipe holds, in order, with empty and binary ones."""
    data = [bytes([n % 256]) * (n % 7) * 100 for n in range(3000)]
    shas = [shadow.write("blob", item) for item in data]

    with shadow.reader() as reader:
        read = list(reader.read_many(shas))

    assert read == [(sha, "blob", item) for sha, item in zip(shas, data, strict=True)]


def test_a_missing_object_is_an_error_and_the_reader_ends(shadow: ShadowGit) -> None:
    """Nothing is made up for an id that is not there."""
    with shadow.reader() as reader, pytest.raises(UpstreamError, match="is missing"):
        reader.read("a" * 40)


def test_a_leading_dash_is_a_name_after_the_end_of_options(shadow: ShadowGit) -> None:
    """What input supplies stands after `--end-of-options`, where it can be no option."""
    argv = shadow.git.argv("ls-tree", "-r", "--end-of-options", "--output=/tmp/x")

    assert argv[-2:] == ["--end-of-options", "--output=/tmp/x"]
    assert sorted(OPTIONS) == ["cat-file", "config", "diff-tree", "index-pack", "log", "ls-tree"]


def test_nothing_is_written_into_the_users_files(tmp_path: Path, shadow: ShadowGit) -> None:
    """The one configuration file that git is given is ours, names single folders, and never `*` (F16)."""
    git = Git(tmp_path / "shadow", safe=[tmp_path / 'odd "name'])
    text = (tmp_path / "shadow/airlock-global.config").read_text()

    listed = git.run("config", "--file", str(tmp_path / "shadow/airlock-global.config"), "-z", "--list").decode()
    assert listed == f'safe.directory\n{tmp_path}/shadow\0safe.directory\n{tmp_path}/odd "name\0'
    assert "*" not in text
