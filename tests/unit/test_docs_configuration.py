"""docs/configuration.md is what the code reads: every key, its default as it really applies, an example that fits."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest

from agent.broker.config import Config, read_config, schema
from agent.broker.opening import DEFAULT_MODEL, DEFAULT_TIMEOUT_MIN
from agent.contract.outcomes import OUTCOMES
from agent.contract.schema import problems
from tests.support.configuration_page import PAGE, ROOT, page, walk

KEYS = dict(walk(schema(), ""))


def test_the_page_is_what_the_sources_say() -> None:
    """Whoever changes an input, a key, an outcome, a mode or a tool writes the page anew."""
    assert PAGE.read_text() == page(), "run `make docs`"


@pytest.mark.parametrize("key", KEYS)
def test_every_key_has_a_meaning_and_an_example_that_fits(key: str) -> None:
    """Groups of keys need no example of their own."""
    node = KEYS[key]

    assert node["description"].endswith(".")
    assert "examples" in node or any(other.startswith((f"{key}.", f"{key}[")) for other in KEYS)
    assert [p.message for value in node.get("examples", []) for p in problems(node, value)] == []


def applied(key: str, config: Config) -> Any:
    """What holds for a key where the file says nothing; the schema's names are the code's in another case."""
    place: Any = config
    for part in key.removeprefix("ai.").removeprefix("github.").split("."):
        name = re.sub("([A-Z])", lambda found: f"_{found[1].lower()}", part)
        name = {"memory": "memory_mb", "labels": "start_labels"}.get(name, name)
        place = getattr(place, name)
    return list(place) if isinstance(place, tuple) else place


def test_defaults_are_those_that_apply() -> None:
    """A key without one is not set: None, or empty."""
    config = read_config(b"ai: {}\n")
    config = dataclasses.replace(
        config, model=DEFAULT_MODEL, agent=dataclasses.replace(config.agent, timeout_minutes=DEFAULT_TIMEOUT_MIN)
    )
    keys = [key for key in KEYS if re.fullmatch(r"ai\.(?!.*(NAME|\[\]|labels\.|^ai\.github$))[\w.]+", key)]
    leaves = [key for key in keys if not any(other.startswith(f"{key}.") and "NAME" not in other for other in keys)]

    assert len(leaves) > 25
    assert {key: KEYS[key].get("default") for key in leaves} == {key: applied(key, config) for key in leaves}


def test_the_output_outcome_names_each_outcome() -> None:
    """Workflows branch on it."""
    words = re.search(r"\n  outcome:\n    description: (.*)\.\n", (ROOT / "action.yml").read_text())

    assert words
    assert set(re.split(r", | or ", words[1])) == {row.outcome for row in OUTCOMES.values()}
