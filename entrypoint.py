#!/usr/bin/env python3
"""Where a run starts (A1): take the secrets out of the environment, start anew without them, then launch.

The stages of one file, each a process image of its own:

1. *take* (no argument, or `--stdin`): sort environment or standard input into settings and secrets
   (`agent/contract/inputs.py`), put each into an anonymous memory file, start the broker with the secrets and the
   event, and exec itself as launch with an empty environment. `del os.environ[...]` would leave the values readable
   in /proc/1/environ; exec does not.
2. `--launch`: `agent.launch`, process 1 of the container: ends everything, and starts the rest.
3. `--broker`, `--harness`: the zones, each with nothing but the descriptors it needs.

The broker is started first because it has most to load, and does so while launch starts. It waits for its plan,
which launch writes once it can clean up, and ends without a word where none comes.

`--undo`, started by the action's clean-up step, puts a workspace back after a run that was killed.

Python runs isolated (`-I`): PYTHONPATH, PYTHONSTARTUP, the user's site folder and the current folder,
all of which the job may have poisoned, count for nothing.
"""

import _signal  # type: ignore[import-not-found]  # `signal` without its enumerations
import gc
import os
import sys

gc.set_threshold(50_000)  # imports make objects that stay: looking for garbage among them took 5 % of a start
HERE = os.path.dirname(os.path.realpath(__file__))
if sys.flags.no_site:  # a stage that we started (`launch_stages`), with an environment of ours
    sys.path[:] = os.environ["AIRLOCK_FOLDERS"].split(":")
elif HERE not in sys.path:
    sys.path.insert(0, HERE)


def take_and_exec(*, from_stdin: bool) -> None:
    """Stage 1. Does not return: execs this file as `--launch`, or exits with a sentence.

    Only what is needed to get away from a poisoned environment happens here.
    """
    import _socket  # `socket` without its 10 ms of enumerations

    from agent.contract.inputs import blob, parse_blob, take
    from agent.launch_stages import command, environment, memory, spawn

    _close_inherited()

    if from_stdin:
        try:
            variables, event = parse_blob(sys.stdin.buffer.read())
        except ValueError as exc:
            sys.exit(f"airlock: {exc}. Start the action by its action.yml, or see docs/recipes.md.")
    else:
        variables, event = dict(os.environ), b""
        path = variables.get("GITHUB_EVENT_PATH", "")
        if path:
            try:
                with open(path, "rb") as file:
                    event = file.read()
            except OSError as exc:
                sys.exit(f"airlock: cannot read the event {path} (GITHUB_EVENT_PATH): {exc.strerror}.")
    settings, secrets = take(variables)
    launchs, brokers = (end.detach() for end in _socket.socketpair())
    to_broker, to_harness = (end.detach() for end in _socket.socketpair())
    plan, plan_to = os.pipe()
    broker = spawn("--broker", [brokers, to_broker, plan, memory(blob(secrets)), memory(event)])
    fds = [memory(blob(settings)), launchs, to_harness, plan_to]
    for fd in fds:
        os.set_inheritable(fd, True)
    os.execve(sys.executable, command("--launch", [*fds, broker]), environment())  # noqa: S606 - no shell is wanted


def _close_inherited() -> None:
    """Close what the caller left open: every part of ours would inherit it, the harness too."""
    for name in os.listdir("/proc/self/fd"):
        fd = int(name)
        try:
            if fd > 2 and os.get_inheritable(fd):
                os.close(fd)
        except OSError:
            continue  # the listing's own descriptor, closed by now


def _cancelled(*_: object) -> None:
    """A signal before launch is ready for one: nothing has begun, so it is a sentence and a cancelled run's status."""
    os.write(2, b"airlock: cancelled before the run began.\n")
    raise SystemExit(6)


def main() -> int:
    """Choose the stage."""
    arguments = sys.argv[1:]
    stage = arguments[0] if arguments else ""
    if stage in ("", "--stdin", "--launch"):
        for number in (_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP):
            _signal.signal(number, _cancelled)  # Python's own prints a traceback; process 1 has none for SIGTERM
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
