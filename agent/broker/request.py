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


def request_reply(trigger: Trigger, gate: Gate, wish: Wish) -> tuple[dict[str, Any], bytes]:
    """Provenance and text of what was asked.

    Returns:
        Header `{provenance, author, kind}` with provenance `maintainer`, `third-party` or `none`, and the text.
    """
    author = trigger.text_author.login if trigger.text_author else None
    header = {"author": author or "", "kind": trigger.text_kind}
    if not trigger.text_kind:
        return {**header, "provenance": "none"}, b""
    trusted = text_matters(trigger) and bool(wish.request) and _established(gate, trigger)
    text = wish.request if trusted else trigger.text
    return {**header, "provenance": "maintainer" if trusted else "third-party"}, text.encode("utf-8", "replace")


def _established(gate: Gate, trigger: Trigger) -> bool:
    """The author writes, and the text is as it was: both are facts that the gate found at the top."""
    kind = trigger.text_kind.replace("_", " ")
    wanted = {f"author of the {kind}", kind}
    tops = {fact.about for fact in gate.facts if fact.ceiling is Ceiling.IMPLEMENT}
    return wanted <= tops
