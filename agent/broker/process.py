"""The broker's process: confined before anything else, told everything by inherited descriptors."""

from __future__ import annotations

import json
import os
import threading
from typing import BinaryIO

from agent.broker.run import Broker
from agent.contract.inputs import parse_blob
from agent.kernel.channel import Channel
from agent.kernel.confine import confine_broker


def main(control_fd: int, harness_fd: int, plan_fd: int, secrets_fd: int, event_fd: int) -> int:
    """Run once; returns the step's exit status."""
    confine_broker()
    from_launch = os.fdopen(plan_fd, "rb")
    plan = from_launch.readline()  # waits for launch
    if not plan.endswith(b"\n"):
        return 1  # launch is gone, and nothing has been done
    secret_inputs, _ = parse_blob(_read(secrets_fd))
    event = _read(event_fd)
    broker = Broker(json.loads(plan), secret_inputs, Channel.from_fd(control_fd), Channel.from_fd(harness_fd))
    threading.Thread(target=listen, args=(from_launch, broker), name="cancel", daemon=True).start()
    return broker.run(event)


def listen(from_launch: BinaryIO, broker: Broker) -> None:
    """Cancel the run when launch says so."""
    if from_launch.read(1):  # nothing, where launch is gone
        broker.cancel()


def _read(fd: int) -> bytes:
    with os.fdopen(fd, "rb") as file:
        return file.read()
