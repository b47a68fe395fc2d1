"""Whose words the request is (S1, B5): the one text that may reach the model as a maintainer's own.

Provenance, not content, decides: the text after the trigger of a comment or issue whose author holds write
access, equal to the payload's and unedited since. The gate has established all of that; anything less is
third-party text.
"""

from __future__ import annotations

from typing import Any

from agent.broker.event import Trigger
from agent.broker.gate import Ceiling, Gate, text_matters
from agent.broker.mode import Wish


def request_reply(
    trigger: Trigger, gate: Gate, wish: Wish, *, own_head: str | None = None
) -> tuple[dict[str, Any], bytes]:
    """Provenance and text of what was asked.

    Args:
        own_head: the pull request's branch, where the run may push to it.

    Returns:
        Header `{provenance, author, kind, own_head}` with provenance `maintainer`, `third-party` or `none`, and
        the text.
    """
    author = trigger.text_author.login if trigger.text_author else None
    header = {"author": author or "", "kind": trigger.text_kind, "own_head": own_head is not None}
    if not trigger.text_kind:
        return {**header, "provenance": "none"}, b""
    request = request_of(trigger, gate, wish)
    text = trigger.text if request is None else request
    provenance = "third-party" if request is None else "maintainer"
    return {**header, "provenance": provenance}, text.encode("utf-8", "replace")


def request_of(trigger: Trigger, gate: Gate, wish: Wish) -> str | None:
    """What a maintainer asks for, or None where nothing is established to be a maintainer's words."""
    established = text_matters(trigger) and bool(wish.request) and _established(gate, trigger)
    return wish.request if established else None


def _established(gate: Gate, trigger: Trigger) -> bool:
    """The author writes, and the text is as it was: both are facts that the gate found at the top."""
    kind = trigger.text_kind.replace("_", " ")
    wanted = {f"author of the {kind}", kind}
    tops = {fact.about for fact in gate.facts if fact.ceiling is Ceiling.IMPLEMENT}
    return wanted <= tops
