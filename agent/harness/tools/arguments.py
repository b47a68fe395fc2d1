"""Checking a call's arguments against the tool's JSON Schema, with errors a model can act on."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from agent.contract.errors import ToolInputError, UserError

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError
    from jsonschema.protocols import Validator

_SHOWN = 80  # characters of a wrong value that an error quotes


class ArgumentCheck:
    """The check of one tool; its validator is compiled at the first call, and once."""

    def __init__(self, name: str, schema: Mapping[str, Any], *, closed: bool = False) -> None:
        """
        Args:
            closed: properties that the schema does not name are errors; said here and not in each schema, which
                every request to the model would carry.
        """
        self._name = name
        self._schema = {**schema, "additionalProperties": False} if closed else schema
        self._validator: Validator | None = None

    def compile(self) -> Validator:
        """Compile the schema.

        Raises:
            UserError: the schema is not a JSON Schema of an object.
        """
        if self._validator is not None:
            return self._validator
        # here and not at the top: 60 ms that a run's first request must not wait for
        from jsonschema import Draft202012Validator, SchemaError
        from referencing import Registry

        if not isinstance(self._schema, Mapping) or self._schema.get("type") != "object":
            raise UserError(f"The schema of the tool {self._name!r} is not of type object.")
        try:
            Draft202012Validator.check_schema(dict(self._schema))
        except SchemaError as exc:
            raise UserError(f"The schema of the tool {self._name!r} is no JSON Schema: {exc.message}") from exc
        if any(not ref.startswith("#") for ref in _references(self._schema)):
            raise UserError(f"The schema of the tool {self._name!r} refers to another document; write it out.")
        # an empty registry: a $ref to an address is an error, never a download
        self._validator = Draft202012Validator(dict(self._schema), registry=Registry())
        return self._validator

    def checked(self, arguments: object) -> Mapping[str, Any]:
        """Return the arguments when they fit.

        Raises:
            ToolInputError: they do not; the text names each argument, what was expected, and the next step.
        """
        if not isinstance(arguments, Mapping):
            raise ToolInputError(self._not_object(arguments))
        errors = list(self.compile().iter_errors(dict(arguments)))
        if errors:
            found = "; ".join(dict.fromkeys(_words(e) for e in errors[:4]))
            raise ToolInputError(f"{self._name}: {found}. Arguments: {self._signature()}. Call it again with these.")
        return arguments

    def _not_object(self, arguments: object) -> str:
        wrong = "a JSON text" if isinstance(arguments, str) and _is_json(arguments) else type(arguments).__name__
        return f"{self._name}: the arguments must be one JSON object, not {wrong}. Arguments: {self._signature()}."

    def _signature(self) -> str:
        required = self._schema.get("required", ())
        shown = [
            f"{name}{'' if name in required else '?'}: {_type(part)}"
            for name, part in self._schema.get("properties", {}).items()
        ]
        return "{" + ", ".join(shown) + "}"


def _references(part: Any) -> Iterator[str]:
    if isinstance(part, Mapping):
        for key, value in part.items():
            if key in ("$ref", "$dynamicRef") and isinstance(value, str):
                yield value
            else:
                yield from _references(value)
    elif isinstance(part, list):
        for value in part:
            yield from _references(value)


def _type(part: Any) -> str:
    if not isinstance(part, Mapping):
        return "any"
    if "enum" in part:
        return "|".join(map(str, part["enum"]))
    kind = part.get("type", "any")
    if kind == "array":
        return f"array of {_type(part.get('items', {}))}"
    return "|".join(kind) if isinstance(kind, list) else str(kind)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _words(error: ValidationError) -> str:
    where = ".".join(str(p) for p in error.absolute_path)
    value: Any = error.instance
    expected: Any = error.validator_value
    if error.validator == "required":
        names = [n for n in expected if n not in value]
        return f"{where + ': ' if where else ''}{' and '.join(map(repr, names))} must be given"
    if error.validator == "additionalProperties":
        schema: Any = error.schema
        unknown = [n for n in value if n not in schema.get("properties", {})]
        return f"{where + ': ' if where else ''}there is no {' and no '.join(repr(n[:_SHOWN]) for n in unknown[:3])}"
    shown = json.dumps(value, ensure_ascii=True, default=str)
    shown = shown if len(shown) <= _SHOWN else shown[:_SHOWN] + "…"
    if error.validator == "type":
        want = expected
        if isinstance(value, str) and want in ("array", "object", "integer", "number", "boolean") and _is_json(value):
            return f"{where!r} must be {want}, and is a string that holds JSON: give the {want} itself, without quotes"
        return f"{where!r} must be {want}, and is {shown}"
    if error.validator == "enum":
        return f"{where!r} must be one of {', '.join(map(str, expected))}, and is {shown}"
    limits = {
        "minimum": "at least",
        "maximum": "at most",
        "minLength": "at least this long:",
        "maxLength": "at most this long:",
    }
    if error.validator in limits:
        return f"{where!r} must be {limits[str(error.validator)]} {expected}, and is {shown}"
    return f"{where!r} {error.message[:200]}"
