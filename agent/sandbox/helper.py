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
from typing import NoReturn

from agent.contract.dataclass import dataclass
from agent.contract.sandbox import ExecResult
from agent.kernel import landlock, prctl, seccomp
from agent.kernel.landlock import FileRule
from agent.sandbox import acts, namespaces, processes
from agent.sandbox.capture import Capture
from agent.sandbox.orders import Orders
from agent.sandbox.protocol import FRAME_CAP, KILLED_NOT, LENGTH, MAX_OUTPUT, encode_done, frame, split, strings

_TICK_S = 0.1


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


class _Helper:
    """Stage 1: the confined root of the commands."""

    def __init__(self, orders: Orders, level: str) -> None:
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
            self._root = self._orders.single["at"]
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
        out, err = (Capture(cap, self._uid, self._gid) for _stream in range(2))
        trouble, told = os.pipe()
        started, helper = time.monotonic(), os.getpid()
        before = processes.Before.now(self._disks, self._caps["reserve"])
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
        self, child: int, out: Capture, err: Capture, deadline: float, before: processes.Before
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


def _stage_one(orders: Orders, level: str, notes: list[str], told: int) -> NoReturn:
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
        orders = Orders.parse(_receive()[1])
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
