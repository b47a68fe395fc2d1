"""Asks a sandbox to do forbidden things and reports the kernel's own words (DESIGN section 7).

The acts run in a child under exactly a command's confinement, so that the probe needs no program of the
sandbox and cannot be answered by one. Listeners are real and ours: an act counts as held only if it
failed *and* nothing arrived. Controls show that the sandbox is not simply broken: a command runs, the root
is writable.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from agent.contract.dataclass import dataclass, field
from agent.contract.errors import AirlockError
from agent.contract.sandbox import ExecRequest, ExecResult, ProbeItem, ProbeReport
from agent.kernel.landlock import landlock_abi, missing
from agent.sandbox.policy import LEVEL_WORDS
from agent.sandbox.session import Session

DOCKER_SOCKETS = ("/var/run/docker.sock", "/run/docker.sock")
_CONTROL = "airlock-probe"


@dataclass(frozen=True)
class ProbeTargets:
    """What the sandbox is asked to reach, beside the probe's own canary and listeners.

    Attributes:
        unreadable: further files or folders it must not read (secrets, the real git folder).
        unwritable: existing folders it must not create a file in (git folders, the state folder).
        pids: processes it must not look into, trace or signal (launch, broker, harness).
        docker_sockets: engine sockets tried where they exist.
        network: True when the sandbox is meant to have a network: reaching out is then no failure.
    """

    unreadable: tuple[str, ...] = ()
    unwritable: tuple[str, ...] = ()
    pids: tuple[int, ...] = ()
    docker_sockets: tuple[str, ...] = DOCKER_SOCKETS
    network: bool = False


@dataclass
class _Listeners:
    """Sockets of the host that nothing may arrive at."""

    tcp: socket.socket
    udp: socket.socket
    unix: socket.socket
    abstract: socket.socket
    canary: str
    unix_path: str
    abstract_name: str
    reached: set[str] = field(default_factory=set)

    def poll(self) -> None:
        """Note which of them heard something."""
        for name, sock in (("tcp", self.tcp), ("unix", self.unix), ("abstract", self.abstract)):
            try:
                sock.accept()[0].close()
                self.reached.add(name)
            except BlockingIOError:
                pass
        try:
            self.udp.recv(16)
            self.reached.add("udp")
        except BlockingIOError:
            pass


@contextmanager
def _listeners() -> Iterator[_Listeners]:
    """World-readable canary and world-writable sockets: only the confinement can refuse them."""
    folder = f"/tmp/airlock-probe-{os.urandom(6).hex()}"  # noqa: S108 - new, and of a random name
    canary, unix_path, name = f"{folder}/canary", f"{folder}/sock", os.path.basename(folder)
    os.mkdir(folder, 0o700)
    with ExitStack() as stack:
        stack.callback(os.rmdir, folder)
        os.chmod(folder, 0o755)  # noqa: S103 - the uid must not be what stops the act
        with open(canary, "w", encoding="utf-8") as file:
            stack.callback(os.unlink, canary)
            file.write("canary")
        os.chmod(canary, 0o666)  # noqa: S103
        tcp, udp = socket.socket(), socket.socket(type=socket.SOCK_DGRAM)
        unix, abstract = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
        for sock in (tcp, udp, unix, abstract):
            stack.callback(sock.close)
            sock.setblocking(False)
        tcp.bind(("127.0.0.1", 0))
        udp.bind(("127.0.0.1", 0))
        unix.bind(unix_path)
        stack.callback(os.unlink, unix_path)
        os.chmod(unix_path, 0o666)  # noqa: S103
        abstract.bind("\0" + name)
        for sock in (tcp, unix, abstract):
            sock.listen(4)
        yield _Listeners(tcp, udp, unix, abstract, canary, unix_path, name)


@dataclass(frozen=True)
class _Act:
    name: str
    act: str
    argument: str
    listener: str | None = None
    made: str | None = None


def _exactly(path: str) -> str:
    """A path with the identity of what lies there now, so that another file of that name is no breach."""
    try:
        about = os.stat(path)
    except OSError:
        return f"0:0:{path}"
    return f"{about.st_dev}:{about.st_ino}:{path}"


def _acts(targets: ProbeTargets, ears: _Listeners) -> list[_Act]:
    acts = [
        _Act("read a canary outside", "read", _exactly(ears.canary)),
        _Act("write outside", "write", _exactly(ears.canary)),
        _Act("connect to a unix socket outside", "unix", ears.unix_path, "unix"),
        _Act("become root", "root", ""),
    ]
    if not targets.network or landlock_abi() >= 6:  # else an abstract name shares the open network
        acts.append(_Act("connect to an abstract socket", "abstract", ears.abstract_name, "abstract"))
    if not targets.network:
        acts.append(_Act("connect out by TCP", "tcp", str(ears.tcp.getsockname()[1]), "tcp"))
        acts.append(_Act("send by UDP", "udp", str(ears.udp.getsockname()[1]), "udp"))
    acts += [_Act(f"read {path}", "read", _exactly(path)) for path in targets.unreadable]
    for path in targets.unwritable:
        made = f"{path}/{_CONTROL}-{os.urandom(4).hex()}"
        acts.append(_Act(f"write {path}", "create", made, made=made))
    acts += [_Act(f"reach {path}", "unix", path) for path in targets.docker_sockets if os.path.exists(path)]
    for pid in (p for p in targets.pids if p > 0):
        for name, act in (
            ("read the environment of", "environ"),
            ("read the memory of", "mem"),
            ("trace", "trace"),
            ("signal", "signal"),
        ):
            acts.append(_Act(f"{name} process {pid}", act, str(pid)))
    return acts


def probe(session: Session, root: str, targets: ProbeTargets, *, backend: str = "process") -> ProbeReport:
    """Try every act in a running sandbox.

    Args:
        session: the sandbox under test; it stays usable.
        root: its writable root.
        targets: what it must not reach.

    Returns:
        The report. `ok` is False when an act worked, when something arrived at a listener, or when a
        control failed.
    """
    items: list[ProbeItem] = []
    loopback = False
    with _listeners() as ears:
        acts = _acts(targets, ears)
        try:
            errors = session.attempt([*((a.act, a.argument) for a in acts), ("loopback", "4"), ("loopback", "6")])
            controls = _controls(session, root)
        except AirlockError as exc:
            broken = ProbeItem("run a command", held=False, detail=str(exc))
            return ProbeReport(backend, ok=False, loopback=False, items=(broken,), missing=_missing(session))
        ears.poll()
        if len(errors) != len(acts) + 2:
            items.append(ProbeItem("answer every act", held=False, detail=f"{len(errors)} of {len(acts) + 2} answers"))
        for act, code in zip(acts, errors, strict=False):
            arrived = act.listener in ears.reached
            if act.made is not None and os.path.lexists(act.made):
                arrived = True
                os.unlink(act.made)
            # A datagram or file that stays in the sandbox's own network or root is lost: only arrival counts.
            held = not arrived and (code != 0 or act.act == "udp" or act.made is not None)
            lost = "it stayed inside, nothing arrived" if held else "it worked"
            detail = "it arrived" if arrived else os.strerror(code) if code else lost
            items.append(ProbeItem(act.name, held=held, detail=detail))
        loopback = errors[-2:] == [0, 0] or (len(errors) == len(acts) + 2 and errors[-2] == 0)
        items += controls
    return ProbeReport(backend, all(i.held for i in items), loopback, tuple(items), _missing(session))


def _controls(session: Session, root: str) -> list[ProbeItem]:
    name = f".{_CONTROL}-{os.urandom(4).hex()}"
    result: ExecResult = session.exec(ExecRequest(f"echo control > {name} && cat {name}", timeout_s=10))
    path = os.path.join(root, name)
    wrote = os.path.lexists(path)
    if wrote:
        os.unlink(path)
    worked = result.ok and result.stdout == b"control\n"
    words = result.stderr.decode("utf-8", "replace").strip() or f"exit status {result.exit_code}"
    return [
        ProbeItem("control: a command runs", held=worked, detail="it worked" if worked else words),
        ProbeItem("control: the root is writable", held=wrote, detail="it worked" if wrote else words),
    ]


def _missing(session: Session) -> tuple[str, ...]:
    """What this machine could not do, in words."""
    lacks = list(missing(landlock_abi()))
    for level, reason in session.notes:
        lacks.append(f"no {LEVEL_WORDS[level.split('-')[0]]} ({reason})")
    if session.level.split("-")[0] in ("net", "bare"):
        lacks.append("protected paths can be written by commands (commit and push refuse the change)")
        lacks.append("gates run at a path of their own, where scripts that name the workspace's are not found")
    if session.level.startswith("bare"):
        lacks.append("no loopback: every socket family is refused" if session.level == "bare-none" else "")
    return tuple(text for text in lacks if text)
