"""A repository as tests and the demo handle it: commits, branches, pulls, issues, runs."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .git import ENV, BareRepo, Person
from .world import CheckRun, Comment, Issue, Job, Repo, Run, Status

if TYPE_CHECKING:
    from .sim import GitHubSim

AUTHOR = Person("Maintainer", "maintainer@users.noreply.example", "2026-01-02T03:04:05Z")


class Repository:
    """Handle on one repository of the simulator. `data` is the raw state."""

    def __init__(self, sim: GitHubSim, data: Repo) -> None:
        self.sim, self.data = sim, data

    @property
    def full_name(self) -> str:
        return self.data.full_name

    @property
    def id(self) -> int:
        return self.data.id

    @property
    def git(self) -> BareRepo:
        return self.data.git

    @property
    def bare(self) -> Path:
        return self.data.git.path

    @property
    def default_branch(self) -> str:
        return self.data.default_branch

    def refs(self) -> dict[str, str]:
        return self.git.refs()

    def branch(self, name: str) -> str | None:
        return self.data.branch(name)

    def read(self, ref: str, path: str) -> bytes | None:
        """Content of a file at a ref, or None."""
        found = self.git.lookup(f"{self.git.resolve(ref)}:{path}")
        return found[2] if found and found[1] == "blob" else None

    # ---------------------------------------------------------------- git

    def commit(
        self,
        branch: str,
        files: dict[str, Any],
        message: str = "Change",
        *,
        base: str | None = None,
        author: Person = AUTHOR,
    ) -> str:
        """A commit on a branch (made from `base`, a branch or sha, if new); returns its sha.

        Args:
            files: path to text, bytes, None (delete), ("120000", target), ("160000", commit of a submodule) or any
                (mode, content).
        """
        with self.sim.world.lock:
            parent = self.branch(branch) or (self.git.resolve(base) if base else None)
            entries: list[dict[str, str | None]] = []
            for path, value in files.items():
                mode, content = value if isinstance(value, tuple) else ("100644", value)
                if content is None:
                    entries.append({"path": path, "mode": mode, "sha": None})
                    continue
                raw = content.encode() if isinstance(content, str) else content
                sha = raw.decode() if mode == "160000" else self.git.write_blob(raw)
                entries.append({"path": path, "mode": mode, "sha": sha})
            tree = self.git.write_tree(parent, entries)
            sha = self.git.write_commit(tree, [parent] if parent else [], message, author, author)
            self.git.update_ref(f"refs/heads/{branch}", sha)
            self.sim.refresh_pulls()
        return sha

    def create_branch(self, name: str, at: str) -> str:
        """A branch at another branch or sha."""
        sha = self.git.resolve(at)
        if sha is None:
            raise ValueError(f"nothing named {at}")
        self.git.update_ref(f"refs/heads/{name}", sha)
        return sha

    def create_tag(self, name: str, at: str) -> str:
        sha = self.git.resolve(at)
        if sha is None:
            raise ValueError(f"nothing named {at}")
        self.git.update_ref(f"refs/tags/{name}", sha)
        return sha

    def push_from(self, workdir: Path, refspec: str) -> None:
        """Takes a refspec from a local repository."""
        subprocess.run(
            ["git", "-c", "safe.directory=*", "-C", str(workdir), "push", "-q", "--force", str(self.bare), refspec],
            env=ENV,
            check=True,
            capture_output=True,
        )
        self.sim.refresh_pulls()

    def checkout(self, workdir: Path, ref: str, *, remote: str | None = None) -> str:
        """A work tree of `ref` with the history of all branches, as a runner's full checkout; returns the sha."""
        sha = self.git.resolve(ref)
        if sha is None:
            raise ValueError(f"nothing named {ref}")

        def git(*args: str) -> None:
            command = ["git", "-c", "safe.directory=*", "-c", "protocol.file.allow=always", "-C", str(workdir), *args]
            subprocess.run(command, env=ENV, check=True, capture_output=True)

        workdir.mkdir(parents=True, exist_ok=True)
        git("init", "-q", "-b", self.default_branch)
        git("fetch", "-q", "--tags", str(self.bare), "+refs/heads/*:refs/remotes/origin/*")
        if f"refs/heads/{ref}" in self.refs():
            git("checkout", "-q", "-B", ref, sha)
        else:
            git("fetch", "-q", str(self.bare), sha)
            git("checkout", "-q", "--detach", sha)
        git("remote", "add", "origin", remote or f"{self.sim.server_url}/{self.full_name}")
        return sha

    # ---------------------------------------------------------------- discussion

    def create_issue(
        self,
        title: str,
        body: str | None = "",
        user: str | None = "maintainer",
        *,
        number: int | None = None,
        labels: list[str] | None = None,
    ) -> Issue:
        with self.sim.world.lock:
            return self.sim.new_issue(self.data, title, body, user, number=number, labels=labels)

    def create_pull(
        self,
        head: str,
        base: str = "main",
        title: str = "Change",
        body: str | None = "",
        user: str | None = "maintainer",
        *,
        number: int | None = None,
        head_repo: str | None = None,
        draft: bool = False,
    ) -> Issue:
        with self.sim.world.lock:
            return self.sim.new_pull(
                self.data,
                title,
                body,
                user,
                head_repo=head_repo or self.full_name,
                head_ref=head,
                base_ref=base,
                number=number,
                draft=draft,
            )

    def delete_fork(self, number: int) -> None:
        """The fork of a pull request goes away: its head repository is null from now on."""
        pull = self.data.issues[number].pull
        assert pull is not None
        pull.head_repo = None

    def add_comment(
        self,
        number: int,
        body: str,
        user: str | None = "maintainer",
        *,
        id: int | None = None,
        association: str | None = None,
    ) -> Comment:
        with self.sim.world.lock:
            comment = self.sim.new_comment(self.data, self.data.issues[number], body, user, id)
            comment.association = association
            return comment

    def issue(self, number: int) -> Issue:
        return self.data.issues[number]

    def pulls(self) -> list[Issue]:
        """The pull requests, in order of number."""
        return [i for _, i in sorted(self.data.issues.items()) if i.pull]

    def bodies(self) -> list[str]:
        """Every text that people read: bodies of issues, pulls, comments, reviews, review comments."""
        out: list[str] = []
        for issue in self.data.issues.values():
            out += [issue.title, issue.body or "", *(c.body for c in issue.comments)]
            if issue.pull:
                out += [*(r.body for r in issue.pull.reviews), *(c.body for c in issue.pull.comments)]
        return out

    # ---------------------------------------------------------------- checks

    def add_run(
        self,
        run_id: int | None = None,
        jobs: list[dict[str, Any]] | None = None,
        *,
        name: str = "CI",
        head_sha: str | None = None,
        head_branch: str | None = None,
        event: str = "push",
        conclusion: str | None = "failure",
        status: str = "completed",
        actor: str = "maintainer",
        triggering_actor: str | None = None,
        head_repo: str | None = "",
        pulls: list[int] | None = None,
        attempt: int = 1,
        logs: dict[int, bytes | str | Path] | None = None,
    ) -> Run:
        """A workflow run with jobs and, as on GitHub, one check run a job under the job's id.

        Args:
            jobs: dicts with `id`, `name`, `conclusion`, `status`, `steps` ([{name, conclusion, …}]), `log`
                (text, bytes or a file), `log_status`, `annotations`, `attempt`.
            logs: job id to log, instead of `log` in the jobs.
            head_repo: full name; "" is this repository, None a fork that was deleted.
        """
        world = self.sim.world
        with world.lock:
            number = run_id or world.next_id("run", 9001)
            branch = head_branch or self.default_branch
            sha = head_sha or self.branch(branch) or ""
            suite = world.next_id("suite", 870001)
            run = Run(
                number,
                name,
                sha,
                branch,
                event,
                status,
                conclusion,
                suite,
                actor,
                triggering_actor or actor,
                self.full_name if head_repo == "" else head_repo,
                world.now(),
                attempt,
                len(self.data.runs) + 1,
                list(pulls or []),
            )
            for row in jobs or []:
                self._add_job(run, row, (logs or {}).get(row.get("id", 0)))
            self.data.runs[number] = run
            return run

    def _add_job(self, run: Run, row: dict[str, Any], log: Any) -> None:
        world = self.sim.world
        now = world.now()
        status = row.get("status", "completed")
        ended = row.get("conclusion", "failure") if status == "completed" else None
        steps = [
            {
                "name": step.get("name", f"Step {i}"),
                "status": step.get("status", "completed"),
                "conclusion": step.get("conclusion", "success"),
                "number": step.get("number", i),
                "started_at": step.get("started_at", now),
                "completed_at": step.get("completed_at", now),
            }
            for i, step in enumerate(
                row.get("steps", [{"name": "Set up job"}, {"name": "Test", "conclusion": ended}]), 1
            )
        ]
        log = row.get("log") if log is None else log
        job = Job(
            row.get("id") or world.next_id("job", 70001),
            run.id,
            row.get("name", "build"),
            status,
            ended,
            row.get("started_at", now),
            row.get("completed_at", now) if status == "completed" else None,
            steps,
            log.encode() if isinstance(log, str) else log,
            row.get("attempt", run.attempt),
            row.get("log_status", 200),
        )
        run.jobs.append(job)
        self.data.checks[job.id] = CheckRun(
            job.id,
            job.name,
            run.head_sha,
            job.status,
            job.conclusion,
            run.suite,
            job.started_at,
            job.completed_at,
            details_url=f"{self.sim.server_url}/{self.full_name}/actions/runs/{run.id}/job/{job.id}",
            annotations=list(row.get("annotations", [])),
            app="GitHub Actions",
        )

    def add_check(self, name: str, head_sha: str, conclusion: str | None = "success", **fields: Any) -> CheckRun:
        """A check run of another app."""
        world = self.sim.world
        with world.lock:
            number = world.next_id("check", 600001)
            status = "completed" if conclusion else "in_progress"
            now = world.now()
            check = CheckRun(number, name, head_sha, status, conclusion, world.next_id("suite", 870001), now, now)
            for key, value in fields.items():
                setattr(check, key, value)
            self.data.checks[number] = check
            return check

    def add_status(self, sha: str, state: str, context: str = "ci/other", description: str | None = None) -> Status:
        status = Status(
            self.sim.world.next_id("status", 700), sha, state, context, description, None, self.sim.world.now()
        )
        self.data.statuses.append(status)
        return status

    def protect(
        self, branch: str, contexts: list[str] | None = None, rules: list[dict[str, Any]] | None = None
    ) -> None:
        """Branch protection with required checks, and rulesets' rules."""
        self.data.protection[branch] = {"contexts": contexts or []}
        self.data.rules[branch] = rules if rules is not None else [{"type": "deletion"}, {"type": "non_fast_forward"}]
