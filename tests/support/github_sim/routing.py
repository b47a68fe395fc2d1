"""Which handler answers a method and path, what the token needs for it, and how lists are cut into pages."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from .shapes_ci import CiShapes, GitShapes
from .world import ApiError, Issue, Repo, Token

if TYPE_CHECKING:
    from .sim import GitHubSim

BODY_MAX = 65536
LEVELS = {"none": 0, "read": 1, "write": 2, "admin": 3}


@dataclass
class Reply:
    """An answer. `body` is an object to encode, a text, bytes, or None."""

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    content_type: str = "application/json; charset=utf-8"


@dataclass
class Call:
    """One request as a handler sees it: path parameters decoded, body parsed."""

    sim: GitHubSim
    method: str
    path: str
    params: dict[str, str]
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: Any
    token: Token | None
    repo: Repo | None

    @property
    def r(self) -> Repo:
        assert self.repo is not None
        return self.repo

    @property
    def git(self) -> GitShapes:
        return GitShapes(self.sim.shapes, self.r)

    @property
    def ci(self) -> CiShapes:
        return CiShapes(self.sim.shapes, self.r)

    @property
    def login(self) -> str:
        return self.token.login if self.token else "ghost"

    @property
    def now(self) -> str:
        return self.sim.world.now()

    def q(self, name: str, default: str = "") -> str:
        return self.query.get(name, [default])[-1]

    def issue(self, name: str = "n", *, pull: bool = False) -> Issue:
        """The issue (or pull request) that the path names."""
        issue = self.r.issues.get(int(self.params[name]))
        if issue is None or (pull and issue.pull is None):
            raise ApiError(404, "Not Found")
        if issue.deleted or (not self.r.issues_enabled and issue.pull is None):
            raise ApiError(410, "This issue was deleted" if issue.deleted else "Issues are disabled for this repo")
        return issue

    def obj(self) -> dict[str, Any]:
        """The body as an object."""
        if not isinstance(self.body, dict):
            raise ApiError(400, "Body should be a JSON object")
        return self.body

    def text(self, key: str, resource: str, *, required: bool = True) -> str:
        """A text field of the body within GitHub's length."""
        value = self.obj().get(key)
        if value is None and not required:
            return ""
        if not isinstance(value, str) or (required and not value.strip()):
            code = "missing_field" if value in (None, "") else "invalid"
            raise invalid(resource, key, code)
        if len(value) > BODY_MAX:
            raise ApiError(
                422,
                "Validation Failed",
                [
                    {
                        "resource": resource,
                        "code": "unprocessable",
                        "field": "data",
                        "message": f"Body is too long (maximum is {BODY_MAX} characters)",
                    }
                ],
            )
        return value

    def paged(self, items: list[Any], shape: Callable[[Any], Any], key: str | None = None) -> Reply:
        """One page of a list with a Link header in the numeric form; `key` wraps it in {total_count, key}."""
        size = min(max(_int(self.q("per_page"), 30), 1), 100)
        page = max(_int(self.q("page"), 1), 1)
        rows = [shape(item) for item in items[(page - 1) * size : page * size]]
        last = max(1, -(-len(items) // size))
        links = []
        for rel, number in (("prev", page - 1), ("next", page + 1), ("last", last), ("first", 1)):
            wanted = (rel in ("next", "last") and page < last) or (rel in ("prev", "first") and page > 1)
            if wanted:
                query = {k: v[-1] for k, v in self.query.items()} | {"page": str(number)}
                links.append(f'<{self.numeric_url()}?{urlencode(query)}>; rel="{rel}"')
        headers = {"Link": ", ".join(links)} if links else {}
        return Reply(200, {"total_count": len(items), key: rows} if key else rows, headers)

    def numeric_url(self) -> str:
        if self.repo is None:
            return self.sim.api_url + self.path
        rest = re.sub(r"^/(repos/[^/]+/[^/]+|repositories/\d+)", "", self.path)
        from urllib.parse import quote

        return f"{self.sim.api_url}/repositories/{self.repo.id}{quote(rest)}"


def _int(text: str, default: int) -> int:
    return int(text) if re.fullmatch(r"\d{1,9}", text or "") else default


def invalid(resource: str, name: str, code: str, message: str | None = None) -> ApiError:
    """A validation error with one row."""
    row = {"resource": resource, "field": name, "code": code}
    if message:
        row["message"] = message
    return ApiError(422, "Validation Failed", [row])


@dataclass(frozen=True)
class Operation:
    """One row of the table."""

    method: str
    template: str
    regex: re.Pattern[str]
    scopes: tuple[str, ...]
    handler: Callable[[Call], Reply]
    weight: tuple[int, int]


OPERATIONS: list[Operation] = []


def op(method: str, template: str, *scopes: str) -> Callable[[Callable[[Call], Reply]], Callable[[Call], Reply]]:
    """Registers a handler. `~` is `/repos/{owner}/{repo}`; `{n:int}` digits, `{x}` a segment, `{x...}` several.

    Any one of `scopes` (`contents:write`) is enough.
    """
    full = template.replace("~", "/repos/{owner}/{repository}")
    pattern, literal, multi = "", 0, 0
    for part in re.split(r"(\{[^}]+\})", full):
        if not part.startswith("{"):
            pattern += re.escape(part)
            literal += len(part)
        elif part.endswith("...}"):
            pattern += f"(?P<{part[1:-4]}>.+)"
            multi += 1
        elif part.endswith(":int}"):
            pattern += f"(?P<{part[1:-5]}>\\d{{1,18}})"
            literal += 1
        else:
            pattern += f"(?P<{part[1:-1]}>[^/]+)"

    def register(handler: Callable[[Call], Reply]) -> Callable[[Call], Reply]:
        OPERATIONS.append(
            Operation(method, template, re.compile(f"^{pattern}$", re.S), scopes, handler, (-literal, multi))
        )
        OPERATIONS.sort(key=lambda o: o.weight)
        return handler

    return register


def find(method: str, path: str) -> tuple[Operation, dict[str, str]] | None:
    """The operation of that method and (decoded) path."""
    for operation in OPERATIONS:
        if operation.method == method:
            match = operation.regex.match(path)
            if match:
                return operation, match.groupdict()
    return None


def need(token: Token | None, operation: Operation, repo: Repo | None) -> None:
    """Raises what GitHub answers when the token may not do this."""
    if not operation.scopes:
        return
    if token is None:
        if repo is not None and repo.private:
            raise ApiError(404, "Not Found")
        if any(s.endswith(":read") for s in operation.scopes):
            return
        raise ApiError(401, "Requires authentication")
    if repo is not None and token.repositories is not None and repo.full_name not in token.repositories:
        if repo.private:
            raise ApiError(404, "Not Found")
        if operation.method == "GET":
            return
    elif any(_enough(token, scope) for scope in operation.scopes):
        return
    wanted = "; ".join(s.replace(":", "=") for s in operation.scopes)
    raise ApiError(403, "Resource not accessible by integration", headers={"X-Accepted-GitHub-Permissions": wanted})


def _enough(token: Token, scope: str) -> bool:
    name, _, level = scope.partition(":")
    return LEVELS[token.level(name)] >= LEVELS[level]
