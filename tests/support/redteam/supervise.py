"""Runs one command to its end and says what it used and what it left behind.

A program of its own (`python -I supervise.py REPORT LIMIT_S STDOUT STDERR CGROUPS -- COMMAND…`), so that it can be
the subreaper of everything the command starts: orphans come to it, whatever session they fled to. The command's
exit status, signal, peak memory, number of processes and survivors go to REPORT as JSON.
"""

import ctypes
import json
import os
import signal
import subprocess
import sys
import time

PR_SET_CHILD_SUBREAPER = 36
GRACE_S = 5.0


def processes() -> dict[int, tuple[int, int, str]]:
    """pid -> (parent, resident pages, state) of every process."""
    out = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                rest = file.read().rpartition(b")")[2].split()
        except OSError:
            continue
        out[int(name)] = (int(rest[1]), int(rest[21]), rest[0].decode())
    return out


def descendants(mine: int, table: dict[int, tuple[int, int, str]]) -> list[int]:
    """Every living process below `mine`."""
    children: dict[int, list[int]] = {}
    for pid, (parent, _, _) in table.items():
        children.setdefault(parent, []).append(pid)
    out, queue = [], [mine]
    while queue:
        for child in children.get(queue.pop(), ()):
            queue.append(child)
            if table[child][2] not in "ZX":
                out.append(child)
    return out


def command_line(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().replace(b"\0", b" ").decode("utf-8", "replace").strip()
    except OSError:
        return ""


def reap(but: int) -> None:
    """Collects orphans that ended, except the command itself."""
    while True:
        try:
            found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if found is None or found.si_pid == but:
            return
        os.waitpid(found.si_pid, 0)


def main() -> int:
    report, limit, out, err, groups, dash, *command = sys.argv[1:]
    assert dash == "--"
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    page = os.sysconf("SC_PAGE_SIZE")
    started = time.monotonic()

    def join() -> None:
        for group in filter(None, groups.split(",")):
            with open(os.path.join(group, "cgroup.procs"), "w") as file:
                file.write("0")

    with open(out, "wb") as stdout, open(err, "wb") as stderr:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, preexec_fn=join)
    signal.signal(signal.SIGTERM, lambda *_: child.terminate())
    signal.signal(signal.SIGINT, lambda *_: child.send_signal(signal.SIGINT))
    peak_rss = peak_procs = 0
    late = False
    while child.poll() is None:
        table = processes()
        alive = descendants(os.getpid(), table)
        peak_procs = max(peak_procs, len(alive))
        peak_rss = max(peak_rss, sum(table[p][1] for p in alive) * page)
        reap(child.pid)
        if not late and time.monotonic() - started > float(limit):
            late = True
            child.kill()
        time.sleep(0.05)
    seconds = time.monotonic() - started
    until = time.monotonic() + GRACE_S
    while (alive := descendants(os.getpid(), processes())) and time.monotonic() < until:
        reap(child.pid)
        time.sleep(0.05)
    survivors = [{"pid": p, "command": command_line(p)} for p in alive]
    for _ in range(50):
        alive = descendants(os.getpid(), processes())
        if not alive:
            break
        for pid in alive:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        time.sleep(0.02)
        reap(child.pid)
    result = {
        "exit": child.returncode,
        "late": late,
        "seconds": seconds,
        "peak_rss": peak_rss,
        "peak_procs": peak_procs,
        "survivors": survivors,
    }
    with open(report, "w") as file:
        json.dump(result, file)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
