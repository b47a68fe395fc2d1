"""Namespaces and limits of the runner's own: what is under test may be what fails.

The whole runner (simulators included) starts itself anew with its own processes, network, mounts and a work folder of
limited size; the product alone is put into control groups with a limit on processes and memory.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

PIDS, MEMORY, DISK = 1500, 4 << 30, 3 << 30
WHOLE = "-"  # in place of control groups: everything here is in a container with limits
IN_CONTAINER = "/airlock-redteam"
ROOT = Path(__file__).resolve().parents[3]
UNSHARE = ["unshare", "--mount", "--net", "--pid", "--ipc", "--fork", "--kill-child", "--mount-proc"]


def why_not() -> str | None:
    """The sentence that says why namespaces cannot be had here, or None."""
    if os.getuid() != 0:
        return "namespaces with limits need root here"
    if not shutil.which("unshare") or not shutil.which("mount"):
        return "unshare and mount (util-linux) are not on PATH"
    done = subprocess.run([*UNSHARE, "true"], capture_output=True, text=True, check=False)
    if done.returncode:
        return f"namespaces cannot be made: {done.stderr.strip()}"
    return None


def make_groups() -> tuple[list[Path], str | None]:
    """Control groups that limit processes and memory (v1 or v2), or the reason why there are none."""
    name = f"airlock-redteam-{os.getpid()}"
    base = Path("/sys/fs/cgroup")
    made: list[Path] = []
    try:
        if (base / "pids").is_dir() and (base / "memory").is_dir():
            for kind, file, value in (("pids", "pids.max", PIDS), ("memory", "memory.limit_in_bytes", MEMORY)):
                group = base / kind / name
                group.mkdir()
                made.append(group)
                (group / file).write_text(str(value))
            return made, None
        controllers = (base / "cgroup.subtree_control").read_text().split()
        if {"pids", "memory"} <= set(controllers):
            group = base / name
            group.mkdir()
            made.append(group)
            (group / "pids.max").write_text(str(PIDS))
            (group / "memory.max").write_text(str(MEMORY))
            return made, None
    except OSError as exc:
        drop_groups(made)
        return [], f"no control group can be made: {exc.strerror}"
    return [], "no control group for processes and memory is at hand"


def drop_groups(groups: Sequence[Path]) -> None:
    """Ends what is in the groups and removes them, which the kernel refuses until the last process is gone."""
    for group in groups:
        for _ in range(100):
            with contextlib.suppress(OSError):
                for line in (group / "cgroup.procs").read_text().split():
                    os.kill(int(line), 9)
            with contextlib.suppress(OSError):
                group.rmdir()
            if not group.exists():
                break
            time.sleep(0.05)


def start_inside(argv: Sequence[str]) -> int:
    """Runs this program anew inside namespaces; returns its exit status."""
    groups, trouble = make_groups()
    if trouble:
        print(f"redteam: {trouble}; the dangerous cases are left out", file=sys.stderr)
    work = Path(tempfile.mkdtemp(prefix="airlock-redteam-"))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that nothing of it is left: process, group, mount
    # The small disk is mounted out here, so that an engine, which is out here too, sees the workspace on it.
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK},mode=0755", "tmpfs", str(work)], check=True)
    inner = [sys.executable, "-m", "tests.support.redteam", "--inside", str(work), ",".join(map(str, groups)), *argv]
    try:
        return subprocess.run([*UNSHARE, *inner], cwd=ROOT, check=False).returncode
    finally:
        drop_groups(groups)
        subprocess.run(["umount", "--lazy", str(work)], check=False)
        work.rmdir()


def start_in_container(argv: Sequence[str], image: str, *, readable: Sequence[Path], keep: Path | None) -> int:
    """Runs this program anew in a container as an engine makes it by default, less the network; its exit status.

    Args:
        image: has Python and what the product needs.
        readable: further files and folders that the cases are in.
        keep: folder for what is kept.
    """
    command = ["docker", "run", "--rm", "--init", "--network=none", f"--pids-limit={PIDS}", f"--memory={MEMORY}"]
    command += [f"--tmpfs={IN_CONTAINER}:exec,mode=0755,size={DISK}", f"--workdir={ROOT}", "--entrypoint=python3"]
    command += [part for path in dict.fromkeys((ROOT, *readable)) for part in ("-v", f"{path}:{path}:ro")]
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        command += ["-v", f"{keep.resolve()}:{keep.resolve()}"]
    inner = ["-B", "-m", "tests.support.redteam", "--inside", IN_CONTAINER, WHOLE, *argv]
    return subprocess.run([*command, image, *inner], check=False).returncode


def settle() -> None:
    """First thing inside namespaces: a loopback, a metadata address and a name server that are ours."""

    def run(*command: str) -> None:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"redteam: {' '.join(command)}: {done.stderr.strip()}", file=sys.stderr)

    run("mount", "--make-rprivate", "/")
    if shutil.which("ip"):
        run("ip", "link", "set", "lo", "up")
        run("ip", "addr", "add", "169.254.169.254/32", "dev", "lo")
    else:
        _loopback_up()
    with tempfile.NamedTemporaryFile("w", prefix="airlock-redteam-") as resolver:
        resolver.write("nameserver 127.0.0.1\noptions timeout:1 attempts:1\n")
        resolver.flush()
        os.chmod(resolver.name, 0o644)
        run("mount", "--bind", resolver.name, "/etc/resolv.conf")


def _loopback_up() -> None:
    import fcntl
    import socket
    import struct

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        fcntl.ioctl(sock, 0x8914, struct.pack("16sh14x", b"lo", 0x1 | 0x40))
