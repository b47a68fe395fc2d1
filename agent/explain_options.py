"""The options of `explain` and `manifest`, and what each must be (D8)."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent.contract.errors import UserError

_LEVELS = ("admin", "write", "read", "none")


def parser_of(command: str) -> argparse.ArgumentParser:
    """Of one of the two commands."""
    parser = argparse.ArgumentParser(
        prog=f"python -m agent {command}",
        description="Print mode, ceiling, tools, connections, routes, tiers, gates, hooks, limits, protected paths and "
        "digest of a run, without running anything and without a network.",
    )
    add = parser.add_argument
    payload = "payload, as GITHUB_EVENT_PATH has it" + (" (default: a manual start)" if command == "manifest" else "")
    add("--event", type=Path, required=command == "explain", metavar="FILE", help=payload)
    add("--event-name", default="", metavar="NAME", help="GITHUB_EVENT_NAME; else guessed from the payload")
    add("--mode", default="auto", help="input `mode`")
    add("--input", action="append", default=[], metavar="NAME=VALUE", help="another input of the action")
    add("--config", type=Path, metavar="FILE", help="in place of the checkout's .github/airlock.yml")
    add("--root", type=Path, default=Path("."), metavar="DIR", help="checkout that stands for the trusted branches")
    add("--commit", default="", metavar="SHA", help="commit of the default and the base branch")
    add("--repository", default="", metavar="OWNER/NAME", help="else the payload's")
    add("--actor", default="", metavar="LOGIN", help="GITHUB_ACTOR; else the payload's sender")
    add("--actor-permission", action="append", default=[], metavar="LOGIN=LEVEL", help="admin, write, read or none")
    add("--pull", type=Path, metavar="FILE", help="the pull request as GitHub's API gives it, for comments and runs")
    add("--no-failing-check", action="store_true", help="no check has failed when fix-ci starts")
    add("--api-url", default="https://api.github.com", help="GITHUB_API_URL")
    add("--server-url", default="https://github.com", help="GITHUB_SERVER_URL")
    add("--json", action="store_true", help="the canonical JSON that the digest is of")
    return parser


def check(options: argparse.Namespace) -> None:
    """Options that a run has no say in: what they name must be what they are meant to be.

    Raises:
        UserError: names the option.
    """
    if not options.root.is_dir():
        raise UserError(f"--root {options.root} is no folder.")
    if options.commit and not re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", options.commit):
        raise UserError(f"--commit {options.commit!r} is not a full commit hash.")
    if options.repository and not re.fullmatch(r"[^/\s]+/[^/\s]+", options.repository):
        raise UserError(f"--repository {options.repository!r} is not OWNER/NAME.")


def pull_of(file: Path | None) -> Mapping[str, Any] | None:
    """The pull request in a file.

    Raises:
        UserError: it holds none.
        OSError: it cannot be read.
    """
    if file is None:
        return None
    try:
        value = json.loads(file.read_bytes())
    except ValueError as exc:
        raise UserError(f"--pull {file} is not JSON.") from exc
    if not isinstance(value, dict):
        raise UserError("--pull must hold one pull request, as GitHub's API gives it.")
    return value


def pair(text: str, option: str) -> tuple[str, str]:
    """NAME=VALUE, or LOGIN=LEVEL with a level that exists.

    Raises:
        UserError: it is neither; names the option.
    """
    name, separator, value = text.partition("=")
    if not name or not separator or (option == "--actor-permission" and value not in _LEVELS):
        wanted = f"LOGIN=LEVEL with a level of {', '.join(_LEVELS)}" if option != "--input" else "NAME=VALUE"
        raise UserError(f"{option} {text!r} is not {wanted}.")
    return name, value
