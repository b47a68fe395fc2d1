"""What setup left in its HOME: kept once, and copied into the HOME of every later sandbox."""

from __future__ import annotations

import os
import subprocess

from agent.contract.errors import UpstreamError
from agent.sandbox.session import remove_tree


class Homes:
    """After setup: its HOME, filled before the model's first word, is what each later HOME starts as."""

    def __init__(self, base: str) -> None:
        """
        Args:
            base: folder in which it is kept, out of every sandbox's sight.
        """
        self._base = base
        self._seed: str | None = None

    @property
    def kept(self) -> bool:
        """Setup left something."""
        return self._seed is not None and bool(os.listdir(self._seed))

    def keep(self, home: str) -> None:
        """Take over the HOME of a setup that has ended."""
        self.close()
        kept = f"{self._base}/airlock-{os.urandom(6).hex()}"
        os.mkdir(kept, 0o700)
        os.rename(home, f"{kept}/home")
        self._seed = f"{kept}/home"

    def fill(self, home: str) -> None:
        """A copy each, so that no command changes what a gate starts from. Links are copied as links.

        Raises:
            UpstreamError: it could not be copied.
        """
        if not self.kept:
            return
        command = ["cp", "-a", "--reflink=auto", f"{self._seed}/.", home]
        try:
            done = subprocess.run(command, env={"PATH": "/usr/bin:/bin"}, capture_output=True, check=False)
        except OSError as exc:
            raise UpstreamError("start sandbox", f"cp: {exc.strerror}") from exc
        if done.returncode != 0:
            words = done.stderr.decode("utf-8", "replace").strip().splitlines()
            raise UpstreamError("start sandbox", words[0] if words else "HOME could not be copied")

    def close(self) -> None:
        """Remove what is kept."""
        if self._seed is not None:
            remove_tree(os.path.dirname(self._seed))
            self._seed = None
