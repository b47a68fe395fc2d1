"""Step 4 of a push: blobs and trees to GitHub, where every id that comes back is compared with ours.

Of a large commit small text files travel inside the tree, since writes are paced.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from agent.broker.git.api import Api
from agent.broker.git.objects import EMPTY_TREE, GITLINK, Change, Entry, display
from agent.broker.git.shadow import ShadowGit
from agent.contract.errors import UpstreamError

_TREE_ENTRIES = 500  # per request; GitHub's own limit is 100,000 entries or 7 MB
_TREE_BYTES = 1 << 20  # of file text inside one request
_BLOBS = 12  # blobs sent one by one; more go inside the tree
_INLINE_BYTES = 64 << 10  # largest text file that goes inside a tree


class Upload:
    """What a run has sent, so that no blob goes twice."""

    def __init__(self, api: Api, shadow: ShadowGit) -> None:
        self._api = api
        self._shadow = shadow
        self._sent: set[str] = set()

    def tree(self, before: str, after: str) -> None:
        """Send what `after` has and `before`, which GitHub has, lacks.

        Raises:
            UpstreamError: GitHub failed, or made something else; names the step.
        """
        changes = self._shadow.names_changed(before, after)
        have = {entry.sha for entry in self._shadow.entries(before).values()} | self._sent
        fresh = {c.new.sha: c for c in changes if c.new is not None and c.new.sha not in have}
        texts = self._inline(list(fresh)) if len(fresh) > _BLOBS else {}
        for sha, change in fresh.items():
            if sha not in texts:
                self._send_blob(change)
        made = self._make_tree(before, changes, texts)
        if made != after and texts:  # some text did not survive as text: send those files byte for byte
            for sha in texts:
                self._send_blob(fresh[sha])
            made = self._make_tree(before, changes, {})
        if made != after:
            raise UpstreamError("create tree", f"GitHub made the tree {made}, not the one checked here, {after}")

    def _make_tree(self, base: str, changes: Sequence[Change], texts: Mapping[str, str]) -> str:
        for entries in _batches(changes, texts):
            body: dict[str, Any] = {"tree": entries}
            if base != EMPTY_TREE:
                body["base_tree"] = base
            answer = self._api.post("git/trees", body, step="create tree")
            base = str(answer.get("sha")) if isinstance(answer, dict) else ""
        return base

    def _inline(self, shas: list[str]) -> dict[str, str]:
        """Text of blobs that a tree can carry; the tree's id, compared below, proves that no byte changed."""
        sizes = self._shadow.sizes(shas)
        texts: dict[str, str] = {}
        with self._shadow.reader() as reader:
            for sha, _, data in reader.read_many([s for s in shas if sizes.get(s, 0) <= _INLINE_BYTES]):
                try:
                    text = data.decode("utf-8")
                except UnicodeDecodeError:
                    continue
                if text and "\0" not in text:
                    texts[sha] = text
        return texts

    def _send_blob(self, change: Change) -> None:
        assert change.new is not None
        sha = change.new.sha
        step = f"create blob {display(change.path)}"
        content = base64.b64encode(self._shadow.read(sha)).decode("ascii")
        answer = self._api.post("git/blobs", {"content": content, "encoding": "base64"}, step=step)
        if not isinstance(answer, dict) or answer.get("sha") != sha:
            raise UpstreamError(step, "GitHub stored something else than was sent")
        self._sent.add(sha)


def _batches(changes: Sequence[Change], texts: Mapping[str, str]) -> Iterator[list[dict[str, Any]]]:
    """Tree entries for requests that build on each other.

    Where a file takes the place of a folder or the other way round, deletions go first, in requests of
    their own: GitHub does not say in which order it applies the entries of one request.
    """
    gone = [c for c in changes if c.new is None]
    kept = [c for c in changes if c.new is not None]
    groups = [gone, kept] if _replaces(gone, kept) else [[*gone, *kept]]
    for group in groups:
        batch: list[dict[str, Any]] = []
        size = 0
        for change in group:
            entry = _entry(change.path, change.new, texts)
            size += len(entry.get("content", ""))
            if batch and (len(batch) >= _TREE_ENTRIES or size > _TREE_BYTES):
                yield batch
                batch, size = [], len(entry.get("content", ""))
            batch.append(entry)
        if batch:
            yield batch


def _replaces(gone: Sequence[Change], kept: Sequence[Change]) -> bool:
    def above(changes: Sequence[Change]) -> set[bytes]:
        found = set()
        for change in changes:
            path = change.path
            while path := path.rpartition(b"/")[0]:
                found.add(path)
        return found

    old, new = {c.path for c in gone}, {c.path for c in kept}
    return bool(old & above(kept) or new & above(gone))


def _entry(path: bytes, entry: Entry | None, texts: Mapping[str, str]) -> dict[str, Any]:
    name = path.decode("utf-8")
    if entry is None:
        return {"path": name, "mode": "100644", "type": "blob", "sha": None}
    assert entry.mode != GITLINK  # rule 8
    if (text := texts.get(entry.sha)) is not None:
        return {"path": name, "mode": entry.mode, "type": "blob", "content": text}
    return {"path": name, "mode": entry.mode, "type": "blob", "sha": entry.sha}
