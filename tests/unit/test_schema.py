"""The schema subset means what JSON Schema means, and knows no keyword by halves."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.broker.config import schema as config_schema
from agent.contract.errors import UserError
from agent.contract.schema import check_schema, problems


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        ({"type": "string"}, 3, [((), "expected a text", "type")]),
        ({"type": ["string", "null"]}, 3, [((), "expected a text or nothing", "type")]),
        ({"type": "integer"}, True, [((), "expected a whole number", "type")]),
        ({"const": False}, 0, [((), "expected False", "const")]),
        ({"enum": []}, "x", [((), "expected one of nothing (none is configured)", "enum")]),
        ({"enum": ["a"]}, "b", [((), "expected one of 'a'", "enum")]),
        ({"minLength": 1}, "", [((), "expected at least 1 characters", "minLength")]),
        ({"maxLength": 1}, "ab", [((), "expected at most 1 characters", "maxLength")]),
        ({"pattern": "^a$"}, "b", [((), "expected a text of the form ^a$", "pattern")]),
        (
            {"startsWith": "heads/x/"},
            "heads/y",
            [((), "expected a text that begins with heads/x/", "startsWith")],
        ),
        ({"minimum": 1}, 0, [((), "expected at least 1", "minimum")]),
        ({"maximum": 1}, 2, [((), "expected at most 1", "maximum")]),
        ({"exclusiveMinimum": 0}, 0, [((), "expected more than 0", "exclusiveMinimum")]),
        ({"minItems": 1}, [], [((), "expected at least 1 entries", "minItems")]),
        ({"maxItems": 1}, [1, 2], [((), "expected at most 1 entries", "maxItems")]),
        ({"uniqueItems": True}, [1, 1], [((), "expected no entry twice", "uniqueItems")]),
        ({"items": {"type": "null"}}, [None, 1], [((1,), "expected nothing", "type")]),
        ({"required": ["a"]}, {}, [(("a",), "expected, and missing", "required")]),
        (
            {"properties": {"a": {}}, "additionalProperties": False},
            {"b": 1},
            [(("b",), "not a known key; known here: a", "additionalProperties")],
        ),
        ({"additionalProperties": {"type": "null"}}, {"b": 1}, [(("b",), "expected nothing", "type")]),
        ({"patternProperties": {"^x": {"type": "null"}}}, {"xy": 1}, [(("xy",), "expected nothing", "type")]),
        ({"not": {"enum": ["a"]}}, "a", [((), "expected another value than this one", "not")]),
        ({"anyOf": [{"type": "null"}, {"const": 1}]}, 2, [((), "expected nothing", "type")]),
        ({"$defs": {"n": {"type": "null"}}, "$ref": "#/$defs/n"}, 2, [((), "expected nothing", "type")]),
    ],
)
def test_each_keyword_names_what_was_expected(
    schema: dict[str, Any], value: object, expected: list[tuple[tuple[str | int, ...], str, str]]
) -> None:
    """One row a keyword: the whole list of problems."""
    check_schema(schema)

    found = list(problems(schema, value))

    assert [(problem.path, problem.message, problem.keyword) for problem in found] == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"a": {"b": 3}}, ("b", "maximum", 2, 3)),
        ({"a": {"b": "x"}}, ("b", "type", "integer", "x")),
        ({"a": {}}, ("b", "required", ["b"], None)),
        ({"a": {"b": 1, "c": 4}}, ("c", "additionalProperties", False, 4)),
    ],
)
def test_a_problem_holds_what_was_wanted_and_what_was_there(value: object, expected: tuple[object, ...]) -> None:
    """For words other than ours: a tool's arguments are told in the words of the model's own schema."""
    inner = {
        "properties": {"b": {"type": "integer", "maximum": 2}},
        "required": ["b"],
        "additionalProperties": False,
    }

    (found,) = problems({"properties": {"a": inner}}, value)

    assert found.path[0] == "a"
    assert (found.path[1], found.keyword, found.wanted, found.value) == expected


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
        ({"properties": []}, "'properties' cannot be"),
        ({"required": "a"}, "'required' cannot be"),
        ({"minLength": "1"}, "'minLength' cannot be"),
        ({"additionalProperties": 1}, "'additionalProperties' cannot be"),
        ({"type": "text"}, "type 'text' is not one of"),
        ({"type": ["string", "text"]}, "type 'text' is not one of"),
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
