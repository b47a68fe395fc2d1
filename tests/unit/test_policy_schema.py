"""The schema subset means what JSON Schema means, and knows no keyword by halves."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.broker.config import schema as config_schema
from agent.broker.policy.schema import Problem, check_schema, problems
from agent.contract.errors import UserError


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        ({"type": "string"}, 3, [Problem((), "expected a text", "type")]),
        ({"type": ["string", "null"]}, 3, [Problem((), "expected a text or nothing", "type")]),
        ({"type": "integer"}, True, [Problem((), "expected a whole number", "type")]),
        ({"const": False}, 0, [Problem((), "expected False", "const")]),
        ({"enum": []}, "x", [Problem((), "expected one of nothing (none is configured)", "enum")]),
        ({"enum": ["a"]}, "b", [Problem((), "expected one of 'a'", "enum")]),
        ({"minLength": 1}, "", [Problem((), "expected at least 1 characters", "minLength")]),
        ({"maxLength": 1}, "ab", [Problem((), "expected at most 1 characters", "maxLength")]),
        ({"pattern": "^a$"}, "b", [Problem((), "expected a text of the form ^a$", "pattern")]),
        (
            {"startsWith": "heads/x/"},
            "heads/y",
            [Problem((), "expected a text that begins with heads/x/", "startsWith")],
        ),
        ({"minimum": 1}, 0, [Problem((), "expected at least 1", "minimum")]),
        ({"maximum": 1}, 2, [Problem((), "expected at most 1", "maximum")]),
        ({"exclusiveMinimum": 0}, 0, [Problem((), "expected more than 0", "exclusiveMinimum")]),
        ({"minItems": 1}, [], [Problem((), "expected at least 1 entries", "minItems")]),
        ({"maxItems": 1}, [1, 2], [Problem((), "expected at most 1 entries", "maxItems")]),
        ({"uniqueItems": True}, [1, 1], [Problem((), "expected no entry twice", "uniqueItems")]),
        ({"items": {"type": "null"}}, [None, 1], [Problem((1,), "expected nothing", "type")]),
        ({"required": ["a"]}, {}, [Problem(("a",), "expected, and missing", "required")]),
        (
            {"properties": {"a": {}}, "additionalProperties": False},
            {"b": 1},
            [Problem(("b",), "not a known key; known here: a", "additionalProperties")],
        ),
        ({"additionalProperties": {"type": "null"}}, {"b": 1}, [Problem(("b",), "expected nothing", "type")]),
        ({"patternProperties": {"^x": {"type": "null"}}}, {"xy": 1}, [Problem(("xy",), "expected nothing", "type")]),
        ({"not": {"enum": ["a"]}}, "a", [Problem((), "expected another value than this one", "not")]),
        ({"anyOf": [{"type": "null"}, {"const": 1}]}, 2, [Problem((), "expected nothing", "type")]),
        ({"$defs": {"n": {"type": "null"}}, "$ref": "#/$defs/n"}, 2, [Problem((), "expected nothing", "type")]),
    ],
)
def test_each_keyword_names_what_was_expected(schema: dict[str, Any], value: object, expected: list[Problem]) -> None:
    """One row a keyword: the whole list of problems."""
    check_schema(schema)

    assert list(problems(schema, value)) == expected


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"not": {"enum": ["a"]}}, "b"),
        ({"anyOf": [{"type": "null"}, {"const": 1}]}, 1),
        ({"uniqueItems": True}, [1, True, "1"]),
        ({"type": "number"}, 1.5),
        ({"type": "integer"}, 2.0),
        ({"type": "object", "additionalProperties": True}, {"x": 1}),
        ({"properties": {"a": {"type": "null"}}}, {"a": None}),
        ({"format": "ref"}, "heads/feature/fix#42"),
    ],
)
def test_values_that_fit_have_no_problem(schema: dict[str, Any], value: object) -> None:
    """The positive control."""
    assert list(problems(schema, value)) == []


@pytest.mark.parametrize(
    "name",
    [
        *["a..b", "a//b", "/a", "a/", "a.lock", "a.lock/b", ".a", "a/.b", "a.", "@", "a@{1}", "-a", "a b", "a~1"],
        *["a^", "a:b", "a?", "a*", "a[", "a\\b", "a\x00", "a\x7f", "a\n"],
    ],
)
def test_a_ref_that_git_would_not_take_is_no_ref(name: str) -> None:
    """The rules of git check-ref-format, and no leading dash, which a command could take for an option."""
    assert [p.keyword for p in problems({"format": "ref"}, name)] == ["format"]


@pytest.mark.parametrize(
    ("schema", "match"),
    [
        ([], "A schema is an object"),
        ({"tpye": "string"}, "keyword 'tpye'"),
        ({"properties": {"a": {"oneOf": []}}}, "keyword 'oneOf'"),
        ({"items": {"if": {}}}, "keyword 'if'"),
        ({"not": {"if": {}}}, "keyword 'if'"),
        ({"anyOf": [{"if": {}}]}, "keyword 'if'"),
        ({"$ref": "#/$defs/none"}, "leads nowhere"),
        ({"pattern": "("}, "no regular expression"),
        ({"patternProperties": {"(": {}}}, "no regular expression"),
    ],
)
def test_a_schema_that_would_not_be_held_to_in_full_is_refused(schema: object, match: str) -> None:
    """An unknown keyword is an error at load, never ignored."""
    with pytest.raises(UserError, match=match):
        check_schema(schema)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([0.5, 1.0])
    | st.sampled_from(["", "a", "ab", "b"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, max_size=3),
    max_leaves=6,
)
LEAVES = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["string", "integer", "number", "boolean", "null", "array", "object"]),
        "enum": st.lists(VALUES, min_size=1, max_size=3),
        "const": VALUES,
        "minLength": st.integers(0, 2),
        "maxLength": st.integers(0, 2),
        "minimum": st.integers(-1, 1),
        "maximum": st.integers(-1, 1),
        "exclusiveMinimum": st.integers(-1, 1),
        "minItems": st.integers(0, 2),
        "maxItems": st.integers(0, 2),
        "uniqueItems": st.booleans(),
        "pattern": st.sampled_from(["^a", "b$"]),
        "required": st.lists(st.sampled_from(["a", "b"]), max_size=2, unique=True),
    },
)
SCHEMAS = st.recursive(
    LEAVES,
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "properties": st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2),
            "patternProperties": st.dictionaries(st.sampled_from(["^a", "c"]), inner, max_size=1),
            "additionalProperties": st.booleans() | inner,
            "items": inner,
            "anyOf": st.lists(inner, min_size=1, max_size=2),
            "not": inner,
        },
    ),
    max_leaves=4,
)


@given(SCHEMAS, VALUES)
@settings(max_examples=400, deadline=None)
def test_the_subset_agrees_with_the_jsonschema_library(schema: dict[str, Any], value: Any) -> None:
    """Same verdict as a full validator on any schema of the subset and any value."""
    check_schema(schema)
    ours = not list(problems(schema, value))

    assert ours == jsonschema.Draft202012Validator(schema).is_valid(value)


def test_the_configurations_schema_is_of_the_subset_and_valid() -> None:
    """The published schema means the same to our reader and to an editor's."""
    check_schema(config_schema())
    jsonschema.Draft202012Validator.check_schema(config_schema())
