"""File tools of a root process act as the workspace's owner, so that commands can change what they wrote."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from agent.broker.git.materialise import Owner
from agent.contract.modes import Tier
from agent.contract.tool import AgentTool, ToolOutput
from agent.harness.tools import BUILTIN


def builtin_for(owner: Owner) -> tuple[AgentTool, ...]:
    """The built-in tools; where this process is root, those that write do so as `owner`."""
    if os.geteuid() != 0:
        return BUILTIN
    return tuple(replace(t, run=_as_owner(t.run, owner)) if t.tier is Tier.WRITE else t for t in BUILTIN)


def _as_owner(run: Callable[[Mapping[str, Any], Any], ToolOutput], owner: Owner) -> Callable[..., ToolOutput]:
    def wrapped(arguments: Mapping[str, Any], context: Any) -> ToolOutput:
        with files_of(owner):
            return run(arguments, context)

    return wrapped


@contextmanager
def files_of(owner: Owner) -> Iterator[None]:
    """This thread's file accesses are the owner's; the kernel takes root's file capabilities away meanwhile."""
    libc = ctypes.CDLL(None)
    libc.setfsgid(owner.gid)
    libc.setfsuid(owner.uid)
    try:
        yield
    finally:
        libc.setfsuid(0)
        libc.setfsgid(0)
