"""Modes, tiers and which tools a model is shown (S5, B4, C4)."""

from __future__ import annotations

import pytest

from agent.contract.errors import UnknownModeError, UserError
from agent.contract.modes import MODES, TOOL_TIERS, Mode, Tier, get_mode, offered_tools
from agent.contract.outcomes import OUTCOMES, StopReason


@pytest.mark.parametrize(
    "name",
    ["", "auto", "Review", "REVIEW", " review", "review ", "reveiw", "implement,review", "*", "0", "true", "None"],
)
def test_a_name_that_is_not_exactly_a_mode_raises(name: str) -> None:
    """There is no default and no tidying."""
    with pytest.raises(UnknownModeError, match="Known modes: fix-ci, implement, plan, restricted, review"):
        get_mode(name)


def test_the_table_of_modes_is_the_designs() -> None:
    """Tiers and default calls of every built-in mode."""
    table = {m.name: (sorted(m.tiers), m.max_tool_calls) for m in MODES.values()}
    every = ["comment", "git", "read", "shell", "write"]
    assert table == {
        "review": (["comment", "read"], 60),
        "plan": (["comment", "read"], 40),
        "fix-ci": (every, 120),
        "implement": (every, 120),
        "restricted": (["read"], 20),
    }


@pytest.mark.parametrize("mode", MODES.values(), ids=lambda m: m.name)
def test_a_mode_is_offered_exactly_the_tools_of_its_tiers(mode: Mode) -> None:
    """Nothing more, nothing less, in the table's order."""
    assert offered_tools(mode, TOOL_TIERS) == tuple(n for n, t in TOOL_TIERS.items() if t in mode.tiers)


def test_deny_beats_allow_and_allow_never_widens() -> None:
    """C4: a denied tool stays away though allowed; an allowed one out of tier does too."""
    review = get_mode("review")
    assert offered_tools(review, TOOL_TIERS, ["read_file", "grep", "run_command"], ["grep"]) == ("read_file",)


@pytest.mark.parametrize("key", ["allowTools", "denyTools"])
def test_an_entry_that_names_no_tool_is_an_error(key: str) -> None:
    """A misspelt denial must not silently deny nothing."""
    lists = {"allow": ["read_fil"]} if key == "allowTools" else {"deny": ["read_fil"]}
    with pytest.raises(UserError, match=f"{key} names 'read_fil'"):
        offered_tools(get_mode("review"), TOOL_TIERS, **lists)


def test_a_mode_of_configuration_is_found_by_its_exact_name() -> None:
    """And cannot take a built-in name's place."""
    mine = Mode("triage", frozenset({Tier.READ}), 5, "text")
    imposter = Mode("review", frozenset(Tier), 5, "text")
    assert get_mode("triage", {"triage": mine}) is mine
    assert get_mode("review", {"review": imposter}) is MODES["review"]


def test_every_stop_reason_has_one_row_and_only_success_is_green() -> None:
    """E4: green means done, or that there was nothing to do."""
    assert set(OUTCOMES) == set(StopReason)
    green = {reason for reason, row in OUTCOMES.items() if row.exit_status == 0}
    assert green == {StopReason.COMPLETED, StopReason.STRUCTURED, StopReason.SKIPPED}
