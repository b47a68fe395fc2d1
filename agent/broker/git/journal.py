"""What preparation does to the workspace, written down before each act, and its undoing.

One JSON object a line, flushed to disk before the act it announces, so that undoing works after a crash at
any point: each act can be undone whether or not it happened. Acts:

* `place path` - a private folder was made beside the workspace, or inside it where the workspace is a mount
* `placed path dev ino` - that folder's identity: inside the workspace a command can rename it and put
  another of its name there, and only the true one is believed
* `move from to` - something was renamed out of the checkout; undone by renaming it back
* `absent path` - there was nothing here; whatever stands here later is removed
* `own root uid gid group` - files of uid 0 were given to `uid`; undone to uid 0 and `group`
* `done` - everything was undone
* `guard root uid gid` - files of `uid` were taken by uid 0; undone to `uid` and `gid`
"""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from agent.broker.git.objects import display
from agent.broker.git.ownership import discard, entries, findings, hand_over, take_back
from agent.contract.dataclass import dataclass

JOURNAL = "prepare.jsonl"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True)
class Restored:
    """The workspace after a run.

    Attributes:
        nested: `.git` entries below the top that were not there before, relative.
        setuid: set-user-id or set-group-id files, relative.
        problems: one sentence each on what could not be put back.
    """

    nested: tuple[str, ...]
    setuid: tuple[str, ...]
    problems: tuple[str, ...]

    def sentences(self) -> tuple[str, ...]:
        """What a person should know about the workspace after the run."""
        said = list(self.problems)
        if self.nested:
            said.append(f"The run left git folders below the top, which run code in later steps: {_some(self.nested)}.")
        if self.setuid:
            said.append(f"The run left set-user-id files: {_some(self.setuid)}.")
        return tuple(said)


def _some(names: tuple[str, ...]) -> str:
    shown = ", ".join(display(os.fsencode(name)) for name in names[:10])
    return shown + (f" and {len(names) - 10} more" if len(names) > 10 else "")


class Journal:
    """Append-only list of acts."""

    def __init__(self, path: Path, workspace: Path, nested: Sequence[Path]) -> None:
        """Start one. `nested` is every `.git` below the top before the run."""
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
        names = [str(path.relative_to(workspace)) for path in nested]
        start = {"act": "start", "workspace": str(workspace), "nested": names, "ns": time.time_ns()}
        self._line(start)

    def _line(self, act: dict[str, Any]) -> None:
        os.write(self._fd, json.dumps(act).encode() + b"\n")
        os.fdatasync(self._fd)

    def place(self, path: Path, mode: int) -> None:
        """Make a folder that exists for the run only."""
        self._line({"act": "place", "path": str(path)})
        path.mkdir(mode=mode)
        path.chmod(mode)  # whatever the umask
        status = path.lstat()
        self._line({"act": "placed", "path": str(path), "dev": status.st_dev, "ino": status.st_ino})

    def move(self, old: Path, new: Path) -> None:
        """Rename; both on one file system."""
        self._line({"act": "move", "from": str(old), "to": str(new)})
        old.rename(new)

    def absent(self, path: Path) -> None:
        """Note that nothing stands at `path`."""
        self._line({"act": "absent", "path": str(path)})

    def own(self, root: Path, uid: int, gid: int, group: int) -> None:
        """Note a change of owner that the caller is about to make."""
        self._line({"act": "own", "root": str(root), "uid": uid, "gid": gid, "group": group})

    def guard(self, root: Path, uid: int, gid: int) -> None:
        """Note that files of `uid` are about to become uid 0's."""
        self._line({"act": "guard", "root": str(root), "uid": uid, "gid": gid})

    def close(self) -> None:
        """Close the file; undoing reads it by name."""
        os.close(self._fd)


def undo(state_dir: Path) -> tuple[str, ...]:
    """Undo `prepare` of this state folder. Nothing of the agent may be alive; may be called again, also after a crash.

    Returns:
        Sentences for the report; empty when all is as before.
    """
    return undo_acts(state_dir / JOURNAL).sentences()


def undo_acts(path: Path) -> Restored:
    """Put the workspace back, newest act first. Nothing of the agent may be alive. May be repeated.

    Args:
        path: journal; a missing one means that nothing was done yet.
    """
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return Restored((), (), ())
    acts = [act for line in lines if (act := _parsed(line)) is not None]
    if not acts or acts[-1]["act"] == "done":
        return Restored((), (), ())
    workspace = Path(acts[0]["workspace"])
    named = [act["path"] for act in acts if act["act"] == "place"]
    places = {path: _true_place(Path(path), acts, workspace) for path in named}
    # the last one is on the workspace's file system; a place made before it turned out not to be
    trash = next((place for place in reversed(places.values()) if place is not None), None)
    problems: list[str] = []
    for act in reversed(acts[1:]):
        try:
            _undo({key: _at(value, places) for key, value in act.items()}, workspace, trash)
        except OSError as exc:
            what = act.get("from") or act.get("path") or act.get("root")
            kept = f"; it lies at {act['to']}" if act["act"] == "move" else ""
            problems.append(f"{what} could not be put back: {exc.strerror}{kept}.")
    if not problems:
        for place in places.values():
            if place is not None:
                discard(place)
        with path.open("ab") as stream:
            stream.write(b'\n{"act": "done"}\n')  # a line that a crash cut off is ended first
    nested, setuid = findings(workspace, acts[0]["ns"])
    new_nested = [name for name in nested if name not in acts[0]["nested"]]
    return Restored(tuple(new_nested), tuple(setuid), tuple(problems))


def _parsed(line: bytes) -> dict[str, Any] | None:
    """One act; None for an empty line and for one that a crash cut off, whose act had not begun."""
    try:
        act = json.loads(line)
    except ValueError:
        return None
    return act if isinstance(act, dict) else None


def _true_place(path: Path, acts: Sequence[dict[str, Any]], workspace: Path) -> Path | None:
    """Where the private folder is now; a folder of its name that is another one is not believed."""
    known = next((act for act in acts if act["act"] == "placed" and act["path"] == str(path)), None)
    if known is None:
        return path if path.is_dir() and not path.is_symlink() else None  # died while making it: it is empty
    identity = (known["dev"], known["ino"])
    with suppress(FileNotFoundError):
        status = path.lstat()
        if (status.st_dev, status.st_ino) == identity:
            return path
    if path.is_relative_to(workspace):
        for found in entries(workspace):
            if (found.status.st_dev, found.status.st_ino) == identity:
                return workspace / found.name
    return None


def _at(value: Any, places: Mapping[str, Path | None]) -> Any:
    """A path of the journal, where its private folder is now.

    Raises:
        OSError: that folder is nowhere; what has its name is not believed.
    """
    for old, new in places.items():
        if isinstance(value, str) and value.startswith(old + "/"):
            if new is None:
                raise OSError(errno.ENOENT, "the private folder that held it is gone")
            return str(new) + value[len(old) :]
    return value


def _undo(act: dict[str, Any], workspace: Path, trash: Path | None) -> None:
    if act["act"] == "move":
        old, new = Path(act["from"]), Path(act["to"])
        if not os.path.lexists(new):
            return  # never happened, or is undone already
        with _Parent(old, workspace) as fd:
            _clear(fd, old.name, trash)
            os.rename(new, old.name, dst_dir_fd=fd)
    elif act["act"] == "absent":
        path = Path(act["path"])
        with _Parent(path, workspace) as fd:
            _clear(fd, path.name, trash)
    elif act["act"] == "own":
        take_back(Path(act["root"]), act["uid"], act["group"])
    elif act["act"] == "guard" and os.path.lexists(act["root"]):
        hand_over(Path(act["root"]), 0, act["uid"], act["gid"])


class _Parent:
    """Descriptor of a path's parent; below the workspace no link on the way is followed."""

    def __init__(self, path: Path, workspace: Path) -> None:
        inside = path.is_relative_to(workspace)
        self._start = workspace if inside else path.parent
        self._parts = path.parent.relative_to(workspace).parts if inside else ()
        self._fd = -1

    def __enter__(self) -> int:
        self._fd = os.open(self._start, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        for part in self._parts:
            child = os.open(part, _FOLDER, dir_fd=self._fd)
            os.close(self._fd)
            self._fd = child
        return self._fd

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)


def _clear(fd: int, name: str, trash: Path | None) -> None:
    """Take away whatever stands at `name`: moved out in one rename, deleted with the private place."""
    try:
        os.lstat(name, dir_fd=fd)
    except FileNotFoundError:
        return
    if trash is None:
        raise OSError(errno.ENOENT, "there is no place to move what stands there to")
    os.rename(name, trash / f"trash-{os.urandom(6).hex()}", src_dir_fd=fd)
