"""`dataclass` of the standard library, without compiling source text for each class.

The standard decorator writes six functions as text and compiles them: 1.2 ms for a frozen class, with 110 classes in
the broker alone, and it loads `inspect`. That was half of a process's start. Here all classes share the same few
functions. What asks for `__dataclass_fields__` (`dataclasses.replace`, `fields`, `asdict`) gets it: the standard
library makes it then.

Type checkers see the standard decorator, so what they refuse is refused. Not here: `slots`, `order`, `kw_only`,
`InitVar`, inheriting fields; a class that wants one takes the standard decorator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any


class Field:
    """What a field has beside its name: a default, one made anew for each object, or no place in `repr`."""

    def __init__(self, *, repr: bool = True, **default: Any) -> None:
        self.repr, self.default = repr, default


if TYPE_CHECKING:
    from dataclasses import asdict as asdict
    from dataclasses import dataclass as dataclass
    from dataclasses import field as field
    from dataclasses import replace as replace
else:
    field = Field

    def dataclass(cls=None, /, *, frozen=False):
        """As `dataclasses.dataclass`: `__init__`, `__repr__`, equality by value; frozen ones are hashed by value."""
        return (lambda made: _make(made, frozen)) if cls is None else _make(cls, frozen)

    def replace(thing, /, **changes):
        """A copy with some fields changed; its `__init__` runs."""
        return type(thing)(**{**{name: getattr(thing, name) for name in thing.__match_args__}, **changes})

    def asdict(thing):
        """The fields as a dict; dataclasses in it become dicts, and lists, tuples and dicts are new ones."""
        return {name: _plain(getattr(thing, name)) for name in thing.__match_args__}


def _make(cls: Any, frozen: bool) -> Any:  # noqa: FBT001
    names = tuple(n for n, t in cls.__annotations__.items() if not str(t).startswith("ClassVar"))
    given = {name: cls.__dict__[name] for name in names if name in cls.__dict__}
    plain = {name: value for name, value in given.items() if not isinstance(value, Field)}
    for name, value in given.items():
        if isinstance(value, Field):
            if "default" in value.default:
                plain[name] = value.default["default"]
                setattr(cls, name, plain[name])
            else:
                delattr(cls, name)
    made = {n: v.default["default_factory"] for n, v in given.items() if n not in plain and v.default}
    shown = tuple(n for n in names if not isinstance(given.get(n), Field) or given[n].repr)
    after = getattr(cls, "__post_init__", None)

    def __init__(self: Any, /, *values: Any, **named: Any) -> None:
        if len(values) > len(names):
            raise TypeError(f"{cls.__qualname__}() takes {len(names)} values, {len(values)} were given")
        fields = self.__dict__  # of a frozen object too
        fields.update(zip(names, values, strict=False))
        for name in names[len(values) :]:
            if name in named:
                fields[name] = named.pop(name)
            elif name in plain:
                fields[name] = plain[name]
            elif name in made:
                fields[name] = made[name]()
            else:
                raise TypeError(f"{cls.__qualname__}() is not given {name!r}")
        if named:
            raise TypeError(f"{cls.__qualname__}() is given {', '.join(named)} twice or has no such field")
        if after is not None:
            after(self)

    def __repr__(self: Any) -> str:
        return f"{type(self).__qualname__}({', '.join(f'{n}={getattr(self, n)!r}' for n in shown)})"

    def values_of(self: Any) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in names)

    def __eq__(self: Any, other: object) -> Any:
        return values_of(self) == values_of(other) if type(other) is type(self) else NotImplemented

    def __hash__(self: Any) -> int:
        return hash(values_of(self))

    own: dict[str, Any] = {"__init__": __init__, "__repr__": __repr__, "__eq__": __eq__}
    own["__hash__"] = __hash__ if frozen else None
    own |= {"__match_args__": names, "__dataclass_fields__": _Fields(cls, given)}
    if frozen:
        own |= {"__setattr__": _refuse, "__delattr__": _refuse}
    for name, value in own.items():
        if name not in cls.__dict__:
            setattr(cls, name, value)
    return cls


def _refuse(self: Any, name: str, _value: Any = None) -> None:
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"{type(self).__qualname__} is frozen: {name!r} stays as it is")


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {_plain(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        parts = [_plain(v) for v in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return asdict(value) if "__dataclass_fields__" in type(value).__dict__ else value


class _Fields:
    """`__dataclass_fields__`, made by the standard library when something asks for it."""

    def __init__(self, cls: Any, given: dict[str, Any]) -> None:
        self._cls, self._given = cls, given
        self._fields: dict[str, Any] | None = None

    def __get__(self, _thing: object, _cls: type) -> Any:
        if self._fields is None:
            import dataclasses

            fields: list[Any] = []
            for name in self._cls.__match_args__:
                value = self._given.get(name, Field())
                more = {"repr": value.repr, **value.default} if isinstance(value, Field) else {"default": value}
                fields.append((name, self._cls.__annotations__[name], dataclasses.field(**more)))
            made: Any = dataclasses.make_dataclass(self._cls.__name__, fields)
            self._fields = made.__dataclass_fields__
        return self._fields
