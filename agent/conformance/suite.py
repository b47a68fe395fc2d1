"""The register of behaviours and the runner."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from agent.conformance.bench import Bench, Factory, NotConforming
from agent.harness.loop import AssistantMessage, LoopResult, ToolMessage


@dataclass(frozen=True)
class Behaviour:
    """One thing that a loop on an adapter must do.

    Attributes:
        name: of the function.
        sentence: what must hold.
        check: raises NotConforming.
    """

    name: str
    sentence: str
    check: Callable[[Bench], None]

    def run(self, factory: Factory) -> None:
        """Raises NotConforming when the adapter and the loop do not do what the sentence says."""
        self.check(Bench(factory))


@dataclass(frozen=True)
class Finding:
    """One behaviour's outcome; `problem` is empty when it held."""

    behaviour: Behaviour
    problem: str
    seconds: float


BEHAVIOURS: list[Behaviour] = []


def behaviour(check: Callable[[Bench], None]) -> Callable[[Bench], None]:
    """Register a function whose docstring is the sentence."""
    BEHAVIOURS.append(Behaviour(check.__name__, (check.__doc__ or "").strip(), check))
    return check


def run_suite(factory: Factory, behaviours: Iterable[Behaviour] = BEHAVIOURS) -> list[Finding]:
    """Run each behaviour on a fresh adapter. Errors of an adapter that escape the loop are findings too."""
    return list(each_finding(factory, behaviours))


def each_finding(factory: Factory, behaviours: Iterable[Behaviour] = BEHAVIOURS) -> Iterator[Finding]:
    """As `run_suite`, each as soon as it is known."""
    for one in behaviours:
        started = time.monotonic()
        problem = ""
        try:
            one.run(factory)
        except NotConforming as exc:
            problem = str(exc)
        except Exception as exc:  # noqa: BLE001 - the adapter under test is foreign code; its escape is the finding
            problem = f"{type(exc).__name__}: {exc}"
        yield Finding(one, problem, time.monotonic() - started)


def unanswered(result: LoopResult) -> list[str]:
    """Ids of calls in a history without exactly one result right after them."""
    open_ids: list[str] = []
    for index, message in enumerate(result.messages):
        if not isinstance(message, AssistantMessage) or not message.calls:
            continue
        after = result.messages[index + 1] if index + 1 < len(result.messages) else None
        answered = [one.call_id for one in after.results] if isinstance(after, ToolMessage) else []
        wanted = [one.id for one in message.calls]
        if answered != wanted:
            open_ids += wanted
    return open_ids
