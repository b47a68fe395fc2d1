"""How a zone puts itself under the kernel's rules. One call per zone; the parts are in the modules beside.

Order matters, and is the same for each zone: non-dumpable first (before a byte of third-party text is
read), then the uid, then Landlock (opening its paths needs no more than the new uid has), then seccomp,
which closes the doors the earlier steps went through.
"""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterable

from agent.kernel import seccomp
from agent.kernel.landlock import landlock_abi, restrict_files
from agent.kernel.prctl import (
    ConfinementError,
    close_other_fds,
    die_with_parent,
    drop_to,
    no_core,
    no_new_privs,
    set_non_dumpable,
)

__all__ = (
    "ConfinementError",
    "close_other_fds",
    "confine_broker",
    "confine_harness",
    "die_with_parent",
    "drop_to",
    "landlock_abi",
    "no_core",
    "no_new_privs",
    "restrict_files",
    "set_non_dumpable",
)


# Codecs are imported at first use, from files that the harness's uid or rules may then keep from it.
_CODECS = ("ascii", "latin-1", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "cp1252")


def confine_harness(workspace: str, uid: int, gid: int, extra_read: Iterable[str] = ()) -> tuple[str, ...]:
    """Confine this process, which must be single-threaded and have imported all it needs, as the harness.

    Afterwards it reads and writes below `workspace` and reads `extra_read` (its code), creates no socket,
    starts no program, signals no process but itself, and can be looked into by none of its uid.

    Args:
        workspace: absolute path of the writable root.
        uid, gid: the workspace owner's, never 0; taken on where this process is root, else its own.
        extra_read: files and folders it may also read.

    Returns:
        Protections that this kernel lacks, in words.

    Raises:
        ConfinementError: a protection could not be put in place; do not go on.
    """
    set_non_dumpable()
    no_core()
    for codec in _CODECS:
        codecs.lookup(codec)
    if os.geteuid() == 0:
        drop_to(uid, gid)
        set_non_dumpable()  # a change of uid resets the flag to a system-wide setting
    lacks = restrict_files(read=extra_read, write=[workspace], devices=["/dev/null"])
    seccomp.install(seccomp.harness_filter())
    return lacks


def confine_broker() -> None:
    """Confine this process as the broker: IP sockets and its inherited descriptors, no unix socket.

    Raises:
        ConfinementError: a protection could not be put in place; do not go on.
    """
    set_non_dumpable()
    no_core()
    seccomp.install(seccomp.broker_filter())
