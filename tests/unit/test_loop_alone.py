"""The loop as a library of its own: what it imports, how long it is, and that cancelling reaches an adapter."""

from __future__ import annotations

import gc
import inspect
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import agent.harness.loop
from agent.harness.clients import ModelClient
from agent.harness.loop import CancelledError, CancelToken, DeadlineError, LlmRequest, StopReason, UserMessage, run_loop
from tests.support.model_broker import LoopbackBroker
from tests.support.model_run import WIRES, entry
from tests.support.model_server import ModelServer, Slow, Status, Turn

FOLDER = Path(agent.harness.loop.__file__).parent
ROOT = FOLDER.parents[2]


def test_loop_imports_nothing_but_the_standard_library() -> None:
    """Importing the loop loads no module outside the standard library but its own package (C2)."""
    code = (
        "import sys; before = set(sys.modules); import agent.harness.loop;"
        "print(*sorted(n for n in set(sys.modules) - before if n.partition('.')[0] not in sys.stdlib_module_names))"
    )
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()

    own = {"agent", "agent.harness", "agent.harness.loop"}
    assert {name for name in loaded if not name.startswith("agent.harness.loop.")} == own


def test_loop_is_one_short_file() -> None:
    """The loop itself stays under 250 lines, and each file beside it under 300."""
    lines = {path.name: len(path.read_text().splitlines()) for path in FOLDER.glob("*.py")}

    assert lines["engine.py"] < 250
    assert max(lines.values()) < 300


def test_the_example_runs() -> None:
    """docs/examples/loop_alone.py as a reader would start it: both calls are answered, one of them with an error."""
    command = [sys.executable, str(ROOT / "docs/examples/loop_alone.py")]
    done = subprocess.run(command, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == "completed: In stock: 12 apples; no article pears. (542 tokens)"


def test_the_page_names_every_argument() -> None:
    """docs/library.md has each argument of `run_loop`."""
    page = (ROOT / "docs/library.md").read_text()
    names = [name for name in inspect.signature(run_loop).parameters if name != "llm"]

    assert [name for name in names if f"`{name}`" not in page] == []


@pytest.mark.parametrize("wire", WIRES)
def test_cancel_ends_a_silent_stream(wire: str) -> None:
    """A cancel while the provider is silent in the middle of its answer ends the run, history consistent."""
    cancel = CancelToken()
    with ModelServer([Turn("x" * 200, fault=Slow(30, 3))]) as server:
        timer = threading.Timer(0.3, cancel.cancel)
        timer.start()
        result = run_loop(ModelClient(LoopbackBroker(server.url), [entry(wire)]), system="s", task="t", cancel=cancel)

    assert (result.stop_reason, result.messages) == (StopReason.CANCELLED, (UserMessage("t"),))


def test_cancel_ends_a_wait_between_attempts() -> None:
    """A cancel while an adapter waits to try again ends the wait, not the wait the run."""
    cancel = CancelToken()
    cancel.cancel()
    with ModelServer([Turn(fault=Status(429, headers={"retry-after": "60"}))]) as server:
        client = ModelClient(LoopbackBroker(server.url), [entry("anthropic")])
        request = LlmRequest("s", (UserMessage("t"),), (), cancel=cancel)
        with pytest.raises(CancelledError):
            client.complete(request)

    assert len(server.requests) == 1


def test_nothing_is_asked_when_no_time_is_left() -> None:
    """An adapter without a second to wait in sends nothing: what it would be told could not be waited for."""
    with ModelServer([Turn("done")]) as server:
        client = ModelClient(LoopbackBroker(server.url), [entry("anthropic")])
        with pytest.raises(DeadlineError):
            client.complete(LlmRequest("s", (UserMessage("t"),), (), timeout_s=0.0))

    assert server.requests == []


def test_no_model_is_an_error() -> None:
    """A client without a model is refused at once."""
    with pytest.raises(ValueError, match="no model"):
        ModelClient(LoopbackBroker({}), [])


def test_a_client_that_is_dropped_leaves_no_thread() -> None:
    """A host process makes many; each run's threads end with its client."""

    def workers() -> list[threading.Thread]:
        return [t for t in threading.enumerate() if t.name == "loop-worker"]

    before = workers()
    with ModelServer([Turn("done")]) as server:
        client = ModelClient(LoopbackBroker(server.url), [entry("anthropic")])
        run_loop(client, system="s", task="t")
        assert set(workers()) - set(before), "it had one"
        del client
        gc.collect()
        for thread in set(workers()) - set(before):
            thread.join(10)
    assert set(workers()) <= set(before)
