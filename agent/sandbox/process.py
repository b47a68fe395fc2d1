"""The process backend: a helper that confines itself, started once per sandbox. No container engine needed.

The helper is `helper.c`, compiled once into a folder that only this user can write, or the one that an
image ships; where neither can be had, `helper.py` speaks the same protocol. It is started by vfork and
exec with an empty environment, never by a fork of this process.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import pwd
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

from agent.contract.errors import AirlockError, UpstreamError
from agent.contract.sandbox import ProbeItem, ProbeReport, SandboxSpec
from agent.sandbox.facts import owner_of, read_machine, users_with
from agent.sandbox.policy import Folders, plan_for
from agent.sandbox.probe import ProbeTargets, probe
from agent.sandbox.protocol import encode_plan
from agent.sandbox.session import Session

SOURCE = Path(__file__).with_name("helper.c")
INSTALLED = Path("/usr/local/lib/airlock/helper")  # where the image puts it
_BUILD_ENV = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C", "TMPDIR": "/tmp"}  # noqa: S108
_STANDIN = "import sys; sys.path.insert(0, {path!r}); from agent.sandbox.helper import main; main()"


def standin_command() -> list[str]:
    """How the Python stand-in is started: isolated, so that no file of a workspace is imported."""
    package = str(Path(__file__).resolve().parents[2])
    return [sys.executable, "-I", "-S", "-c", _STANDIN.format(path=package)]


def helper_command(cache: Path | None = None) -> list[str]:
    """The strongest helper that can be had here, as an argument list.

    Args:
        cache: folder for the compiled helper; by default one in this user's home or below /tmp.
    """
    if _trusted(INSTALLED):
        return [str(INSTALLED)]
    built = _compiled(cache or _cache_folder())
    return [str(built)] if built else standin_command()


def _cache_folder() -> Path:
    uid = os.geteuid()
    try:
        home = Path(pwd.getpwuid(uid).pw_dir)
    except KeyError:
        home = Path("/nonexistent")
    if home.is_dir() and os.access(home, os.W_OK) and home != Path("/"):
        return home / ".cache" / "airlock"
    return Path(tempfile.gettempdir()) / f"airlock-{uid}"


def _trusted(path: Path) -> bool:
    """Nobody but root or this user can have written the file or its folder."""
    for item in (path, path.parent):
        try:
            about = item.lstat()
        except OSError:
            return False
        if stat.S_ISLNK(about.st_mode) or about.st_uid not in (0, os.geteuid()) or about.st_mode & 0o022:
            return False
    return True


def _compiled(cache: Path) -> Path | None:
    """The helper built from this very source, from the cache or by the compiler; None without one."""
    source = SOURCE.read_bytes()
    target = cache / f"helper-{hashlib.sha256(source).hexdigest()[:16]}"
    if _trusted(target):
        return target
    compiler = next((c for name in ("cc", "gcc", "clang") if (c := shutil.which(name, path=_BUILD_ENV["PATH"]))), None)
    if compiler is None:
        return None
    try:
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _trusted(cache / "x") and cache.lstat().st_mode & 0o022:
            return None  # someone else's folder: a helper from there could be anything
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            made = Path(folder, "helper")
            for link in (["-static"], []):
                command = [compiler, "-O2", *link, "-o", str(made), str(SOURCE)]
                done = subprocess.run(command, env=_BUILD_ENV, capture_output=True, check=False, timeout=60)
                if done.returncode == 0:
                    made.chmod(0o755)
                    made.replace(target)
                    break
    except (OSError, subprocess.TimeoutExpired):
        return None
    return target if _trusted(target) else None


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
        self._base = base or tempfile.gettempdir()
        self._levels = levels
        self._owner = (uid, gid) if uid is not None and gid is not None else None

    def start(self, spec: SandboxSpec) -> Session:
        """Start one sandbox.

        Raises:
            Refusal: it would run as root, or this kernel has no Landlock.
            UpstreamError: the helper could not be started or could not confine itself.
        """
        uid, gid = self._owner or owner_of(spec.root)
        machine = read_machine(uid, gid)
        if self._helper is None:
            self._helper = helper_command()
        folder = tempfile.mkdtemp(prefix="airlock-", dir=self._base)
        os.chmod(folder, 0o711)  # noqa: S103 - its user must pass through, and need not list
        folders = Folders(*(f"{folder}/{name}" for name in ("home", "tmp", "root", "passwd")))
        for path in (folders.home, folders.tmp, folders.stage):
            os.mkdir(path, 0o700)
            if os.geteuid() == 0 and path != folders.stage:
                os.chown(path, uid, gid)
        if not machine.named:
            Path(folders.passwd).write_text(users_with(machine, folders.home), "utf-8", "surrogateescape")
        plan = plan_for(spec, machine, folders)
        if self._levels is not None:
            kept = tuple(level for level in plan.levels if level.name.split("-")[0] in self._levels)
            plan = dataclasses.replace(plan, levels=kept)
        ours, theirs = socket.socketpair()
        try:
            process = subprocess.Popen(
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
            shutil.rmtree(folder, ignore_errors=True)
            raise UpstreamError("start sandbox", f"{self._helper[0]}: {exc.strerror}") from exc
        finally:
            theirs.close()
        session = Session(process, ours, folder)
        try:
            session.begin(encode_plan(plan))
        except UpstreamError:
            session.close()
            raise
        return session

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
