"""The broker's own git folder: bare, outside the workspace, readable by the broker alone.

It borrows the real repository's objects by `alternates` and keeps every object that the run makes to
itself, so that nothing the agent does reaches the user's repository before a push.
"""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent.broker.git.objects import (
    EMPTY_TREE,
    TREE,
    Change,
    Entry,
    Identity,
    decode_commit,
    encode_commit,
    encode_tree,
    is_sha,
    object_id,
    parse_ls_tree,
    parse_raw_diff,
)
from agent.broker.git.run import SEARCH_PATH, BatchReader, Git
from agent.contract.errors import UpstreamError


@dataclass(frozen=True)
class Commit:
    """A commit as the shadow knows it."""

    sha: str
    tree: str
    parents: tuple[str, ...]
    message: str


class ShadowGit:
    """Objects, trees and commits. Knows no work tree."""

    def __init__(self, directory: Path, *, search_path: str = SEARCH_PATH) -> None:
        self.directory = directory
        self.git = Git(directory, search_path=search_path)
        self._trees: dict[str, tuple[dict[bytes, Entry], frozenset[str]]] = {}

    @classmethod
    def create(
        cls,
        directory: Path,
        *,
        alternates: Sequence[Path] = (),
        shallow: Iterable[str] = (),
        search_path: str = SEARCH_PATH,
    ) -> ShadowGit:
        """Make an empty one.

        Args:
            directory: folder to make, mode 0700.
            alternates: object folders of the real repository.
            shallow: ids of commits whose parents the real repository lacks.
            search_path: PATH on which git is found.
        """
        directory.mkdir(mode=0o700, parents=True)
        for name in ("objects/info", "objects/pack", "refs/heads"):
            (directory / name).mkdir(parents=True)
        (directory / "HEAD").write_text("ref: refs/heads/none\n")
        (directory / "config").write_text("[core]\n\trepositoryformatversion = 0\n\tbare = true\n")
        if alternates:
            text = "".join(f"{path}\n" for path in alternates)
            (directory / "objects/info/alternates").write_text(text)
        shadow = cls(directory, search_path=search_path)
        shadow.set_shallow(shallow)
        return shadow

    # -- shallow commits -----------------------------------------------------------------------------

    def shallow(self) -> list[str]:
        """Ids of commits whose parents are not here."""
        try:
            return (self.directory / "shallow").read_text().split()
        except FileNotFoundError:
            return []

    def set_shallow(self, shas: Iterable[str]) -> None:
        """Replace the list of shallow commits."""
        known = sorted({sha for sha in shas if is_sha(sha)})
        path = self.directory / "shallow"
        if known:
            path.write_text("".join(f"{sha}\n" for sha in known))
        else:
            path.unlink(missing_ok=True)

    # -- objects -------------------------------------------------------------------------------------

    def write(self, kind: str, data: bytes) -> str:
        """Store one object and return its id."""
        sha = object_id(kind, data)
        folder = self.directory / "objects" / sha[:2]
        path = folder / sha[2:]
        if path.exists():
            return sha
        packed = zlib.compress(b"%s %d\0" % (kind.encode(), len(data)) + data, 1)
        folder.mkdir(exist_ok=True)
        temporary = folder / f"tmp_{os.getpid()}_{sha[2:]}"
        temporary.write_bytes(packed)
        temporary.rename(path)
        return sha

    def holds_own(self, sha: str) -> bool:
        """True when the object was stored by `write`."""
        return (self.directory / "objects" / sha[:2] / sha[2:]).exists()

    def reader(self) -> BatchReader:
        """Object reader; use it in a `with`."""
        return self.git.reader()

    def read(self, sha: str) -> bytes:
        """Data of one object.

        Raises:
            UpstreamError: it is missing.
        """
        with self.reader() as reader:
            return reader.read(sha)[1]

    def sizes(self, shas: Sequence[str]) -> dict[str, int]:
        """Size in bytes of each object that is here."""
        if not shas:
            return {}
        out = self.git.run("cat-file", "--batch-check", stdin="".join(f"{s}\n" for s in shas).encode())
        rows = (line.split() for line in out.decode("ascii").splitlines())
        return {row[0]: int(row[2]) for row in rows if len(row) == 3}

    def has(self, sha: str) -> bool:
        """True when the object is here or in the real repository."""
        return is_sha(sha) and sha in self.sizes([sha])

    # -- trees ---------------------------------------------------------------------------------------

    def tree_of(self, commit: str) -> str:
        """Tree of a commit."""
        return self.commit_of(commit).tree

    def entries(self, tree: str) -> Mapping[bytes, Entry]:
        """Every file, link and gitlink of a tree by path. Do not change the mapping."""
        return self._load(tree)[0]

    def _load(self, tree: str) -> tuple[dict[bytes, Entry], frozenset[str]]:
        known = self._trees.get(tree)
        if known is None:
            files: dict[bytes, Entry] = {}
            folders = {tree}
            if tree != EMPTY_TREE:
                out = self.git.run("ls-tree", "-r", "-t", "-z", "--full-tree", "--end-of-options", tree)
                for path, kind, entry in parse_ls_tree(out):
                    if kind == "tree":
                        folders.add(entry.sha)
                    else:
                        files[path] = entry
            known = files, frozenset(folders)
            if len(self._trees) >= 4:  # base, previous snapshot, this one, one spare
                self._trees.pop(next(iter(self._trees)))
            self._trees[tree] = known
        return known

    def write_tree(self, files: Mapping[bytes, Entry], *, like: str = EMPTY_TREE) -> str:
        """Build the tree that holds exactly these paths.

        Args:
            files: path to entry; gitlinks included.
            like: a tree that it mostly equals, whose folders need not be written again.
        """
        known = set(self._load(like)[1])
        folders: dict[bytes, dict[bytes, Entry]] = {b"": {}}
        for path, entry in files.items():
            folder, _, name = path.rpartition(b"/")
            if folder not in folders:
                parent = folder
                while parent not in folders:
                    folders[parent] = {}
                    parent = parent.rpartition(b"/")[0]
            folders[folder][name] = entry
        for folder in sorted(folders, key=lambda f: f.count(b"/") if f else -1, reverse=True):
            data = encode_tree(folders[folder])
            sha = object_id("tree", data)
            if sha not in known:
                self.write("tree", data)
                known.add(sha)
            if folder:
                parent, _, name = folder.rpartition(b"/")
                folders[parent][name] = Entry(TREE, sha)
            else:
                root = sha
        return root

    def names_changed(self, before: str, after: str) -> list[Change]:
        """Paths that differ between two trees or commits, without rename detection."""
        out = self.git.run(
            "diff-tree", "-r", "-z", "--raw", "--no-renames", "--full-index", "--end-of-options", before, after
        )
        return parse_raw_diff(out)

    def diff(self, before: str, after: str, paths: Sequence[str] = (), budget: int = 200_000) -> str:
        """Unified diff between two trees or commits.

        Args:
            before, after: ids.
            paths: repository-relative names, taken literally; none means all.
            budget: most bytes of diff; what lies beyond is cut and the text says so.
        """
        args = ["-r", "-p", "-M", "--full-index", "--end-of-options", before, after, "--", *paths]
        out = self.git.run("diff-tree", *args, limit=budget + 1)
        text = out[:budget].decode("utf-8", "replace")
        if len(out) > budget:
            text += f"\n[cut after {budget} bytes; name paths to see the rest]\n"
        return text

    # -- commits -------------------------------------------------------------------------------------

    def commit_of(self, sha: str) -> Commit:
        """Read a commit.

        Raises:
            UpstreamError: missing, or no commit.
        """
        if not is_sha(sha):
            raise UpstreamError("read commit", f"{sha!r} is no commit id")
        with self.reader() as reader:
            kind, data = reader.read(sha)
        if kind != "commit":
            raise UpstreamError("read commit", f"{sha} is a {kind}")
        return Commit(sha, *decode_commit(data))

    def commit(
        self, tree: str, parents: Sequence[str], message: str, author: Identity, *, seconds: int | None = None
    ) -> str:
        """Make a commit here only."""
        when = int(time.time()) if seconds is None else seconds
        return self.write("commit", encode_commit(tree, parents, author, when, message))

    def is_ancestor(self, old: str, new: str) -> bool:
        """True when `old` is `new` or one of its ancestors, as far as history is here."""
        out = self.git.run("rev-list", "--max-count=1", "--end-of-options", old, f"^{new}")
        return not out.strip()

    def chain(self, base: str, tip: str, limit: int = 200) -> list[Commit]:
        """First-parent commits after `base` up to `tip`, oldest first.

        Raises:
            UpstreamError: `base` is not on the first-parent line of `tip` within `limit` commits.
        """
        commits: list[Commit] = []
        sha = tip
        while sha != base:
            commit = self.commit_of(sha)
            commits.append(commit)
            if not commit.parents or len(commits) > limit:
                raise UpstreamError("read commits", f"{tip} does not continue {base}")
            sha = commit.parents[0]
        return commits[::-1]

    def log(self, start: str, limit: int = 20, path: str | None = None) -> str:
        """One block a commit: id, date, author, subject. Third-party text."""
        args = [f"--max-count={limit}", "--format=%H%n  %ad  %an%n  %s", "--date=iso-strict"]
        tail = ["--end-of-options", start, "--"] + ([path] if path else [])
        return self.git.run("log", *args, *tail, limit=2_000_000).decode("utf-8", "replace")
