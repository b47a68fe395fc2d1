"""Bytes of git objects: encode, decode, hash. Pure; SHA-1 repositories, which is all that GitHub hosts."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping

from agent.contract.dataclass import dataclass
from agent.contract.errors import ToolInputError
from agent.contract.regex import regex

FILE, EXECUTABLE, LINK, GITLINK, TREE = "100644", "100755", "120000", "160000", "040000"
"""The only modes that a tree of ours may hold."""

EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"

_SHA = regex(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class Entry:
    """One path of a tree.

    Attributes:
        mode: six octal digits as text.
        sha: object id, 40 lower-case hex digits.
    """

    mode: str
    sha: str


@dataclass(frozen=True)
class Change:
    """One path that differs between two trees; a rename is a deletion and an addition.

    Attributes:
        path: repository-relative name in bytes, `/` between components.
        old, new: entry before and after, None where it is absent.
    """

    path: bytes
    old: Entry | None
    new: Entry | None

    @property
    def status(self) -> str:
        """`added`, `deleted` or `modified`."""
        if self.old is None:
            return "added"
        return "deleted" if self.new is None else "modified"


@dataclass(frozen=True)
class Identity:
    """Who a commit is by."""

    name: str
    email: str

    def line(self, seconds: int) -> str:
        """Author line of a commit object; characters that end or split it are dropped."""
        clean = [re.sub(r"[<>\x00-\x1f\x7f]", "", part).strip() for part in (self.name, self.email)]
        return f"{clean[0] or 'airlock'} <{clean[1]}> {seconds} +0000"


def is_sha(text: str) -> bool:
    """True for exactly 40 lower-case hex digits."""
    return _SHA.fullmatch(text) is not None


def object_id(kind: str, data: bytes) -> str:
    """Id of an object of this kind (`blob`, `tree`, `commit`)."""
    digest = hashlib.sha1(b"%s %d\0" % (kind.encode(), len(data)), usedforsecurity=False)
    digest.update(data)
    return digest.hexdigest()


def encode_tree(entries: Mapping[bytes, Entry]) -> bytes:
    """Tree object of one folder; keys are names without `/`, in git's order (a folder sorts as `name/`)."""
    items = sorted(entries.items(), key=lambda item: item[0] + (b"/" if item[1].mode == TREE else b""))
    return b"".join(e.mode.lstrip("0").encode() + b" " + name + b"\0" + bytes.fromhex(e.sha) for name, e in items)


def encode_commit(tree: str, parents: Iterable[str], author: Identity, seconds: int, message: str) -> bytes:
    """Commit object; NUL in the message is dropped, since it would end the message for git."""
    lines = [f"tree {tree}", *(f"parent {p}" for p in parents)]
    lines += [f"author {author.line(seconds)}", f"committer {author.line(seconds)}", ""]
    text = message.replace("\0", "").rstrip("\n") + "\n"
    return "\n".join(lines).encode() + b"\n" + text.encode("utf-8", "replace")


def decode_commit(data: bytes) -> tuple[str, tuple[str, ...], str]:
    """Tree, parents and message of a commit object."""
    head, _, message = data.partition(b"\n\n")
    tree, parents = "", []
    for line in head.split(b"\n"):
        key, _, value = line.partition(b" ")
        if key == b"tree":
            tree = value.decode("ascii")
        elif key == b"parent":
            parents.append(value.decode("ascii"))
    return tree, tuple(parents), message.decode("utf-8", "replace")


def parse_ls_tree(data: bytes) -> Iterator[tuple[bytes, str, Entry]]:
    """Path, type and entry of each record of `ls-tree -z`."""
    for record in data.split(b"\0"):
        if record:
            head, _, path = record.partition(b"\t")
            mode, kind, sha = head.decode("ascii").split()
            yield path, kind, Entry(mode, sha)


def parse_raw_diff(data: bytes) -> list[Change]:
    """Changes of `diff-tree -r -z --raw --no-renames --full-index`."""
    fields = data.split(b"\0")
    changes = []
    for head, path in zip(fields[0::2], fields[1::2], strict=False):
        old_mode, new_mode, old_sha, new_sha, _ = head.lstrip(b":").decode("ascii").split()
        old = None if old_mode == "000000" else Entry(old_mode, old_sha)
        new = None if new_mode == "000000" else Entry(new_mode, new_sha)
        changes.append(Change(path, old, new))
    return changes


_HFS_IGNORED = {*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF}


def folded(text: str) -> str:
    """One spelling for all that some file system takes for the same name: case, composition, invisible."""
    visible = "".join(c for c in unicodedata.normalize("NFKC", text) if ord(c) not in _HFS_IGNORED)
    return unicodedata.normalize("NFC", visible.casefold())


def is_git_name(name: bytes) -> bool:
    """True for a component that is or passes for `.git` on some file system (case, HFS+, NTFS short name)."""
    if name.isascii() and name[:1] not in b".gG":
        return False  # nothing that ASCII folds to a name in question
    text = folded(name.decode("utf-8", "surrogateescape")).split(":", 1)[0].rstrip(" .")
    return text in (".git", "git~1")


def display(path: bytes) -> str:
    """A path as text for people: bytes that are not UTF-8 and control characters become escapes."""
    text = path.decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def repository_path(path: str) -> str:
    """A path as it stands in a tree; the repository itself is `""`.

    Raises:
        ToolInputError: absolute, leads out, or holds NUL.
    """
    parts = [part for part in path.split("/") if part not in ("", ".")]
    try:
        path.encode("utf-8", "surrogateescape")
        odd = "\0" in path
    except UnicodeEncodeError:
        odd = True  # half a character pair, which JSON can carry and no file name can
    if odd or ".." in parts or path.startswith("/"):
        raise ToolInputError(f"{path[:200]!r} is no path in the repository. Give it relative to the repository.")
    return "/".join(parts)
