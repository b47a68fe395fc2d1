"""Custom tools at registration and in a call: whatever a tool does, it costs one failed call."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from agent.contract.errors import Refusal, ToolInputError, ToolPermissionError, UserError
from agent.contract.modes import Tier
from agent.contract.tool import AgentTool, ToolOutput
from agent.library.tools import registered

SCHEMA = {"type": "object", "properties": {}}


def make(run: Callable[..., Any] | None = None, **given: Any) -> AgentTool:
    """A tool that is right but for what a test makes wrong."""
    fields: dict[str, Any] = {
        "name": "lookup",
        "tier": Tier.READ,
        "description": "Looks up.",
        "schema": SCHEMA,
        "run": run or (lambda _a, _c: ToolOutput("found")),
        **given,
    }
    return AgentTool(**fields)


def call(run: Callable[..., Any], timeout_s: float = 5.0) -> ToolOutput:
    """Register a tool with this function and call it once."""
    (tool,) = registered([make(run)], timeout_s)
    return tool.run({}, None)


@pytest.mark.parametrize(
    "given",
    [
        {"tier": "Write"},
        {"tier": "rw"},
        {"tier": ""},
        {"tier": None},
        {"tier": ["read"]},
        {"tier": "read "},
        {"name": None},
        {"description": ""},
        {"description": None},
        {"run": None},
        {"schema": None},
        {"schema": {"type": object()}},
        {"schema": {"type": "object", "minProperties": float("nan")}},
    ],
)
def test_a_tool_that_cannot_be_one_is_refused(given: dict[str, Any]) -> None:
    """The caller is told before any model is asked."""
    tool = make(**given)
    if "run" in given:
        object.__setattr__(tool, "run", None)
    with pytest.raises(UserError):
        registered([tool], 1.0)


def test_something_that_is_no_tool_is_refused() -> None:
    """A function is no tool."""
    with pytest.raises(UserError, match="AgentTool"):
        registered([print], 1.0)  # type: ignore[list-item]


def test_a_tier_given_as_text_becomes_the_tier() -> None:
    """`tier="read"` is the same as `Tier.READ`."""
    (tool,) = registered([make(tier="read")], 1.0)
    assert tool.tier is Tier.READ


def test_a_tool_that_changes_itself_changes_nothing() -> None:
    """S5: what was registered is a copy; tier, name, schema and function stay as they were."""
    schema: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string"}}}
    tool = make(tier=Tier.WRITE, schema=schema)
    (copy,) = registered([tool], 1.0)
    schema["properties"]["b"] = {"type": "string"}
    for name, value in (("tier", Tier.READ), ("name", "read_file"), ("run", lambda _a, _c: ToolOutput("other"))):
        object.__setattr__(tool, name, value)
    assert (copy.tier, copy.name, dict(copy.schema)) == (
        Tier.WRITE,
        "lookup",
        {"type": "object", "properties": {"a": {"type": "string"}}},
    )
    assert copy.run({}, None) == ToolOutput("found")


def test_a_subclass_cannot_answer_differently_later() -> None:
    """A tier that is a property is asked once."""
    answers = [Tier.READ, Tier.READ, Tier.READ, Tier.WRITE]

    class Sly(AgentTool):
        def __getattribute__(self, name: str) -> Any:
            if name == "tier" and answers:
                return answers.pop(0)
            return super().__getattribute__(name)

    (copy,) = registered([Sly("lookup", Tier.WRITE, "d", SCHEMA, lambda _a, _c: ToolOutput("x"))], 1.0)
    assert type(copy) is AgentTool
    assert {copy.tier for _ in range(10)} == {Tier.READ}


def raising(error: BaseException) -> Callable[..., Any]:
    """A tool's function that raises."""

    def run(_arguments: Mapping[str, Any], _context: Any) -> ToolOutput:
        raise error

    return run


@pytest.mark.parametrize("error", [ToolInputError("no such thing"), Refusal("x", "no"), ToolPermissionError("no")])
def test_words_of_an_error_are_framed(error: Exception) -> None:
    """S1: an error's words may quote a third party; they are an untrusted output and end nothing."""
    assert call(raising(error)) == ToolOutput(str(error), is_error=True, untrusted=True)


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
def test_a_tool_that_exits_only_fails(error: BaseException) -> None:
    """`sys.exit` in a tool is an ordinary error for the belt."""
    with pytest.raises(RuntimeError, match=type(error).__name__):
        call(raising(error))


def test_a_tool_that_raises_is_left_to_the_belt() -> None:
    """The belt frames the message (tests/unit/test_belt.py)."""
    with pytest.raises(ZeroDivisionError):
        call(lambda _a, _c: 1 / 0)


def test_a_tool_that_hangs_is_left_behind() -> None:
    """Its time is up, the run goes on, and its thread keeps no process alive."""
    release = threading.Event()
    output = call(lambda _a, _c: release.wait(60), timeout_s=0.05)
    hung = [t for t in threading.enumerate() if t.name == "tool-lookup"]
    assert output == ToolOutput(
        "lookup did not come back within 0.05 s and was left behind.", is_error=True, untrusted=False
    )
    assert [t.daemon for t in hung] == [True]
    release.set()


@pytest.mark.parametrize("junk", [None, "text", 7, {"text": "x"}, ToolOutput(None), ToolOutput(b"x")])  # type: ignore[arg-type]
def test_junk_is_an_error_of_the_tool(junk: Any) -> None:
    """What is no output with a text is told as such."""
    output = call(lambda _a, _c: junk)
    assert (output.is_error, output.untrusted) == (True, True)
    assert "which is no ToolOutput" in output.text


def test_a_result_that_hangs_when_it_is_looked_at_is_left_behind() -> None:
    """Reading a result is the tool's time too."""
    release = threading.Event()

    class Slow(ToolOutput):
        def __getattribute__(self, name: str) -> Any:
            release.wait(60)
            return super().__getattribute__(name)

    output = call(lambda _a, _c: Slow("x"), timeout_s=0.05)
    release.set()
    assert "left behind" in output.text


def test_an_error_that_cannot_be_told_only_fails() -> None:
    """Its words raise: that is the tool's error then, and nothing waits for it."""

    class Mute(ToolInputError):
        def __str__(self) -> str:
            raise LookupError("no words")

    with pytest.raises(LookupError):
        call(raising(Mute("x")))


def test_a_text_with_methods_of_its_own_becomes_plain() -> None:
    """None of them is ever called."""

    class Text(str):
        __slots__ = ()

        def strip(self, _chars: str | None = None, /) -> str:
            raise RuntimeError("called")

        __str__ = __eq__ = strip  # type: ignore[assignment]
        __hash__ = str.__hash__

    output = call(lambda _a, _c: ToolOutput(Text("plain")))
    assert (type(output.text), output.text) == (str, "plain")


@pytest.mark.parametrize(("given", "framed"), [(True, True), (False, False), (None, True), (0, True), ("no", True)])
def test_only_an_honest_false_takes_the_frame_away(given: Any, framed: bool) -> None:
    """S1: a slip leaves the frame on."""
    assert call(lambda _a, _c: ToolOutput("x", untrusted=given)) == ToolOutput("x", untrusted=framed)
