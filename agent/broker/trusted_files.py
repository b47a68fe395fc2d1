"""Files of the repository at a trusted commit, through the API (DESIGN section 4.4), never from the checkout.

Read as git objects, tree by tree and then the blob, each named by its hash: what is read is exactly what that
commit holds. Trees are remembered, so the files of one folder cost one request each.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any
from urllib.parse import quote

from agent.broker.event import Trigger
from agent.broker.github import GitHubApi
from agent.contract.errors import UpstreamError

SIZE_CAP = 1 << 20  # bytes of one configuration or hook file


def branch_tip(api: GitHubApi, branch: str) -> str:
    """Commit at the tip of a branch now.

    Raises:
        UpstreamError: there is no such branch, or GitHub failed.
    """
    answer = api.get(f"git/ref/heads/{quote(branch, safe='/')}", step=f"read the branch {branch}")
    return str(answer["object"]["sha"])


def trusted_branch(trigger: Trigger, base: str, default: str, prefix: str) -> str:
    """The branch whose guidance and hook scripts count: none that the change, or an earlier run, could have written.

    Args:
        prefix: of this action's own branches. A pull request can be based on one of them, and a model wrote what
            stands there.
    """
    branch = trigger.base_ref or (default if trigger.is_pull_request or trigger.head.is_fork else base)
    return default if branch.casefold().startswith(prefix.casefold()) else branch


class TrustedFiles:
    """Files at one commit."""

    def __init__(self, api: GitHubApi, commit: str) -> None:
        self._api = api
        self._commit = commit
        self._trees: dict[str, dict[str, dict[str, Any]]] = {}

    def read(self, path: str) -> bytes | None:
        """Bytes of a regular file; None where there is none of that path. Links are not followed.

        Raises:
            UpstreamError: GitHub failed, or the file is larger than the cap.
        """
        sha = self._commit
        parts = path.split("/")
        for index, part in enumerate(parts):
            entry = self._entries(sha, path).get(part)
            last = index == len(parts) - 1
            if entry is None or entry.get("type") != ("blob" if last else "tree"):
                return None
            if last and entry.get("mode") not in ("100644", "100755"):
                return None
            sha = str(entry["sha"])
        blob = self._api.get(f"git/blobs/{sha}", step=f"read {path}")
        try:
            data = base64.b64decode(blob["content"])
        except (KeyError, TypeError, binascii.Error) as exc:
            raise UpstreamError(f"read {path}", "GitHub's answer holds no content") from exc
        if len(data) > SIZE_CAP:
            raise UpstreamError(f"read {path}", f"it is larger than {SIZE_CAP >> 20} MB")
        return data

    def _entries(self, sha: str, path: str) -> dict[str, dict[str, Any]]:
        known = self._trees.get(sha)
        if known is None:
            answer = self._api.get(f"git/trees/{sha}", step=f"read {path}")
            items = answer.get("tree") if isinstance(answer, dict) else None
            known = {str(e.get("path")): e for e in items or () if isinstance(e, dict)}
            self._trees[sha] = known
        return known
