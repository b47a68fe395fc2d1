"""`run_command`: runs in the sandbox, by the broker. Exit status, signal, time and what was cut are always told."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping
from typing import Any

from agent.contract.errors import ToolInputError
from agent.contract.modes import Tier
from agent.contract.regex import regex
from agent.contract.sandbox import ExecResult
from agent.contract.tool import AgentTool, ToolOutput
from agent.harness.tools.context import NotedOutput, ToolContext
from agent.harness.tools.text_form import shown_text

TIMEOUT_S = 120
TIMEOUT_CAP_S = 1800
SHOWN = 16_000  # characters of one stream: a third of the beginning, the rest of the end, where errors stand
PAGE_BYTES = 20_000

# CSI, OSC and the other escape sequences a program writes to a terminal: colour to a person, noise to a model
_TERMINAL = regex(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[PX^_][^\x1b]*\x1b\\|[ -/]*[0-~])")


def plain(raw: bytes) -> str:
    """Text of a program's output: no terminal sequences, of an overwritten line its last state."""
    text = _TERMINAL.sub("", shown_text(raw)[0]).replace("\r\n", "\n")
    if "\r" not in text:
        return text
    lines = (line.rstrip("\r").rpartition("\r")[2] if "\r" in line else line for line in text.split("\n"))
    return "\n".join(lines)


def _stream(raw: bytes, dropped: int, head: int) -> tuple[str, bool]:
    """One stream as shown, and whether something is missing in it."""
    if dropped:
        first, last = plain(raw[:head]), plain(raw[head:])
        begin, end = first[: SHOWN // 3], last[-(SHOWN - SHOWN // 3) :]
        missing = dropped + len(raw) - len(begin.encode()) - len(end.encode())
        return f"{begin}\n[… about {missing} bytes left out …]\n{end}", True
    text = plain(raw)
    if len(text) <= SHOWN:
        return text, False
    begin, end = text[: SHOWN // 3], text[-(SHOWN - SHOWN // 3) :]
    return f"{begin}\n[… {len(text) - SHOWN} characters left out …]\n{end}", True


def _ended(result: ExecResult, timeout_s: float) -> str:
    """How the command ended, by what `wait` said and nothing the command printed."""
    took = f"{result.duration_ms / 1000:.1f} s"
    if result.timed_out:
        return f"timed out after {timeout_s:g} s; the command and all that it had started were killed"
    if result.signal is not None:
        try:
            name = signal.Signals(result.signal).name
        except ValueError:
            name = "unknown"
        return f"killed by signal {result.signal} ({name}) after {took}"
    return f"exit {result.exit_code} in {took}"


def described(result: ExecResult, timeout_s: float, output_id: str) -> ToolOutput:
    """What the model reads of one command."""
    out, out_cut = _stream(result.stdout, result.stdout_dropped, result.stdout_head)
    err, err_cut = _stream(result.stderr, result.stderr_dropped, result.stderr_head)
    notes = [_ended(result, timeout_s)]
    if result.survivors:
        left = f"{result.survivors} process{'es' if result.survivors > 1 else ''}"
        notes.append(f"{left} left behind by it were killed: a server and its test go into one command")
    if out_cut or err_cut:
        whole = f'all of it: run_command {{"output_id": "{output_id}"}}' if output_id else "the rest was not kept"
        notes.append(f"output was cut; {whole}")
    parts = [out.rstrip("\n")] if out.strip() else []
    if err.strip():
        parts.append(("[stderr]\n" if parts else "") + err.rstrip("\n"))
    if not parts:
        return NotedOutput("(no output)", is_error=result.timed_out, untrusted=False, note="; ".join(notes))
    return NotedOutput("\n".join(parts), is_error=result.timed_out, note="; ".join(notes))


def _run_command(args: Mapping[str, Any], ctx: ToolContext) -> ToolOutput:
    if ("command" in args) == ("output_id" in args):
        raise ToolInputError("Give either command, or output_id to read the output of an earlier one.")
    if "output_id" in args:
        return _output(args, ctx)
    command = args["command"]
    if not command.strip() or "\0" in command:
        raise ToolInputError("The command is empty or holds a NUL character.")
    timeout_s = float(args.get("timeout", TIMEOUT_S))
    cwd = ctx.files.relative(args["cwd"]) if args.get("cwd") else ""
    frame = ctx.broker.call("exec", command=command, timeout_s=timeout_s, cwd=cwd or ".")
    result = ExecResult.from_frame(frame.header, frame.payload)
    return described(result, timeout_s, _identifier(frame.header.get("output_id", "")))


def _output(args: Mapping[str, Any], ctx: ToolContext) -> ToolOutput:
    """A page of a stored output; here `offset` counts bytes, as outputs need not have lines."""
    offset = int(args.get("offset", 0))
    frame = ctx.broker.call("output", output_id=args["output_id"], offset=offset, limit=PAGE_BYTES)
    total = int(frame.header.get("total", offset + len(frame.payload)))
    end = offset + len(frame.payload)
    note = f"bytes {offset}-{end} of {total}" + (f"; more: offset={end}" if end < total else "")
    return NotedOutput(plain(frame.payload) or "(no output)", untrusted=bool(frame.payload), note=note)


def _identifier(value: object) -> str:
    """The broker's id, which goes into words of ours: letters, digits and hyphens alone."""
    return re.sub(r"[^A-Za-z0-9_.-]", "", str(value))[:64]


RUN_COMMAND = AgentTool(
    name="run_command",
    tier=Tier.SHELL,
    description="Run a shell command in the sandbox: no network, no input, nothing outlives it. Long output is cut in "
    "the middle; output_id reads all of it.",
    schema={
        "type": "object",
        "properties": {
            "command": {"type": "string"},
            "timeout": {
                "type": "number",
                "exclusiveMinimum": 0,
                "maximum": TIMEOUT_CAP_S,
                "description": "seconds, 120",
            },
            "cwd": {"type": "string", "description": "folder, relative to the workspace"},
            "output_id": {"type": "string", "description": "instead of command"},
            "offset": {"type": "integer", "minimum": 0, "description": "byte to read an output from"},
        },
    },
    run=_run_command,
)

TOOLS: tuple[AgentTool, ...] = (RUN_COMMAND,)
