"""A Python that an unprivileged user can start, with this environment's packages."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

USER = 1001


def reachable(path: Path) -> bool:
    """Whether everybody may pass every folder on the way to a file."""
    return all(parent.stat().st_mode & 0o001 for parent in path.resolve().parents)


def python_for_everybody(folder: Path) -> str | None:
    """This interpreter where everybody can reach it, else one of the system in a new environment; None without.

    Interpreters below /root (as version managers install them) cannot be started by another user at all.
    """
    if reachable(Path(sys.executable)):
        return sys.executable
    wanted = f"{sys.version_info.major}.{sys.version_info.minor}"
    for candidate in ("/usr/bin/python3", f"/usr/bin/python{wanted}", "/usr/local/bin/python3"):
        if not os.path.exists(candidate):
            continue
        version = subprocess.run([candidate, "-V"], capture_output=True, text=True, check=False).stdout
        if version.split()[-1:] and version.split()[-1].startswith(wanted + "."):
            home = folder / "python"
            subprocess.run([candidate, "-m", "venv", "--without-pip", str(home)], check=True, capture_output=True)
            packages = [p for p in sys.path if p.endswith("site-packages")]
            own = home / "lib" / f"python{wanted}" / "site-packages"
            (own / "here.pth").write_text("".join(f"{p}\n" for p in packages))
            return str(home / "bin" / "python")
    return None
