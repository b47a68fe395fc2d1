"""A dry run without a token: what must be known of GitHub comes from the event and the clone, and nobody is asked.

The broker's reads arrive here over loopback. Trusted files come from the clone's branches; people and discussions from
the event; a permission only from the option that vouches for it. Everything else is refused in words.
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from agent.broker.git.objects import is_sha
from agent.broker.git.shadow import ShadowGit
from agent.contract.errors import UpstreamError
from agent.local_clone import branch_tip

REFUSED = "This run was given no token, so GitHub is not asked. Name one with --token-env."


class OfflineGitHub:
    """Answers for one repository."""

    def __init__(
        self, clone: Path, state: Path, repository: str, event: Mapping[str, Any], permissions: Mapping[str, str]
    ) -> None:
        """
        Args:
            state: a folder of ours, made here.
            permissions: login to level, as the options vouch for them.
        """
        state.mkdir(mode=0o700)
        self._clone = clone
        self._shadow = ShadowGit.create(state / "offline.git", alternates=[clone / ".git/objects"])
        self._root = f"/repos/{repository}"
        self._event = event
        self._permissions = permissions

    def answer(self, path: str) -> Any:
        """The JSON value for a path, or None where it is not known."""
        if not path.startswith(self._root):
            return None
        rest = path[len(self._root) :].strip("/")
        if rest == "":
            return {"default_branch": self.default_branch()}
        if rest.startswith("git/ref/heads/"):
            tip = branch_tip(self._clone, rest.removeprefix("git/ref/heads/"))
            return None if tip is None else {"ref": rest.removeprefix("git/"), "object": {"sha": tip}}
        kind, _, name = rest.removeprefix("git/").partition("/")
        if kind in ("trees", "blobs") and is_sha(name):
            return self._tree(name) if kind == "trees" else self._blob(name)
        if rest.startswith("collaborators/"):
            login = rest.split("/")[1]
            level = self._permissions.get(login)
            return None if level is None else {"permission": level, "user": {"login": login}}
        return self._from_event(rest)

    def default_branch(self) -> str:
        """As the event says, else what is checked out."""
        repository = self._event.get("repository")
        named = repository.get("default_branch") if isinstance(repository, dict) else None
        head = (self._clone / ".git/HEAD").read_text().strip()
        return str(named or head.removeprefix("ref: refs/heads/"))

    def _tree(self, sha: str) -> dict[str, Any]:
        """One folder of a tree or commit."""
        out = self._shadow.git.run("ls-tree", "-z", "--full-tree", "--end-of-options", sha).decode("utf-8", "replace")
        rows = (row.partition("\t") for row in out.split("\0") if row)
        fields = [(name, *about.split()) for about, _, name in rows]
        return {"sha": sha, "tree": [{"path": n, "mode": m, "type": t, "sha": s} for n, m, t, s in fields]}

    def _blob(self, sha: str) -> dict[str, Any]:
        data = self._shadow.read(sha)
        return {"sha": sha, "content": base64.b64encode(data).decode(), "encoding": "base64"}

    def _from_event(self, rest: str) -> Any:
        """The subject of the event itself, as the event has it."""
        run = self._event.get("workflow_run")
        if isinstance(run, dict) and rest == f"actions/runs/{run.get('id')}":
            return run
        if isinstance(run, dict) and rest == f"actions/runs/{run.get('id')}/jobs":
            about = {"id": run.get("id"), "name": run.get("name"), "status": "completed"}
            return {"total_count": 1, "jobs": [{**about, "conclusion": run.get("conclusion")}]}
        subjects = {"pull_request": "pulls/{number}", "issue": "issues/{number}", "comment": "issues/comments/{id}"}
        for key, form in subjects.items():
            found = self._event.get(key)
            if isinstance(found, dict) and rest == form.format(number=found.get("number"), id=found.get("id")):
                return found
        return None


@contextmanager
def serving(github: OfflineGitHub) -> Iterator[str]:
    """The answers on a loopback port, for as long as the run lasts; gives the address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            try:
                value = github.answer(unquote(urlsplit(self.path).path))
            except UpstreamError:
                value = None
            status = 403 if value is None else 200
            body = json.dumps({"message": REFUSED} if value is None else value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing: the run's transcript has each request."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
