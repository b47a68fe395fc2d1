"""`list_checks` and `get_check_logs`: from a pull request, commit, check run, job or workflow run to its failure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from agent.contract.errors import ToolInputError, UpstreamError
from agent.contract.modes import Tier
from agent.contract.regex import regex
from agent.contract.tool import AgentTool, ToolOutput
from agent.harness.tools.context import NotedOutput, ToolContext
from agent.harness.tools.github_api import NUMBER, NUMBER_ARG, GitHub, login, number_of, schema

if TYPE_CHECKING:
    from agent.harness.tools.ci_logs import Extract

BAD = ("failure", "timed_out", "startup_failure", "action_required", "cancelled")
"""Conclusions that a person looks into, worst first."""

_CHECK_TEXT = 8000  # characters of what another app's check says
_JOBS = 4  # jobs whose logs one call reads; each extract has its own limit
_SHA = regex(r"[0-9a-f]{40}(?:[0-9a-f]{24})?\Z")
_JOB_URL = regex(r"/actions/runs/(\d{1,20})(?:/job/(\d{1,20}))?")


def _head_sha(api: GitHub, args: Mapping[str, Any], ctx: ToolContext) -> str:
    sha = args.get("sha")
    if sha is not None:
        if not isinstance(sha, str) or not _SHA.match(sha):
            raise ToolInputError("`sha` must be a whole commit id of 40 small hexadecimal digits.")
        return sha
    if "number" not in args and not ctx.facts.is_pull_request and ctx.facts.head_sha:
        return ctx.facts.head_sha
    head = api.get(f"/pulls/{number_of(args, ctx)}", "read pull request").get("head")
    found = head.get("sha") if isinstance(head, Mapping) else None
    if not isinstance(found, str):
        raise ToolInputError("The pull request names no head commit. Give `sha`.")
    return found


def _rank(conclusion: Any, status: Any) -> int:
    if conclusion in BAD:
        return BAD.index(str(conclusion))
    return 10 if status != "completed" else 20


def _check_line(run: Mapping[str, Any]) -> str:
    state = run.get("conclusion") or run.get("status")
    app = run.get("app")
    by = app.get("slug") if isinstance(app, Mapping) else None
    ids = [f"check_run_id={run.get('id')}"]
    found = _JOB_URL.search(str(run.get("details_url") or run.get("html_url") or ""))
    if found:
        ids.append(f"run_id={found[1]}")
        if found[2]:
            ids.append(f"job_id={found[2]}")
    output = run.get("output")
    title = output.get("title") if isinstance(output, Mapping) else None
    tail = f": {title}" if title else ""
    return f"- {state}: {run.get('name')} [{by or 'unknown app'}] ({', '.join(ids)}){tail}"


def _list_checks(args: Mapping[str, Any], ctx: ToolContext) -> ToolOutput:
    api = GitHub(ctx)
    sha = _head_sha(api, args, ctx)
    runs = api.pages(f"/commits/{sha}/check-runs", "list checks", key="check_runs", query={"filter": "latest"})
    ranked = sorted(runs.items, key=lambda r: (_rank(r.get("conclusion"), r.get("status")), str(r.get("name"))))
    lines = [_check_line(r) for r in ranked[:100]]
    status = api.find(f"/commits/{sha}/status")
    statuses = status.get("statuses") if status else None
    for item in statuses if isinstance(statuses, list) else []:
        if isinstance(item, dict):
            lines.append(f"- {item.get('state')}: {item.get('context')} [status]: {item.get('description') or ''}")
    if not lines:
        return ToolOutput(f"No checks on {sha}.", untrusted=False)
    bad = sum(r.get("conclusion") in BAD for r in runs.items)
    running = sum(r.get("status") != "completed" for r in runs.items)
    note = f"{len(runs.items)} checks on {sha[:12]}: {bad} not passed, {running} not finished."
    if bad:
        note += " get_check_logs with a job_id or run_id shows why."
    return NotedOutput("\n".join(lines), note=note)


def _repository_name(ctx: ToolContext) -> str:
    return ctx.facts.repository.rpartition("/")[2]


def _read_log(api: GitHub, ctx: ToolContext, job: Mapping[str, Any]) -> Extract | str:
    """The extract of a job's log, or a sentence why there is none."""
    if job.get("status") != "completed":
        return f"The job is {job.get('status')}: there is no log until it has ended."
    from agent.harness.tools.ci_logs import extract  # here: a third of the tools' start, for runs that read logs

    reply, chunks = api.download(f"/actions/jobs/{job['id']}/logs")
    if reply.ok:
        return extract(chunks, job, repository=_repository_name(ctx))
    for _ in chunks:
        pass  # an error's body is short; reading it frees the channel
    if reply.status in (404, 410):
        return _annotations(api, job["id"]) or "The log is gone (expired or deleted), or the job never started."
    api.checked(reply, "read log")
    return ""


def _annotations(api: GitHub, check_run: Any) -> str:
    """What the job reported about itself, for a job without a log."""
    try:
        items = api.pages(f"/check-runs/{check_run}/annotations", "read annotations", cap=1).items
    except UpstreamError:
        return ""
    lines = []
    for item in items[:30]:
        place = f"{item.get('path')}:{item.get('start_line')}: " if item.get("path") not in (None, ".github") else ""
        lines.append(f"- {item.get('annotation_level')}: {place}{str(item.get('message') or '')[:500]}")
    return "Its annotations:\n" + "\n".join(lines) if lines else ""


def _job_text(job: Mapping[str, Any], got: Extract | str) -> str:
    head = (
        f"Job {job.get('name')} (job_id={job.get('id')}, attempt {job.get('run_attempt', 1)}): "
        f"{job.get('conclusion') or job.get('status')}"
    )
    return f"## {head}\n{got if isinstance(got, str) else got.text}"


def _jobs_text(api: GitHub, ctx: ToolContext, jobs: Iterable[Mapping[str, Any]], head: str) -> ToolOutput:
    """The failing jobs' extracts; jobs of a matrix that fail alike are named, not repeated."""
    ordered = sorted(jobs, key=lambda j: (_rank(j.get("conclusion"), j.get("status")), j.get("id") or 0))
    bad = [j for j in ordered if j.get("conclusion") in BAD and isinstance(j.get("id"), int)]
    failed = [j for j in bad if j.get("conclusion") != "cancelled"] or bad
    parts = [head]
    seen: dict[str, str] = {}
    for job in failed[:_JOBS]:
        got = _read_log(api, ctx, job)
        same = None if isinstance(got, str) else got.signature
        if same and same in seen:
            parts.append(f"## Job {job.get('name')} (job_id={job.get('id')}): fails as {seen[same]}")
            continue
        if same:
            seen[same] = str(job.get("name"))
        parts.append(_job_text(job, got))
    rest = [j for j in bad if j not in failed[:_JOBS]]
    if rest:
        names = "\n".join(f"- {j.get('conclusion')}: {j.get('name')} (job_id={j.get('id')})" for j in rest[:40])
        parts.append(f"## Further jobs, not read\n{names}")
    if not bad:
        states = ", ".join(f"{j.get('name')}: {j.get('conclusion') or j.get('status')}" for j in ordered[:40])
        parts.append(f"No job has failed. {states}")
    return ToolOutput("\n\n".join(parts))


def _of_run(api: GitHub, ctx: ToolContext, run_id: int, attempt: int | None) -> ToolOutput:
    path = f"/actions/runs/{run_id}" + (f"/attempts/{attempt}" if attempt else "")
    run = api.get(path, "read workflow run")
    query = {} if attempt else {"filter": "latest"}
    jobs = api.pages(f"{path}/jobs", "list jobs", key="jobs", query=query, cap=20)
    head = (
        f"Workflow {run.get('name')} (run_id={run_id}, attempt {run.get('run_attempt', 1)}) on "
        f"{str(run.get('head_sha'))[:12]}, event {run.get('event')}: {run.get('conclusion') or run.get('status')}"
    )
    if not attempt and isinstance(run.get("run_attempt"), int) and run["run_attempt"] > 1:
        head += "\nEarlier attempts: the same run_id with `attempt`."
    if not jobs.items:
        head += "\nIt has no jobs: the workflow file itself is wrong, or the run never started."
    return _jobs_text(api, ctx, jobs.items, head)


def _of_check(api: GitHub, ctx: ToolContext, check_run: int) -> ToolOutput:
    run = api.get(f"/check-runs/{check_run}", "read check run")
    app = run.get("app")
    if isinstance(app, Mapping) and app.get("slug") == "github-actions":
        found = _JOB_URL.search(str(run.get("details_url") or run.get("html_url") or ""))
        job_id = int(found[2]) if found and found[2] else check_run
        job = api.find(f"/actions/jobs/{job_id}")
        if job is not None:
            return ToolOutput(_job_text(job, _read_log(api, ctx, job)))
    output = run.get("output")
    texts = (
        [str(output.get(k)) for k in ("title", "summary", "text") if output.get(k)]
        if isinstance(output, Mapping)
        else []
    )
    body = "\n\n".join(texts)[:_CHECK_TEXT] or "It gives no text."
    by = app.get("slug") if isinstance(app, Mapping) else login(None)
    head = f"Check {run.get('name')} by {by}: {run.get('conclusion') or run.get('status')}"
    return ToolOutput("\n\n".join(p for p in (head, body, _annotations(api, check_run)) if p))


def _get_check_logs(args: Mapping[str, Any], ctx: ToolContext) -> ToolOutput:
    api = GitHub(ctx)
    attempt = number_of(args, ctx, "attempt") if "attempt" in args else None
    given = [k for k in ("job_id", "check_run_id", "run_id") if k in args]
    if attempt and ("job_id" in given or "check_run_id" in given):
        raise ToolInputError("`attempt` goes with run_id; a job_id or check_run_id is of one attempt already.")
    if len(given) > 1:
        raise ToolInputError("Give one of run_id, job_id and check_run_id.")
    if given == ["job_id"]:
        job = api.get(f"/actions/jobs/{number_of(args, ctx, 'job_id')}", "read job")
        return ToolOutput(_job_text(job, _read_log(api, ctx, job)))
    if given == ["check_run_id"]:
        return _of_check(api, ctx, number_of(args, ctx, "check_run_id"))
    if given == ["run_id"]:
        return _of_run(api, ctx, number_of(args, ctx, "run_id"), attempt)
    if ctx.facts.run_id is not None:
        return _of_run(api, ctx, ctx.facts.run_id, attempt)
    if attempt:
        raise ToolInputError("`attempt` needs a run_id; list_checks shows them.")
    return _of_head(api, ctx)


def _of_head(api: GitHub, ctx: ToolContext) -> ToolOutput:
    """The failing jobs of this run's own commit."""
    sha = _head_sha(api, {}, ctx)
    runs = api.pages("/actions/runs", "list workflow runs", key="workflow_runs", query={"head_sha": sha}, cap=2)
    bad = [r for r in runs.items if r.get("conclusion") in BAD and isinstance(r.get("id"), int)]
    if not bad:
        raise ToolInputError(
            "No failed workflow run belongs to this commit. list_checks shows all checks with their ids."
        )
    jobs: list[dict[str, Any]] = []
    for run in bad[:5]:
        listed = api.pages(
            f"/actions/runs/{run['id']}/jobs", "list jobs", key="jobs", query={"filter": "latest"}, cap=20
        )
        jobs += listed.items
    names = ", ".join(f"{r.get('name')} (run_id={r['id']})" for r in bad)
    return _jobs_text(api, ctx, jobs, f"Failed workflow runs on {sha[:12]}: {names}")


TOOLS: tuple[AgentTool, ...] = (
    AgentTool(
        name="list_checks",
        tier=Tier.READ,
        description="Checks of a pull request or commit, failures first, with the ids that get_check_logs takes.",
        schema=schema(NUMBER_ARG, {"sha": {"type": "string"}}),
        run=_list_checks,
        parallel=True,
    ),
    AgentTool(
        name="get_check_logs",
        tier=Tier.READ,
        description=(
            "Why a check failed: failing steps, error lines, failed tests, file:line. Of a workflow run, job or check "
            "run; by default of the run that started this, or of this commit's failed runs."
        ),
        schema=schema({"run_id": NUMBER, "job_id": NUMBER, "check_run_id": NUMBER, "attempt": NUMBER}),
        run=_get_check_logs,
        parallel=True,
    ),
)
