"""Secrets of a command line: taken from the environment variables that options name, and never from an argument.

Reading a variable leaves it in /proc/PID/environ, and deleting it does not change that. So the command starts itself
anew, with a clean environment and the values in an anonymous memory file, as `entrypoint.py` does.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from agent.contract.errors import UserError
from agent.kernel.prctl import no_core, set_non_dumpable

_MARK = "--airlock-secrets-fd="
_KEPT = ("PATH", "HOME", "LANG", "TERM", "TMPDIR")
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")


def take(
    command: str, argv: Sequence[str], wanted: Mapping[str, str], environment: Mapping[str, str]
) -> dict[str, str]:
    """The values, in a process whose environment holds none of them.

    Does not return in the process that was started: it becomes a new one, which is told by its last argument where
    the values are.

    Args:
        command: of `python -m agent`.
        argv: its arguments.
        wanted: variable to the option that names it.
        environment: this process's.

    Returns:
        Variable to value; the proxies of the environment under their own names, since they may hold a password.

    Raises:
        UserError: a variable is not set; the text names it and never a value.
    """
    if argv and argv[-1].startswith(_MARK):
        set_non_dumpable()
        no_core()
        with os.fdopen(int(argv[-1][len(_MARK) :]), "rb") as file:
            values: dict[str, str] = json.load(file)
        return values
    missing = [f"{option} names {name}" for name, option in wanted.items() if not environment.get(name)]
    if missing:
        raise UserError(f"{missing[0]}, and no such variable is set, or it is empty. Export it, then start again.")
    kept = {name: environment[name] for name in (*wanted, *_PROXIES) if environment.get(name)}
    fd = os.memfd_create("airlock-secrets", 0)
    data = json.dumps(kept).encode()
    while data:
        data = data[os.write(fd, data) :]
    os.lseek(fd, 0, os.SEEK_SET)
    os.set_inheritable(fd, True)
    program = [sys.executable, "-P", "-B", "-m", "agent", command, *argv, f"{_MARK}{fd}"]
    clean = {name: environment[name] for name in _KEPT if name in environment}
    clean["PYTHONPATH"] = str(Path(__file__).resolve().parent.parent)
    return os.execve(sys.executable, program, clean)  # noqa: S606 - no shell is wanted


def without_mark(argv: Sequence[str]) -> list[str]:
    """The arguments as they were typed."""
    return [argument for argument in argv if not argument.startswith(_MARK)]
