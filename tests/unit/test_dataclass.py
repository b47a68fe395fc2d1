"""`agent.contract.dataclass`: what the standard library's classes do, beside the standard library's own."""

from __future__ import annotations

import copy
import dataclasses
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pytest

from agent.contract import dataclass as ours

ROOT = Path(__file__).resolve().parents[2]


def made(module: ModuleType) -> Any:
    """The same two classes by either module."""

    @module.dataclass(frozen=True)
    class Inner:
        number: int
        words: tuple[str, ...] = ()
        hidden: str = module.field(default="x", repr=False)
        KIND: ClassVar[str] = "inner"

    @module.dataclass
    class Outer:
        inner: Inner
        many: list[Inner] = module.field(default_factory=list)
        named: dict[str, Inner] = module.field(default_factory=dict)

        def __post_init__(self) -> None:
            self.seen = len(self.many)

    class Both:
        inner, outer = Inner, Outer

    Inner.__qualname__, Outer.__qualname__ = "Inner", "Outer"
    return Both


BOTH = pytest.mark.parametrize("module", [dataclasses, ours])


@BOTH
def test_objects_are_made_compared_shown_and_copied_alike(module: ModuleType) -> None:
    kinds = made(module)
    one = kinds.inner(1, words=("a",))
    assert repr(one) == "Inner(number=1, words=('a',))"
    assert (one.hidden, kinds.inner.hidden, kinds.inner.KIND) == ("x", "x", "inner")
    assert one == kinds.inner(1, ("a",), "x")
    assert one != kinds.inner(1, ("a",), "y")
    assert one != (1, ("a",), "x")
    assert len({one, kinds.inner(1, ("a",)), kinds.inner(2)}) == 2
    assert copy.deepcopy(one) == one
    match one:
        case kinds.inner(number, words):
            assert (number, words) == (1, ("a",))
    outer = kinds.outer(one, [one], {"k": one})
    plain = {"number": 1, "words": ("a",), "hidden": "x"}
    assert module.asdict(outer) == {"inner": plain, "many": [plain], "named": {"k": plain}}
    assert dataclasses.asdict(outer) == module.asdict(outer)
    assert outer.seen == 1
    assert kinds.outer(one).many is not kinds.outer(one).many
    for replace in (module.replace, dataclasses.replace):
        other = replace(outer, many=[])
        assert (other.inner, other.many, other.seen, outer.seen) == (one, [], 0, 1)
    assert [(f.name, f.repr) for f in dataclasses.fields(kinds.inner)] == [
        ("number", True),
        ("words", True),
        ("hidden", False),
    ]
    assert dataclasses.is_dataclass(outer)
    with pytest.raises(TypeError, match="unhashable"):
        hash(outer)


@BOTH
@pytest.mark.parametrize(
    "call",
    [
        lambda kind: kind(),
        lambda kind: kind(1, number=2),
        lambda kind: kind(1, other=2),
        lambda kind: kind(1, (), "x", 4),
    ],
)
def test_a_call_that_does_not_fit_is_refused(module: ModuleType, call: Callable[[Any], Any]) -> None:
    kind = made(module).inner
    with pytest.raises(TypeError, match=r"Inner|__init__"):
        call(kind)
    assert kind(1).number == 1


@BOTH
def test_a_frozen_object_stays_as_it_is(module: ModuleType) -> None:
    kinds = made(module)
    one = kinds.inner(1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.number = 2
    with pytest.raises(dataclasses.FrozenInstanceError):
        del one.number
    assert one.number == 1
    outer = kinds.outer(one)
    outer.inner = kinds.inner(2)
    assert outer.inner.number == 2


@pytest.mark.parametrize("stage", ["agent.launch", "agent.broker.run"])
def test_no_process_of_the_trusted_side_loads_the_standard_one(stage: str) -> None:
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import {stage}; print('inspect' in sys.modules)"
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
