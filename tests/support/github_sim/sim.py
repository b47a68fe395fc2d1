"""The simulator: three listeners over one world, what they received, and the faults to inject."""

from __future__ import annotations

import json
import re
import threading
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs

from . import events, git_http, ops_ci, ops_git, ops_pulls, ops_read
from .git import BareRepo, GitError, Person
from .git_http import token_of
from .obey import obey
from .paths import lenient, split_target
from .repository import Repository
from .routing import Call, Reply, find, need
from .server import Drop, Listener, Received
from .shapes import Shapes
from .storage import Storage
from .world import ACTIONS_BOT, FULL, ApiError, Comment, Issue, Permission, Pull, Repo, Token, World

HANDLERS = (ops_read, ops_pulls, ops_git, ops_ci)
DOCS = "https://docs.github.com/rest"
SECONDARY = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."


@dataclass
class Fault:
    """An answer to give instead of the true one, `times` times (None: always), after `skip` honest ones."""

    method: str
    path: str
    status: int
    body: Any
    times: int | None
    delay: float
    headers: dict[str, str]
    drop: bool
    skip: int
    used: int = 0
    content_type: str = "application/json; charset=utf-8"

    def takes(self, method: str, raw_path: str) -> bool:
        if not re.fullmatch(self.method, method) or not re.search(self.path, raw_path):
            return False
        if self.skip > 0:
            self.skip -= 1
            return False
        if self.times is not None and self.used >= self.times:
            return False
        self.used += 1
        return True


@dataclass
class GitHubSim:
    """GitHub on loopback, in `folder`. A context manager; everything is usable from any thread.

    Attributes:
        single_host: the git host is the API's own address (as on an enterprise server), not one more.
        api_url, server_url, storage_url: base URLs of the API, of the git and web host, and of the log store.
        requests: everything the three listeners received, in order, raw paths included.
        records: API exchanges in the form that the contract check reads.
    """

    folder: Path
    api_prefix: str = ""
    host: str = "127.0.0.1"
    storage_host: str = "127.0.0.1"
    single_host: bool = False
    requests: list[Received] = field(default_factory=list)
    records: list[dict[str, Any]] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder = Path(self.folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.world = World(self.folder)
        self._stop = threading.Event()
        self._defaults: dict[str, Permission] = {}
        self._listeners = [
            Listener("api", self._api, self.host),
            Listener("git", self._git, self.host),
        ]
        self.storage = Storage(self.requests.append, lambda: self.world.clock(), self.storage_host)
        self.api_url = self._listeners[0].url + self.api_prefix
        self.server_url = self._listeners[0 if self.single_host else 1].url
        self.storage_url = self.storage.listener.url
        self.shapes = Shapes(self.world, self.api_url, self.server_url)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._stop.set()
        for listener in (*self._listeners, self.storage.listener):
            listener.close()
        for repo in self.world.repos.values():
            repo.git.close()

    def wait(self, seconds: float) -> None:
        """Sleeps, but wakes when the simulator closes."""
        self._stop.wait(seconds)

    # ---------------------------------------------------------------- making the world

    def create_repository(
        self,
        full_name: str,
        default_branch: str = "main",
        *,
        private: bool = False,
        number: int | None = None,
        fork_of: str | None = None,
        files: dict[str, str | bytes] | None = None,
    ) -> Repository:
        """A new repository; with `files` it has a first commit of them on the default branch."""
        with self.world.lock:
            git = BareRepo(self.folder / "git" / f"{full_name}.git", default_branch)
            repo = Repo(full_name, number or self.world.next_id("repo", 1001), git, default_branch, private, fork_of)
            self.world.repos[full_name] = repo
            self.world.user(repo.owner)
            repo.permissions.update(self._defaults)
            for name, color in (("bug", "d73a4a"), ("ci", "0e8a16")):
                repo.labels[name] = {
                    "id": self.world.next_id("label", 3001),
                    "color": color,
                    "description": None,
                    "default": name == "bug",
                }
        handle = Repository(self, repo)
        if fork_of:
            parent = self.world.find(fork_of)
            if parent and parent.branch(parent.default_branch):
                git.run("fetch", "-q", str(parent.git.path), "refs/heads/*:refs/heads/*")
        if files:
            handle.commit(default_branch, files, "Initial commit")
        return handle

    def repository(self, full_name: str) -> Repository:
        repo = self.world.find(full_name)
        if repo is None:
            raise KeyError(full_name)
        return Repository(self, repo)

    def add_user(self, login: str, permission: str | None = None, type: str | None = None, **odd: Any) -> None:
        """A user, and what the collaborators endpoint says of it in every repository.

        Args:
            odd: `role_name`, or trouble: `status`, `delay` (seconds), `raw` (body to send as it is).
        """
        known = odd.get("status", 200) != 404
        if known:
            self.world.user(login, type)
        if permission is not None or odd:
            given = Permission(permission or "none", **odd)
            self._defaults[login.lower()] = given
            for repo in self.world.repos.values():
                repo.permissions[login.lower()] = given

    def token(
        self,
        value: str,
        permissions: dict[str, str] | None = None,
        login: str = ACTIONS_BOT,
        repositories: frozenset[str] | None = None,
    ) -> Token:
        """Makes a token known. Without `permissions` it may do everything but change workflow files."""
        token = Token(value, login, dict(FULL) if permissions is None else permissions, repositories)
        self.world.tokens[value] = token
        return token

    def event(self, name: str, repo: Repository | str | None = None, **fields: Any) -> dict[str, Any]:
        """A full event payload, as GITHUB_EVENT_PATH holds it; see `events.build`."""
        target = self.repository(repo) if isinstance(repo, str) else repo
        if target is None:
            target = Repository(self, next(iter(self.world.repos.values())))
        with self.world.lock:
            return events.build(self, target.data, name, **fields)

    # ---------------------------------------------------------------- faults

    def fault(
        self,
        method: str,
        path: str,
        status: int = 500,
        body: Any = None,
        times: int | None = 1,
        delay: float = 0.0,
        headers: dict[str, str] | None = None,
        *,
        drop: bool = False,
        skip: int = 0,
        content_type: str | None = None,
    ) -> Fault:
        """Injects an answer. `method` and `path` are regular expressions (method whole, path as sent)."""
        if body is None and not drop:
            body = {"message": "Server Error", "documentation_url": DOCS, "status": str(status)}
        kind = content_type or ("text/html" if isinstance(body, str) else "application/json; charset=utf-8")
        fault = Fault(method, path, status, body, times, delay, headers or {}, drop, skip, content_type=kind)
        self.faults.append(fault)
        return fault

    def rate_limit(self, method: str, path: str, kind: str = "secondary", wait: int = 2, times: int = 1) -> Fault:
        """A rate limit: `secondary` (403 with retry-after), `primary` (403, remaining 0), or `429`."""
        if kind == "primary":
            headers = {"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(int(self.world.clock()) + wait)}
            message = "API rate limit exceeded for installation."
        else:
            headers, message = {"retry-after": str(wait)}, SECONDARY
        status = 429 if kind == "429" else 403
        body = {"message": message, "documentation_url": DOCS, "status": str(status)}
        return self.fault(method, path, status, body, times, headers=headers)

    def redirect(self, method: str, path: str, status: int, location: str) -> Fault:
        """Answers with a redirect, always. `path` is a regular expression."""
        return self.fault(method, path, status, "", None, headers={"Location": location})

    # ---------------------------------------------------------------- answering

    def _git(self, received: Received) -> Reply:
        self.requests.append(received)
        reply = self._injected(received) or git_http.answer(self, received)
        received.status = reply.status
        return reply

    def _injected(self, received: Received) -> Reply | None:
        with self.world.lock:
            fault = next((f for f in self.faults if f.takes(received.method, received.raw_path)), None)
        if fault is None:
            return None
        received.injected = True
        if fault.delay:
            self.wait(fault.delay)
        if fault.drop:
            raise Drop
        return Reply(fault.status, fault.body, fault.headers, fault.content_type)

    def _api(self, received: Received) -> Reply:
        raw, query, _ = split_target(received.raw_path)
        if not raw.lower().startswith("/repos/") and git_http.PATH.match(lenient(raw)):
            return self._git(received)
        if self.api_prefix and raw.startswith(self.api_prefix):
            raw = raw[len(self.api_prefix) :] or "/"
        received.path, received.query = lenient(raw), query
        received.allowed_auth = token_of(received, self.world.tokens)[0] is not None
        self.requests.append(received)
        reply = self._injected(received)
        if reply is None:
            with self.world.lock:
                reply = self._answer(received)
        received.status = reply.status
        used, limit = self.world.rate_used, self.world.rate_limit
        base = {
            "X-GitHub-Request-Id": f"{len(self.requests):04X}:SIM",
            "X-GitHub-Media-Type": "github.v3; format=json",
            "x-ratelimit-limit": str(limit),
            "x-ratelimit-remaining": str(max(0, limit - used)),
            "x-ratelimit-reset": str(int(self.world.clock()) + 3600),
        }
        names = {k.lower() for k in reply.headers}
        reply.headers = {**{k: v for k, v in base.items() if k.lower() not in names}, **reply.headers}
        self.records.append(self._record(received, raw, query, reply))
        return reply

    def _record(self, received: Received, raw: str, query: str, reply: Reply) -> dict[str, Any]:
        body = received.json if received.body else None
        heads = dict(received.headers)
        if heads.get("Authorization"):
            heads["Authorization"] = "***"
        answer = reply.body
        if isinstance(answer, bytes):
            answer = answer.decode("utf-8", "replace")
        return {
            "method": received.method,
            "path": raw,
            "query": parse_qs(query, keep_blank_values=True),
            "headers": heads,
            "body": body if body is not None or not received.body else received.text,
            "status": reply.status,
            "response": answer,
            "response_headers": reply.headers,
            "injected": received.injected,
        }

    def _answer(self, received: Received) -> Reply:
        if not received.header("User-Agent"):
            return Reply(403, "Request forbidden by administrative rules.", content_type="text/html")
        token, given = token_of(received, self.world.tokens)
        self.world.rate_used += received.path != "/rate_limit"
        try:
            if given and token is None:
                raise ApiError(401, "Bad credentials")
            return self._dispatch(received, token)
        except ApiError as exc:
            body: dict[str, Any] = {
                "message": exc.message,
                "documentation_url": DOCS,
                "status": str(exc.status),
            }
            if exc.errors:
                body["errors"] = exc.errors
            return Reply(exc.status, body, exc.headers)
        except GitError as exc:
            return Reply(422, {"message": f"Git said: {exc}", "documentation_url": DOCS, "status": "422"})

    def _dispatch(self, received: Received, token: Token | None) -> Reply:
        path, repo = self._repo_of(received)
        body: Any = None
        if received.body:
            try:
                body = json.loads(received.body)
            except ValueError:
                raise ApiError(400, "Problems parsing JSON") from None
        heads = {k.lower(): v for k, v in received.headers}
        query = parse_qs(received.query, keep_blank_values=True)
        call = Call(self, received.method, path, {}, query, heads, body, token, repo)
        found = find("GET" if received.method == "HEAD" else received.method, path)
        if found is None:
            answer = obey(call) if token else None
            if answer is None:
                raise ApiError(404, "Not Found")
            return answer
        operation, call.params = found
        if operation.template.startswith("~") and repo is None:
            raise ApiError(404, "Not Found")
        need(token, operation, repo if operation.template.startswith("~") else None)
        return operation.handler(call)

    def _repo_of(self, received: Received) -> tuple[str, Repo | None]:
        """The path in its `/repos/…` form, and the repository it names. An old name is redirected."""
        path = received.path
        match = re.match(r"^/repositories/(\d+)(?=/|$)", path)
        if match:
            repo = self.world.by_id(int(match[1]))
            if repo is None:
                raise ApiError(404, "Not Found")
            return f"/repos/{repo.full_name}{path[match.end() :]}", repo
        match = re.match(r"^/repos/([^/]+/[^/]+)", path)
        if not match:
            return path, None
        repo = self.world.find(match[1])
        if repo is None:
            moved = next((r for r in self.world.repos.values() if match[1] in r.renamed_from), None)
            if moved:
                target = f"{self.api_url}/repositories/{moved.id}{path[match.end() :]}"
                status = 301 if received.method == "GET" else 307
                raise ApiError(status, "Moved Permanently", headers={"Location": target})
        return path, repo

    # ---------------------------------------------------------------- what handlers share

    def new_issue(
        self,
        repo: Repo,
        title: str,
        body: str | None,
        user: str | None,
        *,
        labels: list[str] | None = None,
        number: int | None = None,
    ) -> Issue:
        now = self.world.now()
        number = number or max(repo.issues, default=0) + 1
        issue = Issue(number, self.world.next_id("issue", 100001), title, body, user, now, now, list(labels or []))
        repo.issues[number] = issue
        return issue

    def new_pull(
        self,
        repo: Repo,
        title: str,
        body: str | None,
        user: str | None,
        *,
        head_repo: str,
        head_ref: str,
        base_ref: str,
        draft: bool = False,
        number: int | None = None,
    ) -> Issue:
        issue = self.new_issue(repo, title, body, user, number=number)
        base = repo.branch(base_ref)
        source = self.world.find(head_repo)
        head = source.branch(head_ref) if source else None
        if base is None or head is None or source is None:
            raise ValueError(f"no such branch: {base_ref if base is None else head_ref}")
        issue.pull = Pull(
            self.world.next_id("pull", 200001),
            issue.number,
            head_repo,
            head_ref,
            "",
            base_ref,
            base,
            source.owner,
            draft=draft,
        )
        self.refresh_pull(repo, issue)
        return issue

    def new_comment(self, repo: Repo, issue: Issue, body: str, user: str | None, number: int | None = None) -> Comment:
        now = self.world.now()
        comment = Comment(number or self.world.next_id("comment", 50001), user, body, now, now)
        issue.comments.append(comment)
        issue.updated_at = now
        return comment

    def label_event(self, repo: Repo, issue: Issue, name: str, login: str) -> None:
        number = self.world.next_id("event", 640001)
        label = repo.labels.get(name) or self.shapes.label(repo, name)
        issue.timeline.append(
            {
                "id": number,
                "node_id": f"LE_{number}",
                "url": self.shapes.url(repo, f"/issues/events/{number}"),
                "actor": self.shapes.user(login),
                "event": "labeled",
                "commit_id": None,
                "commit_url": None,
                "created_at": self.world.now(),
                "label": {"name": name, "color": label["color"]},
                "performed_via_github_app": None,
            }
        )

    def fork_of(self, repo: Repo, owner: str) -> Repo | None:
        return next(
            (r for r in self.world.repos.values() if r.parent == repo.full_name and r.owner.lower() == owner.lower()),
            None,
        )

    def bring(self, repo: Repo, source: Repo, sha: str) -> None:
        """Makes the objects of a fork's commit known to the repository."""
        if source is not repo and repo.git.type_of(sha) is None:
            repo.git.run("fetch", "-q", "--no-write-fetch-head", str(source.git.path), sha)

    def refresh_pull(self, repo: Repo, issue: Issue) -> None:
        """Follows the head branch: new head sha, `refs/pull/N/head` and, where it can be made, `/merge`."""
        pull = issue.pull
        if pull is None or issue.state != "open":
            return
        source = self.world.find(pull.head_repo) if pull.head_repo else None
        head = source.branch(pull.head_ref) if source else None
        if source is None or head is None or head == pull.head_sha:
            return
        self.bring(repo, source, head)
        pull.head_sha = head
        pull.base_sha = repo.branch(pull.base_ref) or pull.base_sha
        repo.git.update_ref(f"refs/pull/{issue.number}/head", head)
        try:
            tree = repo.git.run("merge-tree", "--write-tree", pull.base_sha, head).decode().split()[0]
        except GitError:
            return
        who = Person("GitHub", "noreply@github.com", self.world.now())
        merge = repo.git.write_commit(tree, [pull.base_sha, head], f"Merge {head} into {pull.base_sha}", who, who)
        repo.git.update_ref(f"refs/pull/{issue.number}/merge", merge)

    def refresh_pulls(self) -> None:
        with self.world.lock:
            for repo in self.world.repos.values():
                for issue in repo.issues.values():
                    self.refresh_pull(repo, issue)

    def resolve_label(self, repo: Repo, label: str) -> str | None:
        """A commit from `branch`, `sha`, `owner:branch`."""
        owner, colon, branch = label.rpartition(":")
        if not colon or owner.lower() == repo.owner.lower():
            return repo.git.resolve(branch)
        fork = self.fork_of(repo, owner)
        sha = fork.branch(branch) if fork else None
        if fork and sha:
            self.bring(repo, fork, sha)
        return sha

    def write_records(self, path: Path) -> Path:
        """The API exchanges as JSON lines."""
        path.write_text("".join(json.dumps(r, default=str) + "\n" for r in self.records), encoding="utf-8")
        return path
