"""The container backend: a sibling container whose PID 1 is the helper, spoken to over its attached streams.

Only launch can use it, since only launch is given the engine's socket. The helper is put into whatever
image the user names, so that commands run in it without a shell of theirs in between. What the container is
allowed is one value (`container_options`), compared whole by a test.
"""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agent.contract.errors import UpstreamError
from agent.contract.sandbox import Purpose, SandboxSpec
from agent.kernel.landlock import landlock_abi
from agent.kernel.passable import make_passable
from agent.kernel.prctl import machine
from agent.sandbox.attached import Attached, Container
from agent.sandbox.build import helper_command
from agent.sandbox.container_image import STEP, has_bash, require_image
from agent.sandbox.covers import covers_of
from agent.sandbox.facts import owner_of
from agent.sandbox.homes import Homes
from agent.sandbox.outside import Own, binds, outside
from agent.sandbox.policy import Folders, Machine, Mount, container_plan_for
from agent.sandbox.protocol import encode_plan
from agent.sandbox.session import Session, remove_tree

SOCKET = "/var/run/docker.sock"
LABEL = "airlock.run"
HELPER_FOLDER = "/airlock"
FOLDERS = Folders("/airlock-home", "/tmp", "/airlock", "/etc/passwd")  # noqa: S108 - the container's own
_TMPFS_MB = 1024
_CPU_SHARES = 512  # half of what the runner's own processes have: commands use what is free and starve nobody
_SPARE_PROCESSES = 8  # helper, its parent, and what the engine itself runs


def load_client() -> None:
    """Import what speaks to the engine: 0.1 s and 28 MB, so in launch alone, and only where it may be used."""
    import docker.errors  # noqa: F401 - loaded in this thread, used by `start`


def container_options(
    spec: SandboxSpec,
    *,
    image: str,
    uid: int,
    gid: int,
    run: str,
    own: Own | None = None,
    home: str = "",
    covers: Sequence[Mount] = (),
) -> dict[str, Any]:
    """The engine's request for one sandbox: configuration, and under `HostConfig` what it may do. Pure.

    Args:
        spec: the sandbox.
        image: any Linux image with a shell.
        uid, gid: whom commands run as; they own the tmpfs folders.
        run: value of the label by which a later step finds and removes what was left behind.
        own: our own container, where we run in one.
        home: folder that is HOME, by default a fresh tmpfs.
        covers: mounts inside the writable root that keep protected paths as they are (`sandbox.covers`).

    Raises:
        UpstreamError: a path of the spec lies in no mount of ours.
    """
    private = f"exec,mode=0700,uid={uid},gid={gid},size={_TMPFS_MB}m"
    memory = spec.memory_mb << 20
    return {
        "Image": image,
        "Entrypoint": [f"{HELPER_FOLDER}/helper"],
        "Cmd": [],
        "User": "0:0",
        "Env": [],
        "WorkingDir": "/",
        "Hostname": "sandbox",
        "Labels": {LABEL: run},
        "AttachStdin": True,
        "AttachStdout": True,
        "AttachStderr": False,
        "OpenStdin": True,
        "StdinOnce": True,
        "Tty": False,
        "HostConfig": {
            "NetworkMode": "bridge" if spec.network else "none",
            "Binds": [
                *binds(spec.root, spec.readable, own.mounts if own else None, at=spec.at),
                *(f"{outside(m.source, own.mounts if own else None)}:{m.target}:{m.kind}" for m in covers),
                *([f"{outside(home, own.mounts if own else None)}:{FOLDERS.home}:rw"] if home else []),
            ],
            # as mounts and no binds: the engine makes a bind's folder where it is missing, on the runner, as root
            "Mounts": [
                {"Type": "volume", "Target": HELPER_FOLDER, "VolumeOptions": {"Labels": {LABEL: run}}},
                *({"Type": "bind", "Source": p, "Target": p, "ReadOnly": True} for p in spec.mounts),
            ],
            "ReadonlyRootfs": True,
            "Tmpfs": {FOLDERS.tmp: private, **({} if home else {FOLDERS.home: private})},
            "CapDrop": ["ALL"],
            "CapAdd": ["SETUID", "SETGID", "KILL"],
            "SecurityOpt": ["no-new-privileges"],
            "PidsLimit": spec.pids + _SPARE_PROCESSES,
            "Memory": memory,
            "MemorySwap": memory,
            "CpuShares": _CPU_SHARES,
            "ShmSize": memory // 4,
            "IpcMode": "private",
            "Sysctls": {} if spec.network else {"net.ipv6.conf.all.disable_ipv6": "0"},  # ::1 beside 127.0.0.1
            "ExtraHosts": ["sandbox:127.0.0.1"],
            "LogConfig": {"Type": "none", "Config": {}},
            "RestartPolicy": {"Name": "no"},
            "AutoRemove": False,
        },
    }


class ContainerBackend:
    """Starts sandboxes as sibling containers.

    Attributes:
        name: `container`.
    """

    name = "container"

    def __init__(
        self,
        *,
        image: str,
        run: str,
        socket_path: str = SOCKET,
        helper: Path | None = None,
        uid: int | None = None,
        gid: int | None = None,
        own: Own | None = None,
        base: str | None = None,
    ) -> None:
        """Prepare; the engine is asked at the first start.

        Args:
            image: image of the sandbox.
            run: label value of this run's containers.
            socket_path: the engine's socket.
            helper: a static helper; by default the installed or a compiled one.
            uid, gid: whom commands run as; by default the owner of the sandbox's root.
            own: our own container, where we run in one: paths are translated by its mounts.
            base: folder that the engine can reach too, in which setup's HOME is kept; without one it is lost.
        """
        self._base = base
        self._homes = Homes(base or "/nonexistent")
        self._own = own
        self._image = image
        self._run = run
        self._socket = socket_path
        self._path = helper
        self._owner = (uid, gid) if uid is not None and gid is not None else None
        self._client: Any = None

    def start(self, spec: SandboxSpec) -> Session:
        """Start one sandbox.

        Raises:
            Refusal: it would run as root.
            UpstreamError: no engine, no image, none with a shell, no compiled helper, or it could not start.
        """
        import docker.errors

        uid, gid = self._owner or owner_of(spec.root)
        container: Container | None = None
        home = self._home(spec, uid, gid)
        try:
            client = self._engine()
            require_image(client, self._image)
            options = container_options(
                spec,
                image=self._image,
                uid=uid,
                gid=gid,
                run=self._run,
                own=self._own,
                home=home,
                covers=covers_of(spec.root, spec.protected, spec.at),
            )
            container = Container(client, client.create_container_from_config(options)["Id"])
            bash = has_bash(client, container.number, self._image)
            client.put_archive(container.number, HELPER_FOLDER, self._archive())
            attached = client.attach_socket(
                container.number, params={"stdin": 1, "stdout": 1, "stream": 1, "stderr": 0, "logs": 0}
            )
            client.start(container.number)
        except (docker.errors.DockerException, UpstreamError, OSError) as exc:
            if container is not None:
                container.remove()
            self._drop(home)
            if isinstance(exc, UpstreamError):
                raise
            raise UpstreamError(STEP, str(exc)) from exc
        facts = Machine(machine(), max(landlock_abi(), 1), uid, gid, "airlock", 0, (), bash=bash)
        removed = container

        def clean() -> None:
            removed.remove()
            if spec.purpose is Purpose.SETUP and home:
                self._homes.keep(home)
            self._drop(home)

        session = Session(container, Attached(getattr(attached, "_sock", attached)), clean)
        try:
            session.begin(encode_plan(container_plan_for(spec, facts, FOLDERS)))
        except UpstreamError:
            session.close()
            raise
        return session

    def close(self) -> None:
        """Remove what setup left for later sandboxes."""
        self._homes.close()

    def _home(self, spec: SandboxSpec, uid: int, gid: int) -> str:
        """A folder for HOME where setup fills it or has filled it; else the empty text, and HOME is a tmpfs."""
        if self._base is None or not (spec.purpose is Purpose.SETUP or self._homes.kept):
            return ""
        folder = f"{self._base}/airlock-{os.urandom(6).hex()}"
        home = f"{folder}/home"
        make_passable(Path(folder))
        os.mkdir(home, 0o700)
        self._homes.fill(home)
        if os.geteuid() == 0:
            os.chown(home, uid, gid)
        return home

    @staticmethod
    def _drop(home: str) -> None:
        if home:
            remove_tree(os.path.dirname(home))

    def remove_leftovers(self) -> int:
        """Remove every container of this run but our own, whatever became of the session; returns how many."""
        client = self._engine()
        found = client.containers(all=True, filters={"label": f"{LABEL}={self._run}"})
        left = [entry for entry in found if self._own is None or entry["Id"] != self._own.number]
        for entry in left:
            Container(client, entry["Id"]).remove()
        return len(left)

    def _engine(self) -> Any:
        if self._client is None:
            import docker  # see `load_client`

            self._client = docker.APIClient(base_url=f"unix://{self._socket}", version="auto", timeout=60)
        return self._client

    def _archive(self) -> bytes:
        if self._path is None:
            command = helper_command()
            if len(command) > 1:
                raise UpstreamError(STEP, "no compiled helper, and no compiler to build one")
            self._path = Path(command[0])
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            entry = tarfile.TarInfo("helper")
            entry.size, entry.mode = os.path.getsize(self._path), 0o755
            with self._path.open("rb") as file:
                archive.addfile(entry, file)
        return packed.getvalue()
