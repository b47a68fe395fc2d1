"""The command line: `python -m agent COMMAND`.

demo         the main job on an embedded GitHub and a scripted model
explain      what a run on a given event could do and why: mode, tools, routes, limits, digest
manifest     the same without an event: of a manual start
run          one run on this machine, on a clone of a repository; --dry-run prints every write instead of making it
doctor       whether a run would work here: machine, sandbox, configuration, network, tokens; each with its fix
scope        a report that asks for more than a run may do: what is refused, and what still works
redteam      play cases of a fully hostile model against Airlock and judge what happened
conformance  hold a model adapter to the loop's contract
replay       run the loop again from a transcript, offline, and tell the first divergence
view         make a page to look at of a transcript
"""

from __future__ import annotations

import os
import sys
from pathlib import Path


def main(argv: list[str]) -> int:
    """Run one command; returns its exit status."""
    # before site-packages: a dependency installs a package `tests` of its own there
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    command, rest = (argv[0], argv[1:]) if argv else ("", [])
    if command == "demo":
        from tests.support.demo import main as demo

        return demo(rest)
    if command in ("explain", "manifest"):
        from agent.explain import main as explain

        return explain(rest, command=command)
    if command == "run":
        from agent.local import main as local

        return local(rest, os.environ)
    if command == "doctor":
        from agent.doctor import main as doctor

        return doctor(rest, os.environ)
    if command == "scope":
        from tests.support.scope import main as scope

        return scope(rest)
    if command == "redteam":
        from tests.support.redteam import main as redteam

        return redteam(rest)
    if command == "conformance":
        from agent.conformance import main as conformance

        return conformance(rest)
    if command == "replay":
        from agent.replay import main as replay

        return replay(rest)
    if command == "view":
        from agent.viewer import main as view

        return view(rest)
    if command == "--version":
        from agent import __version__

        print(f"airlock {__version__}")
        return 0
    known = command in ("", "-h", "--help")
    print((__doc__ or "").strip(), file=sys.stdout if known else sys.stderr)
    if not known:
        print(f"\nairlock: no such command: {command}", file=sys.stderr)
    return 0 if known else 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
