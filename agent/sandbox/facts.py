"""Reads the facts about this machine that the policy decides on."""

from __future__ import annotations

import os
import pwd

from agent.contract.errors import Refusal
from agent.kernel.landlock import landlock_abi
from agent.kernel.prctl import machine
from agent.sandbox.policy import SYSTEM, Machine


def owner_of(root: str) -> tuple[int, int]:
    """Whom commands run as: the writable root's owner where this process is root, else this user.

    Raises:
        Refusal: the owner is root; the caller gives the workspace to another uid first.
    """
    uid, gid = os.geteuid(), os.getegid()
    if uid == 0:
        about = os.stat(root)
        uid, gid = about.st_uid, about.st_gid or about.st_uid
    if uid == 0:
        raise Refusal("sandbox_uid", f"{root} belongs to root, and commands never run as root.")
    return uid, gid


def read_machine(uid: int, gid: int) -> Machine:
    """Facts for commands of this uid.

    Raises:
        Refusal: no Landlock, so that files could not be confined.
        ConfinementError: an unknown processor.
    """
    abi = landlock_abi()
    if abi < 1:
        raise Refusal(
            "sandbox_missing", "This kernel has no Landlock, so commands cannot be confined to the workspace."
        )
    try:
        user, named = pwd.getpwuid(uid).pw_name, True
    except KeyError:
        user, named = "airlock", False
    resolver = os.path.realpath("/etc/resolv.conf")
    return Machine(
        processor=machine(),
        abi=abi,
        uid=uid,
        gid=gid,
        user=user,
        user_tasks=_tasks_of(uid),
        system=tuple((p, os.readlink(p) if os.path.islink(p) else None) for p in _system()),
        bash=os.path.exists("/bin/bash"),
        named=named,
        name_service=None if resolver.startswith("/etc/") else resolver,
    )


def users_with(machine: Machine, home: str) -> str:
    """Text of a `/etc/passwd` in which the command's uid has a name: ssh and package managers want one."""
    try:
        with open("/etc/passwd", encoding="utf-8", errors="surrogateescape") as file:
            known = file.read()
    except OSError:
        known = ""
    return f"{known.rstrip()}\n{machine.user}:x:{machine.uid}:{machine.gid}::{home}:/bin/sh\n".lstrip()


def _system() -> list[str]:
    """Folders of programs that exist. Of `/opt` only what root put there: a self-hosted runner often lies
    in it, with its credentials and its job's files, and belongs to the user that commands run as."""
    found = [path for path in SYSTEM if os.path.exists(path)]
    try:
        optional = sorted(os.scandir("/opt"), key=lambda entry: entry.name)
    except OSError:
        return found
    for entry in optional:
        runner = any(os.path.lexists(f"{entry.path}/{name}") for name in (".runner", ".credentials", "_work"))
        if entry.is_dir(follow_symlinks=False) and entry.stat().st_uid == 0 and not runner:
            found.append(entry.path)
    return found


def _tasks_of(uid: int) -> int:
    """Tasks of a uid that are visible here; in a container the host's are not, and the limit is stricter."""
    total = 0
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            if os.stat(f"/proc/{name}/task").st_uid == uid:
                total += len(os.listdir(f"/proc/{name}/task"))
        except OSError:
            continue  # it ended meanwhile
    return total
