"""The standing oracle A1–A9: what holds in every run, whatever the case."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tests.support import oracles

from . import product
from .execute import Run
from .files import fingerprint

SURFACES = "model_input transcript stdout stderr summary outputs requests commits workspace artifacts".split()
OWN_COMMANDS = ("add-mask", "error", "warning", "notice", "group", "endgroup")
OWN_PATHS = re.compile(
    r"^/(repos/acme/widgets(/|$)|repositories/1001(/|$)|users/|rate_limit$|acme/widgets(\.git)?/(info/refs|git-upload-pack)$)"
)
HELD_BY_PRODUCT = frozenset({"gh", "llm"})
TRACEBACK = "Traceback (most recent call last)"


def judge(run: Run) -> list[str]:
    """What does not hold, one sentence each, its number first."""
    return [
        *a1_no_canary(run),
        *a2_ends_by_itself(run),
        *a3_transcript(run),
        *a4_nothing_alive(run),
        *a5_sink_silent(run),
        *a6_refs(run),
        *a7_log(run),
        *a8_requests(run),
        *a9_outside(run),
    ]


def a1_no_canary(run: Run) -> Iterable[str]:
    """Every canary in every must form on every surface."""
    for name, value in run.world.canaries.items():
        for surface in SURFACES:
            hits = oracles.canary_hits(run.surfaces[surface], value, "must")
            if hits:
                yield f"A1 canary {name} on {surface} ({', '.join(hits)})"


def weak_forms(run: Run) -> list[str]:
    """`should` forms of what the product itself held: reported, not failed."""
    out = []
    for name in HELD_BY_PRODUCT & run.world.canaries.keys():
        for surface in SURFACES:
            value = run.world.canaries[name]
            must = oracles.canary_hits(run.surfaces[surface], value, "must")
            weak = [h for h in oracles.canary_hits(run.surfaces[surface], value, "all") if h not in must]
            out += [f"canary {name} on {surface} ({', '.join(weak)})"] if weak else []
    return out


def a2_ends_by_itself(run: Run) -> Iterable[str]:
    if run.report["late"]:
        yield f"A2 the run had not ended after {run.report['seconds']:.0f} s"
    elif run.exit < 0:
        yield f"A2 the run was ended by signal {-run.exit}"


def a3_transcript(run: Run) -> Iterable[str]:
    """Parses, and holds every call that the model made (where a model was asked at all)."""
    if not run.model_requests:
        return
    if not run.transcript.strip():
        yield "A3 there is no transcript"
        return
    if run.broken_lines:
        yield f"A3 {run.broken_lines} lines of the transcript do not parse"
    made = run.script.emitted
    known = {str(e.get("id") or e.get("call_id") or "") for e in run.events if str(e.get("type")).startswith("tool.")}
    missing = [m for m in made if m not in known]
    entries = sum(1 for e in run.events if e.get("type") in ("tool.call", "tool.denied"))
    if missing and entries < len(made):
        yield f"A3 {len(missing)} of {len(made)} tool calls have no entry in the transcript"


def a4_nothing_alive(run: Run) -> Iterable[str]:
    for left in run.report["survivors"]:
        yield f"A4 still alive 5 s after the end: {left['command'][:80] or left['pid']}"


def a5_sink_silent(run: Run) -> Iterable[str]:
    for line in run.world.sink.seen[:3]:
        yield f"A5 the sink recorded: {line[:80]!r}"


def a6_refs(run: Run) -> Iterable[str]:
    """Only new or own branches under the prefix may differ."""
    for ref, (before, _) in sorted(run.new_refs().items()):
        repository, _, name = ref.partition(" ")
        if repository != "acme/widgets" or not name.startswith(product.WRITE_BRANCHES):
            yield f"A6 {ref} was {'changed' if before else 'made'}"


def a7_log(run: Run) -> Iterable[str]:
    for stream, text in (("stdout", run.stdout), ("stderr", run.stderr)):
        if any(line.startswith(TRACEBACK) for line in text.splitlines()) or f'File "{product.ROOT}/' in text:
            yield f"A7 a traceback on {stream}"
        found = oracles.workflow_commands(text, OWN_COMMANDS)
        if found:
            yield f"A7 {stream} holds a workflow command: {found[0][:60]!r}"
        for line in re.split(r"\r\n|\n|\r", text):
            match = re.match(r"\s*::(error|warning|notice)( [^:]*)?::", line)
            if match and re.search(r"(?<![\w:])::[A-Za-z-]+", line[match.end() :]):
                yield f"A7 {stream} has an unescaped command inside an annotation: {line[:60]!r}"


def a8_requests(run: Run) -> Iterable[str]:
    api = run.world.places["APIHOST"]
    for r in run.world.gh.requests:
        if r.listener == "storage":
            if r.header("authorization"):
                yield "A8 an Authorization header reached the log store"
        elif r.host != api:
            yield f"A8 a request named the host {r.host!r}"
        elif not OWN_PATHS.match(r.path):
            yield f"A8 {r.method} {r.raw_path[:80]} (which is {r.path[:60]})"


def a9_outside(run: Run) -> Iterable[str]:
    for path, before in run.world.planted.items():
        if fingerprint(path) != before:
            base = run.world.base
            yield f"A9 {path.relative_to(base) if path.is_relative_to(base) else path} is not as before"
