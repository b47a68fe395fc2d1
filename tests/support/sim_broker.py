"""The tools over the real policy, egress and server of the broker, against the GitHub simulator.

What stands between a tool and the simulator is what stands there in a run: the frames, the route table, the
neutralising, the caps, the redirects and the waits. Only the run's opening is left out.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent.broker.egress import Egress, make_transport
from agent.broker.github import GitHubApi
from agent.broker.limits import Limits, Meter
from agent.broker.operations_egress import EgressOperation
from agent.broker.policy.builtin import RunParameters, github_connection
from agent.broker.policy.decide import Policy
from agent.broker.policy.words import PUBLISHER_GATE, Authority
from agent.broker.redact import Redactor
from agent.broker.secrets import SecretStore
from agent.broker.server import Server
from agent.broker.state import RunState
from agent.contract.facts import RunFacts
from agent.contract.modes import TOOL_TIERS, Tier
from agent.harness.loop.words import ToolResult
from agent.harness.tools import BUILTIN
from agent.harness.tools.belt import make_belt
from agent.harness.tools.context import ToolContext
from agent.kernel.beneath import Beneath
from agent.kernel.channel import Caller, Channel
from tests.support.fake_broker import facts
from tests.support.github_sim import GitHubSim
from tests.support.github_sim.repository import Repository

TOKEN = "ghs_" + "S1mBroker" * 4


@dataclass
class SimTools:
    """Tools of one run.

    Attributes:
        state: what the broker counts and records.
        recorded: its transcript events.
    """

    facts: RunFacts
    state: RunState
    recorded: list[dict[str, Any]]
    _tools: Mapping[str, Callable[[Mapping[str, Any]], ToolResult]]

    def __call__(self, name: str, **arguments: Any) -> ToolResult:
        return self._tools[name](arguments)


@contextmanager
def sim_tools(
    github: GitHubSim,
    repository: Repository,
    workspace: Path,
    *,
    number: int | None = None,
    is_pull: bool = True,
    tiers: frozenset[Tier] = frozenset({Tier.READ, Tier.COMMENT}),
    labels: tuple[str, ...] = (),
    request_changes: bool = False,
    max_comments: int = 100,
    clock_s: float = 60.0,
    **changes: Any,
) -> Iterator[SimTools]:
    """Tools of a run over one repository of the simulator.

    Args:
        labels: that configuration lets a run set.
        clock_s: seconds that are left of the run's time.
        changes: to the facts.
    """
    names = tuple(name for name, tier in TOOL_TIERS.items() if tier in tiers)
    options = {"tiers": [str(t) for t in tiers], "labels": list(labels), "request_changes": request_changes}
    given: dict[str, Any] = {"repository": repository.full_name, "workspace": str(workspace), "number": number}
    given |= {"is_pull_request": is_pull, "tools": names, "options": options, **changes}
    known = facts(**given)
    recorded: list[dict[str, Any]] = []
    limits = Limits(max_tool_calls=100, max_comments=max_comments)

    def record(type_: str, /, **data: Any) -> None:
        recorded.append({**data, "type": type_})

    state = RunState(known, tiers, Meter(limits, started=time.monotonic()), record)
    connection = github_connection(
        RunParameters(
            repository.full_name,
            repository.id,
            api_url=github.api_url,
            server_url=github.server_url,
            labels=labels,
            request_changes=request_changes,
            log_hosts=(github.storage_url.partition("//")[2],),
            tools=known.tools,
        )
    )
    until = time.monotonic() + clock_s
    egress = Egress(
        Policy([connection], {PUBLISHER_GATE: "the publisher does this", "own_text": "only own comments are edited"}),
        SecretStore({"github-token": TOKEN, "push-token": TOKEN}),
        make_transport(),
        record=record,
        redactor=Redactor({"github-token": TOKEN}),
        remaining_s=lambda: until - time.monotonic(),
        write_pause_s=0.0,
    )
    api = GitHubApi(egress, repository.full_name, Authority.broker())
    faults: list[tuple[str, BaseException]] = []
    ours, theirs = socket.socketpair()
    server = Server(
        Channel(ours),
        {"egress": EgressOperation(state, egress, api).handle},
        on_fault=lambda op, exc: faults.append((op, exc)),
    )
    thread = threading.Thread(target=server.serve, daemon=True)
    thread.start()
    channel = Channel(theirs)
    with Beneath(str(workspace)) as files:
        belt = make_belt(ToolContext(known, Caller(channel), files), BUILTIN, (), tiers=tiers)
        yield SimTools(known, state, recorded, {tool.name: tool.run for tool in belt.tools})
    channel.close()
    thread.join(5)
    if faults:
        raise faults[0][1]
