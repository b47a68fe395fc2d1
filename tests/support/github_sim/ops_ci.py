"""Workflow runs, jobs and their logs; check runs, annotations and statuses."""

from __future__ import annotations

import io
import re
import zipfile
from pathlib import Path
from typing import Any

from .ops_git import resolve
from .routing import Call, Reply, invalid, op
from .world import ApiError, CheckRun, Job, Run, Status

TEXT_MAX = 65535
CONCLUSIONS = ("success", "failure", "neutral", "cancelled", "skipped", "timed_out", "action_required")


def _run(c: Call) -> Run:
    run = c.r.runs.get(int(c.params["id"]))
    if run is None:
        raise ApiError(404, "Not Found")
    return run


def _job(c: Call) -> tuple[Run, Job]:
    for run in c.r.runs.values():
        for job in run.jobs:
            if job.id == int(c.params["id"]):
                return run, job
    raise ApiError(404, "Not Found")


@op("GET", "~/actions/runs", "actions:read")
def list_runs(c: Call) -> Reply:
    rows = sorted(c.r.runs.values(), key=lambda r: -r.id)
    rows = [
        r
        for r in rows
        if (not c.q("head_sha") or r.head_sha == c.q("head_sha"))
        and (not c.q("branch") or r.head_branch == c.q("branch"))
        and (not c.q("event") or r.event == c.q("event"))
        and (not c.q("actor") or r.actor == c.q("actor"))
        and (not c.q("status") or c.q("status") in (r.status, r.conclusion))
        and (not c.q("check_suite_id") or str(r.suite) == c.q("check_suite_id"))
    ]
    return c.paged(rows, c.ci.run, "workflow_runs")


@op("GET", "~/actions/runs/{id:int}", "actions:read")
def get_run(c: Call) -> Reply:
    return Reply(200, c.ci.run(_run(c)))


@op("GET", "~/actions/runs/{id:int}/attempts/{attempt:int}", "actions:read")
def get_attempt(c: Call) -> Reply:
    run = _run(c)
    if not 1 <= int(c.params["attempt"]) <= run.attempt:
        raise ApiError(404, "Not Found")
    return Reply(200, {**c.ci.run(run), "run_attempt": int(c.params["attempt"])})


@op("GET", "~/actions/runs/{id:int}/jobs", "actions:read")
def list_jobs(c: Call) -> Reply:
    run = _run(c)
    jobs = [j for j in run.jobs if c.q("filter") == "all" or j.attempt == run.attempt]
    return c.paged(jobs, lambda j: c.ci.job(run, j), "jobs")


@op("GET", "~/actions/runs/{id:int}/attempts/{attempt:int}/jobs", "actions:read")
def attempt_jobs(c: Call) -> Reply:
    run = _run(c)
    jobs = [j for j in run.jobs if j.attempt == int(c.params["attempt"])]
    return c.paged(jobs, lambda j: c.ci.job(run, j), "jobs")


@op("GET", "~/actions/jobs/{id:int}", "actions:read")
def get_job(c: Call) -> Reply:
    return Reply(200, c.ci.job(*_job(c)))


@op("GET", "~/actions/jobs/{id:int}/logs", "actions:read")
def job_log(c: Call) -> Reply:
    _, job = _job(c)
    if job.log is None or job.status != "completed":
        raise ApiError(404, "Not Found")
    if job.log_status != 200:
        raise ApiError(job.log_status, "The log of this job has expired" if job.log_status == 410 else "Not Found")
    location = c.sim.storage.publish(job.log, f"workflow-logs/{c.r.id}/{job.id}.txt", "text/plain")
    return Reply(302, None, {"Location": location})


@op("GET", "~/actions/runs/{id:int}/logs", "actions:read")
def run_log(c: Call) -> Reply:
    run = _run(c)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for number, job in enumerate(run.jobs):
            if job.log is not None:
                data = job.log.read_bytes() if isinstance(job.log, Path) else job.log
                archive.writestr(f"{number}_{re.sub('[/:]', '', job.name)[:90]}.txt", data)
    if not run.jobs:
        raise ApiError(404, "Not Found")
    location = c.sim.storage.publish(packed.getvalue(), f"run-logs/{c.r.id}/{run.id}.zip", "application/zip")
    return Reply(302, None, {"Location": location})


@op("GET", "~/actions/runs/{id:int}/attempts/{attempt:int}/logs", "actions:read")
def attempt_log(c: Call) -> Reply:
    return run_log(c)


@op("GET", "~/actions/runs/{id:int}/artifacts", "actions:read")
def run_artifacts(c: Call) -> Reply:
    _run(c)
    return Reply(200, {"total_count": 0, "artifacts": []})


# -------------------------------------------------------------------- checks


def _checks(c: Call, rows: list[CheckRun]) -> Reply:
    rows = [
        x
        for x in rows
        if (not c.q("check_name") or x.name == c.q("check_name")) and (not c.q("status") or x.status == c.q("status"))
    ]
    if c.q("filter", "latest") == "latest":
        latest: dict[tuple[str, int], CheckRun] = {}
        for x in sorted(rows, key=lambda x: x.id):
            latest[(x.name, x.suite)] = x
        rows = list(latest.values())
    return c.paged(sorted(rows, key=lambda x: x.id), c.ci.check, "check_runs")


@op("GET", "~/commits/{ref...}/check-runs", "checks:read")
def commit_checks(c: Call) -> Reply:
    sha = resolve(c, c.params["ref"])
    return _checks(c, [x for x in c.r.checks.values() if x.head_sha == sha])


@op("GET", "~/commits/{ref...}/check-suites", "checks:read")
def commit_suites(c: Call) -> Reply:
    sha = resolve(c, c.params["ref"])
    suites: dict[int, list[CheckRun]] = {}
    for x in c.r.checks.values():
        if x.head_sha == sha:
            suites.setdefault(x.suite, []).append(x)
    return c.paged(sorted(suites.items()), lambda row: c.ci.suite(*row), "check_suites")


@op("GET", "~/check-suites/{id:int}/check-runs", "checks:read")
def suite_checks(c: Call) -> Reply:
    rows = [x for x in c.r.checks.values() if x.suite == int(c.params["id"])]
    if not rows:
        raise ApiError(404, "Not Found")
    return _checks(c, rows)


@op("GET", "~/check-suites/{id:int}", "checks:read")
def get_suite(c: Call) -> Reply:
    rows = [x for x in c.r.checks.values() if x.suite == int(c.params["id"])]
    if not rows:
        raise ApiError(404, "Not Found")
    return Reply(200, c.ci.suite(int(c.params["id"]), rows))


def _check(c: Call) -> CheckRun:
    check = c.r.checks.get(int(c.params["id"]))
    if check is None:
        raise ApiError(404, "Not Found")
    return check


@op("GET", "~/check-runs/{id:int}", "checks:read")
def get_check(c: Call) -> Reply:
    return Reply(200, c.ci.check(_check(c)))


@op("GET", "~/check-runs/{id:int}/annotations", "checks:read")
def annotations(c: Call) -> Reply:
    check = _check(c)
    return c.paged(check.annotations, lambda a: c.ci.annotation(check, a))


def _fill(c: Call, check: CheckRun) -> None:
    data = c.obj()
    if data.get("conclusion") is not None and data["conclusion"] not in CONCLUSIONS:
        raise invalid("CheckRun", "conclusion", "invalid")
    check.name = data.get("name", check.name)
    check.status = data.get("status", check.status)
    check.external_id = data.get("external_id", check.external_id)
    check.details_url = data.get("details_url", check.details_url)
    if data.get("conclusion"):
        check.conclusion, check.status = data["conclusion"], "completed"
        check.completed_at = data.get("completed_at", c.now)
    elif check.status == "completed" and not check.conclusion:
        raise invalid("CheckRun", "conclusion", "missing_field")
    output: dict[str, Any] = data.get("output") or {}
    if output:
        for key in ("summary", "text"):
            if len(output.get(key) or "") > TEXT_MAX:
                raise invalid("CheckRun", key, "invalid", f"{key} exceeds a maximum bytesize of {TEXT_MAX}")
        if len(output.get("annotations") or []) > 50:
            raise invalid("CheckRun", "annotations", "invalid", "annotations exceeds a maximum quantity of 50")
        check.title = output.get("title", check.title)
        check.summary = output.get("summary", check.summary)
        check.text = output.get("text", check.text)
        check.annotations += output.get("annotations") or []


@op("POST", "~/check-runs", "checks:write")
def create_check(c: Call) -> Reply:
    data = c.obj()
    for key in ("name", "head_sha"):
        if not isinstance(data.get(key), str):
            raise invalid("CheckRun", key, "missing_field")
    if c.r.git.type_of(data["head_sha"]) != "commit":
        raise ApiError(422, f"No commit found for SHA: {data['head_sha']}")
    number = c.sim.world.next_id("check", 600001)
    check = CheckRun(number, data["name"], data["head_sha"], "queued", None, 880001, c.now, None)
    _fill(c, check)
    c.r.checks[number] = check
    return Reply(201, c.ci.check(check))


@op("PATCH", "~/check-runs/{id:int}", "checks:write")
def update_check(c: Call) -> Reply:
    check = _check(c)
    _fill(c, check)
    return Reply(200, c.ci.check(check))


# -------------------------------------------------------------------- statuses


def _latest(c: Call, sha: str) -> list[Status]:
    latest: dict[str, Status] = {}
    for status in c.r.statuses:
        if status.sha == sha:
            latest[status.context] = status
    return list(latest.values())


@op("GET", "~/commits/{ref...}/status", "statuses:read")
def combined_status(c: Call) -> Reply:
    sha = resolve(c, c.params["ref"])
    rows = _latest(c, sha)
    states = {s.state for s in rows}
    state = "failure" if states & {"failure", "error"} else "pending" if "pending" in states or not rows else "success"
    page = c.paged(rows, c.ci.status)
    return Reply(
        200,
        {
            "state": state,
            "statuses": page.body,
            "sha": sha,
            "total_count": len(rows),
            "repository": c.sim.shapes.minimal_repo(c.r),
            "commit_url": c.sim.shapes.url(c.r, f"/commits/{sha}"),
            "url": c.sim.shapes.url(c.r, f"/commits/{sha}/status"),
        },
        page.headers,
    )


@op("GET", "~/commits/{ref...}/statuses", "statuses:read")
def list_statuses(c: Call) -> Reply:
    sha = resolve(c, c.params["ref"])
    rows = [s for s in reversed(c.r.statuses) if s.sha == sha]
    return c.paged(rows, lambda s: {**c.ci.status(s), "creator": c.sim.shapes.user(c.login)})


@op("POST", "~/statuses/{sha}", "statuses:write")
def create_status(c: Call) -> Reply:
    data = c.obj()
    status = Status(
        c.sim.world.next_id("status", 700),
        c.params["sha"],
        str(data.get("state")),
        data.get("context") or "default",
        data.get("description"),
        data.get("target_url"),
        c.now,
    )
    c.r.statuses.append(status)
    return Reply(201, {**c.ci.status(status), "creator": c.sim.shapes.user(c.login)})
