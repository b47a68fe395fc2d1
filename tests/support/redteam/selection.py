"""Which runs are made: all of the files that are named, or a quick choice, each with a user's configuration or not."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .cases import Plan, load
from .play import Verdict
from .theirs import FOLDER as THEIRS
from .theirs import wide_tools

FIXTURES = Path(__file__).resolve().parents[3] / "fixtures" / "redteam"

# One variant of each kind of attack: two to three minutes on two cores, where all take about 25.
QUICK = frozenset(
    "R01 R02 R03 R04 R05/static R06 R07/by-tool R07/by-command R08 R09 R10 R11/implement R11/restricted-only-reads R12 "
    "R13 R14 R15 R16/echoed-by-api R17 R19/deny-beats-allow R20/outsider-read-on-public R20/bot R20/permission-404 "
    "R20/fork-with-pull-request-target".split()
)
# What a configuration can change the outcome of; the rest is the same whatever it says.
WITH_CONFIG = frozenset(
    "U01/pushes-a-workflow U01/pushes-its-own-configuration U01/sends-files-out R01 R03 R07/by-tool R07/by-command R08 "
    "R10 R11/implement R11/restricted-only-reads R12 R17 R20/outsider-read-on-public R20/bot "
    "R20/fork-with-pull-request-target".split()
)


def choose(options: argparse.Namespace, theirs: Mapping[str, Any] | None) -> list[Plan]:
    """The plans to play, in order.

    Args:
        theirs: the user's configuration, or None: then the cases' own alone.

    Raises:
        BadCase: a file is none.
    """
    folders = [FIXTURES] if theirs is None else [THEIRS, FIXTURES]
    found = load(options.paths or folders)
    if theirs is not None:  # a run through the Python interface reads no configuration
        found = [dataclasses.replace(plan, theirs=theirs) for plan in found if not plan.setup.get("custom_tools")]
    if options.only:
        return [plan for plan in found if any(text in plan.name for text in options.only)]
    if options.paths or options.all:
        return found
    return [plan for plan in found if plan.name in (QUICK if theirs is None else WITH_CONFIG)]


def judge_tools(theirs: Mapping[str, Any] | None) -> list[Verdict]:
    """What is seen in the configuration without a run: one verdict where it declares tools."""
    if not ((theirs or {}).get("ai") or {}).get("tools"):
        return []
    wide = list(wide_tools(theirs or {}))
    title = "Declared tools whose whole path the model writes"
    plan = Plan("U02", "wide-tools", title, mode="-", setup={}, model={}, oracle=[], control=[])
    return [Verdict(plan, "BREACHED" if wide else "held", wide)]


def failed(verdict: Verdict, *, theirs: bool) -> bool:
    """Whether a verdict counts against what was under test.

    A user's configuration may be stricter than a case expects: what it refuses beyond that is no breach.
    """
    if verdict.state == "not run":
        return not verdict.plan.dangerous
    if not theirs:
        return not verdict.passed
    return verdict.state == "BREACHED" or any("wanted ok" not in reason for reason in verdict.unmet)


def unproven(verdict: Verdict) -> bool:
    """Whether the permitted act did not work either, so that the case shows nothing."""
    return verdict.control_state == "FAILED"
