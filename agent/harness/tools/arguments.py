"""Checking a call's arguments against the tool's JSON Schema, with errors a model can act on."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from agent.contract.errors import ToolInputError, UserError
from agent.contract.schema import Problem, check_schema, problems

Find = Callable[[dict[str, Any]], Iterable[Problem]]

_SHOWN = 80  # characters of a wrong value that an error quotes


class ArgumentCheck:
    """The check of one tool, compiled at the first call, and once.

    The built-in and the declared tools keep to the project's own subset of JSON Schema. A custom tool in Python may
    use all of it, and then the library checks, which takes 100 ms to load.
    """

    def __init__(self, name: str, schema: Mapping[str, Any], *, closed: bool = False) -> None:
        """
        Args:
            closed: properties that the schema does not name are errors; said here and not in each schema, which
                every request to the model would carry.
        """
        self._name = name
        self._schema = {**schema, "additionalProperties": False} if closed else schema
        self._find: Find | None = None

    def compile(self) -> Find:
        """Compile the schema.

        Raises:
            UserError: the schema is not a JSON Schema of an object.
        """
        if self._find is None:
            if not isinstance(self._schema, Mapping) or self._schema.get("type") != "object":
                raise UserError(f"The schema of the tool {self._name!r} is not of type object.")
            try:
                check_schema(self._schema)
            except UserError:
                self._find = _whole(self._name, self._schema)
            else:
                self._find = lambda arguments: problems(self._schema, arguments)
        return self._find

    def checked(self, arguments: object) -> Mapping[str, Any]:
        """Return the arguments when they fit.

        Raises:
            ToolInputError: they do not; the text names each argument, what was expected, and the next step.
        """
        if not isinstance(arguments, Mapping):
            raise ToolInputError(self._not_object(arguments))
        wrong = list(self.compile()(dict(arguments)))
        if wrong:
            found = "; ".join(dict.fromkeys(_words(problem) for problem in wrong[:4]))
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


def _whole(name: str, schema: Mapping[str, Any]) -> Find:
    """The check by all of JSON Schema."""
    from jsonschema import Draft202012Validator, SchemaError
    from referencing import Registry

    try:
        Draft202012Validator.check_schema(dict(schema))
    except SchemaError as exc:
        raise UserError(f"The schema of the tool {name!r} is no JSON Schema: {exc.message}") from exc
    if any(not ref.startswith("#") for ref in _references(schema)):
        raise UserError(f"The schema of the tool {name!r} refers to another document; write it out.")
    # an empty registry: a $ref to an address is an error, never a download
    validator = Draft202012Validator(dict(schema), registry=Registry())

    def find(arguments: dict[str, Any]) -> Iterator[Problem]:
        for error in validator.iter_errors(arguments):
            path, keyword = tuple(error.absolute_path), str(error.validator)
            value: Any = error.instance
            inner: Any = error.schema
            names: list[str] = []
            if keyword == "required":
                names = [name for name in inner["required"] if name not in value]
            elif keyword == "additionalProperties":
                names = [name for name in value if name not in inner.get("properties", {})]
            for at in [(*path, name) for name in names] or [path]:
                yield Problem(at, error.message, keyword, error.validator_value, value)

    return find


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


def _words(problem: Problem) -> str:
    *around, name = problem.path or ("",)
    within = f"{_dotted(around)}: " if around else ""
    if problem.keyword == "required":
        return f"{within}{name!r} must be given"
    if problem.keyword == "additionalProperties":
        return f"{within}there is no {str(name)[:_SHOWN]!r}"
    where, value, wanted = _dotted(problem.path), problem.value, problem.wanted
    shown = json.dumps(value, ensure_ascii=True, default=str)
    shown = shown if len(shown) <= _SHOWN else shown[:_SHOWN] + "…"
    if problem.keyword == "type":
        if isinstance(value, str) and wanted in _NOT_TEXTS and _is_json(value):
            return (
                f"{where!r} must be {wanted}, and is a string that holds JSON: give the {wanted} itself, without quotes"
            )
        return f"{where!r} must be {wanted}, and is {shown}"
    if problem.keyword == "enum":
        return f"{where!r} must be one of {', '.join(map(str, wanted))}, and is {shown}"
    if problem.keyword in _LIMITS:
        return f"{where!r} must be {_LIMITS[problem.keyword]} {wanted}, and is {shown}"
    return f"{where!r}: {problem.message[:200]}"


_NOT_TEXTS = ("array", "object", "integer", "number", "boolean")
_LIMITS = {
    "minimum": "at least",
    "maximum": "at most",
    "minLength": "at least this long:",
    "maxLength": "at most this long:",
}


def _dotted(path: Iterable[str | int]) -> str:
    return ".".join(map(str, path))
