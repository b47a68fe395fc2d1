"""Looks for secrets where none may be: files, logs, requests, processes."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from pathlib import Path

from tests.support.oracles import canary_hits


def hits(data: bytes, secrets: Mapping[str, str]) -> list[str]:
    """Names and forms of secrets that occur in data."""
    return [f"{name}: {form}" for name, value in secrets.items() for form in canary_hits(data, value)]


def in_files(folder: Path, secrets: Mapping[str, str]) -> list[str]:
    """Files below a folder that hold a secret."""
    found = []
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink():
            found += [f"{path}: {hit}" for hit in hits(path.read_bytes(), secrets)]
    return found


class ProcessWatch:
    """Reads environment and arguments of every process below this one, again and again, as root would.

    A process that was below this one once stays watched, whoever its parent is later; what runs beside this test
    (another worker of the same suite) is not ours to judge. `seen` counts processes looked at, so that a test can tell
    watching from looking away.
    """

    def __init__(self, secrets: Mapping[str, str]) -> None:
        self.found: set[str] = set()
        self.seen: set[int] = set()
        self.commands: set[str] = set()
        self._secrets = secrets
        self._below = {os.getpid()}
        self._before = {int(p) for p in os.listdir("/proc") if p.isdigit()}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> ProcessWatch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(0.01):
            running = {int(p) for p in os.listdir("/proc") if p.isdigit()} - self._before
            for pid in sorted(running):  # a parent mostly has the smaller number
                if pid in self._below or _parent(pid) in self._below:
                    self._below.add(pid)
                    self._look(pid)

    def _look(self, pid: int) -> None:
        try:
            arguments = Path(f"/proc/{pid}/cmdline").read_bytes()
            environ = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            return
        if not arguments or arguments.endswith(b"/entrypoint.py\0"):
            # being started, or stage 1: the runner's own process, whose environment holds everything until it
            # execs itself. Arguments are read first, so those of a later stage mean
            # the environment of that stage or of a later one.
            return
        self.seen.add(pid)
        self.commands.add(arguments.replace(b"\0", b" ").decode("utf-8", "replace"))
        for kind, data in (("environ", environ), ("cmdline", arguments)):
            for hit in hits(data, self._secrets):
                self.found.add(f"{pid} {kind}: {hit}")


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, IndexError):
        return 0
