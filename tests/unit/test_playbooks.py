"""Every playbook says the same about third-party text, and no third-party text is ever in a prompt (S1)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agent.contract.errors import UserError
from agent.contract.framing import DATA_SENTENCE
from agent.contract.modes import MODES, TOOL_TIERS
from agent.harness.playbooks import NAMES, playbook, system_prompt
from tests.support.oracles import breakouts, hidden
from tests.support.tools import facts


def test_there_is_one_for_each_mode() -> None:
    """Modes and playbooks are the same five."""
    assert sorted(NAMES) == sorted(mode.playbook for mode in MODES.values())


@pytest.mark.parametrize("name", NAMES)
def test_each_holds_the_sentence_exactly_once(name: str) -> None:
    """The rule that data is no instruction stands word for word in each playbook, and in its prompt once."""
    assert playbook(name).count(DATA_SENTENCE) == 1
    prompt = system_prompt(facts(Path("/ws"), playbook=name))
    assert prompt.count(DATA_SENTENCE) == 1
    assert breakouts(prompt) == []
    assert hidden(prompt) == []


@pytest.mark.parametrize("name", NAMES)
def test_each_is_short_and_names_only_tools_of_its_mode(name: str) -> None:
    """At most 2,000 characters, and no tool that the mode does not offer."""
    text = playbook(name)
    assert len(text) <= 2_000
    tiers = MODES[name].tiers
    named = {word for word in re.findall(r"[a-z]+(?:_[a-z]+)*", text) if word in TOOL_TIERS and "_" in word}
    assert named
    assert {word for word in named if TOOL_TIERS[word] not in tiers} == set()


@pytest.mark.parametrize("name", ["", "Review", "../review", "review.md", "auto", "review\n"])
def test_no_other_name_is_a_playbook(name: str) -> None:
    """An exact name or an error."""
    with pytest.raises(UserError):
        playbook(name)


def test_the_prompt_holds_numbers_and_shas_only() -> None:
    """What the facts carry goes in as it is; a mode of the user's own gets the rule added."""
    prompt = system_prompt(facts(Path("/ws")))
    assert prompt.startswith(playbook("implement").rstrip())
    assert prompt.endswith(
        "# This run\n- mode: implement\n- repository: acme/widgets\n- pull request: #7\n"
        f"- commit at start: {'a' * 40}\n"
        f"- base commit: {'b' * 40}\n- branches you may push begin with: airlock/\n- tool calls at most: 120\n"
        "- minutes at most: 30\n"
    )
    own = system_prompt(facts(Path("/ws"), playbook="Sort the labels.", playbook_is_text=True, tools=()))
    assert own.startswith(f"Sort the labels.\n\n{DATA_SENTENCE}\n\n# This run\n")
    assert "branches you may push" not in own


def test_labels_of_the_configuration_stand_in_the_prompt_where_they_can_be_set() -> None:
    """A line that says which and how; none without the comment tier, without labels, or without the tool."""
    options = {"tiers": ["read", "comment"], "labels": ["bug", "needs: info"]}
    tools = ("github_request",)
    assert (
        "- labels you may set, by github_request POST /repos/acme/widgets/issues/{number}/labels with "
        '{"labels": [..]}: bug, needs: info\n'
    ) in system_prompt(facts(Path("/ws"), options=options, tools=tools))
    for changed in (
        {"options": {**options, "labels": []}},
        {"options": {**options, "tiers": ["read"]}},
        {"options": options, "tools": ()},
    ):
        assert "labels you may set" not in system_prompt(facts(Path("/ws"), **{"tools": tools, **changed}))
