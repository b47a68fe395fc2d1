"""The broker's own git folder: bare, outside the workspace, readable by the broker alone.

It borrows the real repository's objects by `alternates` and keeps every object that the run makes to
itself, so that nothing the agent does reaches the user's repository before a push.
"""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from agent.broker.git.batch import BatchReader
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
    repository_path,
)
from agent.broker.git.run import SEARCH_PATH, Git
from agent.contract.dataclass import dataclass
from agent.contract.errors import UpstreamError


@dataclass(frozen=True)
class Commit:
    """A commit as the shadow knows it."""

    sha: str
    tree: str
    parents: tuple[str, ...]
    message: str


@dataclass(frozen=True)
class _Listing:
    """A tree in full: files, links and gitlinks by path, and the id of each folder, the root as `b""`."""

    files: dict[bytes, Entry]
    folders: dict[bytes, str]


class ShadowGit:
    """Objects, trees and commits. Knows no work tree."""

    def __init__(self, directory: Path, *, search_path: str = SEARCH_PATH) -> None:
        self.directory = directory
        self.git = Git(directory, search_path=search_path)
        self._trees: dict[str, _Listing] = {}
        self._commits: dict[str, Commit] = {}

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
        return BatchReader(self.git)

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
        return self._list(tree).files

    def folders(self, tree: str) -> Mapping[bytes, str]:
        """Id of every folder of a tree by path; the root is `b""`. Do not change the mapping."""
        return self._list(tree).folders

    def _list(self, tree: str) -> _Listing:
        known = self._trees.get(tree)
        if known is None:
            known = _Listing({}, {b"": tree})
            if tree != EMPTY_TREE:
                out = self.git.run("ls-tree", "-r", "-t", "-z", "--full-tree", "--end-of-options", tree)
                for path, kind, entry in parse_ls_tree(out):
                    if kind == "tree":
                        known.folders[path] = entry.sha
                    else:
                        known.files[path] = entry
            if len(self._trees) >= 4:  # base, previous snapshot, this one, one spare
                self._trees.pop(next(iter(self._trees)))
            self._trees[tree] = known
        return known

    def write_tree(self, files: Mapping[bytes, Entry], *, like: str = EMPTY_TREE) -> str:
        """Build the tree that holds exactly these paths.

        Args:
            files: path to entry; gitlinks included.
            like: a tree that it mostly equals; only folders that differ from it are built.
        """
        old = self._list(like)
        differing = [p for p, e in files.items() if (was := old.files.get(p)) is not e and was != e]
        differing += [p for p in old.files if p not in files]
        children: dict[bytes, dict[bytes, Entry]] = {b"": {}}
        for path in differing:
            while (path := path.rpartition(b"/")[0]) not in children:
                children[path] = {}
        for path, entry in files.items():
            folder, _, name = path.rpartition(b"/")
            if (inside := children.get(folder)) is not None:
                inside[name] = entry
        for path, sha in old.folders.items():
            if path not in children:
                folder, _, name = path.rpartition(b"/")
                if (inside := children.get(folder)) is not None:
                    inside[name] = Entry(TREE, sha)
        deepest_first = sorted(children, key=lambda path: path.count(b"/") if path else -1, reverse=True)
        for path in deepest_first[:-1]:
            if children[path]:  # git knows no empty folder
                folder, _, name = path.rpartition(b"/")
                children[folder][name] = Entry(TREE, self.write("tree", encode_tree(children[path])))
        return self.write("tree", encode_tree(children[b""]))

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

        Raises:
            ToolInputError: a path is none in a repository.
        """
        names = [name for path in paths if (name := repository_path(path))]
        args = ["-r", "-p", "-M", "--full-index", "--end-of-options", before, after, "--", *names]
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
        known = self._commits.get(sha)
        if known is None:
            with self.reader() as reader:
                kind, data = reader.read(sha)
            if kind != "commit":
                raise UpstreamError("read commit", f"{sha} is a {kind}")
            known = self._commits[sha] = Commit(sha, *decode_commit(data))
        return known

    def commit(
        self, tree: str, parents: Sequence[str], message: str, author: Identity, *, seconds: int | None = None
    ) -> str:
        """Make a commit here only."""
        when = int(time.time()) if seconds is None else seconds
        return self.write("commit", encode_commit(tree, parents, author, when, message))

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
        """One block a commit: id, date, author, subject. Third-party text.

        Raises:
            ToolInputError: the path is none in a repository.
        """
        args = [f"--max-count={limit}", "--format=%H%n  %ad  %an%n  %s", "--date=iso-strict"]
        tail = ["--end-of-options", start, "--"] + ([name] if path and (name := repository_path(path)) else [])
        return self.git.run("log", *args, *tail, limit=2_000_000).decode("utf-8", "replace")
