"""What a run is about, where the event leaves it out: pull request, failing check, branches and commits."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from agent.broker.event import Skip, Trigger, upstream_pull, with_pull
from agent.broker.github import GitHubApi
from agent.contract.errors import Refusal, UpstreamError


def complete(api: GitHubApi, trigger: Trigger) -> tuple[Trigger, Skip | None]:
    """The pull request that the event leaves out: of a comment, or of a failed upstream run (F19)."""
    if trigger.is_pull_request and not trigger.head.known:
        return with_pull(trigger, api.get(f"pulls/{trigger.number}", step="read pull request")), None
    upstream = trigger.upstream
    if upstream is not None and upstream.event == "pull_request" and not trigger.head.is_fork:
        owner = trigger.repository.partition("/")[0]
        query = {"head": f"{owner}:{trigger.head.ref}", "state": "open"}
        pulls = api.get("pulls", step="find the failed run's pull request", query=query)
        found = upstream_pull(trigger, pulls if isinstance(pulls, list) else [])
        if isinstance(found, Skip):
            return trigger, found
        return with_pull(trigger, found), None
    return trigger, None


def has_failure(api: GitHubApi, trigger: Trigger, run_id: int | None) -> bool:
    """Whether there is a failing check at the start; any doubt is no (D6)."""
    try:
        if run_id is not None:
            jobs = api.paged(f"actions/runs/{run_id}/jobs", step="read the failed run's jobs", key="jobs", pages=5)
            return _any_failed(jobs)
        if trigger.head.sha is not None:
            path = f"commits/{trigger.head.sha}/check-runs"
            return _any_failed(api.paged(path, step="read checks", key="check_runs", pages=5))
    except (UpstreamError, Refusal):
        return False
    return False


def _any_failed(items: Iterable[Any]) -> bool:
    bad = ("failure", "timed_out", "cancelled")
    return any(isinstance(item, dict) and item.get("conclusion") in bad for item in items)


def branches(trigger: Trigger, default: str) -> tuple[str, str | None, str | None]:
    """Base branch of what this run publishes, commit to start at, commit to compare with."""
    head = trigger.head
    if trigger.upstream is not None:
        return head.ref or default, head.sha, trigger.base_sha or head.sha
    if trigger.is_pull_request:
        return trigger.base_ref or default, head.sha, trigger.base_sha
    return default, None, None
