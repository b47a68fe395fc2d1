"""The command line: `python -m agent COMMAND [OPTIONS]`; `python -m agent COMMAND --help` tells a command's options.

Use:
  run          one run on this machine, on a clone of a repository; --dry-run prints every write instead of making it
  doctor       whether a run would work here: machine, sandbox, configuration, network, tokens; each with its fix
  explain      what a run on a given event could do and why: mode, tools, routes, limits, digest
  manifest     the same without an event: of a manual start
  view         make a page to look at of a transcript
  replay       run the loop again from a transcript, offline, and tell the first divergence
  conformance  hold a model adapter to the loop's contract
See for yourself (in a checkout of Airlock):
  demo         the main job on an embedded GitHub and a scripted model
  scope        a report that asks for more than a run may do: what is refused, and what still works
  redteam      play cases of a fully hostile model, on their own or with your configuration, and judge what happened

Exit status: 0 all well, 1 what was asked for did not hold or failed, 2 bad use. `run` ends as the action does.
"""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Callable
from pathlib import Path

Command = Callable[[list[str]], int]
CHECKOUT = ("demo", "scope", "redteam")  # their simulators are test support, which no image and no wheel holds


def main(argv: list[str]) -> int:
    """Run one command; returns its exit status."""
    # before site-packages: a dependency installs a package `tests` of its own there
    root = Path(__file__).resolve().parent.parent
    sys.path.insert(0, str(root))
    name, rest = (argv[0], argv[1:]) if argv else ("--help", [])
    if name in CHECKOUT and not (root / "tests/support").is_dir():
        print(f"airlock {name}: this needs a checkout of Airlock, and {root} is none.", file=sys.stderr)
        return 2
    command = _command(name)
    if command is None:
        close = difflib.get_close_matches(name, _names(), n=1)
        guess = f" Did you mean {close[0]}?" if close else ""
        print(f"airlock: no such command: {name}.{guess} `python -m agent --help` lists them.", file=sys.stderr)
        return 2
    try:
        status = command(rest)
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # `| head` has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as exc:  # a file that is not there or not ours, a full disk
        place = f"{exc.filename}: " if exc.filename else ""
        print(f"airlock {name}: {place}{exc.strerror or exc}.", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"airlock {name}: interrupted", file=sys.stderr)
        return 130


def _say(text: str) -> int:
    print(text, flush=True)
    return 0


def _names() -> list[str]:
    """Of all commands, as the text above lists them."""
    return [line.split()[0] for line in (__doc__ or "").splitlines() if line.startswith("  ")]


def _command(name: str) -> Command | None:
    """The command, with what it needs loaded and nothing else."""
    if name == "run":
        from agent.local import main as run

        return lambda rest: run(rest, os.environ)
    if name == "doctor":
        from agent.doctor import main as doctor

        return lambda rest: doctor(rest, os.environ)
    if name in ("explain", "manifest"):
        from agent.explain import main as explain

        return lambda rest: explain(rest, command=name)
    if name == "view":
        from agent.viewer.command import main as view

        return view
    if name == "replay":
        from agent.replay import main as replay

        return replay
    if name == "conformance":
        from agent.conformance import main as conformance

        return conformance
    if name in ("-h", "--help", "help"):
        return lambda _: _say((__doc__ or "").strip())
    if name == "--version":
        from agent import __version__

        return lambda _: _say(f"airlock {__version__}")
    return _of_a_checkout(name)


def _of_a_checkout(name: str) -> Command | None:
    if name == "demo":
        from tests.support.demo import main as demo

        return demo
    if name == "scope":
        from tests.support.scope import main as scope

        return scope
    if name == "redteam":
        from tests.support.redteam import main as redteam

        return redteam
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
