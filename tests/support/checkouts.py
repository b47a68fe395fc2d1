"""Real checkouts made by real git, and a plain client of the simulator, for tests of the trusted git side."""

from __future__ import annotations

import base64
import http.client
import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from agent.broker.git.index import parse_index
from agent.broker.git.objects import Identity
from agent.broker.git.shadow import ShadowGit
from agent.broker.git.snapshot import Snapshotter
from agent.broker.git.snapshot_words import Caps
from agent.broker.git.worktree import WorkTree
from agent.contract.errors import UpstreamError

USER = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C.UTF-8"}
AUTHOR = Identity("Run", "run@users.noreply.example")


def git(folder: Path, *args: str, check: bool = True, **settings: Any) -> str:
    """Ordinary git, as a user would run it in this folder; gives its output."""
    command = ["git", "-c", "user.name=Dev", "-c", "user.email=dev@users.noreply.example"]
    command += ["-c", "safe.directory=*", "-c", "protocol.file.allow=always", "-C", str(folder), *args]
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), **USER}
    done = subprocess.run(command, env=env, capture_output=True, check=False, **settings)
    if check and done.returncode:
        raise AssertionError(f"git {args}: {done.stderr.decode()}")
    return done.stdout.decode("utf-8", "surrogateescape").strip()


def make_checkout(folder: Path, files: Mapping[str, str | bytes]) -> str:
    """A repository with one commit of these files on `main`; gives the commit."""
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "first")
    return git(folder, "rev-parse", "HEAD")


def actions_checkout(
    version: str, folder: Path, temp: Path, *, origin: str, token: str, sha: str, branch: str = "main"
) -> None:
    """Check out by the steps of `actions/checkout` with its defaults and `submodules: true`, credentials left behind.

    Up to v5 an extra header stands in each `.git/config`; from v6 on it stands in a file of RUNNER_TEMP, which each
    repository includes by its path on the runner and by its path in a container action. Both leave a
    `config.worktree` of `git sparse-checkout disable`. Source: `src/git-auth-helper.ts` and
    `src/git-source-provider.ts` of actions/checkout.

    Args:
        version: "v4" to "v7".
        temp: RUNNER_TEMP.
        origin: URL of the repository; `sha` is fetched from it, and nothing older.
    """
    folder.mkdir(parents=True)
    server = "{0.scheme}://{0.netloc}".format(urlsplit(origin))
    pair = base64.b64encode(f"x-access-token:{token}".encode()).decode()
    header = (f"http.{server}/.extraheader", f"AUTHORIZATION: basic {pair}")
    file = temp / "git-credentials-2b1c0a52-6e1d-4f5e-9d4e-0f1c5d2b7a90.config"
    in_file = version in ("v6", "v7")

    def persist(repository: Path, places: list[str]) -> None:
        """Let this repository use the credential; `places` are its git folder below a workspace."""
        if not in_file:
            git(repository, "config", "--local", *header)
            return
        for root, credentials in ((folder, file), (Path("/github/workspace"), Path("/github/runner_temp", file.name))):
            for place in places:
                git(repository, "config", "--local", f"includeIf.gitdir:{root}/{place}.path", str(credentials))

    git(folder, "init", "-q", "-b", "main")
    git(folder, "remote", "add", "origin", origin)
    git(folder, "config", "--local", "gc.auto", "0")
    if in_file:
        git(folder, "config", "--file", str(file), *header)
    persist(folder, [".git", ".git/worktrees/*"])
    git(folder, "fetch", "-q", "--no-tags", "--prune", "--no-recurse-submodules", "--depth=1", "origin",
        f"+{sha}:refs/remotes/origin/{branch}")  # fmt: skip
    git(folder, "sparse-checkout", "disable")
    git(folder, "config", "--local", "--unset-all", "extensions.worktreeConfig")
    git(folder, "checkout", "-q", "--force", "-B", branch, f"refs/remotes/origin/{branch}")
    git(folder, "submodule", "sync", "-q", "--recursive")
    git(folder, "submodule", "update", "-q", "--init", "--force", "--depth=1", "--recursive")
    for module in sorted((folder / ".git/modules").rglob("config")):
        inside = module.parent.relative_to(folder)
        checked_out = module.parent / git(module.parent, "config", "core.worktree")
        persist(checked_out, [str(inside)])
        git(checked_out, "config", "--local", "--add", f"url.{server}/.insteadOf", f"git@{urlsplit(origin).hostname}:")


def shadow_of(checkout: Path, directory: Path) -> ShadowGit:
    """A shadow that borrows from a checkout's objects."""
    shallow = checkout / ".git/shallow"
    known = shallow.read_text().split() if shallow.exists() else []
    return ShadowGit.create(directory, alternates=[checkout / ".git/objects"], shallow=known)


def worktree_of(checkout: Path, directory: Path, *, caps: Caps | None = None, use_index: bool = False) -> WorkTree:
    """The run's work tree over a checkout at its HEAD, primed."""
    shadow = shadow_of(checkout, directory)
    index, mtime = None, 0
    if use_index:
        file = checkout / ".git/index"
        index, mtime = parse_index(file.read_bytes()), file.stat().st_mtime_ns
    snapshotter = Snapshotter(shadow, checkout, index=index, index_mtime_ns=mtime, caps=caps)
    worktree = WorkTree(shadow, snapshotter, git(checkout, "rev-parse", "HEAD"), AUTHOR)
    worktree.prime()
    return worktree


class SimApi:
    """`publish.Api` over the simulator, with no policy in between: what arrives is what was sent."""

    def __init__(self, api_url: str, repository: str, token: str) -> None:
        self._url = urlsplit(api_url)
        self._root = f"{self._url.path}/repos/{repository}/"
        self._token = token

    def get(self, path: str, *, step: str, query: Mapping[str, Any] | None = None) -> Any:
        return self._send("GET", path + ("?" + urlencode(query) if query else ""), None, step)

    def post(self, path: str, body: Mapping[str, Any], *, step: str) -> Any:
        return self._send("POST", path, body, step)

    def patch(self, path: str, body: Mapping[str, Any], *, step: str) -> Any:
        return self._send("PATCH", path, body, step)

    def _send(self, method: str, path: str, body: Mapping[str, Any] | None, step: str) -> Any:
        connection = http.client.HTTPConnection(self._url.hostname or "", self._url.port, timeout=30)
        headers = {"Authorization": f"Bearer {self._token}", "User-Agent": "test"}
        connection.request(method, self._root + path, None if body is None else json.dumps(body), headers)
        answer = connection.getresponse()
        data = answer.read()
        connection.close()
        if answer.status not in (200, 201):
            raise UpstreamError(step, data.decode("utf-8", "replace")[:500], answer.status)
        return json.loads(data)
