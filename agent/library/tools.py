"""Custom tools: copied at registration, and kept from harming a run whatever they do.

A tool is the caller's code, in the caller's process: it can do what the caller can, and nothing here confines it.
What is kept is the run: a tool that raises, exits by `sys.exit`, hangs or returns junk costs one failed call.
Only `os._exit` and a crash of the interpreter end the process.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from agent.contract.errors import AirlockError, UserError
from agent.contract.modes import Tier
from agent.contract.tool import AgentTool, ToolOutput

Run = Callable[[Mapping[str, Any], Any], ToolOutput]


def registered(tools: Iterable[AgentTool], timeout_s: float) -> tuple[AgentTool, ...]:
    """Copies of the tools, so that what a tool does to itself later changes nothing (S5).

    Args:
        timeout_s: seconds of one call; a tool that is not back by then is left behind.

    Raises:
        UserError: not a tool, a tier that is none, a schema that is no JSON, or no function to run.
    """
    return tuple(_copied(tool, timeout_s) for tool in tools)


def _copied(tool: AgentTool, timeout_s: float) -> AgentTool:
    given: object = tool
    if not isinstance(given, AgentTool):
        raise UserError(f"A custom tool must be an AgentTool, not {type(given).__name__}.")
    name: object = tool.name
    tier: object = tool.tier
    if not isinstance(name, str):
        raise UserError(f"The name of a custom tool must be a text, not {type(name).__name__}.")
    if not isinstance(tier, str) or tier not in [t.value for t in Tier]:
        raise UserError(
            f"The custom tool {name!r} has the tier {tier!r}. Tiers: {', '.join(t.value for t in Tier)}, "
            "written exactly so."
        )
    about: object = tool.description
    if not isinstance(about, str) or not about.strip():
        raise UserError(f"The custom tool {name!r} needs a description for the model.")
    if not callable(tool.run):
        raise UserError(f"The custom tool {name!r} has no function to run.")
    try:
        schema = json.loads(json.dumps(dict(tool.schema), allow_nan=False))
    except (TypeError, ValueError, RecursionError) as exc:
        raise UserError(f"The schema of the custom tool {name!r} is no JSON object.") from exc
    return AgentTool(
        name=name,
        tier=Tier(tier),
        description=about,
        schema=schema,
        run=_guarded(name, tool.run, timeout_s),
        parallel=tool.parallel is True,
    )


def _guarded(name: str, run: Run, timeout_s: float) -> Run:
    """The tool's function in a thread of its own, waited for so long and no longer."""

    def guarded(arguments: Mapping[str, Any], context: Any) -> ToolOutput:
        found: list[ToolOutput | BaseException] = []

        def work() -> None:
            try:
                found.append(_called(name, run, arguments, context))
            except BaseException as exc:  # noqa: BLE001 - SystemExit of a tool must not end a thread unheard
                found.append(exc)

        thread = threading.Thread(target=work, name=f"tool-{name}", daemon=True)
        thread.start()
        thread.join(timeout_s)
        if not found:
            text = f"{name} did not come back within {timeout_s:g} s and was left behind."
            return ToolOutput(text, is_error=True, untrusted=False)
        outcome = found[0]
        if isinstance(outcome, BaseException):
            raise outcome if isinstance(outcome, Exception) else RuntimeError(type(outcome).__name__)
        return outcome

    return guarded


def _called(name: str, run: Run, arguments: Mapping[str, Any], context: Any) -> ToolOutput:
    try:
        return _output(name, run(arguments, context))
    except AirlockError as exc:
        # its words may be a third party's: framed like any output, where a built-in's own would stand bare
        return ToolOutput(str(exc), is_error=True)


def _output(name: str, output: object) -> ToolOutput:
    """A plain copy, made in the tool's thread: a subclass could answer differently each time, raise, or hang."""
    if not isinstance(output, ToolOutput) or not isinstance(text := output.text, str):
        text = f"{name} gave back {type(output).__name__}, which is no ToolOutput with a text."
        return ToolOutput(text, is_error=True)
    return ToolOutput(str.__str__(text), is_error=bool(output.is_error), untrusted=output.untrusted is not False)
