"""The git folder that the sandbox gets: HEAD, history and tags, no remote, no hooks, nothing that counts.

git commands of tests and of the model work in it. Its objects are borrowed from the real repository by an
`alternates` file, read-only for the sandbox; commits made in it are never seen by the broker.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from agent.broker.git.gitdir import GitDir, read_head, read_refs, read_shallow
from agent.contract.dataclass import dataclass

_KEPT_KEYS = frozenset(
    {
        "core.filemode",
        "core.ignorecase",
        "core.precomposeunicode",
        "core.symlinks",
        "core.autocrlf",
        "core.eol",
        "core.safecrlf",
        "core.sparsecheckout",
        "core.sparsecheckoutcone",
    }
)
"""Settings that change how files compare; none names a program, a file or a host."""


@dataclass(frozen=True)
class Source:
    """What a throwaway is made from.

    Attributes:
        git: the real git folder.
        config: its keys and values.
        objects: object folders to borrow from, absolute, where the sandbox sees them.
        worktree: value of `core.worktree` for a submodule, relative; None otherwise.
    """

    git: GitDir
    config: Sequence[tuple[str, str]]
    objects: Sequence[Path]
    worktree: str | None = None


def build(source: Source, target: Path) -> None:
    """Write a throwaway git folder.

    Args:
        source: see `Source`.
        target: folder to fill; made where it is missing.
    """
    assert source.git.path is not None
    assert source.git.common is not None
    for name in ("objects/info", "objects/pack", "refs/heads", "refs/tags", "info"):
        (target / name).mkdir(parents=True, exist_ok=True)
    refs = read_refs(source.git.common)
    head, _ = read_head(source.git.path, refs)
    (target / "HEAD").write_text(f"{head}\n", errors="surrogateescape")
    _write_packed(target / "packed-refs", refs)
    (target / "config").write_text(_config(source), errors="surrogateescape")
    (target / "objects/info/alternates").write_text("".join(f"{path}\n" for path in source.objects))
    shallow = read_shallow(source.git.common)
    if shallow:
        (target / "shallow").write_text("".join(f"{sha}\n" for sha in shallow))
    _copy(source.git.path / "index", target / "index")
    for shared in source.git.path.glob("sharedindex.*"):
        _copy(shared, target / shared.name)
    for name in ("info/exclude", "info/sparse-checkout"):
        _copy(source.git.common / name, target / name)
        if source.git.path != source.git.common:
            _copy(source.git.path / name, target / name)


def _write_packed(path: Path, refs: dict[str, str]) -> None:
    lines = ["# pack-refs with: sorted\n", *(f"{refs[name]} {name}\n" for name in sorted(refs))]
    path.write_text("".join(lines), errors="surrogateescape")


def _config(source: Source) -> str:
    values = {
        "core.repositoryformatversion": "0",
        "core.filemode": "true",
        "core.logallrefupdates": "true",
        # git must not re-hash 20,000 files after a change of owner; the snapshot does not depend on this
        "core.trustctime": "false",
        "gc.auto": "0",
        "maintenance.auto": "false",
        "user.name": "sandbox",
        "user.email": "sandbox@localhost",
    }
    values |= {key: value for key, value in source.config if key in _KEPT_KEYS}
    if source.worktree is None:
        values["core.bare"] = "false"
    else:
        values["core.worktree"] = source.worktree
    lines = []
    for key, value in sorted(values.items()):
        section, _, name = key.partition(".")
        lines.append(f"[{section}]\n\t{name} = {_quoted(value)}\n")
    return "".join(lines)


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _copy(source: Path, target: Path) -> None:
    try:
        if source.is_file() and not source.is_symlink():
            shutil.copyfile(source, target)
            os.utime(target, ns=(source.stat().st_atime_ns, source.stat().st_mtime_ns))
    except FileNotFoundError:
        pass
