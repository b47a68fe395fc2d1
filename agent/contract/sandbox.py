"""What the broker asks of a sandbox and what it gets back. Backends implement it; launch forwards it."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Self

from agent.contract.dataclass import asdict, dataclass, field, replace

UNPRIVILEGED = 61001
"""Owner of the workspace for the run where it belongs to uid 0; no account has this id."""


def unprivileged(uid: int, gid: int) -> tuple[int, int]:
    """Who harness and commands run as where we are root: the workspace's owner, and never user or group 0."""
    return (uid, gid or uid) if uid else (UNPRIVILEGED, UNPRIVILEGED)


class Purpose(StrEnum):
    """Why a sandbox exists. A gate (stop, prepush) gets a fresh one of its own."""

    MAIN = "main"
    SETUP = "setup"
    STOP = "stop"
    PREPUSH = "prepush"


@dataclass(frozen=True)
class SandboxSpec:
    """One sandbox to start.

    Attributes:
        purpose: why it exists.
        root: absolute path of the writable root, the working directory of its commands.
        at: where commands find the root, wherever a sandbox can show it at another path than its own; empty:
            at its own.
        network: True only for setup, or where `ai.agent.sandbox.network` is `open`.
        readable: further absolute paths that commands may read (tool caches, git objects).
        mounts: folders of the runner that commands may read, as `ai.agent.sandbox.mounts` says; an engine is
            asked for them by these names, wherever this process runs.
        protected: paths below the root, relative to it, that commands find read-only where they exist, as depth.
        env: additions from trusted configuration, filtered again by `sandbox.env` (S2).
        memory_mb, pids: caps.
        file_mb: largest file a command may write.
        backend: `auto`, `container` or `process`, as trusted configuration says.
        image: container image, empty for the default.
    """

    purpose: Purpose
    root: str
    at: str = ""
    network: bool = False
    readable: tuple[str, ...] = ()
    mounts: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    memory_mb: int = 4096
    pids: int = 512
    file_mb: int = 2048
    backend: str = "auto"
    image: str = ""

    @property
    def read_only(self) -> tuple[str, ...]:
        """All that commands may read outside the root and find at its own path."""
        return (*self.readable, *self.mounts)

    @property
    def place(self) -> str:
        """Where the root stands for commands."""
        return self.at or self.root

    def shown_at(self, place: str) -> Self:
        """This sandbox with its root standing at `place`, and with nothing readable of what stands there else."""
        return replace(self, at=place, readable=tuple(p for p in self.readable if not p.startswith(place + "/")))

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        values = dict(data)
        values["purpose"] = Purpose(values["purpose"])
        for name in ("readable", "mounts", "protected"):
            values[name] = tuple(values.get(name, ()))
        return cls(**values)


@dataclass(frozen=True)
class ExecRequest:
    """One command.

    Attributes:
        command: text for `sh -c` (bash where the sandbox has it).
        timeout_s: seconds until the whole tree is killed.
        output_cap: bytes kept of each stream, head and tail halves; what lies between is counted, not kept.
        cwd: directory relative to the sandbox's root.
    """

    command: str
    timeout_s: float = 120.0
    output_cap: int = 400_000
    cwd: str = "."

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class ExecResult:
    """What `wait` said of one command, never text the command printed.

    Attributes:
        exit_code: 0-255, or None when it ended by a signal.
        signal: signal number, or None.
        timed_out: the time cap ended it.
        stdout, stderr: bytes kept; where `*_dropped` is not 0, that many bytes are missing in the middle,
            after the first `*_head` bytes.
        stdout_dropped, stderr_dropped: bytes not kept.
        stdout_head, stderr_head: length of the head part when something was dropped.
        survivors: processes that were still alive when the command ended and were killed.
        duration_ms: wall clock.
    """

    exit_code: int | None
    signal: int | None
    timed_out: bool
    stdout: bytes
    stderr: bytes
    stdout_dropped: int = 0
    stderr_dropped: int = 0
    stdout_head: int = 0
    stderr_head: int = 0
    survivors: int = 0
    duration_ms: float = 0.0

    @property
    def ok(self) -> bool:
        """True only for exit status 0 within the time cap."""
        return self.exit_code == 0 and not self.timed_out

    def to_frame(self) -> tuple[dict[str, Any], bytes]:
        """Header and payload for a channel."""
        header = asdict(self)
        header["stdout"], header["stderr"] = len(self.stdout), len(self.stderr)
        return header, self.stdout + self.stderr

    @classmethod
    def from_frame(cls, header: dict[str, Any], payload: bytes) -> Self:
        """Inverse of `to_frame`; header keys that are not fields are ignored."""
        values = {k: header[k] for k in cls.__dataclass_fields__ if k in header}
        cut = values["stdout"]
        values["stdout"], values["stderr"] = payload[:cut], payload[cut : cut + values["stderr"]]
        return cls(**values)


@dataclass(frozen=True)
class ProbeItem:
    """One forbidden act tried in the sandbox.

    Attributes:
        name: what was tried, such as `connect out`.
        held: True when it failed as it must.
        detail: the kernel's own words.
    """

    name: str
    held: bool
    detail: str


@dataclass(frozen=True)
class ProbeReport:
    """Result of the probe at start (DESIGN section 7).

    Attributes:
        backend: `process` or `container`.
        ok: every item held; else shell-tier modes are refused.
        loopback: commands can use loopback servers of their own.
        items: in the order tried.
        missing: protections this kernel lacks, in words.
    """

    backend: str
    ok: bool
    loopback: bool
    items: tuple[ProbeItem, ...] = ()
    missing: tuple[str, ...] = ()

    def refusal(self) -> str:
        """Sentences for the report of a run that may not go on, since its sandbox does not hold."""
        failed = [f"{item.name}: {item.detail}" for item in self.items if not item.held]
        return f"The sandbox did not pass its probe, so nothing may run in it. {'; '.join((*failed, *self.missing))}"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        return cls(
            backend=data["backend"],
            ok=data["ok"],
            loopback=data["loopback"],
            items=tuple(ProbeItem(**i) for i in data["items"]),
            missing=tuple(data["missing"]),
        )
