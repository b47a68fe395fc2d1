"""Bounded capture of one output stream, for the Python stand-in. The C helper does the same."""

from __future__ import annotations

import os

from agent.kernel import prctl


class Capture:
    """One output stream: its head and its tail within the cap, the rest counted."""

    def __init__(self, cap: int, uid: int, gid: int) -> None:
        # Made as the command's user: opening /dev/stderr anew asks for the pipe's owner.
        prctl.libc.setfsgid(gid)
        prctl.libc.setfsuid(uid)
        self.fd, self.writer = os.pipe()
        prctl.libc.setfsuid(os.geteuid())
        prctl.libc.setfsgid(os.getegid())
        prctl.set_non_dumpable()  # a change of uid resets it to a system-wide setting
        os.set_blocking(self.fd, False)
        self.open = True
        self._head, self._tail = bytearray(), bytearray()
        self._head_cap, self._tail_cap = cap // 2, cap - cap // 2
        self._after_head = 0

    def read(self, rounds: int) -> None:
        for _round in range(rounds if self.open else 0):
            try:
                data = os.read(self.fd, 1 << 16)
            except BlockingIOError:
                return
            if not data:
                self.close()
                return
            room = self._head_cap - len(self._head)
            self._head += data[:room]
            self._tail += data[room:] if room > 0 else data
            self._after_head += max(0, len(data) - max(room, 0))
            if len(self._tail) > 4 * self._tail_cap + (1 << 16):
                del self._tail[: len(self._tail) - self._tail_cap]

    def close(self) -> None:
        if self.open:
            os.close(self.fd)
            self.open = False

    def result(self) -> tuple[bytes, int, int]:
        """Kept bytes, bytes dropped, length of the head where something was dropped."""
        dropped = max(0, self._after_head - self._tail_cap)
        tail = self._tail[-self._tail_cap :]
        return bytes(self._head + tail), dropped, len(self._head) if dropped else 0
