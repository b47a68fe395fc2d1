"""What a run of the library may do, decided before anything acts: tools, limits, routes, manifest."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from agent.broker.connections import GATE_WORDS, model_connections
from agent.broker.egress import Egress
from agent.broker.gate import Ceiling, Gate
from agent.broker.git.publish import Publisher
from agent.broker.git.rules import ALWAYS_PROTECTED, BranchRules, TreeRules
from agent.broker.git.worktree import WorkTree
from agent.broker.github import GitHubApi
from agent.broker.hooks import hook_files
from agent.broker.lifecycle import Hook
from agent.broker.limits import Limits
from agent.broker.manifest import Manifest, freeze
from agent.broker.mode import Wish
from agent.broker.money import check_cost_cap
from agent.broker.opening import MAX_TURNS
from agent.broker.policy.builtin import RunParameters, github_connection
from agent.broker.policy.decide import Policy
from agent.broker.policy.words import Authority
from agent.broker.redact import Redactor
from agent.broker.settings import TASK_CAP
from agent.contract.errors import UserError
from agent.contract.facts import RunFacts
from agent.contract.modes import MODES, TOOL_TIERS, Mode, Tier, offered_tools
from agent.contract.sandbox import Purpose
from agent.contract.tool import AgentTool
from agent.harness.main import belt_of
from agent.harness.tools.context import ToolContext
from agent.library.client import Client
from agent.library.startfiles import StartFiles
from agent.library.words import RunContext

EVENT = "library"  # stands where an action's event would
LOCAL = "local/workspace"  # stands where a repository's name would


@dataclass(frozen=True)
class Remote:
    """The repository at GitHub.

    Attributes:
        default_branch: as GitHub says.
        repository_id: for the numeric form of paths.
    """

    default_branch: str
    repository_id: int | None


def check_call(client: object, mode: object, task: object, context: object) -> None:
    """Refuse what cannot be a run, before anything is made.

    Raises:
        UserError: with what to hand in instead.
    """
    if client is None:
        raise UserError("There is no client: create_client gave None, as the configuration has no `api_key`.")
    if not isinstance(client, Client):
        raise UserError("`client` must come from create_client.")
    if not isinstance(mode, Mode):
        raise UserError("`mode` must be a Mode, such as get_mode('review').")
    if mode.name in MODES and mode != MODES[mode.name]:
        raise UserError(f"The mode {mode.name!r} is built in and cannot be redefined. Name yours otherwise.")
    if not isinstance(task, str) or not task.strip() or len(task) > TASK_CAP:
        raise UserError(f"`task` must be a text of 1 to {TASK_CAP} characters.")
    if not isinstance(context, RunContext):
        raise UserError("`context` must be a RunContext.")


def first_facts(client: Client, mode: Mode, task: str, context: RunContext, custom: Sequence[AgentTool]) -> RunFacts:
    """What is known before the workspace is looked at; custom tools are checked on the way.

    Raises:
        UserError: a custom tool's name or schema is wrong, or a tool is allowed or denied that does not exist.
    """
    facts = RunFacts(
        mode=mode.name,
        event=EVENT,
        repository=client.github.repository if client.github else LOCAL,
        workspace=str(context.workspace),
        base_sha=None,
        head_sha=None,
        number=context.number,
        is_pull_request=context.is_pull_request,
        run_id=None,
        tools=(),
        task=task,
        playbook=mode.playbook,
        playbook_is_text=mode.name not in MODES,
        max_tool_calls=client.max_tool_calls or mode.max_tool_calls,
        max_turns=MAX_TURNS,
        timeout_s=client.timeout_s,
        max_tokens=client.max_tokens,
        models=tuple(
            {
                "connection": m.connection,
                "wire": m.wire,
                "model": m.model,
                "path": m.path,
                "query": dict(m.query),
                "max_output": client.max_output_tokens,
                "context": client.context_tokens,
            }
            for m in client.models
        ),
        branch_prefix=client.branch_prefix,
        options={
            "tiers": sorted(str(t) for t in mode.tiers),
            "protected_paths": list(protected(client, {})),
            "allow_protected_paths": list(client.allow_protected_paths),
            "request_changes": bool(client.github and client.github.request_changes),
            "labels": list(client.github.labels) if client.github else [],
            "max_cost": client.max_cost,
        },
    )
    check_cost_cap([m.model for m in client.models], limits_of(facts))
    # names and schemas are checked where the belt is made; neither broker nor files are asked for that
    belt_of(ToolContext(facts=facts, broker=cast(Any, None), files=cast(Any, None)), custom)
    tiers = {**TOOL_TIERS, **{tool.name: tool.tier for tool in custom}}
    return replace(facts, tools=offered_tools(mode, tiers, client.allow_tools, client.deny_tools))


def protected(client: Client, hooks: Mapping[Purpose, Hook]) -> tuple[str, ...]:
    """Paths that no run changes unless `allow_protected_paths` says so; the files of the hooks are among them."""
    scripts = sorted({path for hook in hooks.values() for path in hook.files})
    return tuple(dict.fromkeys((*ALWAYS_PROTECTED, *client.protected_paths, *scripts)))


def tree_rules(facts: RunFacts) -> TreeRules:
    """What a push may hold, and what is brought back."""
    options = facts.options
    return TreeRules(protected=tuple(options["protected_paths"]), allowed=tuple(options["allow_protected_paths"]))


def limits_of(facts: RunFacts) -> Limits:
    """The broker's own caps."""
    return Limits(
        max_tool_calls=facts.max_tool_calls,
        max_turns=facts.max_turns,
        timeout_s=facts.timeout_s,
        max_tokens=facts.max_tokens,
        max_cost_usd=facts.options["max_cost"],
    )


def loop_time(left_s: float) -> float:
    """Seconds for the loop: what is left, in tenths of a minute where it is long, since the model is told."""
    return max(0.1, left_s) if left_s < 60 else left_s // 6 * 6


def policy_of(
    client: Client, context: RunContext, remote: Remote | None, tools: tuple[str, ...] | None = None
) -> Policy:
    """Routes: the models, and GitHub where there are settings for it, narrowed to the offered tools."""
    connections = model_connections(client.models)
    github = client.github
    if github is not None:
        head = own_head(context, remote)
        never = (context.base_branch, remote.default_branch) if remote else (context.base_branch,)
        connections.insert(
            0,
            github_connection(
                RunParameters(
                    repository=github.repository,
                    repository_id=remote.repository_id if remote else None,
                    api_url=github.api_url,
                    server_url=github.server_url,
                    branch_prefix=client.branch_prefix,
                    further_branches=(head,) if head else (),
                    never_branches=tuple(dict.fromkeys(b for b in never if b)),
                    labels=github.labels,
                    request_changes=github.request_changes,
                    log_hosts=github.log_hosts,
                    tools=tools,
                )
            ),
        )
    return Policy(connections, GATE_WORDS)


def own_head(context: RunContext, remote: Remote | None) -> str | None:
    """The pull request's own head branch, which the caller named by `branch` beside `is_pull_request`."""
    if not context.is_pull_request or not context.branch or remote is None:
        return None
    return None if context.branch in (context.base_branch, remote.default_branch) else context.branch


def branch_rules(client: Client, context: RunContext, remote: Remote) -> BranchRules:
    """Which branches may be pushed (S4)."""
    return BranchRules(
        prefix=client.branch_prefix,
        default=remote.default_branch,
        base=context.base_branch or None,
        head=own_head(context, remote),
    )


def publisher_of(
    client: Client,
    context: RunContext,
    remote: Remote,
    egress: Egress,
    worktree: WorkTree,
    redactor: Redactor,
    facts: RunFacts,
) -> Publisher:
    """What publishes the commits of the run; its rules are the action's."""
    tiers = frozenset(Tier(tier) for tier in facts.options["tiers"])
    return Publisher(
        GitHubApi(egress, facts.repository, Authority.publisher(tiers)),
        worktree.shadow,
        owner=facts.repository.partition("/")[0],
        start=worktree.start,
        branches=branch_rules(client, context, remote),
        trees=tree_rules(facts),
        holds_secret=lambda data: redactor.holds_known(data) is not None,
        run_key=os.urandom(8).hex(),
    )


def read_remote(egress: Egress, repository: str) -> Remote:
    """Ask GitHub for the repository.

    Raises:
        UpstreamError: it is not there, or the token may not see it.
    """
    data = GitHubApi(egress, repository, Authority.broker()).get("", step="read repository")
    number = data.get("id")
    return Remote(str(data["default_branch"]), number if isinstance(number, int) else None)


def hooks_of(client: Client, tiers: Collection[Tier], worktree: WorkTree | None) -> Mapping[Purpose, Hook]:
    """The hooks, with the files that their commands name as they are now; none without a sandbox to run them in.

    Raises:
        UserError: there are scripts, and no git checkout to run them on.
    """
    scripts = {
        Purpose.SETUP: client.setup_script,
        Purpose.STOP: client.stop_script,
        Purpose.PREPUSH: client.prepush_script,
    }
    commands = {purpose: command for purpose, command in scripts.items() if command and Tier.SHELL in tiers}
    if not commands:
        return {}
    if worktree is None:
        raise UserError("Scripts run on a git checkout, and the workspace is none. Leave them out, or use git there.")
    files = StartFiles(worktree)
    return {purpose: Hook(command, hook_files(files, command)) for purpose, command in commands.items()}


def manifest_of(client: Client, mode: Mode, facts: RunFacts, policy: Policy, hooks: Mapping[Purpose, Hook]) -> Manifest:
    """Freeze all of it (D2)."""
    return freeze(
        policy=policy,
        wish=Wish(mode.name, "Called as a library."),
        gate=Gate(Ceiling.IMPLEMENT, mode.name, "The calling program decides the mode.", ()),
        tiers=[str(t) for t in mode.tiers],
        tools=facts.tools,
        hooks={str(purpose): hook.command for purpose, hook in hooks.items()},
        limits={
            "toolCalls": facts.max_tool_calls,
            "turns": facts.max_turns,
            "seconds": facts.timeout_s,
            "tokens": facts.max_tokens,
            "usd": facts.options["max_cost"],
        },
        protected_paths=facts.options["protected_paths"],
        branch_prefix=client.branch_prefix,
        further={"startCommit": facts.head_sha, "network": client.sandbox.network},
    )
