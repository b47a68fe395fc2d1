"""The process backend: a helper that confines itself, started once per sandbox. No container engine needed.

The helper is `helper.c`, compiled once into a folder that only this user can write, or the one that an
image ships; where neither can be had, `helper.py` speaks the same protocol. It is started by vfork and
exec with an empty environment, never by a fork of this process.
"""

from __future__ import annotations

import os
import select
import socket
import subprocess
from contextlib import suppress
from pathlib import Path

from agent.contract.dataclass import replace
from agent.contract.errors import AirlockError, UpstreamError
from agent.contract.sandbox import ProbeItem, ProbeReport, Purpose, SandboxSpec
from agent.kernel.passable import make_passable
from agent.sandbox.covers import covers_of
from agent.sandbox.facts import owner_of, read_machine, users_with
from agent.sandbox.homes import Homes
from agent.sandbox.policy import Folders, plan_for
from agent.sandbox.probe import ProbeTargets, probe
from agent.sandbox.protocol import encode_plan
from agent.sandbox.session import Session, remove_tree


class ProcessBackend:
    """Starts sandboxes as confined process trees on this machine.

    Attributes:
        name: `process`.
    """

    name = "process"

    def __init__(
        self,
        *,
        helper: list[str] | None = None,
        base: str | None = None,
        levels: tuple[str, ...] | None = None,
        uid: int | None = None,
        gid: int | None = None,
    ) -> None:
        """Prepare; nothing is started yet.

        Args:
            helper: argument list of the helper; by default `helper_command()` at the first start.
            base: folder for each sandbox's HOME and TMPDIR, searchable by every uid.
            levels: only these forms of confinement (`root`, `net`, `bare`) are tried; tests use it.
            uid, gid: whom commands run as; by default the owner of the sandbox's root.
        """
        self._helper = helper
        self._base = base or "/tmp"  # noqa: S108 - a new folder with a random name is made in it
        self._levels = levels
        self._owner = (uid, gid) if uid is not None and gid is not None else None
        self._homes = Homes(self._base)

    def start(self, spec: SandboxSpec) -> Session:
        """Start one sandbox.

        Raises:
            Refusal: it would run as root, or this kernel has no Landlock.
            UpstreamError: the helper could not be started or could not confine itself.
        """
        uid, gid = self._owner or owner_of(spec.root)
        for path in spec.mounts:
            if not os.path.isdir(path) or os.path.realpath(path) != path:  # a link would show what was not named
                raise UpstreamError(
                    "start sandbox", f"the mount {path} is no folder here; a container would get it from the runner"
                )
        machine = read_machine(uid, gid)
        if self._helper is None:
            from agent.sandbox.build import helper_command

            self._helper = helper_command()
        folder = f"{self._base}/airlock-{os.urandom(6).hex()}"
        make_passable(Path(folder))
        folders = Folders(*(f"{folder}/{name}" for name in ("home", "tmp", "root", "passwd")))
        for path in (folders.home, folders.tmp, folders.stage):
            os.mkdir(path, 0o700)
            if os.geteuid() == 0 and path != folders.stage:
                os.chown(path, uid, gid)
        self._homes.fill(folders.home)
        if not machine.named:
            with open(folders.passwd, "w", encoding="utf-8", errors="surrogateescape") as file:
                file.write(users_with(machine, folders.home))
        plan = plan_for(spec, machine, folders, covers_of(spec.root, spec.protected, spec.at))
        if self._levels is not None:
            kept = tuple(level for level in plan.levels if level.name.split("-")[0] in self._levels)
            plan = replace(plan, levels=kept)
        ours, theirs = socket.socketpair()
        try:
            process = _Helper(
                self._helper,
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
                stderr=subprocess.DEVNULL,
                env={},
                cwd="/",
                close_fds=True,
            )
        except OSError as exc:
            ours.close()
            remove_tree(folder)
            raise UpstreamError("start sandbox", f"{self._helper[0]}: {exc.strerror}") from exc
        finally:
            theirs.close()
        clean = self._keep_home if spec.purpose is Purpose.SETUP else remove_tree
        session = Session(process, ours, lambda: clean(folder))
        try:
            session.begin(encode_plan(plan))
        except UpstreamError:
            session.close()
            raise
        return session

    def close(self) -> None:
        """Remove what setup left for later sandboxes. Sandboxes are closed by whoever started them."""
        self._homes.close()

    def _keep_home(self, folder: str) -> None:
        self._homes.keep(f"{folder}/home")
        remove_tree(folder)

    def probe(self, spec: SandboxSpec, targets: ProbeTargets) -> ProbeReport:
        """Start a sandbox of this spec, ask it to do forbidden things, and end it.

        A sandbox that cannot be started is reported as not ok, never raised: the run then refuses
        shell-tier modes and says why.
        """
        try:
            session = self.start(spec)
        except AirlockError as exc:
            item = ProbeItem("start a sandbox", held=False, detail=str(exc))
            return ProbeReport(self.name, ok=False, loopback=False, items=(item,))
        try:
            return probe(session, spec.root, targets, backend=self.name)
        finally:
            session.close()


class _Helper(subprocess.Popen[bytes]):
    """A helper's process. The kernel tells its end; the standard `wait` sleeps up to 50 ms longer, once a sandbox."""

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None and timeout is not None:
            with suppress(OSError, AttributeError):  # it has ended and was reaped; a Python of old headers has no pidfd
                watcher = os.pidfd_open(self.pid)
                try:
                    poll = select.poll()
                    poll.register(watcher, select.POLLIN)
                    poll.poll(timeout * 1000)
                finally:
                    os.close(watcher)
        return super().wait(timeout)
