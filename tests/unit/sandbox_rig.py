"""Starts sandboxes for tests, under both helpers and every level, and looks for what they leave behind."""

from __future__ import annotations

import dataclasses
import functools
import os
import subprocess
import tempfile
from pathlib import Path

from agent.contract.sandbox import ExecRequest, ExecResult, Purpose, SandboxSpec
from agent.sandbox.build import helper_command, standin_command
from agent.sandbox.process import ProcessBackend
from agent.sandbox.session import Session

ROOT = os.geteuid() == 0
UID, GID = (20001, 20001) if ROOT else (os.getuid(), os.getgid())
HELPERS = ("c", "python")
LEVELS = ("root", "net", "bare")


@functools.cache
def helper(kind: str) -> list[str]:
    """Argument list of a helper; the C one is built by the product's own code."""
    if kind == "python":
        return standin_command()
    built = helper_command(Path(tempfile.gettempdir(), f"airlock-test-helper-{os.geteuid()}"))
    assert "-c" not in built, "no compiler: the C helper cannot be tested"
    return built


def workspace(path: Path) -> Path:
    """A writable root owned by the sandbox's user."""
    root = path / "ws"
    root.mkdir()
    os.chown(root, UID, GID)
    return root


class Rig:
    """One workspace and the sandboxes started on it."""

    def __init__(self, path: Path, kind: str, level: str, base: str | None = None) -> None:
        self.root = workspace(path)
        self.backend = ProcessBackend(helper=helper(kind), levels=(level,), base=base)
        self.kind, self.level = kind, level
        self.sessions: list[Session] = []

    def start(self, **changes: object) -> Session:
        spec = dataclasses.replace(SandboxSpec(Purpose.MAIN, str(self.root)), **changes)  # type: ignore[arg-type]
        session = self.backend.start(spec)
        self.sessions.append(session)
        return session

    def close(self) -> None:
        for session in self.sessions:
            session.close()


def run(session: Session, command: str, timeout_s: float = 30, cap: int = 400_000, cwd: str = ".") -> ExecResult:
    return session.exec(ExecRequest(command, timeout_s=timeout_s, output_cap=cap, cwd=cwd))


def alive(token: str) -> list[str]:
    """Command lines on this machine that hold a token, seen from outside the sandbox."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            try:
                line = Path("/proc", name, "cmdline").read_bytes()
            except OSError:
                continue
            if token.encode() in line:
                found.append(line.decode("utf-8", "replace"))
    return found


def tree_of(pid: int) -> list[int]:
    """A process and all below it."""
    done = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True)
    pairs = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]
    found = [pid]
    for known in found:
        found += [child for child, parent in pairs if parent == known]
    return found
