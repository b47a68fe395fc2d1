"""What the simulated GitHub knows: users, tokens, repositories and everything in them."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .git import BareRepo, iso

ACTIONS_BOT = "github-actions[bot]"
FULL = {
    "metadata": "read",
    "contents": "write",
    "pull_requests": "write",
    "issues": "write",
    "checks": "write",
    "actions": "write",
    "statuses": "write",
    "administration": "write",
}


class ApiError(Exception):
    """An error answer: status, message, the `errors` list, and headers."""

    def __init__(
        self,
        status: int,
        message: str,
        errors: list[Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.errors, self.headers = status, message, errors, headers or {}


@dataclass
class User:
    login: str
    id: int
    type: str = "User"
    site_admin: bool = False


@dataclass
class Token:
    """A token: who it acts as, what it may do, and where (None is every repository)."""

    value: str
    login: str
    permissions: dict[str, str]
    repositories: frozenset[str] | None = None

    def level(self, scope: str) -> str:
        return self.permissions.get(scope, "read" if scope == "metadata" else "none")


@dataclass
class Comment:
    id: int
    user: str | None
    body: str
    created_at: str
    updated_at: str
    association: str | None = None


@dataclass
class ReviewComment(Comment):
    path: str = ""
    line: int | None = None
    side: str = "RIGHT"
    start_line: int | None = None
    start_side: str | None = None
    subject_type: str = "line"
    commit_id: str = ""
    original_commit_id: str = ""
    diff_hunk: str = ""
    position: int | None = 1
    review_id: int | None = None
    in_reply_to: int | None = None


@dataclass
class Review:
    id: int
    user: str | None
    body: str
    state: str
    commit_id: str
    submitted_at: str | None


@dataclass
class Issue:
    """An issue; a pull request has one of the same number, with `pull` set."""

    number: int
    id: int
    title: str
    body: str | None
    user: str | None
    created_at: str
    updated_at: str
    labels: list[str] = field(default_factory=list)
    state: str = "open"
    closed_at: str | None = None
    association: str | None = None
    comments: list[Comment] = field(default_factory=list)
    timeline: list[dict[str, Any]] = field(default_factory=list)
    pull: Pull | None = None
    deleted: bool = False


@dataclass
class Pull:
    """The pull-request half of an issue. `head_repo` None is a fork that was deleted."""

    id: int
    number: int
    head_repo: str | None
    head_ref: str
    head_sha: str
    base_ref: str
    base_sha: str
    head_owner: str
    draft: bool = False
    merged: bool = False
    merged_at: str | None = None
    merge_commit_sha: str | None = None
    maintainer_can_modify: bool = False
    reviews: list[Review] = field(default_factory=list)
    comments: list[ReviewComment] = field(default_factory=list)


@dataclass
class CheckRun:
    id: int
    name: str
    head_sha: str
    status: str
    conclusion: str | None
    suite: int
    started_at: str | None
    completed_at: str | None
    title: str | None = None
    summary: str | None = None
    text: str | None = None
    external_id: str = ""
    details_url: str | None = None
    app: str = "github-actions"
    annotations: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class Job:
    id: int
    run_id: int
    name: str
    status: str
    conclusion: str | None
    started_at: str
    completed_at: str | None
    steps: list[dict[str, Any]]
    log: bytes | Path | None
    attempt: int = 1
    log_status: int = 200


@dataclass
class Run:
    id: int
    name: str
    head_sha: str
    head_branch: str | None
    event: str
    status: str
    conclusion: str | None
    suite: int
    actor: str
    triggering_actor: str
    head_repo: str | None
    created_at: str
    attempt: int = 1
    number: int = 1
    pulls: list[int] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)
    path: str = ".github/workflows/ci.yml"
    workflow_id: int = 161335


@dataclass
class Status:
    id: int
    sha: str
    state: str
    context: str
    description: str | None
    target_url: str | None
    created_at: str


@dataclass
class Permission:
    """What the collaborators endpoint answers for a login, and how badly."""

    permission: str
    role_name: str = ""
    status: int = 200
    delay: float = 0.0
    raw: str | None = None


@dataclass
class Repo:
    """One repository and everything in it."""

    full_name: str
    id: int
    git: BareRepo
    default_branch: str
    private: bool = False
    parent: str | None = None
    description: str | None = None
    issues: dict[int, Issue] = field(default_factory=dict)
    labels: dict[str, dict[str, Any]] = field(default_factory=dict)
    runs: dict[int, Run] = field(default_factory=dict)
    checks: dict[int, CheckRun] = field(default_factory=dict)
    statuses: list[Status] = field(default_factory=list)
    permissions: dict[str, Permission] = field(default_factory=dict)
    protection: dict[str, dict[str, Any]] = field(default_factory=dict)
    rules: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    reactions: dict[tuple[str, int], list[dict[str, Any]]] = field(default_factory=dict)
    issues_enabled: bool = True
    actions_can_create_pulls: bool = True
    actions_can_approve: bool = False
    renamed_from: list[str] = field(default_factory=list)

    @property
    def owner(self) -> str:
        return self.full_name.split("/")[0]

    @property
    def name(self) -> str:
        return self.full_name.split("/")[1]

    @property
    def bare(self) -> Path:
        return self.git.path

    def branch(self, name: str) -> str | None:
        found = self.git.lookup(f"refs/heads/{name}^{{commit}}")
        return found[0] if found else None


class World:
    """Everything, behind one lock. Ids are counted, times are the real clock's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lock = threading.RLock()
        self.users: dict[str, User] = {}
        self.tokens: dict[str, Token] = {}
        self.repos: dict[str, Repo] = {}
        self._ids: dict[str, itertools.count[int]] = {}
        self.clock: Callable[[], float] = time.time
        self.rate_limit = 15000
        self.rate_used = 0
        self.user(ACTIONS_BOT, kind="Bot", number=41898282)

    def now(self) -> str:
        return iso(self.clock())

    def next_id(self, kind: str, start: int = 1) -> int:
        return next(self._ids.setdefault(kind, itertools.count(start)))

    def user(self, login: str, kind: str | None = None, number: int | None = None) -> User:
        """The user of that name, made if need be; bots are told by `[bot]` unless said otherwise."""
        key = login.lower()
        if key not in self.users:
            guess = "Bot" if login.endswith("[bot]") else "User"
            self.users[key] = User(login, number or self.next_id("user", 20001), kind or guess)
        elif kind:
            self.users[key].type = kind
        return self.users[key]

    def find(self, full_name: str) -> Repo | None:
        wanted = full_name.lower()
        return next((r for r in self.repos.values() if r.full_name.lower() == wanted), None)

    def by_id(self, number: int) -> Repo | None:
        return next((r for r in self.repos.values() if r.id == number), None)

    def association(self, repo: Repo, login: str | None) -> str:
        if login is None:
            return "NONE"
        if login.lower() == repo.owner.lower():
            return "OWNER"
        given = repo.permissions.get(login.lower())
        if given and given.permission in ("admin", "write"):
            return "COLLABORATOR"
        return "NONE"
