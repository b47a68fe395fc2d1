"""From tools to what the loop is given: tier filter (S5), argument check, framing of untrusted output (S1).

The list of offered names comes from the broker, which computed it from mode, tiers, `allowTools` and
`denyTools`; the tier is checked here a second time and by the broker at every message a third time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from agent.contract.dataclass import dataclass
from agent.contract.errors import Refusal, ToolInputError, ToolPermissionError, UpstreamError, UserError
from agent.contract.framing import clip, escape, frame, show_invisible
from agent.contract.modes import TOOL_TIERS, Tier
from agent.contract.regex import regex
from agent.contract.tool import AgentTool, ToolOutput
from agent.harness.loop.errors import BlockedError, LlmError
from agent.harness.loop.words import LoopTool, ToolResult
from agent.harness.tools.arguments import ArgumentCheck
from agent.harness.tools.context import NotedOutput, ToolContext
from agent.harness.tools.names import imitated
from agent.kernel.channel import CallFailed, ChannelError

TOOL_NAME = regex(r"[a-z][a-z0-9_]{0,63}\Z")

OUTPUT_CAP = 48_000
"""Characters of one framed result, a last resort: about 12,000 tokens. Tools page far below it."""


@dataclass(frozen=True)
class Belt:
    """The tools of a run.

    Attributes:
        tools: what the model is shown, in the order of `facts.tools`.
        forbidden: names of tools that exist and are not offered; calling one ends the run as blocked (S5).
        missing: offered names without an implementation in this build.
    """

    tools: tuple[LoopTool, ...]
    forbidden: frozenset[str]
    missing: tuple[str, ...] = ()


def make_belt(
    context: ToolContext,
    builtin: Iterable[AgentTool],
    custom: Iterable[AgentTool] = (),
    *,
    tiers: Iterable[Tier],
) -> Belt:
    """Make the loop's tools of everything that is offered in this run.

    Args:
        context: handed to every tool.
        builtin: the built-in families' tools.
        custom: tools declared by the user; their output is framed unless they say `untrusted=False`.
        tiers: the tiers of the mode in force.

    Raises:
        UserError: a custom tool's name, tier or schema is wrong, or its name shadows or imitates another's.
    """
    open_tiers = frozenset(tiers)
    table: dict[str, AgentTool] = {}
    for tool in builtin:
        if TOOL_TIERS.get(tool.name) is not tool.tier or tool.name in table:
            raise UserError(f"The built-in tool {tool.name!r} does not match the table of tools and tiers.")
        table[tool.name] = tool
    for tool in custom:
        _check_custom(tool, table)
        table[tool.name] = tool
    known = {*TOOL_TIERS, *table}
    offered = [
        name
        for name in dict.fromkeys(context.facts.tools)
        if name in known and (table[name].tier if name in table else TOOL_TIERS[name]) in open_tiers
    ]
    return Belt(
        tools=tuple(_loop_tool(table[name], context) for name in offered if name in table),
        forbidden=frozenset(known.difference(offered)),
        missing=tuple(name for name in offered if name not in table),
    )


def _check_custom(tool: AgentTool, table: Mapping[str, AgentTool]) -> None:
    name: object = tool.name  # a user's Python may put anything here
    if not isinstance(name, str) or not TOOL_NAME.match(name):
        raise UserError(
            f"The custom tool name {name!r} is not valid: use small letters, digits and _, at most 64, "
            "beginning with a letter."
        )
    tier: object = tool.tier
    if not isinstance(tier, str) or tier not in {t.value for t in Tier}:
        raise UserError(
            f"The custom tool {name!r} has the tier {tier!r}. Tiers: {', '.join(t.value for t in Tier)}, "
            "written exactly so."
        )
    other = imitated(name, {*TOOL_TIERS, *table})
    if other is not None:
        raise UserError(f"The custom tool name {name!r} shadows or imitates the tool {other!r}: rename it.")
    ArgumentCheck(name, tool.schema).compile()


def _loop_tool(tool: AgentTool, context: ToolContext) -> LoopTool:
    check = ArgumentCheck(tool.name, tool.schema, closed=tool.name in TOOL_TIERS)

    def run(arguments: Mapping[str, Any]) -> ToolResult:
        return _run(tool, check, arguments, context)

    return LoopTool(
        name=tool.name,
        description=tool.description,
        schema=tool.schema,
        run=run,
        parallel=tool.parallel and tool.tier == Tier.READ,
    )


def _run(tool: AgentTool, check: ArgumentCheck, arguments: Mapping[str, Any], context: ToolContext) -> ToolResult:
    try:
        return _result(tool.run(check.checked(arguments), context))
    except ToolPermissionError as exc:
        raise BlockedError(str(exc)) from exc  # the loop's word for it: ends the run as blocked
    except ToolInputError as exc:
        return ToolResult(clip(escape(str(exc)), OUTPUT_CAP), is_error=True)
    except Refusal as exc:
        return ToolResult(f"Refused ({exc.code}): {clip(escape(str(exc)), OUTPUT_CAP)}", is_error=True)
    except CallFailed as exc:
        return _call_failed(exc)
    except UpstreamError as exc:
        return ToolResult(frame(clip(escape(str(exc)), OUTPUT_CAP)), is_error=True)
    except (ChannelError, LlmError, BlockedError):
        raise  # the broker is gone, or words of the loop's own
    except Exception as exc:
        if tool.name in TOOL_TIERS:
            raise
        return ToolResult(
            f"The tool broke ({type(exc).__name__}).\n{frame(clip(escape(str(exc)), OUTPUT_CAP))}", is_error=True
        )


def _call_failed(exc: CallFailed) -> ToolResult:
    """A message may quote a hook's output or a service's answer, so it is framed; `tool_input` and `limit` are ours."""
    text = clip(escape(str(exc)), OUTPUT_CAP)
    if exc.code in ("tool_input", "limit"):
        return ToolResult(text, is_error=True)
    head = "An outside service failed." if exc.code == "upstream" else f"Refused ({escape(exc.code)})."
    return ToolResult(f"{head}\n{frame(text)}", is_error=True)


def _result(output: ToolOutput) -> ToolResult:
    text = output.text if output.text.strip() else "(no output)"
    note = output.note if isinstance(output, NotedOutput) else ""
    # untrusted text is escaped before it is cut: a part of a text without marks holds none
    body = frame(clip(escape(text), OUTPUT_CAP)) if output.untrusted else clip(show_invisible(text), OUTPUT_CAP)
    return ToolResult(f"{body}\n{escape(note)}" if note else body, is_error=output.is_error)
