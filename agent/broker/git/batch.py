"""Objects by id, from one long-lived `git cat-file --batch`."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator
from itertools import islice

from agent.broker.git.run import Git
from agent.contract.errors import UpstreamError


class BatchReader:
    """Reads objects by id from one `cat-file --batch` process."""

    _WINDOW = 500  # ids written ahead: 20 KB, below a pipe's 64 KB, so neither side can block the other

    def __init__(self, git: Git) -> None:
        try:
            self._process = subprocess.Popen(
                git.argv("cat-file", "--batch"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd=git.directory,
                env=git.environment(),
                start_new_session=True,
            )
        except OSError as exc:
            raise UpstreamError("git cat-file", f"git could not be started: {exc.strerror}") from exc

    def __enter__(self) -> BatchReader:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def read(self, sha: str) -> tuple[str, bytes]:
        """Kind and data of one object.

        Raises:
            UpstreamError: the object is missing.
        """
        for _, kind, data in self.read_many([sha]):
            return kind, data
        raise UpstreamError("git cat-file", f"gave nothing for {sha}")

    def read_many(self, shas: Iterable[str]) -> Iterator[tuple[str, str, bytes]]:
        """Id, kind and data of each object, in the order asked.

        Raises:
            UpstreamError: an object is missing, or the process ended.
        """
        pending = iter(shas)
        while window := list(islice(pending, self._WINDOW)):
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            try:
                self._process.stdin.write("".join(f"{sha}\n" for sha in window).encode("ascii"))
                self._process.stdin.flush()
            except BrokenPipeError as exc:
                raise UpstreamError("git cat-file", "ended early") from exc
            for sha in window:
                head = self._process.stdout.readline().split()
                if len(head) != 3:
                    raise UpstreamError("git cat-file", f"object {sha} is missing")
                size = int(head[2])
                data = self._process.stdout.read(size + 1)
                if len(data) != size + 1:
                    raise UpstreamError("git cat-file", "ended early")
                yield sha, head[1].decode("ascii"), data[:-1]
