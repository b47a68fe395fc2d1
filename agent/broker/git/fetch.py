"""Fetch commits into the shadow by smart HTTP, spoken here: git itself never gets a token or a socket.

A fork's head is fetched by its id from this repository, whose pull ref keeps it there (F16), so no other
repository is ever spoken to, and only `git-upload-pack` is: there is no code here that could push.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from agent.broker.git.objects import is_sha
from agent.broker.git.protocol import PackAnswer, fetch_request
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
