"""Hook scripts come from the base branch, with the repository files that their commands name (E12).

The same files are protected: a change that could rewrite its own gate would judge itself (E14). What a hook
runs without naming it, such as the Makefile of `make check`, belongs to the change and is named in its report.
"""

from __future__ import annotations

from agent.broker.trusted_files import TrustedFiles


def named_paths(command: str) -> tuple[str, ...]:
    """The words of a command that could name a file of the repository, without `./` in front. Pure."""
    found: dict[str, None] = {}
    for word in command.replace(";", " ").replace("&", " ").replace("|", " ").split():
        path = word.strip("\"'").removeprefix("./")
        parts = path.split("/")
        if not path or path.startswith("-") or any(p in ("", ".", "..") for p in parts):
            continue
        if all(c.isalnum() or c in "._-/+@" for c in path):
            found[path] = None
    return tuple(found)


def hook_files(files: TrustedFiles, command: str) -> dict[str, bytes]:
    """The regular files that a hook's command names, as they are at a trusted commit.

    Raises:
        UpstreamError: GitHub failed, or a file is too large.
    """
    read = {path: files.read(path) for path in named_paths(command)}
    return {path: data for path, data in read.items() if data is not None}
