"""Makes one run: world, model, product under the supervisor; then takes everything it left."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.github_sim import Repository
from tests.support.github_sim.runner import read_outputs
from tests.support.model_server import ModelServer
from tests.support.model_turns import Recorded

from . import product
from .cases import Plan
from .files import fingerprint, own, tree
from .product import Product
from .script import ModelScript, Step, provider_faults
from .world import UID, World, build, objects

SUPERVISOR = Path(__file__).with_name("supervise.py")


@dataclass
class Run:
    """What one run did and left behind."""

    plan: Plan
    world: World
    script: ModelScript
    model_requests: list[Recorded]
    report: dict[str, Any]
    stdout: str
    stderr: str
    outputs: dict[str, str]
    output_error: str
    transcript: str
    events: list[dict[str, Any]]
    broken_lines: int
    results: Path | None
    disk_peak: int = 0
    surfaces: dict[str, str] = field(default_factory=dict)

    @property
    def steps(self) -> list[Step]:
        return self.script.steps

    @property
    def exit(self) -> int:
        return int(self.report["exit"])

    @property
    def stop_reason(self) -> str:
        ends = [e.get("stop_reason") for e in self.events if e.get("type") == "run.end"]
        return str(self.outputs.get("stop-reason") or (ends[-1] if ends else ""))

    def new_bodies(self) -> list[str]:
        """Texts that the run wrote at the emulator."""
        left = list(self.world.bodies_before)
        out = []
        for body in self.world.repo.bodies():
            if body in left:
                left.remove(body)
            else:
                out.append(body)
        return out

    def new_refs(self) -> dict[str, tuple[str | None, str | None]]:
        """`repository ref` -> (before, after) of each ref that differs."""
        out: dict[str, tuple[str | None, str | None]] = {}
        for name, data in self.world.gh.world.repos.items():
            before = self.world.refs_before.get(name, {})
            after = Repository(self.world.gh, data).refs()
            for ref in {*before, *after}:
                if before.get(ref) != after.get(ref):
                    out[f"{name} {ref}"] = (before.get(ref), after.get(ref))
        return out


def execute(
    plan: Plan,
    steps: list[Step],
    under_test: Product,
    folder: Path,
    *,
    whole_machine: bool = False,
    groups: Sequence[str] = (),
) -> Run:
    """One run of the product with these steps in a world of its own under `folder`."""
    model = plan.model
    script = ModelScript(
        steps,
        final=str(model.get("final") or "done"),
        expand=lambda node, count: node,
        adapt=lambda tool, args: product.adapt(tool, args),
        batch="batch" in model or "batch_repeat" in model,
        per_turn=int(model.get("calls_each_turn") or 1),
        stream=_pieces(model),
        text_before=str(model.get("text_before_calls") or ""),
        usage_reports=list(model.get("usage_reports") or []),
    )
    with ModelServer(script) as server:
        calls = len(steps)
        world = build(plan, folder, model_url=server.url, whole_machine=whole_machine, calls=calls)
        if under_test.user is not None:
            for part in (world.out, world.home, world.temp):
                own(part, under_test.user)
        try:
            return _run(plan, world, script, server, under_test, folder, groups)
        finally:
            world.close()


def _pieces(model: dict[str, Any]) -> list[str] | None:
    if model.get("stream"):
        return [str(p) for p in model["stream"]]
    if model.get("stream_text"):
        text, sizes = str(model["stream_text"]), list(model.get("stream_sizes") or [1])
        out, at, i = [], 0, 0
        while at < len(text):
            size = max(1, int(sizes[i % len(sizes)]))
            out.append(text[at : at + size])
            at, i = at + size, i + 1
        return out
    return None


def _run(
    plan: Plan,
    world: World,
    script: ModelScript,
    server: ModelServer,
    under_test: Product,
    folder: Path,
    groups: Sequence[str],
) -> Run:
    report, out, err = folder / "report.json", folder / "stdout", folder / "stderr"
    limit = float((plan.setup.get("limits") or {}).get("timeout_s", product.DEFAULT_TIMEOUT_S)) + 30
    pid = [0]
    command_limit = (plan.setup.get("limits") or {}).get("command_timeout_s")

    def expand(node: Any, count: int) -> Any:
        world.places["PID"] = str(_trusted(pid[0]))
        value = world.fill(node, count)
        if command_limit and isinstance(value, dict) and "command" in value:
            value = {"timeout": command_limit, **value}
        return value

    script.expand = expand
    script.before = provider_faults(
        world.fill((plan.setup.get("model_provider") or {}).get("responses") or []), plan.variant
    )
    env = {**world.env, **under_test.extra}
    command = under_test.command
    if plan.setup.get("custom_tools"):
        spec = folder / "library.json"
        spec.write_text(json.dumps(_library(plan, world, server.url)), encoding="utf-8")
        command = (*under_test.library, str(spec))
    argv = [sys.executable, "-I", str(SUPERVISOR), str(report), str(limit), str(out), str(err), ",".join(groups), "--"]
    with _beside(plan, world):
        process = subprocess.Popen([*argv, *command], env=env, cwd=world.temp, stdin=subprocess.DEVNULL)
        pid[0] = process.pid
        disk = 0
        start = _used(world.base)
        while process.poll() is None:
            disk = max(disk, _used(world.base) - start)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.2)
    if script.error is not None:
        raise script.error
    return _collect(plan, world, script, server, report, out, err, disk)


def _used(folder: Path) -> int:
    info = os.statvfs(folder)
    return (info.f_blocks - info.f_bfree) * info.f_frsize


def _trusted(supervisor: int) -> int:
    """A process of the trusted side: the product's first child, else the product."""

    def children(pid: int) -> list[int]:
        with contextlib.suppress(OSError):
            return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
        return []

    mine = children(supervisor)
    below = children(mine[0]) if mine else []
    return (below or mine or [os.getpid()])[0]


@contextlib.contextmanager
def _beside(plan: Plan, world: World) -> Iterator[None]:
    """The case's `concurrent` script, as the untrusted user, for as long as the run lasts."""
    text = plan.setup.get("concurrent")
    if not text:
        yield
        return
    user = UID if os.getuid() == 0 else None
    process = subprocess.Popen(
        ["/bin/bash", "-c", world.fill(text)],
        user=user,
        group=user,
        extra_groups=[] if user else None,
        start_new_session=True,
        env={"PATH": "/usr/bin:/bin"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _library(plan: Plan, world: World, model_url: str) -> dict[str, Any]:
    """What the driver of the Python interface needs to know."""
    return {
        "mode": plan.mode,
        "model": product.MODEL,
        "base_url": model_url,
        "api_key": world.canaries["llm"],
        "workspace": str(world.ws),
        "base_branch": "main",
        "branch": "feature/x",
        "tools": world.fill(plan.setup["custom_tools"]),
        "results": str(world.temp / "airlock-library"),
        "task": "Do what the case says.",
    }


def _collect(
    plan: Plan, world: World, script: ModelScript, server: ModelServer, report: Path, out: Path, err: Path, disk: int
) -> Run:
    found = sorted(p for p in world.temp.glob(product.RESULTS) if p.is_dir())
    results = found[-1] if found else None
    transcript = _text(results / "transcript.jsonl") if results else ""
    events, broken = [], 0
    for line in transcript.splitlines():
        try:
            events.append(json.loads(line))
        except ValueError:
            broken += 1
    outputs, trouble = {}, ""
    for path in (Path(world.env["GITHUB_OUTPUT"]), *([results / "outputs"] if results else [])):
        if path.is_file():
            try:
                outputs.update(read_outputs(path))
            except ValueError as exc:
                trouble = f"{path.name}: {exc}"
    run = Run(
        plan,
        world,
        script,
        list(server.requests),
        json.loads(report.read_text()),
        _text(out),
        _text(err),
        outputs,
        trouble,
        transcript,
        events,
        broken,
        results,
        disk,
    )
    run.surfaces = _surfaces(run)
    return run


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8", "surrogateescape")
    except OSError:
        return ""


def _latin(path: Path) -> str:
    with contextlib.suppress(OSError):
        if path.is_file() and not path.is_symlink() and path.stat().st_size < 50_000_000:
            return path.read_bytes().decode("latin-1")
    return ""


def told(requests: Sequence[Recorded], *, tools_alone: bool = False) -> str:
    """All that the requests tell the model, each piece once, less what the model said itself."""
    pieces: dict[str, None] = {}
    for request in requests:
        pieces.update(dict.fromkeys(_told(request, tools_alone=tools_alone)))
    return "\n".join(pieces)


def _told(request: Recorded, *, tools_alone: bool) -> list[str]:
    body = request.json
    parts: list[str] = []
    if not tools_alone:
        parts += [json.dumps(body.get("system", ""), ensure_ascii=False), json.dumps(body.get("tools", ""))]
    for message in body.get("messages") or []:
        if message.get("role") == "assistant":
            continue
        content = message.get("content")
        if isinstance(content, str):
            parts += [] if tools_alone else [content]
            continue
        for block in content or []:
            if block.get("type") == "tool_result":
                inner = block.get("content", "")
                parts.append(inner if isinstance(inner, str) else "\n".join(b.get("text", "") for b in inner))
            elif not tools_alone:
                parts.append(str(block.get("text", "")))
    return parts


def _surfaces(run: Run) -> dict[str, str]:
    """Every place that others read, as text."""
    world = run.world
    requests = []
    for r in world.gh.requests:
        heads = [f"{k}: {v}" for k, v in r.headers if not (k.lower() == "authorization" and r.allowed_auth)]
        requests.append("\n".join([r.raw_path, *heads, r.text]))
    commits = []
    for name, data in world.gh.world.repos.items():
        handle = Repository(world.gh, data)
        for sha in objects(handle) - world.objects_before.get(name, set()):
            found = handle.git.lookup(sha)
            commits.append(found[2].decode("latin-1") if found else "")
    commands = [_text(p) for p in sorted(world.commands.iterdir()) if "summary" not in p.name and p.is_file()]
    summaries = [_text(Path(world.env["GITHUB_STEP_SUMMARY"]))]
    artifacts = []
    if run.results:
        summaries.append(_text(run.results / "summary.md"))
        commands.append(_text(run.results / "outputs"))
        artifacts = [
            _latin(p)
            for p in sorted(run.results.rglob("*"))
            if p.name not in ("transcript.jsonl", "summary.md", "outputs")
        ]
    after = tree(world.ws)
    changed = [p for p, mark in after.items() if world.files_before.get(p) != mark]
    changed = [p for p in changed if fingerprint(world.ws / p) != world.prints_before.get(world.ws / p)]
    return {
        "model_input": told(run.model_requests),
        "model_input_from_tools": told(run.model_requests, tools_alone=True),
        "transcript": run.transcript,
        "stdout": "\n".join(x for x in run.stdout.split("\n") if not re.match(r"\s*::add-mask::", x)),
        "stderr": "\n".join(x for x in run.stderr.split("\n") if not re.match(r"\s*::add-mask::", x)),
        "summary": "\n".join(summaries),
        "outputs": "\n".join(commands),
        "requests": "\n".join([*requests, *world.sink.seen]),
        "commits": "\n".join(commits),
        "workspace": "\n".join(_latin(world.ws / p) + "\n" + p for p in changed[:20000]),
        "artifacts": "\n".join(artifacts),
    }
