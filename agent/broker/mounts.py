"""Which folders of the runner `ai.agent.sandbox.mounts` may show to commands. Pure.

House rules: a folder is named by its plain absolute path; none that is, holds or lies in a place of ours, of the
runner or of the engine is shown, whoever asks for it; none may cover what a sandbox is made of. The list is
trusted configuration, so this keeps a mistake from handing out a credential or a way out, not an enemy.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

# Sockets that lead out (read-only does not close a socket), the kernel's own, the engine's data, our own places.
_CLOSED = (
    "/proc", "/sys", "/dev", "/run", "/var/run", "/root", "/github",
    "/var/lib/docker", "/var/lib/containerd", "/var/lib/kubelet",
    "/var/lib/airlock", "/airlock", "/airlock-git", "/airlock-home",
)  # fmt: skip
# What every image has of its own: folders in them may be shown, they themselves would be covered.
_SYSTEM = ("/bin", "/etc", "/home", "/lib", "/lib32", "/lib64", "/sbin", "/tmp", "/usr", "/var")  # noqa: S108
_CREDENTIALS = frozenset(
    {".aws", ".azure", ".config", ".docker", ".git", ".git-credentials", ".gnupg", ".kube", ".netrc", ".ssh"}
)


def refused_mount(path: str, private: Sequence[str]) -> str | None:
    """Why a folder may not be shown to commands, or None when it may.

    Args:
        path: what configuration names.
        private: absolute paths of this run that no mount may touch: the workspace (commands have it already, and
            writable), Airlock's folders, the runner's temporary ones, the real git folders.
    """
    if not path.startswith("/") or path.startswith("//") or posixpath.normpath(path) != path or "\0" in path:
        return "is no plain absolute path"
    for place in (*_CLOSED, *private):
        if _within(path, place):
            return f"lies in {place}" if path != place else "is closed to commands"
        if _within(place, path):
            return f"holds {place}"
    if path in _SYSTEM:
        return "would cover the sandbox's own"
    hidden = [part for part in path.split("/") if part.lower() in _CREDENTIALS]
    return f"is a place of credentials ({hidden[0]})" if hidden else None


def _within(path: str, place: str) -> bool:
    return path == place or path.startswith(place.rstrip("/") + "/")
