"""The container backend, where a Docker engine answers."""

from __future__ import annotations

import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from agent.contract.sandbox import ExecRequest, Purpose, SandboxSpec
from agent.sandbox.build import helper_command
from agent.sandbox.container import ContainerBackend
from tests.benchmarks.sandbox import median_ms
from tests.benchmarks.table import Row, markdown
from tests.unit.test_sandbox_container import ENGINE, IMAGE, _image

STARTS = 5


def table() -> str:
    """The table, or why there is none."""
    if os.geteuid() != 0 or not os.path.exists(ENGINE):
        return "Not measured: no Docker engine here, or not started as root."
    return markdown(rows())


def rows() -> list[Row]:
    """One command over the bare command, and the start of a container with its first command."""
    import docker

    client = docker.APIClient(base_url=f"unix://{ENGINE}", version="auto")
    client.import_image_from_data(_image(), repository=IMAGE.partition(":")[0], tag=IMAGE.partition(":")[2])
    bare = median_ms(lambda: subprocess.run(["/bin/sh", "-c", "true"], check=True))
    with tempfile.TemporaryDirectory(prefix="airlock-bench-") as folder:
        os.chmod(folder, 0o755)
        root = Path(folder, "w")
        root.mkdir()
        os.chown(root, 20001, 20001)
        backend = ContainerBackend(
            image=IMAGE, run=f"bench-{os.getpid()}", socket_path=ENGINE, helper=Path(helper_command()[0]),
            uid=20001, gid=20001,
        )  # fmt: skip
        starts = []
        try:
            for _ in range(STARTS):
                started = time.perf_counter()
                session = backend.start(SandboxSpec(Purpose.MAIN, str(root)))
                session.exec(ExecRequest("true"))
                starts.append((time.perf_counter() - started) * 1000)
                command = median_ms(lambda s=session: s.exec(ExecRequest("true")), 50)  # type: ignore[misc]
                session.close()
        finally:
            backend.remove_leftovers()
            backend.close()
    over = command - bare
    return [
        Row("one command over the bare command", f"{over:.1f} ms", f"{bare:.1f} ms", f"+{over / bare:.1f} x", "3 ms"),
        Row("start with its first command", f"{statistics.median(starts):.0f} ms", budget="hidden behind reading"),
    ]
