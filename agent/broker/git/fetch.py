"""Fetch commits into the shadow by smart HTTP, spoken here: git itself never gets a token or a socket.

A fork's head is fetched by its pull ref in this repository (F16), so no other repository is ever spoken to,
and only `git-upload-pack` is: there is no code here that could push.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from agent.broker.git.objects import is_sha
from agent.broker.git.protocol import PackAnswer, fetch_request, ls_refs_request, parse_refs
from agent.broker.git.shadow import ShadowGit
from agent.contract.errors import UpstreamError

Post = Callable[[str, bytes, Mapping[str, str]], Iterable[bytes]]
"""`post(path, body, headers)` gives the body of a 200 answer in pieces; raises UpstreamError or Refusal."""

SERVICE = "git-upload-pack"
HEADERS: Mapping[str, str] = {
    "Content-Type": f"application/x-{SERVICE}-request",
    "Accept": f"application/x-{SERVICE}-result",
    "Git-Protocol": "version=2",
}
_HAVES = 64  # ids; more would only make the request longer


class Fetcher:
    """Fetches from one repository."""

    def __init__(self, shadow: ShadowGit, post: Post, repository: str, *, pack_cap: int = 4 << 30) -> None:
        """Remember the transport.

        Args:
            shadow: where objects go.
            post: see `Post`; the path begins with `/owner/name.git/`.
            repository: `owner/name`.
            pack_cap: bytes of a pack beyond which the fetch fails.
        """
        self._shadow = shadow
        self._post = post
        self._path = f"/{repository}.git/{SERVICE}"
        self._pack_cap = pack_cap

    def refs(self, prefixes: Sequence[str]) -> dict[str, str]:
        """Refs of the repository whose full names begin with one of `prefixes`.

        Raises:
            UpstreamError: the server failed, or a prefix could be no ref's: a line end in it would be a
                command of the protocol (F04).
        """
        for prefix in prefixes:
            if not prefix.startswith("refs/") or not prefix.isprintable() or " " in prefix:
                raise UpstreamError("fetch", f"{prefix[:100]!r} is no ref's name")
        return parse_refs(self._post(self._path, ls_refs_request(prefixes), HEADERS))

    def pull_head(self, number: int) -> str:
        """Commit at the head of a pull request, wherever its branch is.

        Raises:
            UpstreamError: there is no such pull request.
        """
        name = f"refs/pull/{number}/head"
        sha = self.refs([name]).get(name)
        if sha is None:
            raise UpstreamError("fetch", f"{name} does not exist")
        return sha

    def fetch(self, shas: Sequence[str], haves: Sequence[str] = (), *, depth: int | None = None) -> list[str]:
        """Get commits that are not here yet, with their trees and blobs.

        Args:
            shas: full commit ids.
            haves: commits that are here, such as the workspace's head, so that little is sent.
            depth: commits of history; None is all of it.

        Returns:
            The ids that were fetched; empty when all were here.

        Raises:
            UpstreamError: the server failed, or it did not send what was asked for.
        """
        for sha in shas:
            if not is_sha(sha):
                raise UpstreamError("fetch", f"{sha!r} is no commit id")
        wants = [sha for sha in dict.fromkeys(shas) if not self._shadow.has(sha)]
        if not wants:
            return []
        shallow = self._shadow.shallow()
        have = [sha for sha in dict.fromkeys(haves) if self._shadow.has(sha)][:_HAVES]
        body = fetch_request(wants, have, shallow, depth)
        answer = PackAnswer(self._post(self._path, body, HEADERS))
        options = ["--stdin", "--fix-thin", f"--max-input-size={self._pack_cap}"]
        self._shadow.git.run("index-pack", *options, stdin=answer.pack(), timeout_s=900)
        if answer.shallow or answer.unshallow:
            self._shadow.set_shallow((set(shallow) | set(answer.shallow)) - set(answer.unshallow))
        missing = [sha for sha in wants if not self._shadow.has(sha)]
        if missing:
            raise UpstreamError("fetch", f"the server did not send {', '.join(missing)}")
        return wants
