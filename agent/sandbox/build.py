"""Finds or builds the helper: the image's own, a compiled one in a folder of this user alone, or the stand-in.

Imported only when a helper is needed: it brings a hash and file copying along that a start does without.
"""

from __future__ import annotations

import hashlib
import os
import pwd
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

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


def helper_name() -> str:
    """File name of the helper built from this very source."""
    return f"helper-{hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:16]}"


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
    target = cache / helper_name()
    if _trusted(target):
        return target
    compiler = next((c for name in ("cc", "gcc", "clang") if (c := shutil.which(name, path=_BUILD_ENV["PATH"]))), None)
    if compiler is None:
        return None
    try:
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        about = cache.lstat()
        if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.geteuid() or about.st_mode & 0o022:
            return None  # someone else's folder: a helper from there could be anything
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            made = Path(folder, "helper")
            for link in (["-static"], []):
                command = [compiler, "-O2", *link, "-o", str(made), str(SOURCE)]
                done = subprocess.run(command, env=_BUILD_ENV, capture_output=True, check=False, timeout=60)
                # A parent that reaps every child (launch) may leave no status: the file is what counts.
                if done.returncode == 0 and made.is_file():
                    made.chmod(0o755)
                    made.replace(target)
                    break
    except (OSError, subprocess.TimeoutExpired):
        return None
    return target if _trusted(target) else None
