"""Starts a sandbox as somebody else and tells what happened: `python -m tests.unit.sandbox_child JSON`.

The settings name the uid and gid to become (or the capabilities to keep), the helper, the levels, the
writable root and the commands. Printed is `{level, notes, results, report, seen}` as JSON.
"""

from __future__ import annotations

import encodings.idna  # noqa: F401 - as a user who cannot read this interpreter, nothing can be imported later
import json
import os
import sys
from typing import Any

from agent.contract.sandbox import ExecRequest, Purpose, SandboxSpec
from agent.kernel import prctl
from agent.sandbox.probe import ProbeTargets, probe
from agent.sandbox.process import ProcessBackend


def main() -> None:
    s: dict[str, Any] = json.loads(sys.argv[1])
    if s.get("capabilities") is not None:
        prctl.keep_capabilities(s["capabilities"])
    elif os.geteuid() == 0:
        prctl.drop_to(s["uid"], s["gid"])
        prctl.libc.prctl(4, 1, 0, 0, 0)  # a plain program of this user, such as an editor: dumpable
    levels = tuple(s["levels"]) if s["levels"] else None
    backend = ProcessBackend(helper=s["helper"], levels=levels)
    session = backend.start(
        SandboxSpec(Purpose.MAIN, s["root"], pids=s.get("pids", 512), protected=tuple(s.get("protected", ())))
    )
    results = []
    for command in s["commands"]:
        result = session.exec(ExecRequest(command, timeout_s=20))
        results.append([result.exit_code, result.stdout.decode("latin-1"), result.stderr.decode("latin-1")])
    targets = ProbeTargets(
        unreadable=(s["outside"], s["outside"] + "/file"),
        unwritable=(s["outside"],),
        pids=(os.getpid(), session._process.pid, 1, 2, 3, 0),
    )
    report = probe(session, s["root"], targets)
    session.close()
    print(
        json.dumps(
            {
                "level": session.level,
                "notes": session.notes,
                "results": results,
                "report": report.to_json(),
                "as": [os.geteuid(), os.getegid()],
            }
        )
    )


if __name__ == "__main__":
    main()
