"""The trusted configuration, from the bytes of the default branch's file to a frozen `Config`.

`config.schema.json` is the one source: of what is valid, of the error's words, of the documentation. An
unknown key is an error with its line, and with the key that was probably meant.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent.broker.config_yaml import Document, read_yaml
from agent.contract.dataclass import dataclass, field
from agent.contract.errors import UserError
from agent.contract.modes import MODES, TOOL_TIERS, Mode, Tier
from agent.contract.schema import Problem, check_schema, problems

FILE = ".github/airlock.yml"


@dataclass(frozen=True)
class SandboxConfig:
    """`ai.agent.sandbox`; see the schema for each key."""

    backend: str = "auto"
    image: str | None = None
    network: str = "none"
    memory_mb: int = 4096
    pids: int = 512
    mounts: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class AgentConfig:
    """`ai.agent`; see the schema for each key.

    Attributes:
        start_labels: labels that start a run.
        set_labels: labels that the agent may set and take off.
        modes: configuration's own modes, by name; the playbook is text.
    """

    setup_script: str | None = None
    prepush_script: str | None = None
    stop_script: str | None = None
    timeout_minutes: float | None = None
    max_tool_calls: int | None = None
    allow_tools: tuple[str, ...] | None = None
    deny_tools: tuple[str, ...] = ()
    protected_paths: tuple[str, ...] = ()
    allow_protected_paths: tuple[str, ...] = ()
    allow_bots: tuple[str, ...] = ()
    outsiders: str = "restricted"
    comment_when_restricted: bool = False
    request_changes: bool = False
    trigger: str = "/airlock"
    start_labels: tuple[str, ...] = ()
    set_labels: tuple[str, ...] = ()
    branch_prefix: str = "airlock/"
    sandbox: SandboxConfig = SandboxConfig()
    modes: Mapping[str, Mode] = field(default_factory=dict)


@dataclass(frozen=True)
class ToolConfig:
    """One declared tool of `ai.tools`: a request over a declared connection, or a command in the sandbox.

    Attributes:
        query: arguments that go into the query though the method has a body.
    """

    name: str
    tier: Tier
    description: str
    schema: Mapping[str, Any]
    connection: str | None = None
    method: str | None = None
    path: str | None = None
    query: tuple[str, ...] = ()
    command: str | None = None


@dataclass(frozen=True)
class Config:
    """Everything of the file, defaults filled in.

    Attributes:
        connections: `ai.connections` as written; `agent.broker.policy.declared` compiles them.
        present: there was a file.
    """

    model: str | None = None
    fallback_models: tuple[str, ...] = ()
    base_url: str | None = None
    max_tokens_per_run: int | None = None
    max_cost_per_run: float | None = None
    agent: AgentConfig = AgentConfig()
    connections: Mapping[str, Any] = field(default_factory=dict)
    tools: tuple[ToolConfig, ...] = ()
    log_hosts: tuple[str, ...] = ()
    present: bool = False


def read_config(data: bytes | None, file: str = FILE) -> Config:
    """Read the file's bytes.

    Args:
        data: None where the default branch has no such file: defaults apply.
        file: its path, for errors.

    Raises:
        UserError: with file, line, key and what was expected.
    """
    if data is None:
        return Config()
    document = read_yaml(data, file)
    if document.value is None:
        return Config(present=True)
    found = list(problems(schema(), document.value))
    if found:
        raise UserError("\n".join(_sentence(problem, document, file) for problem in found[:10]))
    ai = document.value.get("ai") or {}
    agent = ai.get("agent") or {}
    config = Config(
        model=ai.get("model"),
        fallback_models=tuple(ai.get("fallbackModels", ())),
        base_url=ai.get("baseUrl"),
        max_tokens_per_run=ai.get("maxTokensPerRun"),
        max_cost_per_run=ai.get("maxCostPerRun"),
        agent=_agent(agent, document, file),
        connections=ai.get("connections", {}),
        tools=tuple(
            _tool(tool, index, ai.get("connections", {}), document, file)
            for index, tool in enumerate(ai.get("tools", ()))
        ),
        log_hosts=tuple(ai.get("github", {}).get("logHosts", ())),
        present=True,
    )
    _check_tools(config, document, file)
    prefix = config.agent.branch_prefix
    if any(problems({"format": "ref"}, f"{prefix}x")):
        line = document.line(("ai", "agent", "branchPrefix"))
        raise UserError(
            f"{file}, line {line}: ai.agent.branchPrefix: no branch that git accepts begins with {prefix!r}."
        )
    return config


def schema() -> dict[str, Any]:
    """The JSON Schema of the file."""
    loaded = json.loads(Path(__file__).with_name("config.schema.json").read_bytes())
    assert isinstance(loaded, dict)
    return loaded


def _agent(agent: Mapping[str, Any], document: Document, file: str) -> AgentConfig:
    labels = agent.get("labels", ())
    both = labels if isinstance(labels, dict) else {"start": labels}
    allow = agent.get("allowTools")
    return AgentConfig(
        setup_script=agent.get("setupScript"),
        prepush_script=agent.get("prepushScript"),
        stop_script=agent.get("stopScript"),
        timeout_minutes=agent.get("timeoutMinutes"),
        max_tool_calls=agent.get("maxToolCalls"),
        allow_tools=None if allow is None else tuple(allow),
        deny_tools=tuple(agent.get("denyTools", ())),
        protected_paths=tuple(agent.get("protectedPaths", ())),
        allow_protected_paths=tuple(agent.get("allowProtectedPaths", ())),
        allow_bots=tuple(agent.get("allowBots", ())),
        outsiders=agent.get("outsiders", "restricted"),
        comment_when_restricted=agent.get("commentWhenRestricted", False),
        request_changes=agent.get("requestChanges", False),
        trigger=agent.get("trigger", "/airlock"),
        start_labels=tuple(both.get("start", ())),
        set_labels=tuple(both.get("set", ())),
        branch_prefix=agent.get("branchPrefix", "airlock/"),
        sandbox=_sandbox(agent.get("sandbox", {})),
        modes=_modes(agent.get("modes", {}), document, file),
    )


def _sandbox(sandbox: Mapping[str, Any]) -> SandboxConfig:
    memory = sandbox.get("memory", 4096)
    if isinstance(memory, str):
        memory = int(memory[:-1]) * (1024 if memory.endswith("g") else 1)
    return SandboxConfig(
        backend=sandbox.get("backend", "auto"),
        image=sandbox.get("image"),
        network=sandbox.get("network", "none"),
        memory_mb=memory,
        pids=sandbox.get("pids", 512),
        mounts=tuple(sandbox.get("mounts", ())),
        env=dict(sandbox.get("env", {})),
    )


def _modes(modes: Mapping[str, Any], document: Document, file: str) -> dict[str, Mode]:
    found = {}
    for name, mode in modes.items():
        if name in MODES or name == "auto":
            line = document.line(("ai", "agent", "modes", name))
            raise UserError(f"{file}, line {line}: ai.agent.modes.{name} would redefine a built-in mode. Rename it.")
        tiers = frozenset(Tier(tier) for tier in mode["tiers"])
        default = max(
            known.max_tool_calls for known in MODES.values() if known.tiers <= tiers or known.name == "review"
        )
        found[name] = Mode(name, tiers, mode.get("maxToolCalls", default), mode["playbook"])
    return found


def _tool(
    tool: Mapping[str, Any], index: int, connections: Mapping[str, Any], document: Document, file: str
) -> ToolConfig:
    where = f"{file}, line {document.line(('ai', 'tools', index))}: the tool {tool['name']!r}"
    over_connection = "connection" in tool or "route" in tool
    if over_connection == ("command" in tool) or ("connection" in tool) != ("route" in tool):
        raise UserError(f"{where} needs either connection and route, or command.")
    if over_connection and tool["connection"] not in connections:
        known = ", ".join(connections) or "none"
        raise UserError(f"{where} names the connection {tool['connection']!r}. Declared: {known}.")
    if "command" in tool and tool["tier"] not in {"shell", "git"}:
        raise UserError(f"{where} runs a command, so its tier is shell.")
    try:
        check_schema(tool["schema"])
    except UserError as exc:
        raise UserError(f"{where}: {exc}") from exc
    route = tool.get("route", {})
    return ToolConfig(
        name=tool["name"],
        tier=Tier(tool["tier"]),
        description=tool["description"],
        schema=tool["schema"],
        connection=tool.get("connection"),
        method=route.get("method"),
        path=route.get("path"),
        query=tuple(route.get("query", ())),
        command=tool.get("command"),
    )


def _check_tools(config: Config, document: Document, file: str) -> None:
    names = [tool.name for tool in config.tools]
    for index, name in enumerate(names):
        if name in TOOL_TIERS or name in names[:index]:
            line = document.line(("ai", "tools", index))
            raise UserError(f"{file}, line {line}: the tool name {name!r} is taken.")
    for key, listed in (("allowTools", config.agent.allow_tools or ()), ("denyTools", config.agent.deny_tools)):
        for index, name in enumerate(listed):
            if name not in TOOL_TIERS and name not in names:
                line = document.line(("ai", "agent", key, index))
                guess = _guess(name, [*TOOL_TIERS, *names])
                raise UserError(f"{file}, line {line}: ai.agent.{key} names {name!r}, which is no tool.{guess}")


def _sentence(problem: Problem, document: Document, file: str) -> str:
    key = ".".join(str(part) for part in problem.path) or "the file"
    line = document.line(problem.path)
    if problem.keyword == "additionalProperties":
        known = problem.message.partition("known here: ")[2].split(", ")
        return f"{file}, line {line}: {key} is {problem.message}.{_guess(str(problem.path[-1]), known)}"
    return f"{file}, line {line}: {key}: {problem.message}."


def _guess(name: str, known: list[str]) -> str:
    import difflib  # only a mistake needs it

    close = difflib.get_close_matches(name, known, n=1)
    return f" Did you mean {close[0]}?" if close else ""
