"""The one way git is started on the trusted side (DESIGN section 4.6).

House rules:

* Plumbing alone. A command that walks the work tree (status, add, diff against files, commit, stash,
  checkout) enters nested repositories and runs their `core.fsmonitor` and `filter.*.clean`; there is no
  way to call one here. Each subcommand has a closed list of options.
* The environment is built here from nothing: no `GIT_*`, proxy, pager or editor of the caller reaches git.
* No secret is ever in argv or environment: a child of the broker is dumpable between exec and its end.
* git never speaks to a network: `GIT_ALLOW_PROTOCOL` is empty. Packs arrive on standard input (`fetch`).
"""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from agent.contract.errors import UpstreamError

SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

OPTIONS: Mapping[str, frozenset[str]] = {
    "cat-file": frozenset({"--batch", "--batch-check"}),
    "config": frozenset({"--file", "--no-includes", "-z", "--list"}),
    "diff-tree": frozenset(
        {"-r", "-z", "-p", "-M", "--raw", "--no-renames", "--full-index", "--no-commit-id", "--root"}
    ),
    "index-pack": frozenset({"--stdin", "--fix-thin", "--max-input-size"}),
    "log": frozenset({"--max-count", "--format", "--date"}),
    "ls-tree": frozenset({"-r", "-t", "-z", "--full-tree"}),
}
"""Subcommand to the options it may be given here (the part before `=`)."""

_FORCED: Mapping[str, tuple[str, ...]] = {
    "diff-tree": ("--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=none"),
    "log": ("--no-ext-diff", "--no-textconv", "--no-show-signature", "--no-color", "--no-decorate"),
}

# `-c` is inherited by whatever git starts; a setting in a file of ours alone would not be (prototype section 3).
_CONFIG = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.attributesFile=/dev/null",
    "core.excludesFile=/dev/null",
    "core.askPass=/bin/false",
    "core.sshCommand=/bin/false",
    "core.pager=cat",
    "core.editor=/bin/false",
    "core.quotePath=true",
    "core.bigFileThreshold=16m",
    "credential.helper=",
    "diff.external=",
    "diff.ignoreSubmodules=none",
    "gc.auto=0",
    "maintenance.auto=false",
    "gpg.program=/bin/false",
    "protocol.allow=never",
    "submodule.recurse=false",
    "transfer.fsckObjects=false",
)


class Git:
    """Starts git for one git folder of ours.

    Attributes:
        directory: the git folder (`GIT_DIR`), also the working directory and `HOME` of every call.
    """

    def __init__(self, directory: Path, *, safe: Iterable[Path] = (), search_path: str = SEARCH_PATH) -> None:
        """Remember the folder and write the global configuration file that git is given.

        Args:
            directory: git folder, made before; not the workspace.
            safe: folders of other owners that git may read from; each is named, never `*` (F16).
            search_path: PATH on which git is found.
        """
        self.directory = directory
        self._global = directory / "airlock-global.config"
        lines = ["[safe]\n"]
        for folder in (directory, *safe):
            escaped = str(folder).replace("\\", "\\\\").replace('"', '\\"')
            lines.append(f'\tdirectory = "{escaped}"\n')
        self._global.write_text("".join(lines))
        self._path = search_path

    def environment(self) -> dict[str, str]:
        """The whole environment of a git process; nothing is inherited."""
        home = str(self.directory)
        return {
            "PATH": self._path,
            "HOME": home,
            "XDG_CONFIG_HOME": home,
            "LC_ALL": "C",
            "TZ": "UTC",
            "GIT_DIR": home,
            "GIT_CEILING_DIRECTORIES": "/",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": str(self._global),
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_ALLOW_PROTOCOL": "",
            "GIT_PROTOCOL_FROM_USER": "0",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_ASKPASS": "/bin/false",
            "GIT_SSH_COMMAND": "/bin/false",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_PAGER": "cat",
            "GIT_EDITOR": "/bin/false",
        }

    def argv(self, subcommand: str, *args: str) -> list[str]:
        """The whole argument list.

        Raises:
            ValueError: a subcommand or option that is not in `OPTIONS`: a mistake of ours, never a refusal
                that input can cause, since input stands only after `--end-of-options` or `--`.
        """
        allowed = OPTIONS.get(subcommand)
        if allowed is None:
            raise ValueError(f"git {subcommand} is not run on the trusted side")
        for arg in args:
            if arg in ("--", "--end-of-options"):
                break
            name = arg.split("=", 1)[0]
            if arg.startswith("-") and name not in allowed:
                raise ValueError(f"git {subcommand} {name} is not run on the trusted side")
        settings = [part for setting in _CONFIG for part in ("-c", setting)]
        return ["git", "--no-pager", "--literal-pathspecs", *settings, subcommand, *_FORCED.get(subcommand, ()), *args]

    def run(
        self,
        subcommand: str,
        *args: str,
        stdin: bytes | Iterable[bytes] = b"",
        timeout_s: float = 120.0,
        accept: tuple[int, ...] = (0,),
        limit: int | None = None,
    ) -> bytes:
        """Run one command to its end.

        Args:
            subcommand, args: see `argv`.
            stdin: what it reads; an iterable is written piece by piece.
            timeout_s: seconds, then it is killed.
            accept: exit statuses that are no failure.
            limit: stop reading after this many bytes of output, end the process, and give what was read.

        Returns:
            Standard output.

        Raises:
            UpstreamError: git is missing, failed, or took too long; the text is git's own first lines.
        """
        step = f"git {subcommand}"
        try:
            process = subprocess.Popen(
                self.argv(subcommand, *args),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=self.directory,
                env=self.environment(),
                start_new_session=True,
            )
        except OSError as exc:
            raise UpstreamError(step, f"git could not be started: {exc.strerror}") from exc
        with process:
            try:
                out, err = _exchange(process, stdin, timeout_s, limit)
            except subprocess.TimeoutExpired as exc:
                process.kill()
                raise UpstreamError(step, f"took longer than {timeout_s:g} s") from exc
            finally:
                if process.poll() is None:
                    process.kill()
        if limit is not None and len(out) >= limit:
            return out
        if process.returncode not in accept:
            text = err.decode("utf-8", "replace").strip()[:600] or f"exit status {process.returncode}"
            raise UpstreamError(step, text)
        return out


def _exchange(
    process: subprocess.Popen[bytes], stdin: bytes | Iterable[bytes], timeout_s: float, limit: int | None
) -> tuple[bytes, bytes]:
    """Feed, read and wait, with one deadline; output beyond `limit` is not read."""
    if isinstance(stdin, bytes) and limit is None:
        return process.communicate(stdin, timeout=timeout_s)
    return _stream(process, stdin, timeout_s, limit)


def _stream(
    process: subprocess.Popen[bytes], stdin: bytes | Iterable[bytes], timeout_s: float, limit: int | None
) -> tuple[bytes, bytes]:
    assert process.stdout is not None
    assert process.stderr is not None
    deadline = time.monotonic() + timeout_s
    timer = threading.Timer(timeout_s, process.kill)
    errors: list[bytes] = []
    failure: list[BaseException] = []
    stderr = process.stderr

    def feed() -> None:
        assert process.stdin is not None
        try:
            for piece in (stdin,) if isinstance(stdin, bytes) else stdin:
                process.stdin.write(piece)
        except BrokenPipeError:
            pass  # git ended early; its exit status and standard error say why
        except BaseException as exc:  # noqa: BLE001 - carried to the caller's thread below
            failure.append(exc)
            process.kill()
        finally:
            try:
                process.stdin.close()
            except BrokenPipeError:
                pass

    threads = [
        threading.Thread(target=feed, daemon=True),
        threading.Thread(target=lambda: errors.append(stderr.read(65536)), daemon=True),
    ]
    timer.daemon = True
    timer.start()
    for thread in threads:
        thread.start()
    try:
        out = process.stdout.read() if limit is None else process.stdout.read(limit)
        if limit is not None and len(out) >= limit:
            process.kill()
        process.wait()
    finally:
        timer.cancel()
        process.kill()
    for thread in threads:
        thread.join()
    if failure:
        raise failure[0]
    if time.monotonic() >= deadline:
        raise subprocess.TimeoutExpired("git", timeout_s)
    return out, b"".join(errors)
