"""Publishing in a dry run: trees get the id that GitHub would give them, which the publisher compares with its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent.broker.git.objects import EMPTY_TREE, Entry, object_id
from agent.broker.git.shadow import ShadowGit
from agent.broker.github import GitHubApi


class DryPublishing(GitHubApi):
    """The API whose writes egress keeps back; a tree is put together here as the request says."""

    def __init__(self, api: GitHubApi, shadow: ShadowGit) -> None:
        """
        Args:
            api: over an egress that sends no write.
            shadow: holds the objects of the commits to publish.
        """
        self.__dict__.update(api.__dict__)
        self._shadow = shadow

    def post(self, path: str, body: Mapping[str, Any], *, step: str) -> Any:
        """As `GitHubApi.post`."""
        answer = super().post(path, body, step=step)
        return {**answer, "sha": self._tree(body)} if path == "git/trees" else answer

    def _tree(self, body: Mapping[str, Any]) -> str:
        base = body.get("base_tree", EMPTY_TREE)
        files = dict(self._shadow.entries(base))
        for item in body["tree"]:
            path = item["path"].encode()
            text = item.get("content")
            sha = item.get("sha") if text is None else object_id("blob", text.encode())
            if sha is None:
                files.pop(path, None)
            else:
                files[path] = Entry(item["mode"], sha)
        return self._shadow.write_tree(files, like=base)
