"""A walk of descriptors beneath a folder: the resolution of a path in which every step is held open.

Each component is opened relative to the one before without following a link; a link's target is read and its
components are walked in turn; `..` goes back to a descriptor that is already held. A name that is swapped
between two steps makes the next step fail, never leave.
"""

from __future__ import annotations

import errno
import os
from collections import deque
from collections.abc import Callable

from agent.contract.dataclass import dataclass
from agent.contract.paths import outside

Guard = Callable[[str], None]
"""Raises for a repository-relative path that may not be written."""

_LINKS = 40  # as the kernel's own limit
_DEPTH = 300  # descriptors held at once; a default process may hold 1,024
_STEP = os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC


@dataclass
class Place:
    """Where a walk ended: the parent's descriptor, the last name in it, and the true path of both.

    Attributes:
        stack: descriptors from the root to the parent; `close` gives them back.
        names: names of all but the root.
        last: the last name, or empty when the walk ended on a folder it had already entered.
    """

    stack: list[int]
    names: list[str]
    last: str

    @property
    def fd(self) -> int:
        return self.stack[-1]

    @property
    def path(self) -> str:
        return "/".join([*self.names, self.last]) if self.last else "/".join(self.names)

    def close(self) -> None:
        for fd in self.stack:
            os.close(fd)
        self.stack.clear()


@dataclass(frozen=True)
class Descent:
    """One walk.

    Attributes:
        root_fd: descriptor of the root.
        root: its absolute path, for links that name it in full.
        asked: the path as the caller wrote it, for words.
        make_parents: missing folders on the way are made.
        follow: a link in the last place is followed too.
        check: asked before a folder is made.
    """

    root_fd: int
    root: str
    asked: str
    make_parents: bool = False
    follow: bool = True
    check: Guard | None = None

    def to(self, rel: str) -> Place:
        """Walk to a repository-relative path; its last name need not exist.

        Raises:
            Refusal: `path_outside`, a link leads out.
            OSError: a component is missing, is no folder, or the links do not end.
        """
        place = Place([os.dup(self.root_fd)], [], "")
        try:
            self._walk(place, deque(rel.split("/")))
        except BaseException:
            place.close()
            raise
        return place

    def _walk(self, place: Place, pending: deque[str]) -> None:
        links = 0
        while pending:
            name = pending.popleft()
            if name in ("", "."):
                continue
            if name == "..":
                if len(place.stack) == 1:
                    raise outside(self.asked)
                os.close(place.stack.pop())
                place.names.pop()
                continue
            last = not any(part not in ("", ".") for part in pending)
            target = _link_target(place.fd, name)
            if target is not None and (self.follow or not last):
                links += 1
                if links > _LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
                pending.extendleft(reversed(self._from_root(place, target)))
                continue
            if last:
                place.last = name
                return
            place.stack.append(self._enter(place, name))
            place.names.append(name)

    def _enter(self, place: Place, name: str) -> int:
        if len(place.stack) > _DEPTH:
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
        try:
            return os.open(name, _STEP, dir_fd=place.fd)
        except FileNotFoundError:
            if not self.make_parents:
                raise
        if self.check is not None:
            self.check("/".join([*place.names, name]))
        try:
            os.mkdir(name, 0o777, dir_fd=place.fd)
        except FileExistsError:
            pass  # made meanwhile; what it is now, the next line sees
        return os.open(name, _STEP, dir_fd=place.fd)

    def _from_root(self, place: Place, target: str) -> list[str]:
        """Components of a link's target; an absolute one must point below the root and starts over there."""
        if not target.startswith("/"):
            return target.split("/")
        if target != self.root and not target.startswith(self.root + "/"):
            raise outside(self.asked)
        while len(place.stack) > 1:
            os.close(place.stack.pop())
        place.names.clear()
        return target[len(self.root) :].split("/")


def _link_target(dir_fd: int, name: str) -> str | None:
    try:
        return os.readlink(name, dir_fd=dir_fd)
    except OSError as exc:
        if exc.errno in (errno.EINVAL, errno.ENOENT):
            return None  # no link, or nothing there
        raise
