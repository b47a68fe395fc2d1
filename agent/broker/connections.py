"""Which connections and routes a run has: the built-in ones filled in for it, and those of the configuration."""

from __future__ import annotations

from collections.abc import Iterable

from agent.broker.config import AgentConfig, Config
from agent.broker.declared_tools import DeclaredTools
from agent.broker.event import Trigger
from agent.broker.models import Model
from agent.broker.policy.builtin import RunParameters, git_connection, github_connection, model_connection
from agent.broker.policy.decide import Policy
from agent.broker.policy.declared import declared_connections
from agent.broker.policy.route import Connection
from agent.broker.policy.words import OFFER_GATE, PUBLISHER_GATE
from agent.broker.settings import Settings
from agent.contract.dataclass import replace

GATE_WORDS = {
    PUBLISHER_GATE: "this is done by git_commit, git_push and create_pull_request, which check it first",
    "own_text": "only a comment of this run's own identity can be edited",
    OFFER_GATE: "no tool that this run offers uses this request",
}


def first_policy(settings: Settings, trigger: Trigger) -> Policy:
    """Routes for reading configuration and permissions, before there is a configuration."""
    return Policy([github_connection(_parameters(settings, trigger, AgentConfig(), (), ()))], GATE_WORDS)


def run_policy(
    settings: Settings,
    trigger: Trigger,
    config: Config,
    models: tuple[Model, ...],
    tools: tuple[str, ...],
    *,
    never: tuple[str, ...],
    own_head: str | None,
) -> tuple[Policy, DeclaredTools]:
    """The policy of the whole run, and the declared tools bound to their part of it.

    Args:
        tools: names of those that are offered.
        never: branches that nothing of this run may write.
        own_head: the pull request's own branch, where a maintainer asked for it.

    Raises:
        UserError: a declared connection cannot be.
    """
    parameters = replace(
        _parameters(settings, trigger, config.agent, never, config.log_hosts),
        further_branches=(own_head,) if own_head else (),
        tools=tools,
    )
    connections = [
        github_connection(parameters),
        git_connection(parameters),
        *model_connections(models),
    ]
    reserved = frozenset(connection.origin for connection in connections)
    further = declared_connections(config.connections, reserved_origins=reserved)
    declared = DeclaredTools(config.tools, further, tools)
    return Policy([*connections, *declared.connections()], GATE_WORDS), declared


def model_connections(models: Iterable[Model]) -> list[Connection]:
    """One connection for each model that may be asked."""
    return [
        model_connection(
            name=m.connection,
            origin=m.origin,
            path=m.path,
            header=m.header,
            scheme=m.scheme,
            secret=m.secret,
            fixed=m.fixed,
            query=m.query,
        )
        for m in models
    ]


def _parameters(
    settings: Settings, trigger: Trigger, agent: AgentConfig, never: tuple[str, ...], log_hosts: tuple[str, ...]
) -> RunParameters:
    return RunParameters(
        repository=trigger.repository,
        repository_id=trigger.repository_id,
        api_url=settings.fact("GITHUB_API_URL") or "https://api.github.com",
        server_url=settings.fact("GITHUB_SERVER_URL") or "https://github.com",
        branch_prefix=agent.branch_prefix,
        never_branches=never,
        labels=agent.set_labels,
        request_changes=agent.request_changes,
        log_hosts=log_hosts,
    )
