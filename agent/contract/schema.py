"""A JSON Schema subset: small enough to read, strict enough for policy, without the start-up cost of a library.

What the broker holds bodies, queries and configuration to, and the harness the arguments of tools.

Every keyword that is not known is an error when the schema is loaded, never ignored. Two keywords are ours:
`startsWith` (a text) and `format` with the one value `ref` (a ref name that git accepts). A schema that
uses neither means the same to any JSON Schema validator, which a test holds it to.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from agent.contract.dataclass import dataclass
from agent.contract.errors import UserError
from agent.contract.regex import regex

Schema = Mapping[str, Any]

_NOTES = frozenset({"$schema", "$id", "title", "description", "default", "examples"})
_FORMS: Mapping[str, tuple[type, ...]] = {  # of each keyword's own value
    **dict.fromkeys(("properties", "patternProperties", "$defs", "items", "not"), (dict,)),
    **dict.fromkeys(("enum", "required", "anyOf"), (list,)),
    **dict.fromkeys(("pattern", "startsWith", "format", "$ref"), (str,)),
    **dict.fromkeys(("minItems", "maxItems", "minLength", "maxLength"), (int,)),
    **dict.fromkeys(("minimum", "exclusiveMinimum", "maximum"), (int, float)),
    "type": (str, list),
    "additionalProperties": (bool, dict),
    "uniqueItems": (bool,),
    "const": (object,),
}
_TYPES = {
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "nothing",
}
_BAD_REF = regex(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|//|@\{|(?:^|/)\.|\.lock(?:/|$)|\.$|/$|^/|^@$|^-")


@dataclass(frozen=True)
class Problem:
    """One value that does not fit.

    Attributes:
        path: keys and indices from the root.
        message: what was expected.
        keyword: the keyword that failed.
        wanted: the keyword's own value in the schema.
        value: what does not fit; None where something is missing.
    """

    path: tuple[str | int, ...]
    message: str
    keyword: str
    wanted: Any
    value: Any


def check_schema(schema: object, root: Schema | None = None) -> None:
    """Refuse a schema that this module would not fully hold a value to.

    Raises:
        UserError: not an object, an unknown keyword or one of a wrong form, or a reference that leads nowhere.
    """
    if not isinstance(schema, dict):
        raise UserError(f"A schema is an object, not {type(schema).__name__}.")
    root = schema if root is None else root
    for keyword, value in schema.items():
        if keyword in _NOTES:
            continue
        if keyword not in _FORMS:
            raise UserError(f"The schema keyword {keyword!r} is not one of: {', '.join(sorted(_FORMS))}.")
        if not isinstance(value, _FORMS[keyword]):
            raise UserError(f"The schema keyword {keyword!r} cannot be {value!r}.")
    for name in _listed(schema.get("type", [])):
        if name not in _TYPES:
            raise UserError(f"The schema type {name!r} is not one of: {', '.join(_TYPES)}.")
    if "$ref" in schema:
        _resolve(schema, root)
    parts = [*schema.get("anyOf", ()), *schema.get("$defs", {}).values()]
    parts += [schema["not"]] if "not" in schema else []
    parts += [*schema.get("properties", {}).values(), *schema.get("patternProperties", {}).values()]
    parts += [schema[key] for key in ("items", "additionalProperties") if isinstance(schema.get(key), dict)]
    for part in parts:
        check_schema(part, root)
    for pattern in [*schema.get("patternProperties", {}), *([schema["pattern"]] if "pattern" in schema else [])]:
        try:
            re.compile(pattern)
        except re.error as exc:
            raise UserError(f"The schema pattern {pattern!r} is no regular expression: {exc}.") from exc


def problems(
    schema: Schema, value: object, path: tuple[str | int, ...] = (), root: Schema | None = None
) -> Iterator[Problem]:
    """Yield each way in which the value does not fit the schema."""
    root = schema if root is None else root
    if "$ref" in schema:
        yield from problems(_resolve(schema, root), value, path, root)
    if "type" in schema and not _is_type(value, schema["type"]):
        yield _problem(schema, "type", value, path, _types(schema["type"]))
        return
    if "const" in schema and not _equal(value, schema["const"]):
        yield _problem(schema, "const", value, path, repr(schema["const"]))
    if "enum" in schema and not any(_equal(value, allowed) for allowed in schema["enum"]):
        allowed = ", ".join(map(repr, schema["enum"])) or "nothing (none is configured)"
        yield _problem(schema, "enum", value, path, f"one of {allowed}")
    if isinstance(value, str):
        yield from _text(schema, value, path)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from _number(schema, value, path)
    elif isinstance(value, list):
        yield from _list(schema, value, path, root)
    elif isinstance(value, dict):
        yield from _object(schema, value, path, root)
    if "not" in schema and not any(True for _ in problems(schema["not"], value, path, root)):
        yield _problem(schema, "not", value, path, "another value than this one")
    if "anyOf" in schema:
        tries = [list(problems(option, value, path, root)) for option in schema["anyOf"]]
        if all(tries):
            yield from min(tries, key=lambda found: (-max(len(p.path) for p in found), len(found)))


def _problem(schema: Schema, keyword: str, value: object, path: tuple[str | int, ...], expected: str) -> Problem:
    return Problem(path, f"expected {expected}", keyword, schema[keyword], value)


def _text(schema: Schema, value: str, path: tuple[str | int, ...]) -> Iterator[Problem]:
    if len(value) < schema.get("minLength", 0):
        yield _problem(schema, "minLength", value, path, f"at least {schema['minLength']} characters")
    if "maxLength" in schema and len(value) > schema["maxLength"]:
        yield _problem(schema, "maxLength", value, path, f"at most {schema['maxLength']} characters")
    if "pattern" in schema and not re.search(schema["pattern"], value):
        yield _problem(schema, "pattern", value, path, f"a text of the form {schema['pattern']}")
    if "startsWith" in schema and not value.startswith(schema["startsWith"]):
        yield _problem(schema, "startsWith", value, path, f"a text that begins with {schema['startsWith']}")
    if schema.get("format") == "ref" and _BAD_REF.search(value):
        yield _problem(schema, "format", value, path, "a ref name that git accepts")


def _number(schema: Schema, value: float, path: tuple[str | int, ...]) -> Iterator[Problem]:
    if "minimum" in schema and value < schema["minimum"]:
        yield _problem(schema, "minimum", value, path, f"at least {schema['minimum']}")
    if "exclusiveMinimum" in schema and value <= schema["exclusiveMinimum"]:
        yield _problem(schema, "exclusiveMinimum", value, path, f"more than {schema['exclusiveMinimum']}")
    if "maximum" in schema and value > schema["maximum"]:
        yield _problem(schema, "maximum", value, path, f"at most {schema['maximum']}")


def _list(schema: Schema, value: list[Any], path: tuple[str | int, ...], root: Schema) -> Iterator[Problem]:
    if len(value) < schema.get("minItems", 0):
        yield _problem(schema, "minItems", value, path, f"at least {schema['minItems']} entries")
    if "maxItems" in schema and len(value) > schema["maxItems"]:
        yield _problem(schema, "maxItems", value, path, f"at most {schema['maxItems']} entries")
    if schema.get("uniqueItems") and any(_equal(a, b) for i, a in enumerate(value) for b in value[:i]):
        yield _problem(schema, "uniqueItems", value, path, "no entry twice")
    if "items" in schema:
        for index, item in enumerate(value):
            if _plainly(schema["items"], item):
                continue
            yield from problems(schema["items"], item, (*path, index), root)


def _object(schema: Schema, value: dict[str, Any], path: tuple[str | int, ...], root: Schema) -> Iterator[Problem]:
    known = schema.get("properties", {})
    for key in schema.get("required", ()):
        if key not in value:
            yield Problem((*path, key), "expected, and missing", "required", schema["required"], None)
    for key, item in value.items():
        if key in known:
            if not _plainly(known[key], item):
                yield from problems(known[key], item, (*path, key), root)
            continue
        named = [sub for pattern, sub in schema.get("patternProperties", {}).items() if re.search(pattern, key)]
        for sub in named:
            yield from problems(sub, item, (*path, key), root)
        rest = schema.get("additionalProperties", True)
        if named or rest is True:
            continue
        if rest is False:
            names = ", ".join(known) or "none"
            yield Problem((*path, key), f"not a known key; known here: {names}", "additionalProperties", False, item)
        else:
            yield from problems(rest, item, (*path, key), root)


def _resolve(schema: Schema, root: Schema) -> Schema:
    name = str(schema["$ref"]).removeprefix("#/$defs/")
    target = root.get("$defs", {}).get(name)
    if not isinstance(target, dict):
        raise UserError(f"The schema reference {schema['$ref']!r} leads nowhere.")
    return target


def _plainly(schema: Schema, value: object) -> bool:
    """The value is of the type that is all the schema asks for: most are, and a search for problems costs ten times."""
    return "type" in schema and len(schema) == 1 and _is_type(value, schema["type"])


_KINDS: Mapping[str, type | tuple[type, ...]] = {
    "string": str,
    "number": (int, float),
    "object": dict,
    "array": list,
    "null": type(None),
}


def _is_type(value: object, expected: str | list[str]) -> bool:
    if isinstance(expected, list):
        return any(_is_type(value, one) for one in expected)
    if isinstance(value, bool):
        return expected == "boolean"
    if expected == "integer":
        return isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    return expected in _KINDS and isinstance(value, _KINDS[expected])


def _types(expected: str | list[str]) -> str:
    return " or ".join(_TYPES[name] for name in _listed(expected))


def _listed(types: str | list[str]) -> list[str]:
    return [types] if isinstance(types, str) else types


def _equal(one: object, other: object) -> bool:
    """JSON equality: unlike Python's, true is not 1."""
    return isinstance(one, bool) == isinstance(other, bool) and one == other
