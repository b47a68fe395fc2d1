"""Acts that a hostile process tries from inside its confinement, and the child that tries them.

Run as `python -m tests.unit.confine_acts SETTINGS_JSON`: confines itself with the product's own call, then
tries each act and prints `{act: "done" | "refused: <errno name>"}`. Everything is imported beforehand.
"""

from __future__ import annotations

import ctypes
import errno
import json
import mmap
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from typing import Any

from agent.kernel import confine, seccomp
from agent.kernel.prctl import libc, machine

NUMBERS = {
    "x86_64": {"getpid": 39, "pidfd_open": 434, "seccomp": 317},
    "aarch64": {"getpid": 172, "pidfd_open": 434, "seccomp": 277},
}


def raw(number: int | None, *args: int) -> int:
    """A system call by number; raises OSError with its errno."""
    result = libc.syscall(ctypes.c_long(number or 0), *[ctypes.c_long(a) for a in args])
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return int(result)


def call(name: str, *args: int) -> int:
    return raw(seccomp.number(name, machine()), *args)


def connect_unix(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(path)


def connect_tcp(port: int) -> None:
    with socket.socket() as s:
        s.connect(("127.0.0.1", port))


def pair() -> None:
    one, other = socket.socketpair()
    one.send(b"x")
    one.close()
    other.close()


def read(path: str) -> None:
    with open(path, "rb") as file:
        file.read()


def write(path: str) -> None:
    with open(path, "w") as file:
        file.write("x")


def read_mem(pid: int) -> None:
    with open(f"/proc/{pid}/maps") as maps:
        start = int(maps.readline().split("-")[0], 16)
    with open(f"/proc/{pid}/mem", "rb") as mem:
        mem.seek(start)
        mem.read(16)


def vm_read(pid: int) -> None:
    buffer = ctypes.create_string_buffer(8)
    local = (ctypes.c_void_p * 2)(ctypes.addressof(buffer), 8)
    remote = (ctypes.c_void_p * 2)(0x1000, 8)
    try:
        call("process_vm_readv", pid, ctypes.addressof(local), 1, ctypes.addressof(remote), 1, 0)
    except OSError as exc:
        if exc.errno != errno.EFAULT:  # the address is not mapped: the access itself was let through
            raise


def steal_fd(pid: int) -> None:
    fd = raw(NUMBERS[machine()]["pidfd_open"], pid, 0)
    call("pidfd_getfd", fd, 1, 0)


def ptrace_attach(pid: int) -> None:
    call("ptrace", 0x4206, pid, 0, 0)  # PTRACE_SEIZE


def int80_socket() -> None:
    """The 32-bit door on x86_64: mov eax, 359 (socket); int 0x80; ret."""
    if machine() != "x86_64":
        raise OSError(errno.EPERM, "no 32-bit door here")
    code = b"\x53\xb8\x67\x01\x00\x00\xbb\x02\x00\x00\x00\xb9\x01\x00\x00\x00\x31\xd2\xcd\x80\x5b\xc3"
    area = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    area.write(code)
    function = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(area)))
    result = function()
    if result < 0:
        raise OSError(-result, os.strerror(-result))


def x32_getpid() -> None:
    if machine() != "x86_64":
        raise OSError(errno.EPERM, "no x32 here")
    raw(0x40000000 + NUMBERS["x86_64"]["getpid"])


def run_program() -> None:
    os.posix_spawn("/bin/true", ["true"], {})


def fork() -> None:
    if os.fork() == 0:
        os._exit(0)


def thread() -> None:
    made = threading.Thread(target=int)
    made.start()
    made.join()


def truncate(path: str) -> None:
    os.truncate(path, 0)


def acts(s: dict[str, Any]) -> dict[str, Callable[[], object]]:
    """Every act by name; `s` names the victim's pid, paths outside and addresses of live listeners."""
    victim = s["victim"]
    table: dict[str, Callable[[], object]] = {
        "read environ": lambda: read(f"/proc/{victim}/environ"),
        "read mem": lambda: read_mem(victim),
        "list fds": lambda: os.listdir(f"/proc/{victim}/fd"),
        "ptrace": lambda: ptrace_attach(victim),
        "process_vm_readv": lambda: vm_read(victim),
        "pidfd_getfd": lambda: steal_fd(victim),
        "kill": lambda: os.kill(victim, signal.SIGCONT),
        "kill parent": lambda: os.kill(os.getppid(), 0),
        "unix socket 0666": lambda: connect_unix(s["unix"]),
        "abstract socket": lambda: connect_unix("\0" + s["abstract"]),
        "tcp": lambda: connect_tcp(s["port"]),
        "socket inet": lambda: socket.socket(socket.AF_INET).close(),
        "socket inet6": lambda: socket.socket(socket.AF_INET6).close(),
        "socket unix": lambda: socket.socket(socket.AF_UNIX).close(),
        "socket vsock": lambda: socket.socket(socket.AF_VSOCK).close(),
        "socket netlink": lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0).close(),
        "socket netfilter": lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12).close(),
        "socket packet": lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW).close(),
        "socket alg": lambda: socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET).close(),
        "socket 32-bit": int80_socket,
        "x32 call": x32_getpid,
        "io_uring": lambda: call("io_uring_setup", 8, 0),
        "bpf": lambda: call("bpf", 0, 0, 0),
        "keyctl": lambda: call("keyctl", 0, 0xFFFFFFFD, 0),
        "unshare user": lambda: call("unshare", 0x10000000),
        "clone user": lambda: call("clone", 0x10000000 | 17, 0, 0, 0, 0),
        "clone3": lambda: call("clone3", 0, 0),
        "mount": lambda: call("mount", 0, 0, 0, 0, 0),
        "userfaultfd": lambda: call("userfaultfd", 1),
        "perf": lambda: call("perf_event_open", 0, 0, -1, -1, 0),
        "setuid 0": lambda: os.setuid(0),
        "setgroups": lambda: os.setgroups([0]),
        "exec": run_program,
        "fork": fork,
        "thread": thread,
        "shared memory": lambda: call("shmget", 0, 4096, 0o1600),
        "read outside": lambda: read(s["canary"]),
        "write outside": lambda: open(s["canary"], "a").close(),
        "truncate outside": lambda: truncate(s["canary"]),
        "create outside": lambda: open(s["canary"] + ".new", "w").close(),
        "list outside": lambda: os.listdir(os.path.dirname(s["canary"])),
        "read through link": lambda: read(os.path.join(s["workspace"], "link")),
        "rename out": lambda: os.rename(os.path.join(s["workspace"], "file"), s["canary"] + ".moved"),
        "mknod": lambda: os.mknod(os.path.join(s["workspace"], "node"), 0o600 | 0o020000, os.makedev(1, 3)),
        "socketpair": pair,
        "read workspace": lambda: read(os.path.join(s["workspace"], "file")),
        "write workspace": lambda: write(os.path.join(s["workspace"], "made")),
        "rename workspace": lambda: os.rename(
            os.path.join(s["workspace"], "made"), os.path.join(s["workspace"], "sub", "moved")
        ),
        "read code": lambda: read(s["readable"]),
        "write code": lambda: open(s["readable"], "a").close(),
        "kill self": lambda: os.kill(os.getpid(), 0),
        "inherited channel": lambda: os.write(s["channel"], b"hello"),
    }
    return table


def attempt(act: Callable[[], object]) -> str:
    try:
        act()
    except OSError as exc:
        return f"refused: {errno.errorcode.get(exc.errno or 0, exc.errno)}"
    return "done"


def main() -> None:
    s = json.loads(sys.argv[1])
    table = acts(s)
    match s["zone"]:
        case "harness":
            confine.confine_harness(s["workspace"], s["uid"], s["gid"], [s["readable"]])
        case "broker":
            confine.confine_broker()
        case "command":  # the sandbox has confined it already
            pass
        case "same uid":  # no confinement at all: what the victim's own flag alone stops
            if os.geteuid() == 0:
                confine.drop_to(s["uid"], s["gid"])
        case _:
            raise SystemExit("unknown zone")
    print(json.dumps({name: attempt(act) for name, act in table.items() if name in s["try"]}))


if __name__ == "__main__":
    main()
