"""A repository's own guidance for agents, from the base commit (S1): the words of its maintainers.

Only what already stands on the base branch counts. The same file in a change, or in the workspace, is third-party
text like any other: a pull request cannot give orders by editing AGENTS.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agent.broker.trusted_files import TrustedFiles
from agent.contract.dataclass import asdict, dataclass
from agent.contract.errors import Refusal, UpstreamError

PATHS = ("AGENTS.md", ".github/airlock.md")
SHOWN = 12_000  # characters of one file: guidance is for reading at the start of each run, and costs tokens


@dataclass(frozen=True)
class Guidance:
    """What there is.

    Attributes:
        commit: the base branch's tip, or the empty text.
        files: path and text, cut at `SHOWN`.
        problem: why it could not be read, or the empty text.
    """

    commit: str = ""
    files: tuple[tuple[str, str], ...] = ()
    problem: str = ""


def read_guidance(tip: Callable[[], str], files_at: Callable[[str], TrustedFiles]) -> Guidance:
    """Read it; a failure is told to the model and ends nothing.

    Args:
        tip: gives the base branch's commit.
        files_at: opens the files of a commit.
    """
    try:
        commit = tip()
        files = files_at(commit)
        found = [(path, files.read(path)) for path in PATHS]
    except (UpstreamError, Refusal) as exc:
        return Guidance(problem=str(exc))
    return Guidance(commit, tuple((path, _text(data)) for path, data in found if data and data.strip()))


def _text(data: bytes) -> str:
    text = data.decode("utf-8", "replace")
    if len(text) <= SHOWN:
        return text
    return f"{text[:SHOWN]}\n[cut: {len(text) - SHOWN} more characters]"


def with_guidance(reply: tuple[dict[str, Any], bytes], guidance: Guidance) -> tuple[dict[str, Any], bytes]:
    """The answer to `request`, with `guidance` `{commit, files: [[path, text], ...], problem}` in its header."""
    header, text = reply
    return {**header, "guidance": asdict(guidance)}, text
