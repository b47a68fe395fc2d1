"""A bare git repository driven by plumbing alone: what the simulator's git data live in."""

from __future__ import annotations

import contextlib
import re
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ENV = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "HOME": "/nonexistent",
    "LC_ALL": "C.UTF-8",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_AUTHOR_NAME": "sim",
    "GIT_AUTHOR_EMAIL": "sim@users.noreply.example",
    "GIT_COMMITTER_NAME": "sim",
    "GIT_COMMITTER_EMAIL": "sim@users.noreply.example",
}
SHA = re.compile(r"^[0-9a-f]{40}$")
EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
KINDS = frozenset(("base", "list", "diff"))
STATUS = {"A": "added", "D": "removed", "M": "modified", "R": "renamed", "C": "copied", "T": "changed"}


class GitError(RuntimeError):
    """git said no; the text is its standard error."""


@dataclass(frozen=True)
class Person:
    """Author or committer: name, email, ISO 8601 UTC date."""

    name: str
    email: str
    date: str


@dataclass(frozen=True)
class CommitInfo:
    """One parsed commit object."""

    sha: str
    tree: str
    parents: tuple[str, ...]
    author: Person
    committer: Person
    message: str


@dataclass(frozen=True)
class FileDiff:
    """One file of a diff; `patch` is None for binary files, as GitHub leaves it out."""

    path: str
    previous: str | None
    status: str
    sha: str
    additions: int
    deletions: int
    patch: str | None


@dataclass(frozen=True)
class TreeEntry:
    """One row of a tree."""

    mode: str
    type: str
    sha: str
    size: int | None
    path: str


class BareRepo:
    """Plumbing over one bare repository. Thread-safe; objects are read through one `cat-file --batch`."""

    def __init__(self, path: Path, default_branch: str = "main") -> None:
        self.path = path
        self._lock = threading.Lock()
        self._batch: subprocess.Popen[bytes] | None = None
        self._cache: dict[str, tuple[str, bytes]] = {}
        self._memo: dict[tuple[str, ...], Any] = {}
        if not (path / "HEAD").exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            subprocess.run(
                ["git", "init", "-q", "--bare", "-b", default_branch, str(path)],
                env=ENV,
                check=True,
                capture_output=True,
            )
            with (path / "config").open("a") as config:
                config.write(
                    "[uploadpack]\n\tallowAnySHA1InWant = true\n\tallowFilter = true\n"
                    "[http]\n\treceivepack = true\n[gc]\n\tauto = 0\n[receive]\n\tautogc = false\n"
                )

    def close(self) -> None:
        if self._batch is not None:
            self._batch.kill()
            self._batch.communicate()
            self._batch = None

    def run(self, *args: str, data: bytes | None = None, env: dict[str, str] | None = None) -> bytes:
        done = subprocess.run(
            ["git", "-c", "safe.directory=*", f"--git-dir={self.path}", *args],
            input=data,
            stdin=subprocess.DEVNULL if data is None else None,
            env={**ENV, **(env or {})},
            capture_output=True,
            check=False,
        )
        if done.returncode:
            raise GitError(done.stderr.decode("utf-8", "replace").strip() or f"git {args[0]} failed")
        return done.stdout

    # ---------------------------------------------------------------- objects

    def lookup(self, name: str) -> tuple[str, str, bytes] | None:
        """(sha, type, content) of a revision or object name, or None."""
        if "\n" in name or not name:
            return None
        if name in self._cache:
            kind, data = self._cache[name]
            return name, kind, data
        with self._lock:
            if self._batch is None or self._batch.poll() is not None:
                self._batch = subprocess.Popen(
                    ["git", "-c", "safe.directory=*", f"--git-dir={self.path}", "cat-file", "--batch"],
                    env=ENV,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                )
            assert self._batch.stdin is not None
            assert self._batch.stdout is not None
            self._batch.stdin.write(name.encode() + b"\n")
            self._batch.stdin.flush()
            head = self._batch.stdout.readline().decode("utf-8", "replace").split()
            if len(head) != 3 or not SHA.match(head[0]):
                return None
            sha, kind, size = head[0], head[1], int(head[2])
            data = self._batch.stdout.read(size + 1)[:-1]
            if size < 65536:
                self._cache[sha] = (kind, data)
            return sha, kind, data

    def resolve(self, name: str) -> str | None:
        """Commit sha that a branch, tag, full ref or sha names, or None."""
        tries = [name + "^{commit}"] if SHA.match(name) else []
        tries += [f"refs/heads/{name}^{{commit}}", f"refs/tags/{name}^{{commit}}"]
        if name.startswith(("refs/", "heads/", "tags/", "pull/")) or name == "HEAD":
            full = name if name.startswith("refs/") or name == "HEAD" else "refs/" + name
            tries.insert(0, full + "^{commit}")
        if re.fullmatch(r"[0-9a-f]{7,39}", name):
            tries.append(name + "^{commit}")
        for candidate in tries:
            found = self.lookup(candidate)
            if found:
                return found[0]
        return None

    def type_of(self, sha: str) -> str | None:
        found = self.lookup(sha) if SHA.match(sha or "") else None
        return found[1] if found else None

    def write_blob(self, data: bytes) -> str:
        return self.run("hash-object", "-w", "--stdin", data=data).decode().strip()

    def write_commit(self, tree: str, parents: list[str], message: str, author: Person, committer: Person) -> str:
        lines = [f"tree {tree}", *(f"parent {p}" for p in parents)]
        for role, who in (("author", author), ("committer", committer)):
            name = re.sub(r"[<>\n\0]", "", who.name) or "nobody"
            email = re.sub(r"[<>\n\0]", "", who.email)
            lines.append(f"{role} {name} <{email}> {epoch(who.date)} +0000")
        raw = ("\n".join(lines) + "\n\n" + message).encode("utf-8", "surrogateescape")
        return self.run("hash-object", "-t", "commit", "-w", "--stdin", data=raw).decode().strip()

    def write_tree(self, base: str | None, entries: list[dict[str, str | None]]) -> str:
        """A tree from a base tree and entries {path, mode, type, sha}; a sha of None deletes the path."""
        index = self.path / f"sim-index-{threading.get_ident()}"
        env = {"GIT_INDEX_FILE": str(index)}
        try:
            if base:
                self.run("read-tree", base, env=env)
            rows = b""
            for entry in entries:
                path = str(entry["path"]).encode("utf-8", "surrogateescape")
                if entry["sha"] is None:
                    inside = self.run("ls-files", "-z", "--", entry["path"] or "", env=env).split(b"\0")
                    rows += b"".join(b"0 " + b"0" * 40 + b"\t" + p + b"\0" for p in inside if p)
                elif entry["mode"] == "040000":
                    inside = self.run("ls-files", "-z", "--", entry["path"] or "", env=env).split(b"\0")
                    gone = b"".join(b"0 " + b"0" * 40 + b"\t" + p + b"\0" for p in inside if p)
                    if gone:
                        self.run("update-index", "-z", "--index-info", data=gone, env=env)
                    self.run("read-tree", f"--prefix={entry['path']}/", str(entry["sha"]), env=env)
                else:
                    rows += f"{entry['mode']} {entry['sha']}\t".encode() + path + b"\0"
            if rows:
                self.run("update-index", "-z", "--index-info", data=rows, env=env)
            return self.run("write-tree", env=env).decode().strip()
        finally:
            with contextlib.suppress(FileNotFoundError):
                index.unlink()
            with contextlib.suppress(FileNotFoundError):
                index.with_suffix(".lock").unlink()

    def commit_info(self, name: str) -> CommitInfo | None:
        found = self.lookup(name + "^{commit}") if not SHA.match(name) else self.lookup(name)
        if not found or found[1] != "commit":
            return None
        head, _, message = found[2].decode("utf-8", "replace").partition("\n\n")
        fields: dict[str, list[str]] = {}
        for line in head.split("\n"):
            key, _, value = line.partition(" ")
            fields.setdefault(key, []).append(value)
        return CommitInfo(
            found[0],
            fields["tree"][0],
            tuple(fields.get("parent", ())),
            _person(fields["author"][0]),
            _person(fields["committer"][0]),
            message,
        )

    def tree(self, name: str, *, recursive: bool = False) -> list[TreeEntry]:
        """Rows of a tree; with `recursive` the trees themselves stand among them."""
        flags = ["-r", "-t"] if recursive else []
        rows = []
        for line in self.run("ls-tree", "-z", "-l", *flags, name).split(b"\0"):
            if line:
                head, _, path = line.partition(b"\t")
                mode, kind, sha, size = head.decode().split()
                rows.append(
                    TreeEntry(mode, kind, sha, None if size == "-" else int(size), path.decode("utf-8", "replace"))
                )
        return rows

    # ---------------------------------------------------------------- refs

    def refs(self) -> dict[str, str]:
        """Every ref: full name -> sha of what it points at."""
        out = {}
        for line in self.run("for-each-ref", "--format=%(refname)%00%(objectname)").decode().splitlines():
            name, _, sha = line.partition("\0")
            out[name] = sha
        return out

    def valid_ref(self, ref: str) -> bool:
        try:
            self.run("check-ref-format", ref)
        except GitError:
            return False
        return True

    def update_ref(self, ref: str, sha: str, old: str | None = None) -> None:
        self.run("update-ref", ref, sha, *([old] if old is not None else []))

    def delete_ref(self, ref: str) -> None:
        self.run("update-ref", "-d", ref)

    # ---------------------------------------------------------------- history and diffs

    def _once(self, key: tuple[str, ...], make: Callable[[], Any]) -> Any:
        """Answers between commits named by sha never change, so they are computed once."""
        if not all(SHA.match(part.lstrip("^")) or part.startswith("--") or part in KINDS for part in key):
            return make()
        if key not in self._memo:
            self._memo[key] = make()
        return self._memo[key]

    def merge_base(self, a: str, b: str) -> str | None:
        return self._once(("base", a, b), lambda: self._merge_base(a, b))

    def _merge_base(self, a: str, b: str) -> str | None:
        if a == b:
            return a
        try:
            return self.run("merge-base", a, b).decode().split()[0]
        except (GitError, IndexError):
            return None

    def is_ancestor(self, old: str, new: str) -> bool:
        return self.merge_base(old, new) == old

    def rev_list(self, *args: str) -> list[str]:
        return self._once(("list", *args), lambda: self.run("rev-list", *args, "--").decode().split())

    def diff_text(self, old: str, new: str) -> str:
        """Unified diff as GitHub's diff media type gives it."""
        return self.run("diff", "--no-color", "--no-ext-diff", "-M", old, new).decode("utf-8", "replace")

    def diff(self, old: str, new: str) -> list[FileDiff]:
        """Files that differ, with their patches; renames found as GitHub finds them."""
        return self._once(("diff", old, new), lambda: self._diff(old, new))

    def _diff(self, old: str, new: str) -> list[FileDiff]:
        raw = self.run("diff", "--no-ext-diff", "-M", "--raw", "-z", "--abbrev=40", old, new).split(b"\0")
        counts = self.run("diff", "--no-ext-diff", "-M", "--numstat", "-z", old, new).split(b"\0")
        numbers, i = {}, 0
        while i < len(counts) - 1:
            add, gone, path = counts[i].split(b"\t", 2)
            if not path:
                path, i = counts[i + 2], i + 2
            numbers[path] = (add, gone)
            i += 1
        text = self.run(
            "-c", "core.quotePath=false", "diff", "--no-color", "--no-ext-diff", "-M", "--full-index", old, new
        )
        chunks = re.split(rb"(?m)^(?=diff --git )", text)[1:]
        out, i, k = [], 0, 0
        while i < len(raw) - 1:
            _, _, old_sha, new_sha, status = raw[i].decode().split(" ")
            previous = None
            path = raw[i + 1]
            i += 2
            if status[0] in "RC":
                previous, path = path, raw[i]
                i += 1
            chunk = chunks[k] if k < len(chunks) else b""
            k += 2 if status[0] == "T" else 1
            at = chunk.find(b"\n@@ ")
            add, gone = numbers.get(path, (b"0", b"0"))
            patch = chunk[at + 1 :].decode("utf-8", "replace").removesuffix("\n") if at >= 0 else None
            binary = add == b"-"
            out.append(
                FileDiff(
                    path.decode("utf-8", "replace"),
                    previous.decode("utf-8", "replace") if previous else None,
                    STATUS.get(status[0], "changed"),
                    old_sha if status[0] == "D" else new_sha,
                    0 if binary else int(add),
                    0 if binary else int(gone),
                    None if binary or (patch and len(patch) > 1_000_000) else patch,
                )
            )
        return out


def _person(raw: str) -> Person:
    match = re.match(r"(.*?) ?<([^>]*)> (\d+)", raw)
    if not match:
        return Person("?", "", "1970-01-01T00:00:00Z")
    return Person(match[1], match[2], iso(int(match[3])))


def iso(seconds: float) -> str:
    """Seconds since the epoch as GitHub writes times."""
    import time

    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def epoch(text: str) -> int:
    """Inverse of `iso`, for any ISO 8601 time with a zone."""
    from datetime import UTC, datetime

    stamp = datetime.fromisoformat(text.replace("Z", "+00:00"))
    return int((stamp if stamp.tzinfo else stamp.replace(tzinfo=UTC)).timestamp())
