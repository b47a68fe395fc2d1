"""The GitHub simulator answers every operation of the contract over real git objects, honestly and whole."""

from __future__ import annotations

import base64
import gzip
import io
import subprocess
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.support import contract_check
from tests.support.github_sim import GitHubSim, Repository

TOKEN = "ghs_" + "a1B2c3D4e5" * 3 + "F6g7H8"
HEADS = {
    "Authorization": f"Bearer {TOKEN}",
    "Accept": "application/vnd.github+json",
    "X-GitHub-Api-Version": "2022-11-28",
    "User-Agent": "airlock-test",
}
SOURCE = "".join(f"line {n}\n" for n in range(1, 31))
LOG = "﻿2026-01-02T03:04:05.0000000Z ##[group]Run pytest\n2026-01-02T03:04:06.0000000Z E  assert 1 == 2\n"


class Client:
    """Calls the simulator's API the way the product does, and keeps nothing back."""

    def __init__(self, gh: GitHubSim, base: str = "/repos/acme/widgets") -> None:
        self.gh, self.base, self.session = gh, base, requests.Session()
        self.session.trust_env = False

    def __call__(self, method: str, path: str, status: int = 200, body: Any = None, **options: Any) -> Any:
        heads = {**HEADS, **options.pop("headers", {})}
        heads = {k: v for k, v in heads.items() if v is not None}
        url = self.gh.api_url + (self.base + path if path.startswith(("/", "?")) or not path else "/" + path[1:])
        if path.startswith("!"):
            url = self.gh.api_url + path[1:]
        got = self.session.request(method, url, headers=heads, json=body, allow_redirects=False, **options)
        assert got.status_code == status, f"{method} {path}: {got.status_code} {got.text[:400]}"
        self.last = got
        kind = got.headers.get("content-type", "")
        return got.json() if "json" in kind and got.content else got.text


@pytest.fixture
def gh(tmp_path: Path) -> Iterator[GitHubSim]:
    with GitHubSim(tmp_path / "sim") as sim:
        yield sim


@pytest.fixture
def repo(gh: GitHubSim) -> Repository:
    """acme/widgets with pull request 7 (feature/x to main), issue 9, and failed run 500."""
    repo = gh.create_repository("acme/widgets", files={"README.md": "hello\n", "src/app.py": SOURCE})
    gh.create_repository("acme/payments", files={"README.md": "secret plans\n"})
    gh.add_user("maintainer", "write")
    gh.add_user("outsider", "read")
    gh.token(TOKEN)
    changed = SOURCE.replace("line 10\n", "line ten\nline ten and a half\n").replace("line 25\n", "")
    repo.commit("feature/x", {"src/app.py": changed, "logo.png": b"\x89PNG\0\1\2"}, "Change lines", base="main")
    repo.create_pull("feature/x", number=7, title="Change lines", body="Why not.", user="maintainer")
    repo.create_issue("A bug", "It breaks.", "outsider", number=9, labels=["bug"])
    repo.add_run(
        500,
        [
            {"id": 501, "name": "build", "log": LOG, "annotations": [{"path": "src/app.py", "message": "boom"}]},
            {"id": 502, "name": "lint / a:b", "conclusion": "success", "log": "fine\n"},
        ],
        head_sha=repo.branch("feature/x"),
        head_branch="feature/x",
        event="pull_request",
        pulls=[7],
    )
    return repo


@pytest.fixture
def api(gh: GitHubSim, repo: Repository) -> Client:
    return Client(gh)


def drive_reads(api: Client, repo: Repository) -> None:
    """Every operation of the read tier, once and well-formed."""
    head, main = repo.branch("feature/x"), repo.branch("main")
    blob = api("GET", "/contents/src/app.py")["sha"]
    tree = api("GET", f"/git/commits/{head}")["tree"]["sha"]
    for path in (
        "",
        "/pulls/7",
        "/pulls?state=all&head=acme:feature/x&base=main&sort=updated&direction=desc&per_page=5",
        "/pulls/7/files?per_page=100&page=1",
        "/pulls/7/commits",
        "/pulls/7/reviews",
        "/pulls/7/comments?sort=created&direction=desc",
        "/issues?state=all&labels=bug",
        "/issues/7",
        "/issues/9",
        "/issues/9/comments",
        "/issues/9/labels",
        "/issues/9/timeline",
        "/collaborators/maintainer/permission",
        "/contents/src?ref=feature/x",
        "/contents/src",
        "/contents/logo.png?ref=feature%2Fx",
        f"/git/blobs/{blob}",
        f"/git/trees/{tree}",
        f"/git/trees/{tree}?recursive=1",
        f"/git/commits/{main}",
        "/git/ref/heads/feature/x",
        "/git/matching-refs/heads/fea",
        f"/commits/{head}",
        "/commits/main",
        "/commits?sha=feature/x&per_page=1",
        f"/commits/{head}/pulls",
        "/compare/main...feature/x",
        f"/commits/{head}/check-runs?check_name=build&filter=latest",
        f"/commits/{head}/check-suites",
        "/check-runs/501",
        "/check-runs/501/annotations",
        f"/commits/{head}/status",
        "/actions/runs?head_sha=" + str(head),
        "/actions/runs/500",
        "/actions/runs/500/attempts/1",
        "/actions/runs/500/jobs?filter=latest&per_page=100",
        "/actions/runs/500/attempts/1/jobs",
        "/actions/jobs/501",
        "/branches/main",
        "/branches",
        "/rules/branches/main",
        "!/users/maintainer",
        "!/rate_limit",
        f"!/repositories/{repo.id}/issues/9",
    ):
        api("GET", path)
    suite = api("GET", "/check-runs/501")["check_suite"]["id"]
    api("GET", f"/check-suites/{suite}/check-runs")
    repo.protect("main", ["build"])
    api("GET", "/branches/main/protection")
    api("GET", "/rules/branches/main")
    api("GET", "/branches/main")
    for path in (
        "/actions/jobs/501/logs",
        "/actions/runs/500/logs",
        "/actions/runs/500/attempts/1/logs",
        "/tarball/main",
    ):
        api("GET", path, 302)


def drive_writes(api: Client, repo: Repository) -> None:
    """Every operation of the write tier, once and well-formed."""
    head = repo.branch("feature/x")
    comment = api("POST", "/issues/9/comments", 201, {"body": "hi"})["id"]
    api("PATCH", f"/issues/comments/{comment}", 200, {"body": "hi again"})
    api("GET", f"/issues/comments/{comment}")
    api("POST", f"/issues/comments/{comment}/reactions", 201, {"content": "eyes"})
    api("POST", "/issues/9/reactions", 201, {"content": "eyes"})
    api("POST", "/issues/9/reactions", 200, {"content": "eyes"})
    api("POST", "/issues", 201, {"title": "Found", "body": "This.", "labels": ["ci"]})
    api("POST", "/issues/9/labels", 200, {"labels": ["ci"]})
    api("GET", "/issues/9/timeline")
    api("DELETE", "/issues/9/labels/ci", 200)
    api("PATCH", "/issues/9", 200, {"title": "A worse bug", "state": "closed"})
    inline = {"path": "src/app.py", "line": 11, "side": "RIGHT", "body": "why?"}
    review = api("POST", "/pulls/7/reviews", 200, {"body": "see", "event": "COMMENT", "comments": [inline]})["id"]
    api("GET", f"/pulls/7/reviews/{review}")
    pending = api("POST", "/pulls/7/reviews", 200, {"body": "later", "comments": [inline]})
    assert pending["state"] == "PENDING"
    api("POST", f"/pulls/7/reviews/{pending['id']}/events", 200, {"event": "REQUEST_CHANGES", "body": "no"})
    one = api("POST", "/pulls/7/comments", 201, {**inline, "commit_id": head, "start_line": 10, "start_side": "RIGHT"})[
        "id"
    ]
    api("POST", f"/pulls/7/comments/{one}/replies", 201, {"body": "because"})
    api("PATCH", f"/pulls/comments/{one}", 200, {"body": "Why?"})
    api("GET", f"/pulls/comments/{one}")
    api("POST", f"/pulls/comments/{one}/reactions", 201, {"content": "+1"})
    api("GET", "/pulls/7/comments")
    blob = api("POST", "/git/blobs", 201, {"content": base64.b64encode(b"\0\xff").decode(), "encoding": "base64"})[
        "sha"
    ]
    rows = [
        {"path": "data.bin", "mode": "100644", "type": "blob", "sha": blob},
        {"path": "src/new/x.py", "mode": "100755", "type": "blob", "content": "x = 1\n"},
        {"path": "README.md", "mode": "100644", "type": "blob", "sha": None},
    ]
    tree = api("POST", "/git/trees", 201, {"base_tree": head, "tree": rows})["sha"]
    who = {"name": "Airlock", "email": "airlock@users.noreply.example"}
    commit = api("POST", "/git/commits", 201, {"message": "Fix", "tree": tree, "parents": [head], "author": who})["sha"]
    api("POST", "/git/refs", 201, {"ref": "refs/heads/airlock/fix", "sha": head})
    api("PATCH", "/git/refs/heads/airlock/fix", 200, {"sha": commit, "force": False})
    pull = api(
        "POST", "/pulls", 201, {"title": "Fix", "head": "airlock/fix", "base": "main", "body": "b", "draft": True}
    )
    api("PATCH", f"/pulls/{pull['number']}", 200, {"title": "Fix it", "body": "better"})
    check = api("POST", "/check-runs", 201, {"name": "airlock", "head_sha": head, "status": "in_progress"})["id"]
    api("PATCH", f"/check-runs/{check}", 200, {"conclusion": "success", "output": {"title": "t", "summary": "s"}})
    repo.add_status(str(head), "success")
    api("GET", f"/commits/{head}/status")


@pytest.mark.contract
def test_every_operation_fits_githubs_own_description(gh: GitHubSim, api: Client, repo: Repository) -> None:
    """All recorded traffic, read tier and write tier and errors, passes the contract check without an error."""
    drive_reads(api, repo)
    drive_writes(api, repo)
    drive_reads(api, repo)
    refused(api)
    assert len(gh.records) >= 150
    missing = contract_check.unavailable()
    if missing:
        pytest.skip(missing)
    assert contract_check.check_records(gh.records) == []
    assert [r for r in contract_check.check_records(gh.records, warnings=True) if "missing required" in r] == []


def refused(api: Client) -> None:
    """Well-formed requests that GitHub refuses."""
    api("GET", "/pulls/9", 404)
    api("GET", "/branches/feature%2Fx/protection", 404)
    api("GET", "/issues/999", 404)
    api("POST", "/git/refs", 422, {"ref": "refs/heads/main", "sha": "0" * 40})
    api("POST", "/pulls", 422, {"title": "t", "head": "nowhere", "base": "main"})
    api("GET", "/actions/jobs/99/logs", 404)
    api("GET", "/compare/main...nowhere", 404)


@pytest.mark.contract
def test_the_contract_check_reports_a_response_that_lacks_a_field(gh: GitHubSim, api: Client) -> None:
    """Positive control: take one required field away, and the check names it."""
    missing = contract_check.unavailable()
    if missing:
        pytest.skip(missing)
    api("POST", "/issues/9/comments", 201, {"body": "x"})
    record = {**gh.records[-1], "response": {k: v for k, v in gh.records[-1]["response"].items() if k != "user"}}
    errors = contract_check.check_records([record])
    assert len(errors) == 1
    assert "missing required: user" in errors[0]


def test_git_data_make_real_objects_that_git_can_fetch(
    api: Client, repo: Repository, gh: GitHubSim, tmp_path: Path
) -> None:
    """Blob, tree with deletion and base, commit, ref and pull: a plain clone over smart HTTP sees exactly that tree."""
    drive_writes(api, repo)
    clone = tmp_path / "clone"
    auth = base64.b64encode(f"x-access-token:{TOKEN}".encode()).decode()
    url = f"{gh.server_url}/acme/widgets.git"
    command = ["git", "-c", f"http.extraheader=AUTHORIZATION: basic {auth}", "clone", "-q", "-b", "airlock/fix", url]
    subprocess.run(
        [*command, str(clone)], check=True, capture_output=True, env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}
    )
    files = sorted(str(p.relative_to(clone)) for p in clone.rglob("*") if p.is_file() and ".git/" not in str(p))
    assert files == ["data.bin", "logo.png", "src/app.py", "src/new/x.py"]
    assert (clone / "data.bin").read_bytes() == b"\0\xff"
    assert (clone / "src/new/x.py").stat().st_mode & 0o111
    assert repo.git.commit_info("refs/heads/airlock/fix").message == "Fix"  # type: ignore[union-attr]


def test_a_push_needs_a_token_that_may_write_and_then_happens(repo: Repository, gh: GitHubSim, tmp_path: Path) -> None:
    """The git host obeys a token with contents: write (the rule under test lives in the product), and no other."""
    work = tmp_path / "w"
    repo.checkout(work, "feature/x")
    gh.token("ghs_readonly0000", {"contents": "read"})

    def push(token: str, ref: str) -> int:
        auth = base64.b64encode(f"x-access-token:{token}".encode()).decode()
        url = f"{gh.server_url}/acme/widgets.git"
        command = [
            "git",
            "-c",
            f"http.extraheader=AUTHORIZATION: basic {auth}",
            "-C",
            str(work),
            "push",
            "-q",
            url,
            f"HEAD:{ref}",
        ]
        env = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "GIT_TERMINAL_PROMPT": "0"}
        return subprocess.run(command, env=env, capture_output=True, check=False).returncode

    assert push("ghs_readonly0000", "refs/heads/no") != 0
    assert push("ghs_unknown", "refs/heads/no") != 0
    assert repo.branch("no") is None
    assert push(TOKEN, "refs/heads/yes") == 0
    assert repo.branch("yes") == repo.branch("feature/x")


def test_pull_files_hold_gits_own_patches(api: Client) -> None:
    """Text files have their hunks, binary files no patch key."""
    files = {f["filename"]: f for f in api("GET", "/pulls/7/files")}
    assert set(files) == {"src/app.py", "logo.png"}
    assert "patch" not in files["logo.png"]
    assert files["src/app.py"]["patch"].splitlines()[0] == "@@ -7,7 +7,8 @@ line 6"
    assert "+line ten\n+line ten and a half" in files["src/app.py"]["patch"]
    assert (files["src/app.py"]["additions"], files["src/app.py"]["deletions"]) == (2, 2)
    diff = api("GET", "/pulls/7", headers={"Accept": "application/vnd.github.diff"})
    assert diff.startswith("diff --git ")


def test_one_line_outside_the_diff_refuses_the_whole_review(api: Client, repo: Repository) -> None:
    """422 with strings, nothing posted; the same review without that line is posted."""
    good = {"path": "src/app.py", "line": 10, "side": "RIGHT", "body": "fine"}
    for bad, text in (
        ({**good, "line": 1}, "line must be part of the diff"),
        ({**good, "path": "README.md"}, "Path could not be resolved"),
        ({**good, "path": "logo.png", "line": 1}, "line must be part of the diff"),
        ({**good, "start_line": 10}, "start line must precede the end line"),
        ({**good, "line": 25, "start_line": 10}, "same hunk"),
    ):
        answer = api("POST", "/pulls/7/reviews", 422, {"body": "b", "event": "COMMENT", "comments": [good, bad]})
        assert answer["message"] == "Unprocessable Entity"
        assert text in answer["errors"][0]
    assert repo.issue(7).pull.comments == []  # type: ignore[union-attr]
    assert repo.issue(7).pull.reviews == []  # type: ignore[union-attr]
    gone = {"path": "src/app.py", "line": 25, "side": "LEFT", "body": "deleted line"}
    api("POST", "/pulls/7/reviews", 200, {"body": "b", "event": "COMMENT", "comments": [good, gone]})
    assert [c.line for c in repo.issue(7).pull.comments] == [10, 25]  # type: ignore[union-attr]


def test_a_single_comment_outside_the_diff_is_a_validation_error(api: Client, repo: Repository) -> None:
    """The single-comment operation names the field."""
    data = {"path": "src/app.py", "line": 1, "side": "RIGHT", "body": "x", "commit_id": repo.branch("feature/x")}
    answer = api("POST", "/pulls/7/comments", 422, data)
    assert answer["errors"][0]["field"] == "pull_request_review_thread.line"
    api("POST", "/pulls/7/comments", 201, {**data, "line": 10})


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "text"),
    [
        ("POST", "/issues/9/comments", {"body": "x" * 65537}, 422, "Body is too long .maximum is 65536 characters"),
        ("POST", "/issues/9/comments", {"body": " "}, 422, "missing_field|invalid"),
        ("POST", "/issues/9/comments", ["body"], 400, "Body should be a JSON object"),
        ("POST", "/git/refs", {"ref": "refs/heads/main", "sha": "HEAD"}, 422, "Reference already exists"),
        ("POST", "/git/refs", {"ref": "refs/heads/n", "sha": "f" * 40}, 422, "Object does not exist"),
        ("POST", "/git/refs", {"ref": "refs/heads/a..b", "sha": "HEAD"}, 422, "Reference name is not valid"),
        ("PATCH", "/git/refs/heads/none", {"sha": "HEAD"}, 422, "Reference does not exist"),
        ("PATCH", "/git/refs/heads/main", {"sha": "f" * 40}, 422, "Object does not exist"),
        ("PATCH", "/git/refs/heads/feature/x", {"sha": "MAIN"}, 422, "Update is not a fast forward"),
        ("POST", "/git/trees", {"tree": [{"path": "../x", "mode": "100644", "content": "c"}]}, 422, "malformed path"),
        ("POST", "/git/trees", {"tree": [{"path": "x", "mode": "100644", "sha": "f" * 40}]}, 422, "not a valid blob"),
        ("POST", "/git/commits", {"message": "m", "tree": "f" * 40}, 422, "Tree SHA does not exist"),
        ("POST", "/git/blobs", {"content": "***", "encoding": "base64"}, 422, "not valid Base64"),
        (
            "POST",
            "/pulls",
            {"title": "t", "head": "feature/x", "base": "main"},
            422,
            "already exists for acme:feature/x",
        ),
        ("POST", "/pulls", {"title": "t", "head": "main", "base": "main"}, 422, "No commits between main and main"),
        ("POST", "/pulls/7/reviews", {"event": "APPROVE"}, 422, "not permitted to approve"),
        ("POST", "/pulls/7/reviews", {"event": "COMMENT"}, 422, "can't be blank"),
        ("GET", "/issues/9/", None, 404, "Not Found"),
        ("GET", "/nonsense", None, 404, "Not Found"),
        ("GET", "/collaborators/nobody-here/permission", None, 404, "nobody-here is not a user"),
        ("GET", "/contents/nope.txt", None, 404, "Not Found"),
    ],
)
def test_githubs_refusals(
    api: Client, repo: Repository, method: str, path: str, body: Any, status: int, text: str
) -> None:
    """Each refusal has GitHub's status and words, and changes nothing."""
    import re

    if isinstance(body, dict) and body.get("sha") in ("HEAD", "MAIN"):
        body = {**body, "sha": repo.branch("feature/x" if body["sha"] == "HEAD" else "main")}
    before = (repo.refs(), repo.bodies())
    api(method, path, status, body)
    assert re.search(text, api.last.text)
    assert (repo.refs(), repo.bodies()) == before


def test_an_empty_repository_is_a_conflict(gh: GitHubSim, repo: Repository) -> None:
    """409 with GitHub's words for git operations on a repository without a commit."""
    gh.create_repository("acme/empty")
    answer = Client(gh, "/repos/acme/empty")("POST", "/git/blobs", 409, {"content": "x"})
    assert answer["message"] == "Git Repository is empty."


def test_the_tokens_permissions_are_enforced_and_named(gh: GitHubSim, repo: Repository, api: Client) -> None:
    """Too little is 403 with the permission that is missing; enough works; a bad token is 401."""
    gh.token("ghs_small", {"contents": "read", "issues": "read"})
    small = {"Authorization": "Bearer ghs_small"}
    answer = api("POST", "/issues/9/comments", 403, {"body": "x"}, headers=small)
    assert answer["message"] == "Resource not accessible by integration"
    assert api.last.headers["X-Accepted-GitHub-Permissions"] == "issues=write; pull_requests=write"
    assert repo.issue(9).comments == []
    api("GET", "/issues/9", 200, headers=small)
    api("GET", "/actions/runs/500", 403, headers=small)
    assert api("GET", "/issues/9", 401, headers={"Authorization": "Bearer wrong"})["message"] == "Bad credentials"
    api("POST", "/issues/9/comments", 401, {"body": "x"}, headers={"Authorization": None})
    assert api("GET", "/issues/9", 403, headers={"User-Agent": ""}) == "Request forbidden by administrative rules."


def test_a_workflow_file_cannot_be_written_without_its_permission(api: Client, repo: Repository, gh: GitHubSim) -> None:
    """403 for a workflow's token; a token with workflows: write (a personal one) is obeyed."""
    row = {"path": ".github/workflows/x.yml", "mode": "100644", "type": "blob", "content": "on: push\n"}
    body = {"base_tree": repo.branch("main"), "tree": [row]}
    api("POST", "/git/trees", 403, body)
    gh.token("ghp_personal", {"contents": "write", "workflows": "write"}, login="maintainer")
    api("POST", "/git/trees", 201, body, headers={"Authorization": "Bearer ghp_personal"})


def test_actions_may_not_create_pulls_where_the_setting_is_off(api: Client, repo: Repository) -> None:
    """The repository setting that new repositories have."""
    repo.create_branch("airlock/x", "feature/x")
    repo.data.actions_can_create_pulls = False
    body = {"title": "t", "head": "airlock/x", "base": "main"}
    assert api("POST", "/pulls", 403, body)["message"] == (
        "GitHub Actions is not permitted to create or approve pull requests."
    )
    repo.data.actions_can_create_pulls = True
    api("POST", "/pulls", 201, body)


def test_lists_come_in_pages_with_links_in_the_numeric_form(api: Client, repo: Repository) -> None:
    """Three pages of 30, 30 and 5; a per_page over 100 is cut to 100."""
    for n in range(65):
        repo.add_comment(9, f"comment {n}")
    seen = [c["body"] for page in (1, 2, 3) for c in api("GET", f"/issues/9/comments?page={page}")]
    assert seen == [f"comment {n}" for n in range(65)]
    assert 'rel="next"' not in api.last.headers["Link"]
    api("GET", "/issues/9/comments")
    assert f'/repositories/{repo.id}/issues/9/comments?page=2>; rel="next"' in api.last.headers["Link"]
    assert len(api("GET", "/issues/9/comments?per_page=1000")) == 65
    assert "Link" not in api.last.headers


def test_logs_lie_on_another_host_behind_a_signature(api: Client, gh: GitHubSim, repo: Repository) -> None:
    """302 to the store; with an Authorization header it answers 403, and after a minute too."""
    api("GET", "/actions/jobs/501/logs", 302)
    link = api.last.headers["Location"]
    assert link.startswith(gh.storage_url)
    assert requests.get(link, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=5).status_code == 403
    assert requests.get(link.replace("sig=", "sig=x"), timeout=5).status_code == 403
    assert requests.get(link, timeout=5).content.decode() == LOG
    now = gh.world.clock()
    gh.world.clock = lambda: now + 61
    assert requests.get(link, timeout=5).status_code == 403
    gh.world.clock = lambda: now
    api("GET", "/actions/runs/500/logs", 302)
    packed = zipfile.ZipFile(io.BytesIO(requests.get(api.last.headers["Location"], timeout=5).content))
    assert packed.namelist() == ["0_build.txt", "1_lint  ab.txt"]
    api("GET", "/tarball/feature/x", 302)
    packed_tar = gzip.decompress(requests.get(api.last.headers["Location"], timeout=5).content)
    with tarfile.open(fileobj=io.BytesIO(packed_tar)) as tar:
        assert any(n.endswith("/src/app.py") for n in tar.getnames())


def test_a_running_job_and_an_expired_log_are_told_apart(api: Client, repo: Repository) -> None:
    """404 while the job runs, 410 once the log is gone."""
    repo.add_run(600, [{"id": 601, "status": "in_progress", "log": "x"}, {"id": 602, "log": "x", "log_status": 410}])
    api("GET", "/actions/jobs/601/logs", 404)
    assert api("GET", "/actions/jobs/601")["conclusion"] is None
    api("GET", "/actions/jobs/602/logs", 410)


@pytest.mark.parametrize(
    "path",
    [
        "/repos/acme/widgets/../payments/issues",
        "/repos/acme/widgets/%2e%2e/payments/issues",
        "/repos/acme/widgets/%252e%252e/payments/issues",
        "/repos/acme/widgets/%2E%2E%2Fpayments%2Fissues",
        "//repos/acme/payments/issues",
        "/repos/acme/widgets/issues/7;/../../../payments/issues",
        "/repos/acme/widgets\\..\\payments/issues",
    ],
)
def test_tricky_paths_reach_the_other_repository(gh: GitHubSim, repo: Repository, path: str) -> None:
    """The simulator tidies as the most lenient proxy would and obeys: nothing here does the product's work for it."""
    import http.client

    gh.repository("acme/payments").create_issue("Payroll", "x")
    connection = http.client.HTTPConnection(gh.api_url.removeprefix("http://"))
    connection.putrequest("GET", path, skip_host=False)
    for key, value in HEADS.items():
        connection.putheader(key, value)
    connection.endheaders()
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    assert (answer.status, '"Payroll"' in text) == (200, True)
    assert gh.requests[-1].raw_path == path


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/hooks", 201),
        ("POST", "/keys", 201),
        ("POST", "/releases", 201),
        ("PUT", "/pulls/7/merge", 200),
        ("PUT", "/contents/README.md", 201),
        ("DELETE", "/labels/ci", 204),
        ("DELETE", "/git/refs/heads/feature/x", 204),
        ("POST", "/actions/workflows/1/dispatches", 201),
        ("POST", "!/graphql", 200),
        ("GET", "!/user/repos", 200),
        ("GET", "!/orgs/acme/actions/secrets", 200),
        ("PATCH", "/git/refs/heads/feature/x", 200),
    ],
)
def test_what_the_product_must_never_do_the_simulator_does(
    api: Client, repo: Repository, method: str, path: str, status: int
) -> None:
    """Every request that the token allows is obeyed, so that only the product can refuse it."""
    body = {"PUT": {"message": "m", "content": "eA=="}, "PATCH": {"sha": repo.branch("main"), "force": True}}.get(
        method, {}
    )
    api(method, path, status, None if method in ("GET", "DELETE") else body)


def test_faults_delays_and_limits_are_injected_and_then_over(api: Client, gh: GitHubSim) -> None:
    """A 502 of HTML twice, a secondary limit once, then the truth."""
    gh.fault("GET", "/issues/9$", 502, "<html><h1>502 Bad Gateway</h1></html>", times=2)
    gh.rate_limit("GET", "/issues/9$", wait=3)
    assert api("GET", "/issues/9", 502).startswith("<html>")
    api("GET", "/issues/9", 502)
    assert "secondary rate limit" in api("GET", "/issues/9", 403)["message"]
    assert api.last.headers["retry-after"] == "3"
    assert api("GET", "/issues/9")["number"] == 9
    gh.fault("GET", "/issues/9$", drop=True)
    with pytest.raises(requests.ConnectionError):
        api("GET", "/issues/9")
    gh.redirect("GET", "/issues/11$", 302, "http://127.0.0.1:1/steal")
    api("GET", "/issues/11", 302)
    assert api.last.headers["Location"] == "http://127.0.0.1:1/steal"


def test_permissions_of_the_actors_that_make_trouble(gh: GitHubSim, repo: Repository, api: Client) -> None:
    """What the gate has to fail closed on: 404, 403, 500, a body that is no JSON, bots, outsiders."""
    gh.add_user("Copilot", status=404)
    gh.add_user("forbidden", status=403)
    gh.add_user("broken", status=500)
    gh.add_user("odd", raw="<html>ok</html>")
    gh.add_user("some-app[bot]", type="Bot")
    levels = {
        n: api("GET", f"/collaborators/{n}/permission")["permission"]
        for n in ("maintainer", "outsider", "some-app[bot]")
    }
    assert levels == {"maintainer": "write", "outsider": "read", "some-app[bot]": "none"}
    assert api("GET", "/collaborators/Copilot/permission", 404)["message"] == "Copilot is not a user"
    api("GET", "/collaborators/forbidden/permission", 403)
    api("GET", "/collaborators/broken/permission", 500)
    assert api("GET", "/collaborators/odd/permission") == "<html>ok</html>"


def test_a_renamed_repository_redirects_by_id(gh: GitHubSim, repo: Repository) -> None:
    """301 to the numeric form on reads."""
    repo.data.renamed_from.append("acme/gadgets")
    client = Client(gh, "/repos/acme/gadgets")
    client("GET", "/issues/9", 301)
    assert client.last.headers["Location"] == f"{gh.api_url}/repositories/{repo.id}/issues/9"


def test_a_pull_from_a_fork_and_the_fork_deleted(gh: GitHubSim, repo: Repository, api: Client) -> None:
    """Its head comes under refs/pull; once the fork is gone the head repository is null and the ref stays."""
    fork = gh.create_repository("outsider/widgets", fork_of="acme/widgets")
    sha = fork.commit("main", {"evil.py": "x\n"}, "Add")
    issue = repo.create_pull("main", "main", "From a fork", None, "outsider", head_repo="outsider/widgets")
    body = api("GET", f"/pulls/{issue.number}")
    assert (body["head"]["label"], body["head"]["sha"], body["body"]) == ("outsider:main", sha, None)
    assert body["head"]["repo"]["full_name"] == "outsider/widgets"
    assert repo.refs()[f"refs/pull/{issue.number}/head"] == sha
    repo.delete_fork(issue.number)
    assert api("GET", f"/pulls/{issue.number}")["head"]["repo"] is None
    assert api("GET", f"/contents/evil.py?ref={sha}")["type"] == "file"


def test_a_push_to_the_head_branch_moves_the_pull_request(api: Client, repo: Repository) -> None:
    """New head sha, new pull ref."""
    sha = repo.commit("feature/x", {"more.txt": "x\n"})
    assert api("GET", "/pulls/7")["head"]["sha"] == sha
    assert repo.refs()["refs/pull/7/head"] == sha
    assert [c["sha"] for c in api("GET", "/pulls/7/commits")][-1] == sha


def test_contents_of_links_folders_and_large_files(api: Client, repo: Repository) -> None:
    """A link inside is followed, one that leaves is a symlink object; over 1 MB the content is empty."""
    repo.commit("main", {"in": ("120000", "README.md"), "out": ("120000", "/etc/passwd"), "big": b"x" * 1_000_001})
    assert base64.b64decode(api("GET", "/contents/in")["content"]) == b"hello\n"
    out = api("GET", "/contents/out")
    assert (out["type"], out["target"]) == ("symlink", "/etc/passwd")
    big = api("GET", "/contents/big")
    assert (big["content"], big["encoding"], big["size"]) == ("", "none", 1_000_001)
    assert api("GET", "/contents/README.md", headers={"Accept": "application/vnd.github.raw+json"}) == "hello\n"


def test_a_prefix_as_on_an_enterprise_server(tmp_path: Path) -> None:
    """GITHUB_API_URL may end in /api/v3."""
    with GitHubSim(tmp_path / "sim", api_prefix="/api/v3") as gh:
        gh.create_repository("acme/widgets", files={"README.md": "x"})
        gh.token(TOKEN)
        assert Client(gh)("GET", "")["url"] == gh.api_url + "/repos/acme/widgets"
        assert gh.api_url.endswith("/api/v3")
