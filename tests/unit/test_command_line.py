"""The command line as a whole: help for every command, one form of error, an exit status for bad use."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from agent import __main__ as command_line
from agent import __version__
from tests.support.action import ROOT

NAMES = command_line._names()


def test_the_help_lists_every_command_that_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line.main([]) == 0
    shown = capsys.readouterr().out

    assert len(NAMES) == 10
    assert all(command_line._command(name) is not None for name in NAMES)
    assert all(f"\n  {name:12} " in shown for name in NAMES)
    assert command_line.main(["--version"]) == 0
    assert capsys.readouterr().out == f"airlock {__version__}\n"


@pytest.mark.parametrize("name", NAMES)
def test_every_command_tells_its_use_under_its_own_name(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`--help` is 0 and on standard output; an option that there is not is 2 and on standard error."""
    with pytest.raises(SystemExit) as helped:
        command_line.main([name, "--help"])
    shown = capsys.readouterr()
    with pytest.raises(SystemExit) as refused:
        command_line.main([name, "--no-such-option"])
    said = capsys.readouterr()

    assert (helped.value.code, shown.err) == (0, "")
    assert shown.out.startswith(f"usage: python -m agent {name} ")
    assert (refused.value.code, said.out) == (2, "")
    assert f"usage: python -m agent {name} " in said.err


def test_an_unknown_command_is_bad_use_and_the_near_one_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line.main(["replya"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == ("airlock: no such command: replya. Did you mean replay? `python -m agent --help` lists them.\n")


@pytest.mark.parametrize("name", command_line.CHECKOUT)
def test_what_needs_a_checkout_says_so_elsewhere(tmp_path: Path, name: str) -> None:
    """As in the image or a wheel: the package alone. The others work there."""
    shutil.copytree(ROOT / "agent", tmp_path / "agent", ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-m", "agent"]
    away = {"cwd": tmp_path, "env": {"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path)}, "check": False}
    done = subprocess.run([*command, name], capture_output=True, text=True, **away)  # type: ignore[call-overload]

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"airlock {name}: this needs a checkout of Airlock, and {tmp_path} is none.\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["explain", "--event", "{none}"],
        ["manifest", "--mode", "plan", "--config", "{none}"],
        ["demo", "--folder", "/proc/none"],
    ],
)
def test_a_file_that_cannot_be_had_is_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    """Of the machine's errors the words, with the file's name; never a traceback or an error's number."""
    none = str(tmp_path / "none")
    filled = [argument.format(none=none) for argument in arguments]

    assert command_line.main(filled) == 2
    assert capsys.readouterr().err == f"airlock {filled[0]}: {filled[-1]}: No such file or directory.\n"


def test_a_reader_that_goes_away_costs_no_traceback() -> None:
    """`python -m agent redteam --list | head -1`."""
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "agent", "redteam", "--list", "--all"]
    done = subprocess.run(command, cwd=ROOT, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)

    assert done.stderr == ""
