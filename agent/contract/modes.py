"""Tiers, modes and the table of built-in tools (S5).

A mode is a playbook plus the tiers it may draw tools from plus limits. Absence is refusal: a tool that is
not in `TOOL_TIERS` and not registered as a custom tool does not exist, and a tier that a mode does not
name is closed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

from agent.contract.dataclass import dataclass
from agent.contract.errors import UnknownModeError, UserError


class Tier(StrEnum):
    """What a tool may do at most. Tiers do not imply each other."""

    READ = "read"
    COMMENT = "comment"
    WRITE = "write"
    SHELL = "shell"
    GIT = "git"


TOOL_TIERS: Mapping[str, Tier] = {
    "read_file": Tier.READ,
    "list_dir": Tier.READ,
    "glob": Tier.READ,
    "grep": Tier.READ,
    "git_diff": Tier.READ,
    "git_log": Tier.READ,
    "get_request": Tier.READ,
    "get_pull_request": Tier.READ,
    "list_pull_request_files": Tier.READ,
    "get_issue": Tier.READ,
    "list_comments": Tier.READ,
    "list_checks": Tier.READ,
    "get_check_logs": Tier.READ,
    "github_request": Tier.READ,
    "comment": Tier.COMMENT,
    "review_comment": Tier.COMMENT,
    "submit_review": Tier.COMMENT,
    "file_issue": Tier.COMMENT,
    "write_file": Tier.WRITE,
    "edit_file": Tier.WRITE,
    "delete_file": Tier.WRITE,
    "run_command": Tier.SHELL,
    "git_commit": Tier.GIT,
    "git_push": Tier.GIT,
    "create_pull_request": Tier.GIT,
}


@dataclass(frozen=True)
class Mode:
    """One mode.

    Attributes:
        name: exact name.
        tiers: the tiers whose tools the model is shown.
        max_tool_calls: default cap on tool calls in one run.
        playbook: name of the playbook, the mode's own name for built-in modes.
    """

    name: str
    tiers: frozenset[Tier]
    max_tool_calls: int
    playbook: str


_TALK = frozenset({Tier.READ, Tier.COMMENT})
_ALL = frozenset(Tier)

MODES: Mapping[str, Mode] = {
    "review": Mode("review", _TALK, 60, "review"),
    "plan": Mode("plan", _TALK, 40, "plan"),
    "fix-ci": Mode("fix-ci", _ALL, 120, "fix-ci"),
    "implement": Mode("implement", _ALL, 120, "implement"),
    "restricted": Mode("restricted", frozenset({Tier.READ}), 20, "restricted"),
}


def get_mode(name: str, extra: Mapping[str, Mode] | None = None) -> Mode:
    """Return the mode of exactly this name.

    Args:
        name: a mode's name; `auto` is a wish of the action's input and not a mode.
        extra: modes that trusted configuration adds; a built-in name in it is ignored here because
            configuration that redefines one is refused when it is read.

    Raises:
        UnknownModeError: for any other text, whatever its case or white space (B4).
    """
    mode = MODES.get(name) or (extra or {}).get(name)
    if mode is None:
        known = ", ".join(sorted({*MODES, *(extra or {})}))
        raise UnknownModeError(f"Unknown mode {name!r}. Known modes: {known}.")
    return mode


def offered_tools(
    mode: Mode,
    tool_tiers: Mapping[str, Tier],
    allow: Iterable[str] | None = None,
    deny: Iterable[str] = (),
) -> tuple[str, ...]:
    """Names of the tools that the model is shown, in the table's order.

    The tier comes first, then `denyTools`, then `allowTools`: allowing never widens a tier, and denying
    always wins (C4).

    Raises:
        UserError: an entry of allow or deny names no tool.
    """
    allow = None if allow is None else list(allow)
    deny = list(deny)
    for key, names in (("allowTools", allow or []), ("denyTools", deny)):
        for name in names:
            if name not in tool_tiers:
                raise UserError(f"ai.agent.{key} names {name!r}, which is no tool. Tools: {', '.join(tool_tiers)}.")
    return tuple(
        name
        for name, tier in tool_tiers.items()
        if tier in mode.tiers and name not in deny and (allow is None or name in allow)
    )
