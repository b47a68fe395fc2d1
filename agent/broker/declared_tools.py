"""Declared tools (`ai.tools`) on the broker's side: what each may really do, whatever the harness sends (C6, S5).

House rules:
* A declared command is run by the tool's name. Its text is the trusted configuration's and never comes from the
  harness; the arguments are checked here again and reach the command on standard input, never in the shell's words.
* A declared connection is open to the requests of the declared tools that are offered, and to nothing else: a tool
  that `denyTools` names, or that the mode's tiers leave out, takes its route with it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from agent.broker.config import ToolConfig
from agent.broker.policy.declared import ANY_SEGMENT
from agent.broker.policy.path import BadPath, split_path
from agent.broker.policy.route import Connection, Route
from agent.broker.policy.template import Template, compile_template
from agent.contract.dataclass import dataclass, replace
from agent.contract.errors import ToolInputError, UserError
from agent.contract.modes import Tier
from agent.contract.regex import regex
from agent.contract.schema import problems

ARGUMENTS_CAP = 50_000  # bytes: one word of a command line holds at most 131,071
_PLACE = regex(r"\{([a-z_]+)\}")
_ANY = "\ue000"  # stands for every value of a placeholder: no literal of a route is this text


@dataclass(frozen=True)
class _Bound:
    """A tool over a connection, bound to its route."""

    config: ToolConfig
    template: Template
    route: Route


class DeclaredTools:
    """The declared tools of one run."""

    def __init__(
        self,
        tools: Iterable[ToolConfig] = (),
        connections: Iterable[Connection] = (),
        offered: Iterable[str] = (),
    ) -> None:
        """Bind each tool to its route.

        Args:
            connections: the declared ones, compiled.
            offered: names of all tools that this run offers.

        Raises:
            UserError: a tool's route is none of its connection's, or differs from it in tier.
        """
        self._tools = {tool.name: tool for tool in tools}
        self._offered = frozenset(offered)
        self._connections = {connection.name: connection for connection in connections}
        self._bound = {
            tool.name: _bind(tool, self._connections[tool.connection])
            for tool in self._tools.values()
            if tool.connection is not None
        }

    def connections(self) -> tuple[Connection, ...]:
        """The declared connections with the requests of the offered tools as their only routes."""
        return tuple(
            replace(connection, routes=tuple(self._routes(connection.name)))
            for connection in self._connections.values()
        )

    def _routes(self, connection: str) -> Iterable[Route]:
        for name, bound in self._bound.items():
            if bound.config.connection == connection and name in self._offered:
                yield replace(bound.route, id=f"{bound.route.id}:{name}", templates=(bound.template,))

    def commands(self) -> dict[str, str]:
        """Text of each declared command that is offered, for the manifest."""
        tools = self._tools.values()
        return {tool.name: tool.command for tool in tools if tool.command is not None and tool.name in self._offered}

    def for_harness(self) -> list[dict[str, Any]]:
        """What the harness needs to make tools of them; a command's text stays here."""
        return [self._shown(tool) for tool in self._tools.values()]

    def _shown(self, tool: ToolConfig) -> dict[str, Any]:
        bound = self._bound.get(tool.name)
        return {
            "name": tool.name,
            "tier": str(tool.tier),
            "description": tool.description,
            "schema": dict(tool.schema),
            "connection": tool.connection,
            "method": tool.method,
            "path": tool.path,
            "query": list(tool.query),
            "body": bound is not None and bound.route.body is not None,
            "command": tool.command is not None,
        }

    def tier_of(self, name: str) -> Tier | None:
        """The tier of a declared command; None where no command of that name is declared."""
        tool = self._tools.get(name)
        return tool.tier if tool is not None and tool.command is not None else None

    def command(self, name: str, arguments: object) -> str:
        """The text for the sandbox's shell, of a tool that `tier_of` knows.

        Raises:
            ToolInputError: the arguments do not fit the tool's schema, or are too long.
        """
        tool = self._tools[name]
        if not isinstance(arguments, Mapping):
            raise ToolInputError("`arguments` must be an object.")
        for problem in problems(tool.schema, dict(arguments)):
            where = ".".join(map(str, problem.path)) or "the arguments"
            raise ToolInputError(f"{where}: {problem.message}.")
        text = json.dumps(dict(arguments))
        if len(text) > ARGUMENTS_CAP:
            raise ToolInputError(f"The arguments are over {ARGUMENTS_CAP} bytes.")
        quoted = "'" + text.replace("'", "'\\''") + "'"
        # The bracket stands on a line of its own: a command may end in a comment.
        return f"printf %s {quoted} | (\n{tool.command}\n)"


def _bind(tool: ToolConfig, connection: Connection) -> _Bound:
    where = f"The tool {tool.name!r}"
    path = str(tool.path)
    names = _PLACE.findall(path)
    for name in (*names, *tool.query):
        if name not in tool.schema.get("properties", {}):
            raise UserError(f"{where} uses {name!r} in its route; its schema has no such property.")
    template = compile_template(path, dict.fromkeys(names, ANY_SEGMENT))
    literal = split_path(_PLACE.sub("x", path))
    if isinstance(literal, BadPath):
        raise UserError(f"{where} has the path {path}, which is refused: {literal.reason}.")
    segments = tuple(_ANY if _PLACE.fullmatch(piece) else piece for piece in path[1:].split("/"))
    route = next(
        (r for r in connection.routes if r.method == tool.method and r.path_parameters(segments) is not None), None
    )
    if route is None:
        raise UserError(
            f"{where} asks for {tool.method} {path}, which is no route of ai.connections.{connection.name}."
        )
    if route.tier is not tool.tier:
        raise UserError(f"{where} is of tier {tool.tier} and its route of tier {route.tier}: they must be the same.")
    return _Bound(tool, template, route)
