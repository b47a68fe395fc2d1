"""Harness and broker in one process: the same server, the same frames, over a socket pair.

What a harness sends is encoded, checked and answered exactly as in the action; nothing is called directly.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from agent.broker.egress import Egress
from agent.broker.github import GitHubApi
from agent.broker.operations import Operations
from agent.broker.operations_egress import EgressOperation
from agent.broker.policy.words import Authority
from agent.broker.server import Call, Handler, Reply, Server
from agent.broker.state import RunState
from agent.contract.errors import Refusal
from agent.kernel.channel import Caller, Channel

NO_GITHUB = "This run has no GitHub settings. Work with the files, git_diff and git_log."
LAST_S = 5.0  # for the server's thread to end; one that is busy ends by itself, it holds nothing


@contextmanager
def connected(handlers: Mapping[str, Handler], on_fault: Callable[[str, BaseException], None]) -> Iterator[Caller]:
    """A caller whose requests these handlers answer, in threads of this process."""
    brokers, harness = socket.socketpair()
    server = Server(Channel(brokers), handlers, on_fault=on_fault)
    thread = threading.Thread(target=server.serve, name="airlock-broker", daemon=True)
    thread.start()
    channel = Channel(harness)
    try:
        yield Caller(channel)
    finally:
        channel.close()
        thread.join(LAST_S)


def handlers_of(run: RunState, egress: Egress, operations: Operations, *, github: bool) -> dict[str, Handler]:
    """The action's handlers; without `github` its requests are answered in one sentence."""
    api = GitHubApi(egress, run.facts.repository, Authority.broker())
    send = EgressOperation(run, egress, api).handle

    def gated(call: Call) -> Reply:
        if not github and call.fields.get("connection") == "github":
            raise Refusal("github_unavailable", NO_GITHUB)
        return send(call)

    return {
        **operations.handlers(),
        "egress": gated,
        "request": lambda _: ({"author": "", "kind": "", "provenance": "none"}, b""),
    }
