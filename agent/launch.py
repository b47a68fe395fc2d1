"""Process 1: starts broker, harness and sandboxes, forwards commands, keeps the deadline, cleans up.

House rules: launch holds no secret (the first stage gave them to the broker alone), reads no
third-party text, decides nothing about the run. It is the only module that knows every zone, and the only
process with Docker. Whatever happens, `finally` in `main` runs: sandboxes and harness ended, workspace put
back, exit status of the broker passed on.

Order: 1 harden, 2 plan users and folders, 3 hand the broker its plan and start the harness, 4 serve the broker
until it ends, 5 clean up.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from agent.contract.errors import ToolInputError
from agent.contract.inputs import parse_blob
from agent.contract.outcomes import OUTCOMES, StopReason
from agent.contract.sandbox import ExecRequest, SandboxSpec
from agent.kernel.channel import Channel, ChannelError, Frame
from agent.kernel.confine import no_core, set_non_dumpable
from agent.kernel.passable import make_passable
from agent.kernel.turns import Turns
from agent.launch_place import find_place, results_folder, unprivileged_owner
from agent.launch_sandboxes import Sandboxes
from agent.launch_stages import memory, reap_for, spawn

CANCEL_GRACE_S = 6.0  # the runner gives 7.5 s from SIGINT to SIGTERM and 2.5 s more to SIGKILL
MOST_REQUESTS = 64  # of the broker under way: four times what its harness may have, so that a stop always gets through
LAST_RESORT_S = 60.0  # past the broker's own deadline; then launch ends it


def main(settings_fd: int, control_fd: int, harness_fd: int, plan_fd: int, broker_pid: int) -> int:
    """Run everything; returns the step's exit status.

    Args:
        settings_fd: what came in from the runner, without secrets.
        control_fd: our end of the broker's channel to us.
        harness_fd: the harness's end of its channel to the broker.
        plan_fd: the broker reads its plan at the other end, and does nothing before; later a byte that cancels the run.
        broker_pid: the broker, which the first stage started.
    """
    set_non_dumpable()  # 1
    no_core()
    for fd in (control_fd, harness_fd, plan_fd):
        os.set_inheritable(fd, False)
    with os.fdopen(settings_fd, "rb") as file:
        settings, _ = parse_blob(file.read())
    launch = Launch(settings, Channel.from_fd(control_fd), broker_pid)  # 2
    try:
        launch.start(harness_fd, plan_fd)  # 3
        return launch.serve()  # 4
    except OSError as exc:
        print(f"::error::Airlock could not start its parts: {exc.strerror or exc}", flush=True)
        return OUTCOMES[StopReason.ERROR].exit_status
    finally:
        launch.clean_up()  # 5


class Launch:
    """State of process 1."""

    def __init__(self, settings: dict[str, str], control: Channel, broker_pid: int) -> None:
        self.settings = settings
        self.workspace = os.path.realpath(settings.get("GITHUB_WORKSPACE") or os.getcwd())
        self.uid, self.gid = unprivileged_owner(self.workspace)
        self.place = find_place(self.workspace)
        self.state = Path(self.place.state or "/tmp", f"airlock-{os.urandom(8).hex()}")  # noqa: S108 - new, of a random name
        make_passable(self.state)
        self.results = Path(settings.get("AIRLOCK_RESULTS") or results_folder(settings))
        self.results.mkdir(parents=True, exist_ok=True)
        self.broker_pid = broker_pid
        self.harness_pid = 0
        self._sandboxes = Sandboxes(
            settings,
            self.place,
            state=self.state,
            owner=(self.uid, self.gid),
            watched=lambda: (self.broker_pid, self.harness_pid),
        )
        self._control = control
        self._plan_fd = -1
        self._ended: dict[int, int] = {}
        self._cancelled = False

    # -- 3

    def start(self, harness_fd: int, plan_fd: int) -> None:
        """Hand the broker its plan, and start the harness."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._on_signal)  # before the broker begins: what is sent waits for it
        plan = {
            **self.settings,
            "GITHUB_WORKSPACE": self.workspace,
            "airlock.state": str(self.state),
            "airlock.results": str(self.results),
            "airlock.uid": self.uid,
            "airlock.gid": self.gid,
            "airlock.launch_pid": os.getpid(),
            "airlock.git_dir": str(self.place.git_dir or ""),
        }
        with os.fdopen(plan_fd, "wb", closefd=False) as file:
            file.write(json.dumps(plan).encode() + b"\n")
        self._plan_fd = plan_fd
        if self._cancelled:  # before there was somebody to tell
            self._tell_cancel()
        harness_plan = memory(json.dumps({"workspace": self.workspace, "uid": self.uid, "gid": self.gid}).encode())
        self.harness_pid = spawn("--harness", [harness_fd, harness_plan], silent=True)
        self._sandboxes.warm_up()

    # -- 4

    def serve(self) -> int:
        """Answer the broker until it ends; reap whatever ends meanwhile (we may be process 1)."""
        Turns(self._request, self._handle, most=MOST_REQUESTS, name="control").start()
        while True:
            try:
                pid, status = os.waitpid(-1, 0)
            except ChildProcessError:
                break
            self._ended[pid] = status
            if pid == self.broker_pid:
                break
        status = self._ended.get(self.broker_pid, 1 << 8)
        code = os.waitstatus_to_exitcode(status)
        if code >= 0:
            return code
        if self._cancelled:
            sentence = "The run was cancelled, and no time was left for its report."
            return self._report_crash(sentence, StopReason.CANCELLED)
        return self._report_crash(f"The broker was ended by signal {-code}.")

    def _request(self) -> Frame | None:
        """The broker's next request; None at the end."""
        try:
            return self._control.recv()
        except ChannelError:
            return None  # the broker is gone; serve() sees it

    def _handle(self, frame: Frame) -> None:
        header = frame.header
        answer: dict[str, Any] = {"id": header.get("id"), "ok": True}
        payload = b""
        try:
            fields, payload = self._do(str(header.get("op")), header)
            answer.update(fields)
        except ToolInputError as exc:
            answer = _error(header, "tool_input", str(exc))
        except Exception as exc:  # one of the two server loops: an error is an answer, never the end of launch
            answer = _error(header, "sandbox", f"{type(exc).__name__}: {exc}")
        with suppress(ChannelError):
            self._control.send(answer, payload)

    def _do(self, op: str, header: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        if op == "sandbox.start":
            return {"sandbox": self._sandboxes.start(SandboxSpec.from_json(header["spec"]))}, b""
        if op == "sandbox.exec":
            request = ExecRequest(
                command=header["command"],
                timeout_s=header["timeout_s"],
                output_cap=header["output_cap"],
                cwd=header["cwd"],
            )
            return self._sandboxes.run(header["sandbox"], request).to_frame()
        if op == "sandbox.stop":
            self._sandboxes.stop(header["sandbox"])
            return {}, b""
        if op == "sandbox.probe":
            spec = SandboxSpec.from_json(header["spec"])
            forbidden = tuple(header.get("forbidden_paths", ()))
            report = self._sandboxes.probe(spec, forbidden, self._unwritable())
            return {"report": report.to_json()}, b""  # its own `ok` is not the answer's
        if op == "harness.stop":
            self._end(self.harness_pid)
            return {"ended": self._wait_for(self.harness_pid)}, b""
        if op == "deadline":
            # the broker names its wall clock once the trusted configuration is read
            timer = threading.Timer(float(header["seconds"]) + LAST_RESORT_S, self._overdue)
            timer.daemon = True
            timer.start()
            return {}, b""
        raise ValueError(f"no such operation: {op}")

    def _unwritable(self) -> tuple[str, ...]:
        """Folders of ours and of the runner that no command may write to."""
        commands = os.path.dirname(self.settings.get("GITHUB_OUTPUT", ""))
        known = (str(self.state), str(self.results), self.settings.get("RUNNER_TEMP", ""), commands)
        inside = self.workspace + "/"
        return tuple(p for p in known if p and os.path.isdir(p) and not (p + "/").startswith(inside))

    # -- signals and deadline

    def _on_signal(self, _number: int, _frame: object) -> None:
        """SIGINT, SIGTERM, SIGHUP: ask the broker for its partial report; an alarm ends it if it hangs.

        No thread: a harness that is taken over may have used up all that there are.
        """
        if not self._cancelled:
            signal.signal(signal.SIGALRM, lambda *_: self._end(self.broker_pid))
            signal.setitimer(signal.ITIMER_REAL, CANCEL_GRACE_S)
        self._cancelled = True
        self._tell_cancel()

    def _tell_cancel(self) -> None:
        with suppress(OSError):  # there is no broker yet, or no more
            os.write(self._plan_fd, b"c")

    def _overdue(self) -> None:
        self._report_crash("The broker did not end within its own deadline.")
        self._end(self.broker_pid)

    def _end(self, pid: int) -> None:
        """Kill one child, unless it has ended: its number may be another's by now."""
        if pid and pid not in self._ended:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)

    def _wait_for(self, pid: int) -> bool:
        """Whether a child that was killed is gone; until then it may still write."""
        end = time.monotonic() + 2.0
        while pid not in self._ended and time.monotonic() < end:
            time.sleep(0.002)  # `serve`, in the main thread, is who reaps
        return pid in self._ended

    def _report_crash(self, sentence: str, reason: StopReason = StopReason.ERROR) -> int:
        """The broker could not report; leave what a following step and a person need. Returns the exit status."""
        print(f"::error::{sentence} The transcript up to there is in {self.results}.", flush=True)
        row = OUTCOMES[reason]
        with suppress(OSError), (self.results / "outputs").open("x") as file:  # what the broker wrote is better
            file.write(f"outcome={row.outcome}\nstop-reason={reason}\n")
        return row.exit_status

    # -- 5

    def clean_up(self) -> None:
        """Every way out ends here. Nothing in it may keep the next line from running."""
        import shutil  # 5 ms that the start need not wait for

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        self._end(self.harness_pid)
        self._sandboxes.stop_all()
        self._end(self.broker_pid)
        reap_for(2.0)
        try:
            self._put_back()
        except Exception as exc:
            print(f"::error::The workspace could not be put back whole: {exc}", flush=True)
        self._hand_on()
        shutil.rmtree(self.state, ignore_errors=True)
        sys.stdout.flush()

    def _hand_on(self) -> None:
        """Outputs and summary into the runner's own files, where we were told of them (a container action).

        Only now, with nothing hostile alive: whoever can write there sets the environment of later steps.
        """
        import shutil

        for fact, name in (("GITHUB_OUTPUT", "outputs"), ("GITHUB_STEP_SUMMARY", "summary.md")):
            target = self.settings.get(fact)
            if target and os.path.isfile(target):
                with suppress(OSError), (self.results / name).open("rb") as source, open(target, "ab") as file:
                    shutil.copyfileobj(source, file)

    def _put_back(self) -> None:
        """Ownership and the real git folder, from the journal that the broker wrote before each act."""
        from agent.broker.git.journal import undo

        for sentence in undo(self.state / "prepare"):
            print(f"::notice::{sentence}", flush=True)


def _error(header: dict[str, Any], code: str, message: str) -> dict[str, Any]:
    return {"id": header.get("id"), "ok": False, "error": {"code": code, "message": message}}
