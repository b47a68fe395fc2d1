"""Smart HTTP by `git http-backend`: fetch for whoever may read, push for a token with contents: write."""

from __future__ import annotations

import base64
import binascii
import re
import subprocess
from typing import TYPE_CHECKING

from .git import ENV
from .paths import lenient, split_target
from .routing import Reply
from .server import Received
from .world import Token

if TYPE_CHECKING:
    from .sim import GitHubSim

PATH = re.compile(r"^/([^/]+/[^/]+?)(?:\.git)?/(info/refs|git-upload-pack|git-receive-pack)$")


def token_of(received: Received, tokens: dict[str, Token]) -> tuple[Token | None, bool]:
    """(token, an Authorization header was there)."""
    header = received.header("Authorization")
    if not header:
        return None, False
    kind, _, value = header.partition(" ")
    if kind.lower() == "basic":
        try:
            value = base64.b64decode(value).decode("utf-8", "replace").partition(":")[2]
        except (binascii.Error, ValueError):
            value = ""
    return tokens.get(value.strip()), True


def answer(sim: GitHubSim, received: Received) -> Reply:
    """The reply of the git host to one request."""
    raw, query, _ = split_target(received.raw_path)
    received.path, received.query = lenient(raw), query
    match = PATH.match(received.path)
    repo = sim.world.find(match[1]) if match else None
    token, given = token_of(received, sim.world.tokens)
    challenge = {"WWW-Authenticate": 'Basic realm="GitHub"'}
    if given and token is None:
        return Reply(401, "Bad credentials\n", challenge, "text/plain")
    if match is None or repo is None:
        return Reply(404 if given else 401, "Repository not found.\n", {} if given else challenge, "text/plain")
    received.allowed_auth = True
    pushing = "receive-pack" in match[2] or "receive-pack" in query
    if repo.private and (token is None or token.level("contents") == "none"):
        return Reply(401, "Repository not found.\n", challenge, "text/plain")
    if pushing and (token is None or token.level("contents") != "write"):
        return Reply(401 if token is None else 403, "Permission denied.\n", challenge, "text/plain")
    env = {
        **ENV,
        "GIT_PROJECT_ROOT": str(sim.folder / "git"),
        "GIT_HTTP_EXPORT_ALL": "1",
        "PATH_INFO": f"/{repo.full_name}.git/{match[2]}",
        "QUERY_STRING": query,
        "REQUEST_METHOD": received.method,
        "CONTENT_TYPE": received.header("Content-Type"),
        "CONTENT_LENGTH": str(len(received.body)),
        "HTTP_CONTENT_ENCODING": received.header("Content-Encoding"),
        "GIT_PROTOCOL": received.header("Git-Protocol"),
        "REMOTE_USER": token.login if token else "",
        "REMOTE_ADDR": "127.0.0.1",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "safe.directory",
        "GIT_CONFIG_VALUE_0": "*",
    }
    done = subprocess.run(["git", "http-backend"], env=env, input=received.body, capture_output=True, check=False)
    head, _, body = done.stdout.partition(b"\r\n\r\n")
    headers, status = {}, 200
    for line in head.decode("latin-1").split("\r\n"):
        key, _, value = line.partition(": ")
        if key.lower() == "status":
            status = int(value.split()[0])
        elif key:
            headers[key] = value
    if pushing:
        sim.refresh_pulls()
    return Reply(status, body, headers)
