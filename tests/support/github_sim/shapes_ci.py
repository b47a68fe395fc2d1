"""Runs, jobs, checks, commits, refs, trees and files as GitHub's description wants them."""

from __future__ import annotations

import base64
from typing import Any
from urllib.parse import quote

from .git import CommitInfo, FileDiff, Person
from .shapes import Shapes, node_id, slug
from .world import CheckRun, Job, Repo, Run, Status

UNSIGNED = {"verified": False, "reason": "unsigned", "signature": None, "payload": None, "verified_at": None}


def _who(person: Person) -> dict[str, str]:
    return {"name": person.name, "email": person.email, "date": person.date}


class GitShapes:
    """Bodies of the git operations of one repository."""

    def __init__(self, shapes: Shapes, repo: Repo) -> None:
        self.s, self.repo = shapes, repo

    def ref(self, name: str, sha: str, kind: str) -> dict[str, Any]:
        return {
            "ref": name,
            "node_id": node_id("REF", f"{self.repo.id}:{name}"),
            "url": self.s.url(self.repo, "/git/" + quote(name)),
            "object": {"sha": sha, "type": kind, "url": self.s.url(self.repo, f"/git/{kind}s/{sha}")},
        }

    def git_commit(self, info: CommitInfo) -> dict[str, Any]:
        return {
            "sha": info.sha,
            "node_id": node_id("C", info.sha),
            "url": self.s.url(self.repo, f"/git/commits/{info.sha}"),
            "html_url": self.s.page(self.repo, f"/commit/{info.sha}"),
            "author": _who(info.author),
            "committer": _who(info.committer),
            "tree": {"sha": info.tree, "url": self.s.url(self.repo, f"/git/trees/{info.tree}")},
            "message": info.message,
            "parents": [
                {
                    "sha": p,
                    "url": self.s.url(self.repo, f"/git/commits/{p}"),
                    "html_url": self.s.page(self.repo, f"/commit/{p}"),
                }
                for p in info.parents
            ],
            "verification": dict(UNSIGNED),
        }

    def commit(self, info: CommitInfo, files: list[FileDiff] | None = None) -> dict[str, Any]:
        url = self.s.url(self.repo, f"/commits/{info.sha}")
        body: dict[str, Any] = {
            "sha": info.sha,
            "node_id": node_id("C", info.sha),
            "commit": {
                "author": _who(info.author),
                "committer": _who(info.committer),
                "message": info.message,
                "tree": {"sha": info.tree, "url": self.s.url(self.repo, f"/git/trees/{info.tree}")},
                "url": self.s.url(self.repo, f"/git/commits/{info.sha}"),
                "comment_count": 0,
                "verification": dict(UNSIGNED),
            },
            "url": url,
            "html_url": self.s.page(self.repo, f"/commit/{info.sha}"),
            "comments_url": url + "/comments",
            "author": None,
            "committer": None,
            "parents": [
                {
                    "sha": p,
                    "url": self.s.url(self.repo, f"/commits/{p}"),
                    "html_url": self.s.page(self.repo, f"/commit/{p}"),
                }
                for p in info.parents
            ],
        }
        if files is not None:
            added, gone = sum(f.additions for f in files), sum(f.deletions for f in files)
            body["stats"] = {"total": added + gone, "additions": added, "deletions": gone}
            body["files"] = [self.diff_entry(f, info.sha) for f in files]
        return body

    def diff_entry(self, entry: FileDiff, at: str) -> dict[str, Any]:
        where = quote(entry.path)
        body = {
            "sha": entry.sha,
            "filename": entry.path,
            "status": entry.status,
            "additions": entry.additions,
            "deletions": entry.deletions,
            "changes": entry.additions + entry.deletions,
            "blob_url": self.s.page(self.repo, f"/blob/{at}/{where}"),
            "raw_url": self.s.page(self.repo, f"/raw/{at}/{where}"),
            "contents_url": self.s.url(self.repo, f"/contents/{where}?ref={at}"),
        }
        if entry.patch is not None:
            body["patch"] = entry.patch
        if entry.previous:
            body["previous_filename"] = entry.previous
        return body

    def blob(self, sha: str, data: bytes) -> dict[str, Any]:
        return {
            "sha": sha,
            "node_id": node_id("B", sha),
            "size": len(data),
            "url": self.s.url(self.repo, f"/git/blobs/{sha}"),
            "content": base64.encodebytes(data).decode(),
            "encoding": "base64",
        }

    def content(self, kind: str, path: str, sha: str, size: int, ref: str) -> dict[str, Any]:
        url = self.s.url(self.repo, f"/contents/{quote(path)}?ref={quote(ref, safe='')}")
        git = self.s.url(self.repo, f"/git/{'trees' if kind == 'dir' else 'blobs'}/{sha}")
        page = self.s.page(self.repo, f"/{'tree' if kind == 'dir' else 'blob'}/{quote(ref)}/{quote(path)}")
        raw = None if kind != "file" else self.s.page(self.repo, f"/raw/{quote(ref)}/{quote(path)}")
        return {
            "name": path.rsplit("/", 1)[-1],
            "path": path,
            "sha": sha,
            "size": size,
            "url": url,
            "html_url": page,
            "git_url": git,
            "download_url": raw,
            "type": kind,
            "_links": {"self": url, "git": git, "html": page},
        }


class CiShapes:
    """Bodies of the actions and checks operations of one repository."""

    def __init__(self, shapes: Shapes, repo: Repo) -> None:
        self.s, self.repo = shapes, repo

    def pull_minimal(self, number: int) -> dict[str, Any]:
        issue = self.repo.issues[number]
        pull = issue.pull
        assert pull is not None

        def side(repo: Repo, ref: str, sha: str) -> dict[str, Any]:
            return {
                "ref": ref,
                "sha": sha,
                "repo": {"id": repo.id, "url": self.s.url(repo), "name": repo.name},
            }

        head = self.s.world.find(pull.head_repo or "") or self.repo
        return {
            "url": self.s.url(self.repo, f"/pulls/{number}"),
            "id": pull.id,
            "number": number,
            "head": side(head, pull.head_ref, pull.head_sha),
            "base": side(self.repo, pull.base_ref, pull.base_sha),
        }

    def simple_commit(self, sha: str) -> dict[str, Any] | None:
        info = self.repo.git.commit_info(sha)
        if info is None:
            return None
        return {
            "id": info.sha,
            "tree_id": info.tree,
            "message": info.message,
            "timestamp": info.author.date,
            "author": {"name": info.author.name, "email": info.author.email},
            "committer": {"name": info.committer.name, "email": info.committer.email},
        }

    def run(self, run: Run) -> dict[str, Any]:
        url = self.s.url(self.repo, f"/actions/runs/{run.id}")
        head = self.s.world.find(run.head_repo) if run.head_repo else None
        return {
            "id": run.id,
            "name": run.name,
            "node_id": node_id("WFR", run.id),
            "head_branch": run.head_branch,
            "head_sha": run.head_sha,
            "path": run.path,
            "display_title": (self.simple_commit(run.head_sha) or {"message": run.name})["message"].split("\n")[0],
            "run_number": run.number,
            "event": run.event,
            "status": run.status,
            "conclusion": run.conclusion,
            "workflow_id": run.workflow_id,
            "check_suite_id": run.suite,
            "check_suite_node_id": node_id("CS", run.suite),
            "url": url,
            "html_url": self.s.page(self.repo, f"/actions/runs/{run.id}"),
            "pull_requests": [self.pull_minimal(n) for n in run.pulls],
            "created_at": run.created_at,
            "updated_at": run.created_at,
            "actor": self.s.user(run.actor),
            "triggering_actor": self.s.user(run.triggering_actor),
            "run_attempt": run.attempt,
            "referenced_workflows": [],
            "run_started_at": run.created_at,
            "jobs_url": url + "/jobs",
            "logs_url": url + "/logs",
            "check_suite_url": self.s.url(self.repo, f"/check-suites/{run.suite}"),
            "artifacts_url": url + "/artifacts",
            "cancel_url": url + "/cancel",
            "rerun_url": url + "/rerun",
            "previous_attempt_url": None,
            "workflow_url": self.s.url(self.repo, f"/actions/workflows/{run.workflow_id}"),
            "repository": self.s.minimal_repo(self.repo),
            "head_repository": self.s.minimal_repo(head) if head else None,
            "head_commit": self.simple_commit(run.head_sha),
        }

    def job(self, run: Run, job: Job) -> dict[str, Any]:
        return {
            "id": job.id,
            "run_id": run.id,
            "workflow_name": run.name,
            "head_branch": run.head_branch,
            "run_url": self.s.url(self.repo, f"/actions/runs/{run.id}"),
            "run_attempt": job.attempt,
            "node_id": node_id("CR", job.id),
            "head_sha": run.head_sha,
            "url": self.s.url(self.repo, f"/actions/jobs/{job.id}"),
            "html_url": self.s.page(self.repo, f"/actions/runs/{run.id}/job/{job.id}"),
            "status": job.status,
            "conclusion": job.conclusion,
            "created_at": job.started_at,
            "started_at": job.started_at,
            "completed_at": job.completed_at,
            "name": job.name,
            "steps": job.steps,
            "check_run_url": self.s.url(self.repo, f"/check-runs/{job.id}"),
            "labels": ["ubuntu-latest"],
            "runner_id": 1,
            "runner_name": "GitHub Actions 1",
            "runner_group_id": 0,
            "runner_group_name": "GitHub Actions",
        }

    def app(self, name: str) -> dict[str, Any]:
        return {
            "id": 15368,
            "client_id": "Iv1.05c79e9ad1f6bdfa",
            "slug": slug(name),
            "node_id": node_id("A", name),
            "owner": self.s.user("github"),
            "name": name,
            "description": None,
            "external_url": self.s.html + "/features/actions",
            "html_url": f"{self.s.html}/apps/{slug(name)}",
            "created_at": "2018-07-30T09:30:17Z",
            "updated_at": "2024-07-30T09:30:17Z",
            "permissions": {"checks": "write", "contents": "write", "metadata": "read"},
            "events": ["push"],
        }

    def check(self, check: CheckRun) -> dict[str, Any]:
        url = self.s.url(self.repo, f"/check-runs/{check.id}")
        page = self.s.page(self.repo, f"/runs/{check.id}")
        return {
            "id": check.id,
            "name": check.name,
            "node_id": node_id("CR", check.id),
            "head_sha": check.head_sha,
            "external_id": check.external_id,
            "url": url,
            "html_url": page,
            "details_url": check.details_url or page,
            "status": check.status,
            "conclusion": check.conclusion,
            "started_at": check.started_at,
            "completed_at": check.completed_at,
            "output": {
                "title": check.title,
                "summary": check.summary,
                "text": check.text,
                "annotations_count": len(check.annotations),
                "annotations_url": url + "/annotations",
            },
            "check_suite": {"id": check.suite},
            "app": self.app(check.app),
            "pull_requests": [
                self.pull_minimal(i.number)
                for i in self.repo.issues.values()
                if i.pull and i.state == "open" and i.pull.head_sha == check.head_sha
            ],
        }

    def annotation(self, check: CheckRun, note: dict[str, Any]) -> dict[str, Any]:
        return {
            "path": note.get("path", ".github"),
            "blob_href": self.s.page(self.repo, f"/blob/{check.head_sha}/{note.get('path', '.github')}"),
            "start_line": note.get("start_line", 1),
            "start_column": note.get("start_column"),
            "end_line": note.get("end_line", note.get("start_line", 1)),
            "end_column": note.get("end_column"),
            "annotation_level": note.get("annotation_level", "failure"),
            "title": note.get("title", ""),
            "message": note.get("message", ""),
            "raw_details": note.get("raw_details", ""),
        }

    def suite(self, number: int, checks: list[CheckRun]) -> dict[str, Any]:
        first = checks[0]
        bad = [c.conclusion for c in checks if c.conclusion not in (None, "success", "neutral", "skipped")]
        return {
            "id": number,
            "node_id": node_id("CS", number),
            "head_branch": None,
            "head_sha": first.head_sha,
            "status": "completed" if all(c.status == "completed" for c in checks) else "in_progress",
            "conclusion": bad[0] if bad else "success",
            "url": self.s.url(self.repo, f"/check-suites/{number}"),
            "before": None,
            "after": None,
            "pull_requests": [],
            "created_at": first.started_at,
            "updated_at": first.completed_at or first.started_at,
            "app": self.app(first.app),
            "head_commit": self.simple_commit(first.head_sha),
            "repository": self.s.minimal_repo(self.repo),
            "latest_check_runs_count": len(checks),
            "check_runs_url": self.s.url(self.repo, f"/check-suites/{number}/check-runs"),
        }

    def status(self, status: Status) -> dict[str, Any]:
        return {
            "url": self.s.url(self.repo, f"/statuses/{status.sha}"),
            "avatar_url": None,
            "id": status.id,
            "node_id": node_id("SC", status.id),
            "state": status.state,
            "description": status.description,
            "target_url": status.target_url,
            "context": status.context,
            "created_at": status.created_at,
            "updated_at": status.created_at,
        }
