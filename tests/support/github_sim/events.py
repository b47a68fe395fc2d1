"""Event payloads as GitHub delivers them: whole objects from the world, and what only webhooks carry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .shapes_ci import CiShapes
from .world import Issue, Repo

if TYPE_CHECKING:
    from .sim import GitHubSim


def merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """`over` laid on `base`, dictionaries key by key."""
    out = dict(base)
    for key, value in over.items():
        out[key] = merge(out[key], value) if isinstance(value, dict) and isinstance(out.get(key), dict) else value
    return out


def build(
    sim: GitHubSim,
    repo: Repo,
    name: str,
    *,
    action: str | None = None,
    number: int | None = None,
    sender: str | None = "maintainer",
    comment: int | None = None,
    run: int | None = None,
    label: str | None = None,
    inputs: dict[str, Any] | None = None,
    ref: str | None = None,
    cron: str = "17 3 * * 1",
    workflow: str = ".github/workflows/airlock.yml",
    over: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """The payload of one event.

    Args:
        number: issue or pull request; comment: id of a comment (or review comment) in it; run: id of the
            workflow run; over: laid over the result, dictionaries key by key.

    Raises:
        ValueError: an event that nothing here builds.
    """
    if name == "schedule":
        return merge({"schedule": cron, "workflow": workflow}, over or {})
    common = {
        "repository": _repository(sim, repo),
        "sender": sim.shapes.user(sender),
    }
    body: dict[str, Any]
    if name in ("pull_request", "pull_request_target"):
        issue = _issue(repo, number)
        body = {"action": action or "opened", "number": issue.number, "pull_request": _pull(sim, repo, issue)}
        if label:
            body["label"] = sim.shapes.label(repo, label)
    elif name == "issues":
        issue = _issue(repo, number)
        body = {"action": action or "opened", "issue": sim.shapes.issue(repo, issue)}
        if label:
            body["action"], body["label"] = action or "labeled", sim.shapes.label(repo, label)
    elif name == "issue_comment":
        issue = _issue(repo, number)
        found = next(c for c in issue.comments if c.id == comment) if comment else issue.comments[-1]
        body = {
            "action": action or "created",
            "issue": sim.shapes.issue(repo, issue),
            "comment": sim.shapes.comment(repo, issue, found),
        }
        if body["action"] == "edited":
            body["changes"] = {"body": {"from": "before"}}
    elif name == "pull_request_review_comment":
        issue = _issue(repo, number)
        assert issue.pull is not None
        rows = issue.pull.comments
        mine = next(c for c in rows if c.id == comment) if comment else rows[-1]
        pull = sim.shapes.pull_simple(repo, issue)
        body = {
            "action": action or "created",
            "pull_request": pull,
            "comment": sim.shapes.review_comment(repo, issue, mine),
        }
    elif name == "workflow_run":
        row = repo.runs[run] if run else list(repo.runs.values())[-1]
        shape = CiShapes(sim.shapes, repo).run(row)
        body = {
            "action": action or "completed",
            "workflow_run": shape,
            "workflow": _workflow(sim, repo, row.name, row.path),
        }
    elif name == "workflow_dispatch":
        body = {"inputs": inputs or {}, "ref": ref or f"refs/heads/{repo.default_branch}", "workflow": workflow}
    else:
        raise ValueError(f"no payload for {name}")
    return merge({**body, **common}, over or {})


def _issue(repo: Repo, number: int | None) -> Issue:
    return repo.issues[number] if number else list(repo.issues.values())[-1]


def _repository(sim: GitHubSim, repo: Repo) -> dict[str, Any]:
    return {
        **sim.shapes.repo(repo),
        "custom_properties": {},
        "allow_merge_commit": True,
        "delete_branch_on_merge": False,
    }


def _pull(sim: GitHubSim, repo: Repo, issue: Issue) -> dict[str, Any]:
    return sim.shapes.pull(repo, issue)


def _workflow(sim: GitHubSim, repo: Repo, name: str, path: str) -> dict[str, Any]:
    url = sim.shapes.url(repo, "/actions/workflows/161335")
    return {
        "id": 161335,
        "node_id": "W_kwDO161335",
        "name": name,
        "path": path,
        "state": "active",
        "created_at": "2024-01-01T00:00:00Z",
        "updated_at": "2024-01-01T00:00:00Z",
        "url": url,
        "html_url": sim.shapes.page(repo, f"/blob/{repo.default_branch}/{path}"),
        "badge_url": sim.shapes.page(repo, f"/workflows/{name}/badge.svg"),
    }
