"""Git data: blobs, trees, commits, refs; contents, comparisons, branches; the tarball."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any
from urllib.parse import quote

from .git import SHA, GitError, Person
from .routing import Call, Reply, invalid, op
from .world import ApiError

MODES = {"100644": "blob", "100755": "blob", "120000": "blob", "040000": "tree", "160000": "commit"}


def resolve(c: Call, name: str) -> str:
    """The commit that a ref or sha names."""
    not_empty(c)
    sha = c.r.git.resolve(name)
    if sha is None:
        raise ApiError(422, f"No commit found for SHA: {name}")
    return sha


def not_empty(c: Call) -> None:
    if not c.r.git.refs():
        raise ApiError(409, "Git Repository is empty.")


# -------------------------------------------------------------------- objects


@op("GET", "~/git/blobs/{sha}", "contents:read")
def get_blob(c: Call) -> Reply:
    not_empty(c)
    found = c.r.git.lookup(c.params["sha"]) if SHA.match(c.params["sha"]) else None
    if found is None or found[1] != "blob":
        raise ApiError(404, "Not Found")
    if "raw" in c.headers.get("accept", ""):
        return Reply(200, found[2], content_type="application/vnd.github.raw")
    return Reply(200, c.git.blob(found[0], found[2]))


@op("POST", "~/git/blobs", "contents:write")
def create_blob(c: Call) -> Reply:
    data = c.obj()
    content, encoding = data.get("content"), data.get("encoding", "utf-8")
    not_empty(c)
    if not isinstance(content, str):
        raise invalid("Blob", "content", "missing_field")
    if encoding == "base64":
        try:
            raw = base64.b64decode(re.sub(r"\s", "", content), validate=True)
        except (binascii.Error, ValueError):
            raise ApiError(422, "content is not valid Base64") from None
    elif encoding == "utf-8":
        raw = content.encode("utf-8", "surrogatepass")
    else:
        raise ApiError(422, f"{encoding} is not a supported encoding")
    sha = c.r.git.write_blob(raw)
    return Reply(201, {"sha": sha, "url": c.sim.shapes.url(c.r, f"/git/blobs/{sha}")})


def _tree_body(c: Call, sha: str, *, recursive: bool) -> dict[str, Any]:
    rows = []
    for entry in c.r.git.tree(sha, recursive=recursive):
        row: dict[str, Any] = {"path": entry.path, "mode": entry.mode, "type": entry.type, "sha": entry.sha}
        if entry.type == "blob":
            row["size"] = entry.size or 0
        if entry.type != "commit":
            row["url"] = c.sim.shapes.url(c.r, f"/git/{entry.type}s/{entry.sha}")
        rows.append(row)
    return {
        "sha": sha,
        "url": c.sim.shapes.url(c.r, f"/git/trees/{sha}"),
        "tree": rows[:100_000],
        "truncated": len(rows) > 100_000,
    }


@op("GET", "~/git/trees/{sha...}", "contents:read")
def get_tree(c: Call) -> Reply:
    not_empty(c)
    name = c.params["sha"]
    found = c.r.git.lookup((name if SHA.match(name) else c.r.git.resolve(name) or "0" * 40) + "^{tree}")
    if found is None:
        raise ApiError(404, "Not Found")
    return Reply(200, _tree_body(c, found[0], recursive=bool(c.q("recursive"))))


@op("POST", "~/git/trees", "contents:write")
def create_tree(c: Call) -> Reply:
    not_empty(c)
    data = c.obj()
    rows = data.get("tree")
    if not isinstance(rows, list):
        raise invalid("Tree", "tree", "missing_field")
    base = data.get("base_tree")
    if base is not None:
        found = c.r.git.lookup(f"{base}^{{tree}}") if isinstance(base, str) and SHA.match(base) else None
        if found is None:
            raise ApiError(422, "base_tree is not a valid tree oid")
        base = found[0]
    entries: list[dict[str, str | None]] = []
    for row in rows:
        path, mode, sha = row.get("path"), row.get("mode"), row.get("sha")
        if not isinstance(path, str) or any(p.lower() in ("", ".", "..", ".git") for p in path.split("/")):
            raise ApiError(422, f"tree.path contains a malformed path component: {path}")
        if path.startswith(".github/workflows/") and c.token and c.token.permissions.get("workflows") != "write":
            raise ApiError(
                403,
                "Resource not accessible by integration",
                headers={"X-Accepted-GitHub-Permissions": "contents=write,workflows=write"},
            )
        if mode not in MODES:
            raise ApiError(422, "Must supply a valid tree.mode")
        if "content" in row and "sha" in row:
            raise ApiError(422, "Must supply either tree.sha or tree.content, but not both")
        if isinstance(row.get("content"), str):
            sha = c.r.git.write_blob(row["content"].encode("utf-8", "surrogatepass"))
        elif "sha" not in row:
            raise ApiError(422, "Must supply either tree.sha or tree.content")
        elif sha is not None and mode != "160000" and c.r.git.type_of(str(sha)) != MODES[mode]:
            raise ApiError(422, f"tree.sha {sha} is not a valid {MODES[mode]}")
        entries.append({"path": path, "mode": mode, "sha": sha})
    try:
        sha = c.r.git.write_tree(base, entries)
    except GitError as exc:
        raise ApiError(422, f"GitRPC::BadObjectState: {exc}") from None
    return Reply(201, _tree_body(c, sha, recursive=False))


@op("GET", "~/git/commits/{sha}", "contents:read")
def get_git_commit(c: Call) -> Reply:
    not_empty(c)
    info = c.r.git.commit_info(c.params["sha"]) if SHA.match(c.params["sha"]) else None
    if info is None:
        raise ApiError(404, "Not Found")
    return Reply(200, c.git.git_commit(info))


def _person(c: Call, data: Any, default: Person) -> Person:
    if not isinstance(data, dict):
        return default
    if not data.get("name") or not data.get("email"):
        raise invalid("Commit", "author", "missing_field")
    return Person(data["name"], data["email"], data.get("date") or c.now)


@op("POST", "~/git/commits", "contents:write")
def create_commit(c: Call) -> Reply:
    not_empty(c)
    data = c.obj()
    message, tree = data.get("message"), data.get("tree")
    if not isinstance(message, str) or not message:
        raise invalid("Commit", "message", "missing_field")
    if not isinstance(tree, str) or c.r.git.type_of(tree) != "tree":
        raise ApiError(422, "Tree SHA does not exist")
    parents = data.get("parents") or []
    for parent in parents:
        if c.r.git.type_of(str(parent)) != "commit":
            raise ApiError(422, "Parent SHA does not exist or is not a commit object")
    user = c.sim.world.user(c.login)
    default = Person(user.login, f"{user.id}+{user.login}@users.noreply.github.com", c.now)
    author = _person(c, data.get("author"), default)
    committer = _person(c, data.get("committer"), author)
    sha = c.r.git.write_commit(tree, parents, message, author, committer)
    info = c.r.git.commit_info(sha)
    assert info is not None
    return Reply(201, c.git.git_commit(info))


# -------------------------------------------------------------------- refs


def _ref(c: Call, name: str) -> Reply:
    found = c.r.git.lookup("refs/" + name) if c.r.git.valid_ref("refs/" + name) else None
    if found is None:
        raise ApiError(404, "Not Found")
    return Reply(200, c.git.ref("refs/" + name, found[0], found[1]))


@op("GET", "~/git/ref/{ref...}", "contents:read")
def get_ref(c: Call) -> Reply:
    not_empty(c)
    return _ref(c, c.params["ref"])


@op("GET", "~/git/matching-refs/{ref...}", "contents:read")
def matching_refs(c: Call) -> Reply:
    prefix = "refs/" + c.params["ref"]
    rows = sorted((n, s) for n, s in c.r.git.refs().items() if n.startswith(prefix))
    return c.paged(rows, lambda row: c.git.ref(row[0], row[1], c.r.git.type_of(row[1]) or "commit"))


def _no_workflow_change(c: Call, sha: str) -> None:
    """A commit that changes workflow files is refused to a token without that permission."""
    if c.token is None or c.token.permissions.get("workflows") == "write":
        return
    base = c.r.branch(c.r.default_branch)
    since = c.r.git.merge_base(base, sha) if base else None
    if since and any(f.path.startswith(".github/workflows/") for f in c.r.git.diff(since, sha)):
        raise ApiError(403, "Resource not accessible by integration")


@op("POST", "~/git/refs", "contents:write")
def create_ref(c: Call) -> Reply:
    not_empty(c)
    ref, sha = c.obj().get("ref"), c.obj().get("sha")
    if not isinstance(ref, str) or not ref.startswith("refs/") or ref.count("/") < 2 or not c.r.git.valid_ref(ref):
        raise ApiError(422, "Reference name is not valid")
    if not isinstance(sha, str) or c.r.git.type_of(sha) is None:
        raise ApiError(422, "Object does not exist")
    if ref in c.r.git.refs():
        raise ApiError(422, "Reference already exists")
    if ref.startswith("refs/heads/") and c.r.git.type_of(sha) != "commit":
        raise ApiError(422, "Object is not a commit")
    _no_workflow_change(c, sha)
    try:
        c.r.git.update_ref(ref, sha, "0" * 40)
    except GitError:
        raise ApiError(422, "Reference update failed") from None
    return Reply(201, c.git.ref(ref, sha, c.r.git.type_of(sha) or "commit"))


@op("PATCH", "~/git/refs/{ref...}", "contents:write")
def update_ref(c: Call) -> Reply:
    not_empty(c)
    ref, sha = "refs/" + c.params["ref"], c.obj().get("sha")
    old = c.r.git.refs().get(ref)
    if old is None:
        raise ApiError(422, "Reference does not exist")
    if not isinstance(sha, str) or c.r.git.type_of(sha) is None:
        raise ApiError(422, "Object does not exist")
    if c.obj().get("force") is not True and not c.r.git.is_ancestor(old, sha):
        raise ApiError(422, "Update is not a fast forward")
    _no_workflow_change(c, sha)
    c.r.git.update_ref(ref, sha, old)
    c.sim.refresh_pulls()
    return Reply(200, c.git.ref(ref, sha, c.r.git.type_of(sha) or "commit"))


@op("DELETE", "~/git/refs/{ref...}", "contents:write")
def delete_ref(c: Call) -> Reply:
    ref = "refs/" + c.params["ref"]
    if ref not in c.r.git.refs():
        raise ApiError(422, "Reference does not exist")
    c.r.git.delete_ref(ref)
    return Reply(204)


# -------------------------------------------------------------------- history


@op("GET", "~/commits", "contents:read")
def list_commits(c: Call) -> Reply:
    sha = resolve(c, c.q("sha") or c.r.default_branch)
    args = [sha, "--max-count=1000"]
    shas = c.r.git.run("rev-list", *args, "--", *([c.q("path")] if c.q("path") else [])).decode().split()
    return c.paged(shas, lambda s: c.git.commit(c.r.git.commit_info(s)))  # type: ignore[arg-type]


@op("GET", "~/commits/{ref...}", "contents:read")
def get_commit(c: Call) -> Reply:
    sha = resolve(c, c.params["ref"])
    info = c.r.git.commit_info(sha)
    assert info is not None
    accept = c.headers.get("accept", "")
    if "sha" in accept:
        return Reply(200, sha, content_type="application/vnd.github.sha")
    parent = info.parents[0] if info.parents else "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
    if re.search(r"\b(diff|patch)\b", accept):
        return Reply(200, c.r.git.diff_text(parent, sha), content_type="application/vnd.github.diff; charset=utf-8")
    return Reply(200, c.git.commit(info, c.r.git.diff(parent, sha)[:300]))


@op("GET", "~/commits/{sha}/pulls", "pull_requests:read", "contents:read")
def commit_pulls(c: Call) -> Reply:
    sha = resolve(c, c.params["sha"])
    rows = []
    for issue in c.r.issues.values():
        if issue.pull and sha in c.r.git.rev_list(issue.pull.head_sha, "^" + issue.pull.base_sha):
            rows.append(issue)
    return c.paged(rows, lambda i: c.sim.shapes.pull_simple(c.r, i))


@op("GET", "~/compare/{basehead...}", "contents:read")
def compare(c: Call) -> Reply:
    left, dots, right = c.params["basehead"].partition("...")
    base = c.sim.resolve_label(c.r, left) if dots else None
    head = c.sim.resolve_label(c.r, right) if dots else None
    if base is None or head is None:
        raise ApiError(404, "Not Found")
    merge = c.r.git.merge_base(base, head)
    if merge is None:
        raise ApiError(404, f"No common ancestor between {left} and {right}.")
    accept = c.headers.get("accept", "")
    if re.search(r"\b(diff|patch)\b", accept):
        return Reply(200, c.r.git.diff_text(merge, head), content_type="application/vnd.github.diff; charset=utf-8")
    ahead = c.r.git.rev_list("--reverse", head, "^" + base)
    behind = c.r.git.rev_list(base, "^" + head)
    status = "diverged" if ahead and behind else "ahead" if ahead else "behind" if behind else "identical"
    url = c.sim.shapes.url(c.r, f"/compare/{quote(left)}...{quote(right)}")
    page = c.sim.shapes.page(c.r, f"/compare/{quote(left)}...{quote(right)}")
    page_no = int(c.q("page", "1") or 1)
    size = min(int(c.q("per_page", "250") or 250), 250)
    shown = ahead[(page_no - 1) * size : page_no * size]
    infos = [i for i in (c.r.git.commit_info(s) for s in shown) if i]
    base_info, merge_info = c.r.git.commit_info(base), c.r.git.commit_info(merge)
    assert base_info is not None
    assert merge_info is not None
    body = {
        "url": url,
        "html_url": page,
        "permalink_url": page,
        "diff_url": page + ".diff",
        "patch_url": page + ".patch",
        "base_commit": c.git.commit(base_info),
        "merge_base_commit": c.git.commit(merge_info),
        "status": status,
        "ahead_by": len(ahead),
        "behind_by": len(behind),
        "total_commits": len(ahead),
        "commits": [c.git.commit(i) for i in infos],
    }
    if page_no == 1:
        body["files"] = [c.git.diff_entry(f, head) for f in c.r.git.diff(merge, head)[:300]]
    return Reply(200, body)


# -------------------------------------------------------------------- contents


@op("GET", "~/contents", "contents:read")
def contents_root(c: Call) -> Reply:
    c.params["path"] = ""
    return contents(c)


@op("GET", "~/contents/{path...}", "contents:read")
def contents(c: Call) -> Reply:
    path = c.params["path"].strip("/")
    ref = c.q("ref") or c.r.default_branch
    sha = c.r.git.resolve(ref)
    if sha is None:
        if not c.r.git.refs():
            raise ApiError(404, "This repository is empty.")
        raise ApiError(404, f"No commit found for the ref {ref}")
    found = c.r.git.lookup(f"{sha}:{path}") if path else c.r.git.lookup(f"{sha}^{{tree}}")
    if found is None:
        raise ApiError(404, "Not Found")
    accept = c.headers.get("accept", "")
    if found[1] == "tree":
        rows = []
        for entry in c.r.git.tree(found[0])[:1000]:
            where = f"{path}/{entry.path}" if path else entry.path
            kind = {"tree": "dir", "commit": "file"}.get(entry.type, "symlink" if entry.mode == "120000" else "file")
            rows.append(c.git.content(kind, where, entry.sha, entry.size or 0, ref))
        if "object" in accept:
            return Reply(200, {**c.git.content("dir", path, found[0], 0, ref), "entries": rows})
        return Reply(200, rows)
    link = c.r.git.run("ls-tree", sha, "--", path).startswith(b"120000")
    data, blob = found[2], found[0]
    if link:
        target = _follow(path, data.decode("utf-8", "replace"))
        inside = c.r.git.lookup(f"{sha}:{target}") if target else None
        if inside is None or inside[1] != "blob":
            shape = c.git.content("symlink", path, blob, len(data), ref)
            return Reply(200, {**shape, "target": data.decode("utf-8", "replace")})
        blob, data = inside[0], inside[2]
    if len(data) > 100_000_000:
        raise ApiError(403, "This API returns blobs up to 100 MB in size.")
    if "raw" in accept:
        return Reply(200, data, content_type="application/vnd.github.raw; charset=utf-8")
    body = c.git.content("file", path, blob, len(data), ref)
    if len(data) > 1_000_000:
        return Reply(200, {**body, "content": "", "encoding": "none"})
    return Reply(200, {**body, "content": base64.encodebytes(data).decode(), "encoding": "base64"})


def _follow(path: str, target: str) -> str | None:
    """Where a link leads inside the repository, or None when it leaves."""
    if target.startswith("/"):
        return None
    parts = path.split("/")[:-1]
    for piece in target.split("/"):
        if piece == "..":
            if not parts:
                return None
            parts.pop()
        elif piece not in ("", "."):
            parts.append(piece)
    return "/".join(parts)


@op("PUT", "~/contents/{path...}", "contents:write")
def put_contents(c: Call) -> Reply:
    """Obeyed as GitHub would: without `branch` it commits to the default branch."""
    data = c.obj()
    branch = data.get("branch") or c.r.default_branch
    old = c.r.branch(branch)
    if old is None:
        raise ApiError(404, f"Branch {branch} not found")
    blob = c.r.git.write_blob(base64.b64decode(data.get("content") or ""))
    tree = c.r.git.write_tree(old, [{"path": c.params["path"], "mode": "100644", "sha": blob}])
    who = Person(c.login, "noreply@github.com", c.now)
    sha = c.r.git.write_commit(tree, [old], str(data.get("message")), who, who)
    c.r.git.update_ref(f"refs/heads/{branch}", sha)
    c.sim.refresh_pulls()
    info = c.r.git.commit_info(sha)
    assert info is not None
    shape = c.git.content("file", c.params["path"], blob, 0, branch)
    return Reply(201, {"content": shape, "commit": c.git.git_commit(info)})


# -------------------------------------------------------------------- branches


def _branch(c: Call, name: str) -> tuple[str, dict[str, Any]]:
    sha = c.r.branch(name)
    if sha is None:
        raise ApiError(404, "Branch not found")
    return sha, c.r.protection.get(name, {})


@op("GET", "~/branches", "contents:read")
def branches(c: Call) -> Reply:
    rows = [(n[11:], s) for n, s in sorted(c.r.git.refs().items()) if n.startswith("refs/heads/")]

    def shape(row: tuple[str, str]) -> dict[str, Any]:
        commit = {"sha": row[1], "url": c.sim.shapes.url(c.r, f"/commits/{row[1]}")}
        return {"name": row[0], "commit": commit, "protected": row[0] in c.r.protection}

    return c.paged(rows, shape)


@op("GET", "~/branches/{branch...}", "contents:read")
def branch(c: Call) -> Reply:
    name = c.params["branch"]
    sha, rules = _branch(c, name)
    info = c.r.git.commit_info(sha)
    assert info is not None
    url = c.sim.shapes.url(c.r, f"/branches/{quote(name, safe='')}")
    checks = rules.get("contexts", [])
    return Reply(
        200,
        {
            "name": name,
            "commit": c.git.commit(info),
            "_links": {"self": url, "html": c.sim.shapes.page(c.r, f"/tree/{quote(name)}")},
            "protected": name in c.r.protection,
            "protection": {
                "enabled": name in c.r.protection,
                "required_status_checks": {
                    "enforcement_level": "non_admins" if checks else "off",
                    "contexts": checks,
                    "checks": [{"context": x, "app_id": None} for x in checks],
                },
            },
            "protection_url": url + "/protection",
        },
    )


@op("GET", "~/branches/{branch...}/protection", "administration:read")
def protection(c: Call) -> Reply:
    name = c.params["branch"]
    _, rules = _branch(c, name)
    if name not in c.r.protection:
        raise ApiError(404, "Branch not protected")
    url = c.sim.shapes.url(c.r, f"/branches/{quote(name, safe='')}/protection")
    return Reply(
        200,
        {
            "url": url,
            "required_status_checks": {
                "url": url + "/required_status_checks",
                "strict": True,
                "contexts": rules.get("contexts", []),
                "contexts_url": url + "/required_status_checks/contexts",
                "checks": [{"context": x, "app_id": None} for x in rules.get("contexts", [])],
            },
            "enforce_admins": {"url": url + "/enforce_admins", "enabled": True},
            "required_linear_history": {"enabled": False},
            "allow_force_pushes": {"enabled": False},
            "allow_deletions": {"enabled": False},
        },
    )


@op("GET", "~/rules/branches/{branch...}", "metadata:read")
def branch_rules(c: Call) -> Reply:
    rows = c.r.rules.get(c.params["branch"], [])
    origin = {"ruleset_source_type": "Repository", "ruleset_source": c.r.full_name, "ruleset_id": 42}
    return c.paged(rows, lambda rule: {**rule, **origin})


@op("GET", "~/tarball/{ref...}", "contents:read")
def tarball(c: Call) -> Reply:
    sha = c.r.git.resolve(c.params["ref"])
    if sha is None:
        raise ApiError(404, "Not Found")
    prefix = f"{c.r.owner}-{c.r.name}-{sha[:7]}/"
    data = c.r.git.run("archive", "--format=tar.gz", f"--prefix={prefix}", sha)
    location = c.sim.storage.publish(data, f"{c.r.full_name}/legacy.tar.gz/{sha}", "application/x-gzip")
    return Reply(302, None, {"Location": location})


@op("GET", "~/tarball", "contents:read")
def tarball_default(c: Call) -> Reply:
    c.params["ref"] = c.r.default_branch
    return tarball(c)
