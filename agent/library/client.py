"""`create_client`: from a mapping to a checked, frozen client. Nothing is sent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agent.broker.config import SandboxConfig
from agent.broker.models import PROVIDERS, Model, key_name, keyed, parse_models
from agent.broker.opening import DEFAULT_MODEL, DEFAULT_TIMEOUT_MIN
from agent.broker.policy.builtin import split_address
from agent.broker.secrets import API_KEY, GITHUB_TOKEN, PUSH_TOKEN, SecretStore
from agent.contract.errors import UserError


@dataclass(frozen=True)
class GitHub:
    """The GitHub connection of a client; its tokens are in the client's secrets.

    Attributes:
        repository: `owner/name`, the only one in reach.
        api_url, server_url: of github.com, or of an Enterprise Server.
        labels: labels that may be set and taken off.
        request_changes: reviews may request changes; approving is never possible.
        log_hosts: further hosts that logs may come from.
    """

    repository: str
    api_url: str = "https://api.github.com"
    server_url: str = "https://github.com"
    labels: tuple[str, ...] = ()
    request_changes: bool = False
    log_hosts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Client:
    """A checked configuration; made by `create_client`, used for any number of runs. Its text shows no secret."""

    models: tuple[Model, ...]
    secrets: SecretStore
    github: GitHub | None = None
    max_output_tokens: int | None = None
    context_tokens: int | None = None
    max_tokens: int | None = None
    max_cost: float | None = None
    max_tool_calls: int | None = None
    timeout_s: float = 60 * DEFAULT_TIMEOUT_MIN
    tool_timeout_s: float = 60.0
    allow_tools: tuple[str, ...] | None = None
    deny_tools: tuple[str, ...] = ()
    protected_paths: tuple[str, ...] = ()
    allow_protected_paths: tuple[str, ...] = ()
    branch_prefix: str = "airlock/"
    setup_script: str = ""
    stop_script: str = ""
    prepush_script: str = ""
    sandbox: SandboxConfig = field(default_factory=SandboxConfig)
    proxies: Mapping[str, str] = field(default_factory=dict, repr=False)
    no_proxy: str = ""
    ca_file: str | None = None


def create_client(config: Mapping[str, Any]) -> Client | None:
    """Check a configuration.

    Args:
        config: all keys but `api_key` may be absent.
            `api_key`: text. `model`: `provider/model`. `fallback_models`: list of such. `base_url`: text.
            `fallback_api_keys`: keys of fallbacks on other servers than the first model's, by provider.
            `max_output_tokens`: of one answer. `context_tokens`: the window of the smallest model in the list,
            for one that is not in the table of models.
            `max_tokens`: tokens a run, input (cached included) plus output. `max_cost`: US dollars a run.
            `max_tool_calls`: a run. `timeout_minutes`: wall clock of a run. `tool_timeout_s`: of one call of a
            custom tool, in seconds. `allow_tools`, `deny_tools`: lists of names; denying wins.
            `protected_paths`, `allow_protected_paths`: lists of patterns. `branch_prefix`: of pushed branches.
            `setup_script`, `stop_script`, `prepush_script`: commands, run in the sandbox.
            `sandbox`: `{network: "none"|"open", memory_mb, pids, env}`.
            `github`: `{token, push_token, repository, api_url, server_url, labels, request_changes, log_hosts}`;
            without it GitHub tools answer that there is no GitHub here.
            `proxies`: `{http, https}`, `no_proxy`, `ca_file`: nothing is taken from the environment.

    Returns:
        The client, or None where `api_key` is absent or empty: AI features are off. Servers of one's own
        (`ollama/…`, `vllm/…`) need none.

    Raises:
        UserError: an unknown key, or a value that cannot be; the text names it.
    """
    _check_keys("", config, _KEYS)
    github = config.get("github")
    names = [_text(config, "model") or DEFAULT_MODEL, *_texts(config, "fallback_models")]
    keys = _words(config, "fallback_api_keys")
    if unknown := [provider for provider in keys if provider not in PROVIDERS]:
        raise UserError(f"`fallback_api_keys` names {unknown[0]!r}, which is no provider: {', '.join(PROVIDERS)}.")
    lines = [f"{key_name(provider)}={key}" for provider, key in keys.items()]
    secrets = {API_KEY: _text(config, "api_key"), "secrets": "\n".join(lines)}
    models = keyed(parse_models(names, _text(config, "base_url")), SecretStore.from_inputs(secrets).has)
    if models is None:
        return None
    if github is not None:
        _check_keys("github.", github, _GITHUB_KEYS)
        secrets[GITHUB_TOKEN] = _text(github, "token")
        if "push_token" in github:
            secrets[PUSH_TOKEN] = _text(github, "push_token")
    return Client(
        models=models,
        secrets=SecretStore.from_inputs(secrets),
        github=None if github is None else _github(github),
        max_output_tokens=_whole(config, "max_output_tokens"),
        context_tokens=_whole(config, "context_tokens"),
        max_tokens=_whole(config, "max_tokens"),
        max_cost=_number(config, "max_cost"),
        max_tool_calls=_whole(config, "max_tool_calls"),
        timeout_s=60 * (_number(config, "timeout_minutes") or DEFAULT_TIMEOUT_MIN),
        tool_timeout_s=_number(config, "tool_timeout_s") or Client.tool_timeout_s,
        allow_tools=_texts(config, "allow_tools") if config.get("allow_tools") is not None else None,
        deny_tools=_texts(config, "deny_tools"),
        protected_paths=_texts(config, "protected_paths"),
        allow_protected_paths=_texts(config, "allow_protected_paths"),
        branch_prefix=_text(config, "branch_prefix") or Client.branch_prefix,
        setup_script=_text(config, "setup_script"),
        stop_script=_text(config, "stop_script"),
        prepush_script=_text(config, "prepush_script"),
        sandbox=_sandbox(config.get("sandbox") or {}),
        proxies=_words(config, "proxies"),
        no_proxy=_text(config, "no_proxy"),
        ca_file=_text(config, "ca_file") or None,
    )


_KEYS = frozenset(
    "api_key fallback_api_keys model fallback_models base_url max_output_tokens context_tokens max_tokens max_cost "
    "max_tool_calls timeout_minutes tool_timeout_s "
    "allow_tools deny_tools protected_paths allow_protected_paths branch_prefix setup_script stop_script "
    "prepush_script sandbox github proxies no_proxy ca_file".split()
)
_GITHUB_KEYS = frozenset("token push_token repository api_url server_url labels request_changes log_hosts".split())
_SANDBOX_KEYS = frozenset("network memory_mb pids env".split())


def _github(given: Mapping[str, Any]) -> GitHub:
    repository = _text(given, "repository")
    owner, _, name = repository.partition("/")
    if not owner or not name or "/" in name or not _text(given, "token").strip():
        raise UserError("`github` needs a `token` and a `repository` of the form owner/name.")
    changes = given.get("request_changes", False)
    if not isinstance(changes, bool):
        raise UserError("`github.request_changes` must be True or False.")
    urls = {key: _text(given, key) or getattr(GitHub, key) for key in ("api_url", "server_url")}
    for key, url in urls.items():
        split_address(f"github.{key}", url)
    return GitHub(
        repository,
        **urls,
        labels=_texts(given, "labels"),
        request_changes=changes,
        log_hosts=_texts(given, "log_hosts"),
    )


def _sandbox(given: Mapping[str, Any]) -> SandboxConfig:
    _check_keys("sandbox.", given, _SANDBOX_KEYS)
    network = _text(given, "network") or "none"
    if network not in ("none", "open"):
        raise UserError(f"`sandbox.network` is {network!r}. It can be none or open.")
    default = SandboxConfig()
    return SandboxConfig(
        network=network,
        memory_mb=_whole(given, "memory_mb") or default.memory_mb,
        pids=_whole(given, "pids") or default.pids,
        env=_words(given, "env"),
    )


def _check_keys(where: str, given: object, known: frozenset[str]) -> None:
    if not isinstance(given, Mapping):
        raise UserError(f"`{where.rstrip('.') or 'config'}` must be a mapping.")
    for key in given:
        if key not in known:
            raise UserError(f"`{where}{key}` is no setting. Known here: {', '.join(sorted(known))}.")


def _text(given: Mapping[str, Any], key: str) -> str:
    value = given.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise UserError(f"`{key}` must be a text.")  # never the value: it may be a secret
    return value


def _texts(given: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = given.get(key)
    if value is None:
        return ()
    if not isinstance(value, list | tuple) or not all(isinstance(one, str) for one in value):
        raise UserError(f"`{key}` must be a list of texts.")
    return tuple(value)


def _words(given: Mapping[str, Any], key: str) -> dict[str, str]:
    value = given.get(key)
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(k, str) and isinstance(v, str) for k, v in value.items()):
        raise UserError(f"`{key}` must be a mapping of texts.")
    return dict(value)


def _whole(given: Mapping[str, Any], key: str) -> int | None:
    value = given.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UserError(f"`{key}` must be a whole number of at least 1.")
    return value


def _number(given: Mapping[str, Any], key: str) -> float | None:
    value = given.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e9:
        raise UserError(f"`{key}` must be a number above 0.")
    return float(value)
