"""Operations of the shell tier: a command, and pages of its full output. See `operations`: every field is hostile."""

from __future__ import annotations

from pathlib import Path

from agent.broker.redact import Redactor
from agent.broker.server import Call, Handler, Reply
from agent.broker.state import RunState
from agent.contract.errors import Refusal, ToolInputError
from agent.contract.modes import Tier
from agent.contract.sandbox import ExecRequest

COMMAND_CAP = 100_000  # characters
KEPT_CAP = 2_000_000  # bytes of each stream kept of one command, for paging
SENT_CAP = 200_000  # bytes of each stream that go to the harness at once


class CommandOperations:
    """Handlers over one run's sandbox."""

    def __init__(self, run: RunState, redactor: Redactor, folder: Path) -> None:
        """Over one run; full output is kept in `folder`, redacted."""
        self._run = run
        self._redactor = redactor
        self._commands = folder
        self._count = 0

    def handlers(self) -> dict[str, Handler]:
        """By operation, for the server."""
        return {"exec": self.run_command, "output": self.output}

    def run_command(self, call: Call) -> Reply:
        run = self._run
        command = self._command(call)
        if run.sandbox is None:
            raise Refusal("sandbox_missing", "There is no sandbox in this run.")
        run.count_act()
        left = max(1.0, run.remaining_s())
        request = ExecRequest(
            command,
            timeout_s=call.number("timeout_s", default=120.0, low=1.0, high=min(3600.0, left)),
            output_cap=KEPT_CAP,
            cwd=call.text("cwd", default=".", cap=4096),
        )
        result = run.sandbox.run(request)
        header, _ = result.to_frame()
        output_id = self._keep(result.stdout, result.stderr)
        stdout, header["stdout_dropped"], header["stdout_head"] = _cut(
            result.stdout, result.stdout_dropped, result.stdout_head
        )
        stderr, header["stderr_dropped"], header["stderr_head"] = _cut(
            result.stderr, result.stderr_dropped, result.stderr_head
        )
        header.update(stdout=len(stdout), stderr=len(stderr), output_id=output_id)
        run.record(
            "command",
            command=command,
            exit_code=result.exit_code,
            signal=result.signal,
            timed_out=result.timed_out,
            survivors=result.survivors,
            duration_ms=round(result.duration_ms, 1),
            output_id=output_id,
            bytes=len(result.stdout) + len(result.stderr) + result.stdout_dropped + result.stderr_dropped,
        )
        return header, stdout + stderr

    def _command(self, call: Call) -> str:
        """The text to run: the model's own by `run_command`, or a declared tool's, which the harness only names."""
        run = self._run
        name = call.fields.get("tool")
        if name is None:
            run.require("run_command", Tier.SHELL)
            command = call.text("command", cap=COMMAND_CAP)
            if "\0" in command:
                raise ToolInputError("`command` holds a NUL character.")
            return command
        tier = run.declared.tier_of(name) if isinstance(name, str) else None
        if tier is None or "command" in call.fields:
            raise ToolInputError("`tool` must name a declared command, and then there is no `command`.")
        run.require(name, tier)
        return run.declared.command(name, call.fields.get("arguments", {}))

    def _keep(self, stdout: bytes, stderr: bytes) -> str:
        """Store a command's output, redacted, in the results folder; its number, or nothing where there is none.

        None is kept of a command that said nothing, or where the cap is reached.
        """
        if not stdout and not stderr:
            return ""
        text = (stdout + (b"\n[stderr]\n" + stderr if stderr else b"")).decode("utf-8", "replace")
        data = self._redactor.outside(text).encode("utf-8", "replace")  # it lies in the artifact, for people
        with self._run.lock:
            meter = self._run.meter
            if meter.kept_bytes + len(data) > meter.limits.max_commands_bytes:
                return ""
            meter.kept_bytes += len(data)
            self._count += 1
            number = self._count
        self._commands.mkdir(exist_ok=True)
        (self._commands / f"{number}.txt").write_bytes(data)
        return str(number)

    def output(self, call: Call) -> Reply:
        """A page of a command's stored output."""
        self._run.require("run_command", Tier.SHELL)
        name = call.text("output_id", cap=10)
        path = self._commands / f"{name}.txt"
        if not name.isascii() or not name.isdigit() or not path.is_file():
            raise ToolInputError(f"There is no stored output {name!r}.")
        offset = int(call.number("offset", default=0, low=0, high=1 << 40))
        limit = int(call.number("limit", default=30_000, low=1, high=SENT_CAP))
        with path.open("rb") as file:
            total = file.seek(0, 2)
            file.seek(min(offset, total))
            return {"total": total}, file.read(limit)


def _cut(data: bytes, dropped: int, head: int) -> tuple[bytes, int, int]:
    """Keep head and tail of what goes to the harness."""
    if len(data) <= SENT_CAP:
        return data, dropped, head
    half = SENT_CAP // 2
    return data[:half] + data[-half:], dropped + len(data) - SENT_CAP, half
