"""The Python stand-in for `helper.c`: the same protocol and the same confinement, where no compiler is.

It is started by the trusted side's interpreter before any uid changes, with everything imported: commands
are children of this process, which forks, confines the child and executes the shell in it. What it speaks
and what it guards against is written at the head of `helper.c`.
"""

from __future__ import annotations

import os
import resource
import select
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NoReturn

from agent.contract.sandbox import ExecResult
from agent.kernel import landlock, prctl, seccomp
from agent.kernel.landlock import FileRule
from agent.sandbox import acts, namespaces, processes
from agent.sandbox.protocol import FRAME_CAP, KILLED_NOT, LENGTH, MAX_OUTPUT, encode_done, frame, split, strings

_TICK_S = 0.1
_ARITY = {"filter": 2, "limit": 2, "rule": 3, "mount": 3}


class _Gone(Exception):
    """The trusted side closed the channel."""


def _read(size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = os.read(0, size - len(data))
        if not part:
            raise _Gone
        data += part
    return bytes(data)


def _receive() -> tuple[bytes, bytes]:
    size = LENGTH.unpack(_read(4))[0]
    if not 1 <= size <= FRAME_CAP:
        raise _Gone
    body = _read(size)
    return body[:1], body[1:]


def _send(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


@dataclass
class _Orders:
    """A plan as it came over the wire."""

    single: dict[str, str] = field(default_factory=dict)
    many: dict[str, list[tuple[str, ...]]] = field(default_factory=dict)

    @classmethod
    def parse(cls, body: bytes) -> _Orders:
        orders, words = cls(), split(body)
        while words:
            key, *rest = words
            count = _ARITY.get(key, 1)
            if count > 1 or key in ("level", "env", "arg"):
                orders.many.setdefault(key, []).append(tuple(rest[:count]))
            else:
                orders.single[key] = rest[0]
            words = rest[count:]
        return orders

    def number(self, key: str) -> int:
        return int(self.single[key])


class _Capture:
    """One output stream: its head and its tail within the cap, the rest counted."""

    def __init__(self, cap: int, uid: int, gid: int) -> None:
        # Made as the command's user: opening /dev/stderr anew asks for the pipe's owner.
        prctl.libc.setfsgid(gid)
        prctl.libc.setfsuid(uid)
        self.fd, self.writer = os.pipe()
        prctl.libc.setfsuid(os.geteuid())
        prctl.libc.setfsgid(os.getegid())
        prctl.set_non_dumpable()  # a change of uid resets it to a system-wide setting
        os.set_blocking(self.fd, False)
        self.open = True
        self._head, self._tail = bytearray(), bytearray()
        self._head_cap, self._tail_cap = cap // 2, cap - cap // 2
        self._after_head = 0

    def read(self, rounds: int) -> None:
        for _round in range(rounds if self.open else 0):
            try:
                data = os.read(self.fd, 1 << 16)
            except BlockingIOError:
                return
            if not data:
                self.close()
                return
            room = self._head_cap - len(self._head)
            self._head += data[:room]
            self._tail += data[room:] if room > 0 else data
            self._after_head += max(0, len(data) - max(room, 0))
            if len(self._tail) > 4 * self._tail_cap + (1 << 16):
                del self._tail[: len(self._tail) - self._tail_cap]

    def close(self) -> None:
        if self.open:
            os.close(self.fd)
            self.open = False

    def result(self) -> tuple[bytes, int, int]:
        """Kept bytes, bytes dropped, length of the head where something was dropped."""
        dropped = max(0, self._after_head - self._tail_cap)
        tail = self._tail[-self._tail_cap :]
        return bytes(self._head + tail), dropped, len(self._head) if dropped else 0


class _Helper:
    """Stage 1: the confined root of the commands."""

    def __init__(self, orders: _Orders, level: str) -> None:
        self._orders = orders
        self._own_processes = level.startswith("root")
        self._uid, self._gid = orders.number("uid"), orders.number("gid")
        self._root = orders.single["root"]
        self._program = bytes.fromhex(next(f[1] for f in orders.many["filter"] if f[0] == level))
        self._caps = {key: orders.number(key) for key in ("memory", "pids", "reserve", "growth")}
        self._set_up(level)

    def _set_up(self, level: str) -> None:
        form, network = level.split("-")
        root = os.geteuid() == 0
        if form != "bare" and not root:
            namespaces.map_user(self._uid, self._gid)
        if form != "bare" and network == "none":
            namespaces.loopback_up()
        if form == "root":
            mounts = [(m[0], m[1], m[2]) for m in self._orders.many["mount"]]
            namespaces.enter_root(self._orders.single["stage"], mounts)
        # Opened now: later the uid that owns nothing may not get there.
        self._disks = tuple(os.open(p, os.O_PATH | os.O_DIRECTORY) for p in (self._root, self._orders.single["tmp"]))
        self._devnull = os.open("/dev/null", os.O_RDWR)
        rules = [
            FileRule(path, int(rights, 16))
            for only, rights, path in self._orders.many["rule"]
            if only == "any" or form == "root"
        ]
        self._ruleset = landlock.make_ruleset(rules, scope=True)
        prctl.keep_capabilities((prctl.CAP_SETUID, prctl.CAP_SETGID, prctl.CAP_KILL) if root else ())
        prctl.no_new_privs()
        prctl.become_subreaper()
        seccomp.install(self._program)  # last, and once: commands inherit it

    def _confine(self, folder: str, parent: int) -> None:
        for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # the interpreter ignores both, and exec keeps that
            signal.signal(ignored, signal.SIG_DFL)
        os.setsid()
        for number, most in self._orders.many["limit"]:
            hard = resource.getrlimit(int(number))[1]
            value = int(most) if hard == resource.RLIM_INFINITY else min(int(most), hard)
            resource.setrlimit(int(number), (value, value))
        prctl.drop_to(self._uid, self._gid)
        prctl.keep_capabilities(())
        prctl.die_with_parent()
        if os.getppid() != parent:
            raise prctl.ConfinementError("parent: gone")
        for path in (self._root, folder):
            try:
                os.chdir(path)
            except OSError as exc:
                raise prctl.ConfinementError(f"enter folder: {exc.strerror}") from exc
        landlock.enforce(self._ruleset)

    def _execute(self, folder: str, command: str) -> NoReturn:
        argv = [a for (a,) in self._orders.many["arg"]]
        env = dict(e.split("=", 1) for (e,) in self._orders.many["env"])
        env["PWD"] = self._root if folder == "." else f"{self._root}/{folder}"
        os.execve(argv[0], [*argv, command], env)  # noqa: S606 - the shell of the plan, already confined

    def serve(self) -> None:
        """Answer requests until the channel closes."""
        while True:
            kind, body = _receive()
            words = split(body)
            if kind == b"T":
                self._run(5.0, 65536, ".", _Attempt(words))
            elif kind == b"X" and len(words) == 4:
                timeout, cap, folder, command = words
                start = _Start(self._execute, folder, command)
                self._run(int(timeout) / 1000, min(int(cap), MAX_OUTPUT), folder, start)
            else:
                return

    def _run(self, timeout_s: float, cap: int, folder: str, body: Callable[[], object]) -> None:
        survivors = processes.sweep(own_processes=self._own_processes)
        out, err = (_Capture(cap, self._uid, self._gid) for _stream in range(2))
        trouble, told = os.pipe()
        started, helper = time.monotonic(), os.getpid()
        before = [processes.room(fd, self._caps["reserve"]) for fd in self._disks]
        child = os.fork()
        if child == 0:
            self._child(folder, helper, (out.writer, err.writer), told, body)
        for fd in (out.writer, err.writer, told):
            os.close(fd)
        status, timed_out, reason = self._wait(child, out, err, started + timeout_s, before)
        survivors += processes.sweep(own_processes=self._own_processes)
        for stream in (out, err):
            stream.read(64)  # every writer is dead: what is left fits the pipe
            stream.close()
        words = os.read(trouble, 512)
        os.close(trouble)
        if words:
            _send(frame(b"E", words))
            return
        (stdout, out_dropped, out_head), (stderr, err_dropped, err_head) = out.result(), err.result()
        result = ExecResult(
            exit_code=os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
            signal=os.WTERMSIG(status) if os.WIFSIGNALED(status) else None,
            timed_out=timed_out,
            stdout=stdout,
            stderr=stderr,
            stdout_dropped=out_dropped,
            stderr_dropped=err_dropped,
            stdout_head=out_head,
            stderr_head=err_head,
            survivors=survivors,
            duration_ms=(time.monotonic() - started) * 1000,
        )
        _send(encode_done(result, reason))

    def _child(
        self, folder: str, helper: int, writers: tuple[int, int], told: int, body: Callable[[], object]
    ) -> NoReturn:
        try:
            for target, fd in enumerate((self._devnull, *writers)):
                os.dup2(fd, target)
            self._confine(folder, helper)
            body()
        except (OSError, prctl.ConfinementError) as exc:
            os.write(told, str(exc).encode()[:500])
        finally:
            os._exit(127)

    def _wait(
        self, child: int, out: _Capture, err: _Capture, deadline: float, before: list[tuple[bool, int, int]]
    ) -> tuple[int, bool, int]:
        poll = select.poll()
        watcher = os.pidfd_open(child)
        poll.register(0, select.POLLRDHUP)
        for fd in (watcher, out.fd, err.fd):
            poll.register(fd, select.POLLIN)
        tick = time.monotonic() + _TICK_S
        timed_out, reason = False, KILLED_NOT
        try:
            while True:
                ready = poll.poll(max(0.0, min(deadline, tick) - time.monotonic()) * 1000 + 1)
                if any(fd == 0 for fd, _events in ready):
                    os.kill(child, signal.SIGKILL)
                    raise _Gone
                for stream in (out, err):
                    was_open = stream.open
                    stream.read(16)
                    if was_open and not stream.open:
                        poll.unregister(stream.fd)
                now = time.monotonic()
                if now >= tick and not reason and not timed_out:
                    reason = processes.watch(self._caps, self._disks, before)
                    tick = time.monotonic() + _TICK_S
                if (now >= deadline or reason) and not timed_out:
                    timed_out = now >= deadline and not reason
                    os.kill(child, signal.SIGKILL)
                    deadline = tick = now + 60
                while (found := os.waitpid(-1, os.WNOHANG))[0]:
                    if found[0] == child:
                        return found[1], timed_out, reason
        finally:
            os.close(watcher)


@dataclass(frozen=True)
class _Start:
    execute: Callable[[str, str], NoReturn]
    folder: str
    command: str

    def __call__(self) -> NoReturn:
        self.execute(self.folder, self.command)


@dataclass(frozen=True)
class _Attempt:
    words: list[str]

    def __call__(self) -> NoReturn:
        os.write(1, acts.attempt(self.words))
        os._exit(0)


def _stage_one(orders: _Orders, level: str, notes: list[str], told: int) -> NoReturn:
    try:
        prctl.die_with_parent()
        try:
            helper = _Helper(orders, level)
        except (OSError, prctl.ConfinementError) as exc:
            os.write(told, str(exc).encode()[:500])
            os._exit(1)
        os.write(told, b"+")
        os.close(told)
        _send(frame(b"R", strings(level, *notes)))
        helper.serve()
    except (OSError, _Gone):
        pass  # the channel broke or closed: the sandbox ends with it
    finally:
        processes.sweep(own_processes=level.startswith("root"))
        os._exit(0)


def main() -> None:
    """Read the plan, take the strongest level that can be made, serve, and clean up."""
    prctl.set_non_dumpable()
    prctl.no_core()
    prctl.close_other_fds([0, 1, 2])
    os.umask(0o022)
    processor = prctl.machine()
    try:
        orders = _Orders.parse(_receive()[1])
    except (_Gone, ValueError, IndexError):
        _send(frame(b"E", b"the plan is not one"))
        return
    prctl.become_subreaper()
    notes: list[str] = []
    for (level,) in orders.many["level"]:
        heard, told = os.pipe()
        try:
            child = namespaces.clone_like_fork(level, processor)
        except prctl.ConfinementError as exc:
            notes += [level, str(exc)]
            continue
        if child == 0:
            os.close(heard)
            _stage_one(orders, level, notes, told)
        os.close(told)
        words = os.read(heard, 512)
        os.close(heard)
        if words == b"+":
            # From here on: only wait, and clean up should the helper be killed.
            for fd in (0, 1):
                os.close(fd)
            os.waitpid(child, 0)
            processes.sweep(own_processes=False)
            return
        os.waitpid(child, 0)
        notes += [level, words.decode("utf-8", "replace")]
    _send(frame(b"E", "; ".join(notes).encode()))
