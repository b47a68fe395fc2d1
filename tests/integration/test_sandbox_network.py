"""Who of a run has a network: setup alone by default, commands where it is asked for by name, gates never."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from tests.support.model_server import ModelServer
from tests.support.model_turns import Call, Turn
from tests.support.scenario import RUN_ID, World, fixing_turns

SAY = """\
import socket, sys
try:
    with socket.create_connection(("127.0.0.1", int(sys.argv[1])), 2) as s:
        s.sendall(sys.argv[2].encode())
except OSError as exc:
    print(exc)
"""
CONFIG = """\
ai:
  agent:
    setupScript: python3 scripts/say.py {port} setup
    stopScript: python3 scripts/say.py {port} stop; sh scripts/check.sh
    prepushScript: python3 scripts/say.py {port} prepush; sh scripts/check.sh
    timeoutMinutes: 5
    sandbox: {{network: {network}}}
  github:
    logHosts: ["{{log_host}}"]
"""
SENTENCE = "The sandbox's network was open, as configuration asks."


@pytest.fixture
def listener() -> Iterator[tuple[int, set[str]]]:
    """A service of the host on loopback, and the words it heard."""
    heard: set[str] = set()
    server = socket.create_server(("127.0.0.1", 0))

    def listen() -> None:
        while True:
            try:
                peer, _ = server.accept()
            except OSError:
                return
            with peer:
                heard.add(peer.recv(99).decode())

    threading.Thread(target=listen, daemon=True).start()
    yield server.getsockname()[1], heard
    server.shutdown(socket.SHUT_RDWR)
    server.close()


@pytest.mark.parametrize(("network", "expected"), [("none", {"setup"}), ("open", {"setup", "main"})])
def test_only_setup_has_a_network_unless_open_is_named_and_then_reports_say_so(
    make: Callable[..., World], listener: tuple[int, set[str]], network: str, expected: set[str]
) -> None:
    """The same run under both: what a listener of the host hears, and the sentence in the summary."""
    port, heard = listener
    world = make(config=CONFIG.format(port=port, network=network), files={"scripts/say.py": SAY})
    turns = [
        Turn(calls=[Call("run_command", {"command": f"python3 scripts/say.py {port} main"})]),
        *fixing_turns(f"airlock/fix-{RUN_ID}"),
    ]
    event = world.github.event("workflow_run", world.repository, run=RUN_ID)
    with ModelServer(turns) as model:
        result = world.run("workflow_run", event, model)

    assert (result.exit_status, result.outputs["outcome"]) == (0, "done"), result.log
    assert {hook["purpose"] for hook in result.events("hook.end")} == {"setup", "stop", "prepush"}
    assert heard == expected
    assert (SENTENCE in result.summary) == (network == "open")
    (manifest,) = result.events("manifest")
    assert manifest["document"]["network"] == network
