"""Jobs that are not as a hosted runner's plain ones: in a container, behind a proxy, with an engine elsewhere."""

from __future__ import annotations

import http.client
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

from agent.broker.transcript import verify
from tests.e2e.act import RUNNER
from tests.e2e.conftest import docker
from tests.e2e.job import composite, tree
from tests.e2e.moments import command
from tests.support.model_server import ModelServer
from tests.support.runner_containers import job_container
from tests.support.runner_harness import cancel
from tests.support.scenario import RUN_ID, World, fixing_turns

BRANCH = f"airlock/fix-{RUN_ID}"


def test_a_job_in_a_container_ends_in_a_pull_request(
    make: Callable[..., World], image: str, gateway: str, matrix: Callable[..., None]
) -> None:
    """The step's paths are not the engine's: it finds them by the mounts of the job's container."""
    world = make()
    before = tree(world.workspace / ".git")
    event = world.github.event("workflow_run", world.repository, run=RUN_ID)
    start = time.monotonic()
    with ModelServer(fixing_turns(BRANCH), host=gateway) as model:
        action = composite(world, "workflow_run", event, model, sandbox="container")
        with job_container(action.environment, RUNNER) as action.job:
            result = action.run()

    matrix("composite, container:", "workflow_run", image="named", result=result, seconds=time.monotonic() - start)
    assert (result.exit_status, result.outputs["outcome"], result.outputs["branch"]) == (0, "done", BRANCH), result.log
    assert [(p["backend"], p["ok"]) for p in result.events("sandbox.probe")] == [("container", True)]
    assert result.outputs["transcript-path"].startswith("/__w/_temp/airlock-")
    assert BRANCH in result.summary
    assert tree(world.workspace / ".git") == before
    assert {path.lstat().st_uid for path in world.workspace.rglob("*")} == {1001}


def test_a_cancel_that_never_reaches_a_job_in_a_container_is_made_good(
    make: Callable[..., World], image: str, gateway: str
) -> None:
    """`docker exec` passes no signal on; the second step ends the run, keeps its transcript, puts all back."""
    world = make()
    before = tree(world.workspace / ".git")
    event = world.github.event("workflow_run", world.repository, run=RUN_ID)

    moment = command(world)

    def when(process: subprocess.Popen[str]) -> None:
        moment.wait()
        cancel(process)

    with ModelServer(moment.turns, host=gateway) as model:
        action = composite(world, "workflow_run", event, model, sandbox="container")
        with job_container(action.environment, RUNNER) as action.job:
            result = action.run(when=when)

    assert docker("ps", "--all", "--quiet", "--filter", f"label=airlock.run={action.outputs['airlock-run']}") == ""
    assert [call["name"] for call in result.events("tool.call")] == ["run_command"]
    assert verify(result.results / "transcript.jsonl") == []
    assert tree(world.workspace / ".git") == before
    assert {path.lstat().st_uid for path in world.workspace.rglob("*")} == {1001}


def test_a_job_in_a_container_without_a_docker_client_is_told(make: Callable[..., World], image: str) -> None:
    """One sentence with the reason, one with the alternatives."""
    world = make()
    with ModelServer() as model:
        action = composite(world, "workflow_run", {}, model)
        with job_container(action.environment, "debian:trixie-slim") as action.job:
            result = action.run()

    assert (result.exit_status, result.outputs["outcome"]) == (1, "error")
    assert [line for line in result.log.splitlines() if line.startswith("::error")] == [
        "::error title=Airlock::Airlock runs in a container, and this job's container has no docker client on its PATH "
        "(its image can bring one). Use a runner with Docker, or run the image as a container action "
        "(`uses: docker://…`, also on Kubernetes), where commands are confined without Docker."
    ]


def test_an_engine_that_listens_elsewhere_is_used(make: Callable[..., World], image: str, gateway: str) -> None:
    """DOCKER_HOST names another socket, as a rootless engine's: the step and the sandbox's backend use that one."""
    world = make()
    event = world.github.event("workflow_run", world.repository, run=RUN_ID)
    with ModelServer(fixing_turns(BRANCH), host=gateway) as model, forwarded(world.folder / "engine.sock") as seen:
        action = composite(world, "workflow_run", event, model, sandbox="container")
        action.environment["DOCKER_HOST"] = f"unix://{world.folder}/engine.sock"
        result = action.run()

    assert (result.exit_status, result.outputs["outcome"]) == (0, "done"), result.log
    requests = [line.split(b" ")[1].partition(b"?")[0] for line in seen]
    assert sum(path.endswith(b"/containers/create") for path in requests) >= 2, "Airlock's own, and the sandboxes'"


def test_a_jobs_proxy_is_used_for_everything(make: Callable[..., World], image: str, gateway: str) -> None:
    """Model, API and logs go through it, out of the action's container."""
    world = make()
    event = world.github.event("workflow_run", world.repository, run=RUN_ID)
    with ModelServer(fixing_turns(BRANCH), host=gateway) as model, proxy(gateway) as (url, seen):
        action = composite(world, "workflow_run", event, model, sandbox="process")
        action.environment |= {"http_proxy": url, "https_proxy": url}
        result = action.run()

    assert (result.exit_status, result.outputs["outcome"]) == (0, "done"), result.log
    everything = {urlsplit(url).netloc for url in (model.url, world.github.api_url, world.github.storage_url)}
    assert {urlsplit(target).netloc for target in seen} == everything


@contextmanager
def forwarded(path: Path) -> Iterator[list[bytes]]:
    """The engine's socket under another name; gives the first line of each connection."""
    seen: list[bytes] = []
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        path.chmod(0o666)
        server.listen(32)

        def accept() -> None:
            while True:
                try:
                    client, _ = server.accept()
                except OSError:
                    return
                engine = socket.socket(socket.AF_UNIX)
                engine.connect("/var/run/docker.sock")
                for pair in ((client, engine), (engine, client)):
                    threading.Thread(target=_copy, args=(*pair, seen if pair[0] is client else None)).start()

        thread = threading.Thread(target=accept)
        thread.start()
        yield seen
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


def _copy(source: socket.socket, target: socket.socket, seen: list[bytes] | None) -> None:
    end = socket.SHUT_RDWR
    with suppress(OSError):
        while data := source.recv(65536):
            if seen is not None and data[:5] in (b"GET /", b"POST ", b"PUT /", b"HEAD ", b"DELET"):
                seen.append(data.split(b"\r\n", 1)[0])
            target.sendall(data)
        end = socket.SHUT_WR  # one that ends its part may wait for the other's
    with suppress(OSError):
        target.shutdown(end)


@contextmanager
def proxy(host: str) -> Iterator[tuple[str, list[str]]]:
    """A forward proxy for plain HTTP; gives its URL and the targets it was asked for."""
    seen: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def forward(self) -> None:
            seen.append(self.path)
            target = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {k: v for k, v in self.headers.items() if k.lower() not in ("proxy-connection", "connection")}
            connection = http.client.HTTPConnection(target.hostname or "", target.port)
            connection.request(self.command, self.path[len(f"http://{target.netloc}") :], body, headers)
            answer = connection.getresponse()
            self.send_response_only(answer.status, answer.reason)
            for name, value in answer.getheaders():
                if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                    self.send_header(name, value)
            self.send_header("Connection", "close")
            self.end_headers()
            with suppress(ConnectionError):
                shutil.copyfileobj(answer, self.wfile)
            connection.close()
            self.close_connection = True

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = forward

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer((host, 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://{host}:{server.server_address[1]}", seen
    finally:
        server.shutdown()
        server.server_close()
