"""What is taken from the runner's environment, and what is left behind (A3, S2)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.contract.inputs import blob, parse_blob, take


def test_inputs_and_facts_are_sorted_and_everything_else_is_dropped() -> None:
    """Secrets apart, settings apart; tokens of the runner, odd variables and unknown inputs nowhere."""
    environment = {
        "INPUT_API-KEY": "k",
        "INPUT_GITHUB-TOKEN": "t",
        "INPUT_MAX-TOOL-CALLS": "7",
        "INPUT_UNHEARD-OF": "x",
        "GITHUB_REPOSITORY": "o/r",
        "GITHUB_TOKEN": "other",
        "GITHUB_ENV": "/cmd/env",
        "GITHUB_PATH": "/cmd/path",
        "ACTIONS_RUNTIME_TOKEN": "r",
        "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "o",
        "STATE_X": "s",
        "DEPLOY_PASSWORD": "p",
        "GIT_CONFIG_COUNT": "1",
        "LD_PRELOAD": "/x.so",
        "PYTHONPATH": "/x",
        "NODE_OPTIONS": "--require=/x",
        "BASH_ENV": "/x",
        "DOCKER_HOST": "tcp://x",
        "HTTPS_PROXY": "http://user:pass@proxy:1",
        "api-key": "act gives each input under its raw name too",
    }
    assert take(environment) == (
        {"max-tool-calls": "7", "GITHUB_REPOSITORY": "o/r"},
        {"api-key": "k", "github-token": "t", "HTTPS_PROXY": "http://user:pass@proxy:1"},
    )


@pytest.mark.parametrize(
    ("environment", "value"),
    [
        ({"INPUT_API_KEY": "under", "INPUT_API-KEY": "runner"}, "runner"),
        ({"INPUT_API-KEY": "runner", "INPUT_API_KEY": "under"}, "runner"),
        ({"INPUT_API_KEY": "under", "INPUT_API-KEY": ""}, "under"),
        ({"INPUT_API_KEY": "under"}, "under"),
    ],
)
def test_the_runners_form_of_an_input_counts_unless_it_is_empty(environment: dict[str, str], value: str) -> None:
    """The runner keeps hyphens; shells cannot, so both forms are read."""
    assert take(environment)[1] == {"api-key": value}


def test_an_empty_mode_is_kept_so_that_it_can_be_refused() -> None:
    """An empty mode is an error later, not silently `auto`."""
    assert take({"INPUT_MODE": ""})[0] == {"mode": ""}


VALUES = st.text(st.characters(blacklist_characters="\0", blacklist_categories=("Cs",)), max_size=40)
NAMES = st.text(st.sampled_from("ABC_-"), min_size=1, max_size=8)


@given(st.dictionaries(NAMES, VALUES, max_size=6), st.binary(max_size=60))
def test_standard_input_splits_back_into_variables_and_event(variables: dict[str, str], event: bytes) -> None:
    """Multi-line and empty values and any event survive."""
    sent = b"".join(f"{k}={v}".encode() + b"\0" for k, v in variables.items()) + b"\0" + event
    assert parse_blob(sent) == (variables, event)


ODD = VALUES.map(lambda text: text.encode() + b"\xff").map(lambda data: data.decode("utf-8", "surrogateescape"))


@given(st.dictionaries(NAMES, VALUES | ODD, max_size=6))
def test_what_the_first_stage_passes_on_is_what_it_read(variables: dict[str, str]) -> None:
    """Bytes of a variable that are no UTF-8 survive too."""
    assert parse_blob(blob(variables)) == (variables, b"")


@pytest.mark.parametrize("sent", [b"", b"A=1", b"A=1\0", b"A\0\0"])
def test_a_broken_blob_is_an_error(sent: bytes) -> None:
    """Nothing is guessed."""
    with pytest.raises(ValueError, match="standard input"):
        parse_blob(sent)


def test_the_jobs_home_is_a_place_to_look_and_no_variable_of_ours() -> None:
    """Earlier steps leave credentials there, which the broker must know."""
    assert take({"HOME": "/home/runner", "INPUT_HOME": "/x"}) == ({"HOME": "/home/runner"}, {})
