"""What this run is: event, trusted configuration, gate, mode, models, routes; frozen before anything acts.

Steps, numbered as in DESIGN section 4 and in the code: 2 the event, 4 trusted configuration (needed to know the
trigger word), 2 the wished mode, 3 the gate, then who is asked which model, and 5 the frozen manifest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from agent.broker.config import AgentConfig, Config, read_config
from agent.broker.connections import run_policy
from agent.broker.declared_tools import DeclaredTools
from agent.broker.egress import Egress
from agent.broker.event import Skip, Trigger, read_event
from agent.broker.gate import Gate, decide, logins_to_ask, text_matters
from agent.broker.git.rules import ALWAYS_PROTECTED
from agent.broker.github import GitHubApi
from agent.broker.hooks import hook_files
from agent.broker.identity import ask_permissions, read_text
from agent.broker.limits import Limits
from agent.broker.manifest import Manifest, freeze
from agent.broker.mode import ModeSettings, Wish, wished_mode
from agent.broker.models import Model, keyed, parse_models
from agent.broker.money import check_cost_cap
from agent.broker.own_branch import asked_branch
from agent.broker.policy.decide import Policy
from agent.broker.policy.words import Authority
from agent.broker.settings import Settings
from agent.broker.subject import branches, complete, has_failure
from agent.broker.trusted_files import TrustedFiles, branch_tip, trusted_branch
from agent.contract.dataclass import dataclass, replace
from agent.contract.errors import UpstreamError, UserError
from agent.contract.modes import TOOL_TIERS, Mode, Tier, get_mode, offered_tools
from agent.contract.sandbox import Purpose

DEFAULT_MODEL = "anthropic/claude-sonnet-4-5"
DEFAULT_TIMEOUT_MIN = 30.0
MAX_TURNS = 300


@dataclass(frozen=True)
class Opening:
    """Everything decided about a run before it starts.

    Attributes:
        mode: in force; its tiers are already lowered where a fix-ci run has no failing check (D6).
        run_id: failed upstream run, or None.
        hook_files: repository files that each hook's command names, from the base branch's tip (E12).
        protected_paths: refuse writes, commits and pushes; the files of the hooks are among them.
        base_branch: branch that a pull request of this run goes against.
        own_head: the pull request's head branch, where a maintainer asks to push to it.
        start_sha: commit to work on, or None for what is checked out.
        base_sha: commit that a diff is taken against, or None.
        config_sha: commit of the default branch that configuration was read from.
    """

    trigger: Trigger
    config: Config
    config_sha: str | None
    wish: Wish
    gate: Gate
    mode: Mode
    tools: tuple[str, ...]
    declared: DeclaredTools
    limits: Limits
    models: tuple[Model, ...]
    policy: Policy
    manifest: Manifest
    hooks: Mapping[Purpose, str]
    hook_files: Mapping[Purpose, Mapping[str, bytes]]
    protected_paths: tuple[str, ...]
    run_id: int | None
    default_branch: str
    base_branch: str
    own_head: str | None
    start_sha: str | None
    base_sha: str | None

    @property
    def may_comment(self) -> bool:
        """A restricted run says nothing at GitHub unless the configuration wants it (S6)."""
        if self.mode.name == "restricted":
            return self.config.agent.comment_when_restricted
        return Tier.COMMENT in self.mode.tiers


def event_of(settings: Settings, event: bytes) -> Trigger | Skip:
    """Step 2, first half: the event."""
    name = settings.fact("GITHUB_EVENT_NAME")
    if not name:
        raise UserError(
            "GITHUB_EVENT_NAME is not set: Airlock runs inside a GitHub Actions job. To try it here: make demo."
        )
    return read_event(name, event, settings.facts)


def open_run(settings: Settings, trigger: Trigger, egress: Egress, has_secret: Callable[[str], bool]) -> Opening | Skip:
    """Decide everything; `egress` is over `first_policy`. Raises as `decide_run`."""
    return decide_run(GitHubApi(egress, trigger.repository, Authority.broker()), settings, trigger, has_secret)


def decide_run(
    api: GitHubApi, settings: Settings, trigger: Trigger, has_secret: Callable[[str], bool]
) -> Opening | Skip:
    """Decide everything from what GitHub says, or from what `agent.explain` assumes it would say.

    Raises:
        UserError: configuration, input or event is wrong.
        UpstreamError: GitHub did not answer what cannot be done without.
    """
    # 4. trusted configuration: the tip of the default branch, never the checkout
    branch = trigger.default_branch or str(api.get("", step="read repository")["default_branch"])
    trigger = replace(trigger, default_branch=branch)
    config_sha, config = _configuration(api, settings, branch)
    agent = _with_inputs(config.agent, settings)
    config = replace(config, agent=agent)
    # 2. the wished mode
    wish = wished_mode(settings.mode, trigger, _mode_settings(agent))
    if isinstance(wish, Skip):
        return wish
    models = keyed(_models(settings, config), has_secret)
    if models is None:
        return Skip(
            "No `api-key` is given, so AI features are off. Add the provider's key as a secret and pass it as "
            "`api-key: ${{ secrets.NAME }}`."
        )
    # 3. the gate
    trigger, found = complete(api, trigger)
    if isinstance(found, Skip):
        return found
    gate = decide(
        trigger,
        get_mode(wish.mode, agent.modes),
        ask_permissions(api, logins_to_ask(trigger)),
        text_now=read_text(api, trigger) if text_matters(trigger) else None,
        allow_bots=frozenset(agent.allow_bots),
        outsiders=agent.outsiders,
    )
    if gate.ignored:
        return Skip(f"Outsiders are ignored here. {gate.reason}")
    mode = get_mode(gate.mode, agent.modes)
    run_id = trigger.upstream.run_id if trigger.upstream else settings.run_id
    if mode.name == "fix-ci" and not has_failure(api, trigger, run_id):  # D6
        mode = replace(mode, tiers=mode.tiers & {Tier.READ, Tier.COMMENT})
    return _frozen(api, settings, trigger, config, config_sha, wish, gate, mode, models, run_id)


def _frozen(
    api: GitHubApi,
    settings: Settings,
    trigger: Trigger,
    config: Config,
    config_sha: str | None,
    wish: Wish,
    gate: Gate,
    mode: Mode,
    models: tuple[Model, ...],
    run_id: int | None,
) -> Opening:
    """5. Freeze."""
    agent = config.agent
    default = trigger.default_branch or ""
    base, start_sha, base_sha = branches(trigger, default)
    never = dict.fromkeys(b for b in (default, base, trigger.base_ref) if b)
    own_head = asked_branch(trigger, gate, wish, frozenset(never)) if Tier.GIT in mode.tiers else None
    if trigger.head.ref and own_head is None:
        never[trigger.head.ref] = None
    tiers = {**TOOL_TIERS, **{tool.name: tool.tier for tool in config.tools}}
    tools = offered_tools(mode, tiers, agent.allow_tools, agent.deny_tools)
    policy, declared = run_policy(settings, trigger, config, models, tools, never=tuple(never), own_head=own_head)
    limits = Limits(
        max_tool_calls=settings.max_tool_calls or agent.max_tool_calls or mode.max_tool_calls,
        max_turns=MAX_TURNS,
        timeout_s=60 * (settings.timeout_minutes or agent.timeout_minutes or DEFAULT_TIMEOUT_MIN),
        max_tokens=settings.max_tokens or config.max_tokens_per_run,
        max_cost_usd=settings.max_cost or config.max_cost_per_run,
    )
    check_cost_cap([m.model for m in models], limits)
    hooks = {
        purpose: command
        for purpose, command in (
            (Purpose.SETUP, agent.setup_script),
            (Purpose.STOP, agent.stop_script),
            (Purpose.PREPUSH, agent.prepush_script),
        )
        if command and Tier.SHELL in mode.tiers
    }
    trusted = trusted_branch(trigger, base, default, agent.branch_prefix)
    named = _hook_files(api, hooks, config_sha if trusted == default else None, trusted)
    scripts = sorted({path for files in named.values() for path in files})
    protected = tuple(dict.fromkeys((*ALWAYS_PROTECTED, settings.config_path, *agent.protected_paths, *scripts)))
    manifest = freeze(
        policy=policy,
        wish=wish,
        gate=gate,
        tiers=[str(t) for t in mode.tiers],
        tools=tools,
        hooks={str(k): v for k, v in hooks.items()},
        limits={
            "toolCalls": limits.max_tool_calls,
            "turns": limits.max_turns,
            "seconds": limits.timeout_s,
            "tokens": limits.max_tokens,
            "usd": limits.max_cost_usd,
            "comments": limits.max_comments,
        },
        protected_paths=protected,
        branch_prefix=agent.branch_prefix,
        further={
            "configCommit": config_sha,
            "startCommit": start_sha,
            "network": agent.sandbox.network,
            "ownHead": own_head,
            "commands": declared.commands(),
        },
    )
    return Opening(
        trigger=trigger,
        config=config,
        config_sha=config_sha,
        wish=wish,
        gate=gate,
        mode=mode,
        tools=tools,
        declared=declared,
        limits=limits,
        models=models,
        policy=policy,
        manifest=manifest,
        hooks=hooks,
        hook_files=named,
        protected_paths=protected,
        run_id=run_id,
        default_branch=default,
        base_branch=base,
        own_head=own_head,
        start_sha=start_sha,
        base_sha=base_sha,
    )


def _hook_files(
    api: GitHubApi, hooks: Mapping[Purpose, str], tip: str | None, branch: str
) -> dict[Purpose, dict[str, bytes]]:
    """4. The files of the hooks, from the base branch's tip and never from the change."""
    if not hooks:
        return {}
    files = TrustedFiles(api, tip or branch_tip(api, branch))
    return {purpose: hook_files(files, command) for purpose, command in hooks.items()}


def _configuration(api: GitHubApi, settings: Settings, branch: str) -> tuple[str | None, Config]:
    try:
        sha = branch_tip(api, branch)
    except UpstreamError as exc:
        if exc.status in (404, 409):
            return None, Config()  # an empty repository has no branch yet
        raise
    return sha, read_config(TrustedFiles(api, sha).read(settings.config_path), settings.config_path)


def _with_inputs(agent: AgentConfig, settings: Settings) -> AgentConfig:
    """Inputs that override configuration: both are the workflow owner's words."""
    return replace(
        agent,
        trigger=settings.trigger or agent.trigger,
        outsiders=settings.outsiders or agent.outsiders,
        allow_bots=(*agent.allow_bots, *settings.allow_bots),
    )


def _mode_settings(agent: AgentConfig) -> ModeSettings:
    return ModeSettings(
        trigger=agent.trigger, labels=agent.start_labels, branch_prefix=agent.branch_prefix, modes=agent.modes
    )


def _models(settings: Settings, config: Config) -> tuple[Model, ...]:
    first = settings.model or config.model or DEFAULT_MODEL
    return parse_models([first, *config.fallback_models], settings.base_url or config.base_url or "")
