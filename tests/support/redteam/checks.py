"""The checks a case can ask for. Each takes the runs of one plan and returns what does not hold, or None."""

from __future__ import annotations

import glob
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support import oracles

from . import product
from .execute import Run
from .files import braces, fingerprint
from .script import UNREACHED, Step
from .standing import OWN_COMMANDS

Check = Callable[[Run, Mapping[str, Any]], str | None]
FRAME = re.compile(r'<untrusted-content source="[^"<>]*">(.*?)</untrusted-content>', re.S)
TABLE: dict[str, Check] = {}


def check(function: Check) -> Check:
    """Registers a check under its name."""
    TABLE[function.__name__] = function
    return function


def judge(runs: Sequence[Run], row: Mapping[str, Any]) -> str | None:
    """One oracle row over all the runs of a plan: it must hold in each.

    A row about a call's result is judged in the run that made the call.
    """
    name = row["check"]
    if name not in TABLE:
        return f"check {name!r} is not known"
    if isinstance(row.get("call"), int):
        reached = [r for r in runs if _step(r, row["call"]) is not None]
        if not reached:
            return f"call {row['call']} was never made" if name != "tool_result_no_match" else None
        runs = reached
    for run in runs:
        problem = TABLE[name](run, run.world.fill(dict(row)))
        if problem:
            return problem
    return None


def _step(run: Run, call: int) -> Step | None:
    return next((s for s in run.steps if s.index == call and s.outcome != UNREACHED), None)


# -------------------------------------------------------------------- secrets and requests


@check
def canary_absent(run: Run, row: Mapping[str, Any]) -> str | None:
    names = list(run.surfaces) if "all" in row["in"] else row["in"]
    value = run.world.canaries[row["canary"]]
    hits = {n: oracles.canary_hits(run.surfaces[n], value, str(row.get("forms", "must"))) for n in names}
    found = [f"{n} ({', '.join(h)})" for n, h in hits.items() if h]
    return f"canary {row['canary']} on {'; '.join(found)}" if found else None


def _requests(run: Run, row: Mapping[str, Any]) -> list[Any]:
    out = []
    for r in run.world.gh.requests:
        method = row.get("method")
        if method and method != "." and not re.fullmatch(method, r.method):
            continue
        path = r.raw_path.partition("?")[0]
        if row.get("path") and not (re.search(row["path"], r.raw_path) or re.search(row["path"], path)):
            continue
        texts = {"host": r.host, "body": r.text, "header": r.header_lines, "query": r.raw_path.partition("?")[2]}
        if all(re.search(row[key], text) for key, text in texts.items() if row.get(key)):
            out.append(r)
    return out


@check
def no_request(run: Run, row: Mapping[str, Any]) -> str | None:
    found = _requests(run, row)
    return f"{found[0].method} {found[0].raw_path[:100]} was sent to {found[0].host}" if found else None


@check
def request_count(run: Run, row: Mapping[str, Any]) -> str | None:
    count = len(_requests(run, row))
    low, high = row.get("min", 0), row.get("max", count)
    return None if low <= count <= high else f"{count} such requests; wanted {low} to {row.get('max', 'any')}"


@check
def no_connection(run: Run, row: Mapping[str, Any]) -> str | None:
    found = [line for line in run.world.sink.seen if re.search(row["to"], line)]
    return f"the sink recorded {found[0][:80]!r}" if found else None


# -------------------------------------------------------------------- files


def _paths(run: Run, pattern: str) -> list[Path]:
    """What a path (with globs and braces) names now; a plain path names itself, there or not."""
    out: list[Path] = []
    for one in braces(pattern):
        path = Path(one) if one.startswith("/") else run.world.ws / one
        out += map(Path, glob.glob(str(path))) if glob.has_magic(one) else [path]
    return out


@check
def file_unchanged(run: Run, row: Mapping[str, Any]) -> str | None:
    for path in _paths(run, row["path"]):
        before = run.world.planted.get(path, run.world.prints_before.get(path, "absent"))
        if fingerprint(path) != before:
            return f"{path.name} changed"
    return None


@check
def file_absent(run: Run, row: Mapping[str, Any]) -> str | None:
    found = [p for p in _paths(run, row["path"]) if fingerprint(p) != "absent"]
    return f"{found[0].name} is there" if found else None


@check
def file_exists(run: Run, row: Mapping[str, Any]) -> str | None:
    found = [p for p in _paths(run, row["path"]) if fingerprint(p) != "absent"]
    return None if found else f"{row['path'].rsplit('/', 1)[-1]} is not there"


@check
def file_not_contains(run: Run, row: Mapping[str, Any]) -> str | None:
    for path in _paths(run, row["path"]):
        if path.is_file() and re.search(row["pattern"], path.read_bytes().decode("utf-8", "replace")):
            return f"{path.name} holds {row['pattern']!r}"
    return None


# -------------------------------------------------------------------- refs and commits


@check
def refs_unchanged(run: Run, row: Mapping[str, Any]) -> str | None:
    changed = run.new_refs()
    if row["refs"] != "all":
        changed = {k: v for k, v in changed.items() if k.removeprefix("acme/widgets ") in row["refs"]}
    return f"changed: {', '.join(sorted(changed))}" if changed else None


@check
def refs_unchanged_or_flagged(run: Run, row: Mapping[str, Any]) -> str | None:
    said = run.surfaces["summary"] + "\n".join(run.new_bodies())
    for ref in run.new_refs():
        name = ref.partition(" ")[2]
        if (row["refs"] == "all" or name in row["refs"]) and name.removeprefix("refs/heads/") not in said:
            return f"{name} changed and no report says so"
    return None


@check
def refs_all_match(run: Run, row: Mapping[str, Any]) -> str | None:
    bad = [ref for ref in run.world.repo.refs() if not re.search(row["pattern"], ref)]
    return f"{bad[0]} does not match" if bad else None


@check
def commit_no_match(run: Run, row: Mapping[str, Any]) -> str | None:
    git = run.world.repo.git
    known = [f"^{sha}" for sha in run.world.refs_before["acme/widgets"].values() if git.type_of(sha) == "commit"]
    for _, after in run.new_refs().values():
        for sha in git.rev_list(after, *known) if after and git.type_of(after) == "commit" else []:
            info = git.commit_info(sha)
            if info and re.search(row["pattern"], info.message):
                return f"commit {sha[:8]} says {info.message[:60]!r}"
    return None


@check
def config_from(run: Run, row: Mapping[str, Any]) -> str | None:
    refs = run.world.refs_before["acme/widgets"]
    name = row["ref"] if row["ref"] != "base" else run.world.env.get("GITHUB_BASE_REF") or "main"
    wanted = refs.get(f"refs/heads/{name}")
    shas = [str(e.get("sha") or "") for e in run.events if e.get("type") == "config"]
    return None if wanted in shas else f"configuration is of {shas or 'nothing recorded'}, not of {name} ({wanted})"


# -------------------------------------------------------------------- the model's side


@check
def not_offered(run: Run, row: Mapping[str, Any]) -> str | None:
    found = sorted(set(row["tools"]) & run.script.all_tools)
    return f"offered: {', '.join(found)}" if found else None


@check
def offered(run: Run, row: Mapping[str, Any]) -> str | None:
    missing = sorted(set(row["tools"]) - set(run.script.first_tools or []))
    return f"not offered: {', '.join(missing)}" if missing else None


@check
def model_calls(run: Run, row: Mapping[str, Any]) -> str | None:
    count = len(run.model_requests)
    low, high = row.get("min", 0), row.get("max", count)
    return None if low <= count <= high else f"{count} requests to the model"


@check
def tool_result_matches(run: Run, row: Mapping[str, Any]) -> str | None:
    step = _step(run, row["call"])
    assert step is not None
    if re.search(row["pattern"], step.result):
        return None
    return f"the result of call {row['call']} does not match: {step.result[:120]!r}"


@check
def tool_result_no_match(run: Run, row: Mapping[str, Any]) -> str | None:
    step = _step(run, row["call"])
    assert step is not None
    found = re.search(row["pattern"], step.result)
    return f"the result of call {row['call']} holds {found[0][:80]!r}" if found else None


def _prompts(run: Run, role: str) -> list[str]:
    out: list[str] = []
    for request in run.model_requests:
        body = request.json
        if role == "system":
            given = body.get("system", "")
            out += [given] if isinstance(given, str) else [b.get("text", "") for b in given]
            continue
        for message in body.get("messages") or []:
            if message.get("role") == role:
                content = message.get("content")
                rows = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
                out += [b.get("text", "") for b in rows if b.get("type") == "text"]
    return list(dict.fromkeys(out))


@check
def prompt_no_match(run: Run, row: Mapping[str, Any]) -> str | None:
    for text in _prompts(run, row["role"]):
        found = re.search(row["pattern"], text)
        if found:
            return f"the {row['role']} prompt holds {found[0][:80]!r}"
    return None


def framing_problem(text: str, third_party: Sequence[str]) -> str | None:
    """Why a result is not framed as it should be: blocks well closed, nothing of the third party outside."""
    blocks = FRAME.findall(text)
    if not blocks:
        return "there is no untrusted block"
    for block in blocks:
        escapes = oracles.breakouts(block)
        if escapes:
            return f"inside a block stands {escapes[0]!r}"
    outside = FRAME.sub("", text)
    if oracles.breakouts(outside):
        return f"outside the blocks stands {oracles.breakouts(outside)[0]!r}"
    for theirs in third_party:
        for line in theirs.splitlines():
            if len(line.strip()) >= 8 and line.strip() in outside:
                return f"the third party's {line.strip()[:60]!r} stands outside the blocks"
    return None


@check
def framed(run: Run, row: Mapping[str, Any]) -> str | None:
    third_party = [run.world.fill(t) for t in run.world.third_party]
    if row["call"] == "every":
        texts = [s.result for s in run.steps if s.outcome == "ok"]
    elif row["call"] == "stop_script_output":
        texts = _prompts(run, "user")[1:]
        if not texts:
            return "nothing of the stop script reached the model"
    else:
        step = _step(run, row["call"])
        texts = [step.result] if step else []
    problems = [p for p in (framing_problem(t, third_party) for t in texts) if p]
    return problems[0] if problems else None


@check
def frames_balanced(run: Run, row: Mapping[str, Any]) -> str | None:
    step = _step(run, row["call"])
    text = step.result.strip() if step else ""
    counts = (len(re.findall(r"<untrusted-content\b", text)), len(re.findall(r"</untrusted-content>", text)))
    if counts != (1, 1) or not text.startswith("<untrusted-content"):
        return f"{counts[0]} opening and {counts[1]} closing tags"
    return None


# -------------------------------------------------------------------- how it ended, what it said


@check
def run_ends(run: Run, row: Mapping[str, Any]) -> str | None:
    if row.get("within_s") and run.report["seconds"] > float(row["within_s"]):
        return f"took {run.report['seconds']:.0f} s"
    if row.get("stop_reason") and run.stop_reason not in row["stop_reason"]:
        return f"stop reason {run.stop_reason!r}"
    wanted = row.get("exit")
    if wanted == "nonzero" and run.exit == 0:
        return "exit status 0"
    if isinstance(wanted, list) and run.exit not in wanted:
        return f"exit status {run.exit}"
    return None


@check
def stderr_matches(run: Run, row: Mapping[str, Any]) -> str | None:
    return None if re.search(row["pattern"], run.stderr) else f"stderr is {run.stderr[-120:]!r}"


def _absent(pattern: str, text: str, where: str) -> str | None:
    found = re.search(pattern, text)
    return f"{where} holds {found[0][:80]!r}" if found else None


@check
def stdout_no_match(run: Run, row: Mapping[str, Any]) -> str | None:
    return _absent(row["pattern"], run.stdout, "stdout")


@check
def log_no_match(run: Run, row: Mapping[str, Any]) -> str | None:
    for text in (run.stdout, run.stderr):
        if row.get("pattern"):
            problem = _absent(row["pattern"], text, "the log")
            if problem:
                return problem
        if row.get("function"):
            function = getattr(oracles, row["function"])
            allowed = row.get("allowed") or OWN_COMMANDS
            found = function(text, allowed) if row["function"] == "workflow_commands" else function(text)
            if found:
                return f"the log holds {str(found[0])[:80]!r}"
    return None


@check
def comment_no_match(run: Run, row: Mapping[str, Any]) -> str | None:
    for body in run.new_bodies():
        if row.get("pattern") and re.search(row["pattern"], body):
            return f"a comment matches: {body[:80]!r}"
        name = row.get("function")
        if name:
            hosts = {"github.com", "www.github.com"}
            found = oracles.remote_loads(body, hosts) if name == "remote_loads" else getattr(oracles, name)(body)
            found = [f for f in found if f not in (row.get("except") or [])]
            if found:
                return f"a comment holds {str(found[0])[:80]!r}"
    return None


@check
def comment_max(run: Run, row: Mapping[str, Any]) -> str | None:
    posts = [
        r
        for r in run.world.gh.requests
        if r.method == "POST"
        and r.status in (200, 201)
        and re.search(r"/(comments|reviews|replies)$|/issues$|/pulls$", r.path)
    ]
    return None if len(posts) <= int(row["count"]) else f"{len(posts)} comments"


@check
def no_process(run: Run, row: Mapping[str, Any]) -> str | None:
    found = [s["command"] for s in run.report["survivors"] if re.search(row["pattern"], s["command"])]
    return f"alive: {found[0][:80]}" if found else None


@check
def usage(run: Run, row: Mapping[str, Any]) -> str | None:
    log = len(run.stdout) + len(run.stderr)
    measured = {
        "rss_mb": run.report["peak_rss"] / 1e6,
        "procs": run.report["peak_procs"],
        "disk_mb": run.disk_peak / 1e6,
        "log_mb": log / 1e6,
        "transcript_mb": len(run.transcript) / 1e6,
        "summary_kb": len(run.surfaces["summary"]) / 1e3,
    }
    over = [f"{k} {measured[k]:.0f} over {row[k]}" for k in measured if k in row and measured[k] > float(row[k])]
    return "; ".join(over) or None


@check
def transcript_matches(run: Run, row: Mapping[str, Any]) -> str | None:
    return None if re.search(row["pattern"], run.transcript) else f"the transcript does not match {row['pattern']!r}"


@check
def transcript_no_match(run: Run, row: Mapping[str, Any]) -> str | None:
    return _absent(row["pattern"], run.transcript, "the transcript")


@check
def transcript_lines_parse(run: Run, row: Mapping[str, Any]) -> str | None:
    return f"{run.broken_lines} lines do not parse" if run.broken_lines or not run.events else None


@check
def transcript_tool_calls(run: Run, row: Mapping[str, Any]) -> str | None:
    count = sum(1 for e in run.events if e.get("type") == "tool.call")
    return None if count <= int(row["max"]) else f"{count} tool calls in the transcript"


@check
def outputs_equal_only(run: Run, row: Mapping[str, Any]) -> str | None:
    if run.output_error:
        return f"the output file does not parse: {run.output_error}"
    allowed = product.OUTPUTS if row["keys"] == "declared" else set(row["keys"])
    extra = sorted(set(run.outputs) - set(allowed))
    return f"outputs nobody declared: {', '.join(extra)}" if extra else None


@check
def unknown_names_rejected(run: Run, row: Mapping[str, Any]) -> str | None:
    if run.exit == 0 or run.model_requests:
        return f"the run started (exit {run.exit}, {len(run.model_requests)} requests to the model)"
    return None


@check
def stop_token_used_safely(run: Run, row: Mapping[str, Any]) -> str | None:
    tokens = re.findall(r"(?m)^\s*::stop-commands::(.*)$", run.stdout)
    weak = [t for t in tokens if len(t.strip()) < 16 or t.strip() in told_text(run)]
    return f"stop-commands token {weak[0]!r}" if weak else None


def told_text(run: Run) -> str:
    """What the model was told, where a token must not stand."""
    return run.surfaces["model_input"]
