#!/usr/bin/env python3
"""Where a run starts (A1): take the secrets out of the environment, start anew without them, then launch.

Three stages of one file, each its own `exec`:

1. *take* (no argument, or `--stdin`): sort environment or standard input into settings and secrets
   (`agent/contract/inputs.py`), put each into an anonymous memory file, and exec itself with an empty
   environment. `del os.environ[...]` would leave the values readable in /proc/1/environ; exec does not.
2. `--launch`: `agent.launch`, process 1 of the container: starts and ends everything.
3. `--broker`, `--harness`: the zones, each with nothing but the descriptors it needs.

`--undo`, started by the action's clean-up step, puts a workspace back after a run that was killed.

Python runs isolated (`-I`): PYTHONPATH, PYTHONSTARTUP, the user's site folder and the current folder,
all of which the job may have poisoned, count for nothing.
"""

import gc
import os
import sys

gc.set_threshold(50_000)  # imports make objects that stay: looking for garbage among them took 5 % of a start
HERE = os.path.dirname(os.path.realpath(__file__))
if HERE not in sys.path:
    sys.path.insert(0, HERE)

CLEAN = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}


def take_and_exec(*, from_stdin: bool) -> None:
    """Stage 1. Does not return: execs this file as `--launch`, or exits with a sentence.

    Only what is needed to get away from a poisoned environment happens here.
    """
    import json

    from agent.contract.inputs import parse_blob, take

    _close_inherited()

    if from_stdin:
        try:
            environment, event = parse_blob(sys.stdin.buffer.read())
        except ValueError as exc:
            sys.exit(f"airlock: {exc}. Start the action by its action.yml, or see docs/recipes.md.")
    else:
        environment, event = dict(os.environ), b""
        path = environment.get("GITHUB_EVENT_PATH", "")
        if path:
            try:
                with open(path, "rb") as file:
                    event = file.read()
            except OSError as exc:
                sys.exit(f"airlock: cannot read the event {path} (GITHUB_EVENT_PATH): {exc.strerror}.")
    taken = take(environment)
    fds = [
        _memory(json.dumps(taken.settings).encode(), "settings"),
        _memory(json.dumps(taken.secrets).encode(), "secrets"),
        _memory(event, "event"),
    ]
    # surrogateescape above keeps odd bytes of values; json's \udcxx form carries them
    arguments = [sys.executable, "-I", "-B", os.path.realpath(__file__), "--launch", *map(str, fds)]
    os.execve(sys.executable, arguments, CLEAN)  # noqa: S606 - no shell is wanted


def _close_inherited() -> None:
    """Close what the caller left open: every part of ours would inherit it, the harness too."""
    for name in os.listdir("/proc/self/fd"):
        fd = int(name)
        try:
            if fd > 2 and os.get_inheritable(fd):
                os.close(fd)
        except OSError:
            continue  # the listing's own descriptor, closed by now


def _memory(data: bytes, name: str) -> int:
    """An anonymous file that the next stage inherits; it has no path and vanishes with its last holder."""
    fd = os.memfd_create("airlock-" + name, 0)
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
    os.lseek(fd, 0, os.SEEK_SET)
    os.set_inheritable(fd, True)
    return fd


def main() -> int:
    """Choose the stage."""
    arguments = sys.argv[1:]
    stage = arguments[0] if arguments else ""
    if stage in ("", "--stdin"):
        take_and_exec(from_stdin=stage == "--stdin")
    if stage == "--undo":
        from agent.launch_undo import main as undo

        return undo()
    if not all(a.isdigit() for a in arguments[1:]) or len(arguments) < 2:
        sys.exit(
            f"airlock: {stage} is how Airlock starts its own parts. Run entrypoint.py without arguments, in a job."
        )
    fds = [int(a) for a in arguments[1:]]
    if stage == "--launch":
        from agent.launch import main as launch

        return launch(*fds)
    if stage == "--broker":
        from agent.broker.process import main as broker

        return broker(*fds)
    if stage == "--harness":
        from agent.harness.main import main as harness

        return harness(*fds)
    sys.exit(f"airlock: unknown stage {stage!r}")


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    # Taking the interpreter apart would take 50 ms in each of three processes that wait for each other.
    os._exit(status)
