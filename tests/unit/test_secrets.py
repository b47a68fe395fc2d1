"""The secret store shows names and nothing else."""

from __future__ import annotations

import copy
import json
import pickle
import traceback

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.broker.secrets import SecretStore, SecretUnavailable, parse_secret_lines
from agent.contract.errors import UserError

VALUE = "ghs_CANARY0123456789abcdefghijklmno"


def test_a_read_gives_the_value_and_is_recorded_by_name() -> None:
    """The order of reads is what shows that a refusal came first."""
    store = SecretStore({"github-token": VALUE, "api-key": "k"})

    assert store.reads == ()
    assert (store.get("github-token"), store.get("api-key")) == (VALUE, "k")
    assert (store.reads, store.names, store.has("api-key")) == (
        ("github-token", "api-key"),
        ("github-token", "api-key"),
        True,
    )


@pytest.mark.parametrize("values", [{}, {"push-token": ""}])
def test_a_secret_that_is_not_set_has_its_own_code(values: dict[str, str]) -> None:
    """Empty is not set; the attempt is recorded."""
    store = SecretStore(values)

    with pytest.raises(SecretUnavailable, match="The secret 'push-token' is not set") as error:
        store.get("push-token")
    assert (error.value.code, error.value.name, store.reads, store.has("push-token")) == (
        "secret_unavailable",
        "push-token",
        ("push-token",),
        False,
    )


def test_no_representation_shows_a_value() -> None:
    """repr, str, format, vars, JSON's default and a traceback's locals name the secret at most."""
    store = SecretStore({"github-token": VALUE})
    inner = store._values["github-token"]
    shown = [repr(store), str(store), f"{store}", repr(inner), f"{inner}", json.dumps({"s": store}, default=str)]
    try:
        raise RuntimeError("bug")
    except RuntimeError as exc:
        lines = traceback.TracebackException.from_exception(exc, capture_locals=True).format()
        shown.append("".join(line for line in lines if "VALUE" not in line))

    assert shown[0] == "SecretStore(github-token)"
    assert VALUE not in "".join(shown)


@pytest.mark.parametrize("copier", [pickle.dumps, copy.copy, copy.deepcopy], ids=["pickle", "copy", "deepcopy"])
def test_a_store_is_not_copied_or_written(copier: object) -> None:
    """What cannot be serialised cannot be sent by mistake; neither the store nor one value."""
    store = SecretStore({"github-token": VALUE})

    for thing in (store, store._values["github-token"]):
        with pytest.raises(TypeError, match="not copied or written"):
            copier(thing)  # type: ignore[operator]


def test_the_push_token_falls_back_only_where_the_input_is_absent() -> None:
    """Given and empty means that the workflow's own secret is gone: no other token takes its place (D9)."""
    absent = SecretStore.from_inputs({"github-token": VALUE})
    emptied = SecretStore.from_inputs({"github-token": VALUE, "push-token": ""})
    given_ = SecretStore.from_inputs({"github-token": VALUE, "push-token": "ghs_other\n", "secrets": "A=b"})

    assert absent.get("push-token") == VALUE
    assert not emptied.has("push-token")
    assert given_.for_redaction() == {"github-token": VALUE, "push-token": "ghs_other", "A": "b"}


def test_secret_lines_are_name_and_value() -> None:
    """Comments and empty lines do not count; a value may hold anything but a line break."""
    assert parse_secret_lines("A=1\n\n# note\r\n B_2 = x=y z \nEMPTY=\n") == {"A": "1", "B_2": "x=y z", "EMPTY": ""}


@pytest.mark.parametrize("line", ["CANARYvalue", "a-b=CANARYvalue", "=CANARYvalue", "1A=CANARYvalue"])
def test_a_line_that_is_no_secret_is_named_by_number_alone(line: str) -> None:
    """The error never shows the line: it may be the second line of a key."""
    with pytest.raises(UserError, match="Line 2 of the input `secrets`") as error:
        parse_secret_lines(f"A=1\n{line}")
    assert "CANARY" not in str(error.value)


def test_a_name_twice_is_an_error() -> None:
    """Which of two values counts is not a guess."""
    with pytest.raises(UserError, match="sets A a second time"):
        parse_secret_lines("A=1\nA=2")


@given(st.text(max_size=80))
def test_any_text_gives_pairs_or_a_user_error(text: str) -> None:
    """Whatever the input holds."""
    try:
        found = parse_secret_lines(text)
    except UserError as exc:
        assert all(piece not in str(exc) for piece in text.split() if len(piece) > 12)  # noqa: PT017
        return
    assert all("\n" not in value for value in found.values())
