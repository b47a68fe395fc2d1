"""Zone 2: drives the model. Holds no secret, opens no socket, starts no process.

Order: 1 import everything and warm what loads late, 2 confine (from here on the kernel keeps this process to
the workspace and one inherited socket), 3 ask the broker for the run's facts, 4 run the loop, 5 report.
Nothing a third party wrote is read before step 2 is done.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

from agent.contract.errors import AirlockError
from agent.contract.facts import RunFacts
from agent.contract.framing import frame
from agent.contract.modes import Tier
from agent.contract.tool import AgentTool
from agent.harness.clients import Compactor, ModelClient
from agent.harness.loop import CancelToken, Limits, LoopResult, StopReason, StructuredOutput, ToolCall, run_loop
from agent.harness.playbooks import NAMES, playbook, system_prompt
from agent.harness.ports import BrokerPort
from agent.harness.tools import BUILTIN
from agent.harness.tools.belt import Belt, make_belt
from agent.harness.tools.context import ToolContext
from agent.harness.tools.declared import declared_tools
from agent.kernel.beneath import Beneath
from agent.kernel.channel import Caller, CallFailed, Channel, ChannelError
from agent.kernel.confine import confine_harness, restrict_files, set_non_dumpable

UNPRICED = "The price of a model of this run is not known, so the cap on cost cannot hold. The cap on tokens does."


def main(channel_fd: int, plan_fd: int) -> int:
    """Run one task for the broker at the other end of the channel; the exit status tells launch nothing."""
    set_non_dumpable()
    with os.fdopen(plan_fd, "rb") as file:
        plan = json.load(file)
    _warm()  # 1
    confine_harness(  # 2
        workspace=plan["workspace"],
        uid=plan["uid"],
        gid=plan["gid"],
        extra_read=_code_folders(),
    )
    channel = Channel.from_fd(channel_fd)
    try:
        facts = _hello(channel)  # 3
        if Tier.WRITE.value not in facts.options["tiers"]:
            # a second layer, before any thread exists: a mode that does not write cannot
            restrict_files(read=[plan["workspace"], *_code_folders()], devices=["/dev/null"])
        caller = Caller(channel)
        try:
            result = run(facts, caller)  # 4
        except (AirlockError, OSError, TypeError, ValueError, LookupError, AttributeError) as exc:
            result = LoopResult("", ok=False, stop_reason=StopReason.ERROR, reason=f"{type(exc).__name__}: {exc}")
        finish(caller, result)  # 5
    except ChannelError:
        return 1  # the broker is gone or has ended the run
    except CallFailed:
        return 1  # refused at the very end; the broker has recorded why
    return 0


def run(
    facts: RunFacts,
    broker: BrokerPort,
    custom: Sequence[AgentTool] = (),
    *,
    builtin: Sequence[AgentTool] = BUILTIN,
    structured: StructuredOutput | None = None,
    cancel: CancelToken | None = None,
) -> LoopResult:
    """One loop over the tools that the facts offer.

    Args:
        custom: tools written in Python, where the harness is a library.
        builtin: the families' tools, as they are or wrapped.
        structured: how a structured ending is checked.
        cancel: ends the loop at any step.

    Raises:
        UserError: a custom tool's name, tier or schema is wrong.
        OSError: the workspace cannot be opened.
    """
    with Beneath(facts.workspace) as files:
        belt = belt_of(ToolContext(facts=facts, broker=broker, files=files), custom, builtin)
        recorder = Recorder(broker)
        client = ModelClient(broker, facts.models, logger=recorder)
        max_cost = facts.options.get("max_cost")
        if max_cost is not None and not client.priced:
            recorder.event("agent.note", {"turn": 0, "text": UNPRICED})
        return run_loop(
            client,
            system=system_prompt(facts),
            task=facts.task,
            tools=belt.tools,
            forbidden=belt.forbidden,
            hooks=StopHook(broker),
            logger=recorder,
            optimizer=Compactor.for_models(facts.models),
            structured=structured,
            cancel=cancel,
            limits=Limits(
                max_tool_calls=facts.max_tool_calls,
                max_turns=facts.max_turns,
                timeout_s=facts.timeout_s,
                max_tokens=facts.max_tokens,
                max_cost=max_cost,
            ),
        )


def belt_of(context: ToolContext, custom: Sequence[AgentTool], builtin: Sequence[AgentTool] = BUILTIN) -> Belt:
    """The belt of a run. Raises UserError for a custom tool that cannot be one."""
    facts = context.facts
    tiers = [Tier(t) for t in facts.options["tiers"]]
    return make_belt(context, builtin, (*declared_tools(facts), *custom), tiers=tiers)


class Recorder:
    """The loop's LoggerPort: events go to the broker, which redacts and writes them as they happen.

    Those that another message follows at once go with it: of a batch's results the last one, since what comes after
    another is the rest of the batch, which may take long.
    """

    _FOLLOWED = frozenset({"agent.rendered", "model.request", "model.response"})

    def __init__(self, broker: BrokerPort) -> None:
        self._broker = broker
        self._awaited = 0  # calls without a result

    def event(self, name: str, fields: Mapping[str, Any]) -> None:
        self._awaited += (name == "tool.call") - (name == "tool.result")
        hold = name in self._FOLLOWED or (name == "tool.result" and not self._awaited)
        data = {"type": name, **{k: asdict(v) if is_dataclass(v) else v for k, v in fields.items()}}  # type: ignore[arg-type]
        self._broker.notice("event", json.dumps(data, default=str).encode(), hold=hold)


class StopHook:
    """The loop's HooksPort: when the model says that it is done, the broker runs the stop script (DESIGN 4.9)."""

    def __init__(self, broker: BrokerPort) -> None:
        self._broker = broker

    def before_call(self, call: ToolCall) -> str | None:  # noqa: ARG002 - the port's name
        return None

    def before_stop(self, result: LoopResult) -> str | None:  # noqa: ARG002 - the port's name
        answer = self._broker.call("verify")
        if not answer.header.get("resume"):
            return None
        return f"The stop script did not pass.\n{frame(answer.payload.decode('utf-8', 'replace'))}"


def finish(broker: BrokerPort, result: LoopResult) -> None:
    """Tell the broker how the loop ended; its own word may be another (`agent.broker.closing.settle`)."""
    structured = result.structured if result.stop_reason is StopReason.STRUCTURED else None
    body = {
        "stop_reason": result.stop_reason.value,
        "reason": result.reason,
        "output": result.output,
        "structured": structured,
        "usage": asdict(result.usage),
        "turns": result.turns,
        "tool_calls": result.tool_calls,
    }
    broker.call("finish", json.dumps(body, default=str).encode())


def _hello(channel: Channel) -> RunFacts:
    channel.send({"id": 1, "op": "hello"})
    answer = channel.recv()
    if answer is None or not answer.header.get("ok"):
        raise ChannelError("the broker did not answer")
    return RunFacts.from_json(answer.header["facts"])


def _code_folders() -> tuple[str, ...]:
    """Where this program's own code lies: readable, so that a late import still works where the user may."""
    return tuple(dict.fromkeys([str(Path(__file__).resolve().parents[2]), *sys.path, sys.prefix, sys.base_prefix]))


def _warm() -> None:
    """Load now what libraries load at first use: afterwards the files may be out of reach."""
    import re2  # noqa: F401 - `grep` uses it

    import agent.harness.tools.ci_logs  # noqa: F401 - the tool of checks loads it when it is called

    for name in NAMES:
        playbook(name)
