"""Which mode the event asks for (DESIGN section 4.2). Pure; the gate then says what the actor may have.

* An empty or unknown mode is an error, whatever the event (B4). `auto` is a wish, not a mode.
* A comment or an issue's text starts a run only by the trigger word at the start of one of its own lines:
  not in a quote, not in a code block, not inside a word. That holds when the mode is given as well.
* Own branches and the own identity never start a run (loop guard, D1).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from agent.broker.event import COMMENT_EVENTS, PULL_EVENTS, Skip, Trigger
from agent.contract.dataclass import dataclass, field
from agent.contract.errors import UnknownModeError, UserError
from agent.contract.modes import MODES, Mode, get_mode
from agent.contract.regex import regex

WORDS = ("review", "fix-ci", "plan", "implement")

_PULL_ACTIONS = frozenset({"opened", "reopened", "synchronize", "ready_for_review", "review_requested"})
_LINE_END = regex(r"\r\n|\n|\r")
_COMMENT = regex(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_INK = regex(r"[^\r\n]")
_FENCE = regex(r" {0,3}(`{3,}|~{3,})")


@dataclass(frozen=True)
class ModeSettings:
    """What trusted configuration says about starting.

    Attributes:
        trigger: the word that starts a run in a comment.
        labels: labels that start a run.
        branch_prefix: own branches begin with it.
        own_logins: logins that Airlock itself writes under.
        modes: modes that configuration adds.
    """

    trigger: str = "/airlock"
    labels: tuple[str, ...] = ()
    branch_prefix: str = "airlock/"
    own_logins: frozenset[str] = frozenset({"github-actions[bot]"})
    modes: Mapping[str, Mode] = field(default_factory=dict)


@dataclass(frozen=True)
class Wish:
    """The mode that is asked for.

    Attributes:
        mode: exact name of a mode.
        why: one sentence for report and `explain`.
        request: text after the trigger and its mode word, as written; "" where there is none.
    """

    mode: str
    why: str
    request: str = ""


@dataclass(frozen=True)
class Call:
    """A trigger found in a text: the word right after it ("" where there is none) and the rest."""

    word: str
    rest: str


def wished_mode(mode: str, trigger: Trigger, settings: ModeSettings) -> Wish | Skip:
    """Decide which mode the event asks for.

    Args:
        mode: the action's input `mode`, untouched.
        trigger: the event.
        settings: from trusted configuration.

    Raises:
        UnknownModeError: the input is neither `auto` nor exactly a mode's name.
        UserError: `auto` on an event that says nothing about what to do.
    """
    fixed = _fixed(mode, settings)
    skip = _loop_guard(trigger, settings)
    if skip is not None:
        return skip
    if trigger.event in PULL_EVENTS:
        return _pull(fixed, trigger, settings)
    if trigger.event in COMMENT_EVENTS:
        return _comment(fixed, trigger, settings)
    if trigger.event == "issues":
        return _issue(fixed, trigger, settings)
    if trigger.event == "workflow_run":
        return _workflow_run(fixed, trigger)
    if fixed is None:
        raise UserError(
            f"The event {trigger.event} does not say what to do: set the input `mode` to one of "
            f"{', '.join(_known(settings))}."
        )
    return Wish(fixed, f"The workflow asks for {fixed} on {trigger.event}.")


def find_call(text: str, word: str) -> Call | None:
    """The first line of the text that begins with the trigger word, outside quotes and code blocks.

    A line ends where Markdown ends it and nowhere else: a quoted text may hold U+2028 or a form feed, after
    which Python would see a line without its quote mark. What stands in an HTML comment nobody sees, so it
    neither starts a run nor is part of what was asked.
    """
    fence = ""
    visible = _LINE_END.split(_COMMENT.sub(lambda found: _INK.sub(" ", found[0]), text))
    for index, line in enumerate(visible):
        mark = _FENCE.match(line)
        if mark and (not fence or (mark[1].startswith(fence) and not line[mark.end() :].strip())):
            fence = "" if fence else mark[1]
            continue
        body = line.lstrip(" ")
        if fence or len(line) - len(body) > 3 or not body.startswith(word):
            continue
        after = body[len(word) :]
        if after and not after[0].isspace():
            continue  # `/airlocks` or `/airlock-bot` is another word
        first = after.split(None, 1)
        rest = "\n".join([first[1] if len(first) > 1 else "", *visible[index + 1 :]])
        return Call(first[0] if first else "", rest.strip())
    return None


def _fixed(mode: str, settings: ModeSettings) -> str | None:
    if mode == "auto":
        return None
    if mode == "":
        raise UnknownModeError(
            f"The input `mode` is empty, and an empty mode is no mode. Use auto or one of "
            f"{', '.join(_known(settings))}, or leave the input out."
        )
    return get_mode(mode, settings.modes).name


def _known(settings: ModeSettings) -> list[str]:
    return sorted({*MODES, *settings.modes})


def _loop_guard(trigger: Trigger, settings: ModeSettings) -> Skip | None:
    if trigger.event in {"workflow_dispatch", "schedule"}:
        return None  # somebody with write access named the mode there
    ref = trigger.head.ref or ""
    own_head = not trigger.head.is_fork and ref.casefold().startswith(settings.branch_prefix.casefold())
    if own_head and trigger.event not in COMMENT_EVENTS:
        return Skip("The branch is one of Airlock's own, and those never start a run.")
    people = {trigger.sender.login, trigger.actor}
    people |= {trigger.text_author.login} if trigger.text_author else set()
    if people & settings.own_logins:
        return Skip("The event comes from Airlock's own identity, which never starts a run.")
    return None


def _pull(fixed: str | None, trigger: Trigger, settings: ModeSettings) -> Wish | Skip:
    if trigger.action == "labeled":
        if trigger.label not in settings.labels:
            return Skip("The label that was set is not one that ai.agent.labels names.")
    elif trigger.action not in _PULL_ACTIONS:
        return Skip("Nothing is to be done when a pull request changes in this way.")
    if fixed:
        return Wish(fixed, f"The workflow asks for {fixed} on {trigger.event}.")
    return Wish("review", "A pull request is reviewed.")


def _comment(fixed: str | None, trigger: Trigger, settings: ModeSettings) -> Wish | Skip:
    if trigger.action != "created":
        return Skip("Only a new comment starts a run, not an edited or deleted one.")
    call = find_call(trigger.text, settings.trigger)
    if call is None:
        return Skip(f"The comment has no line that begins with {settings.trigger}.")
    named = call.word if call.word in WORDS or call.word in settings.modes else None
    if fixed:
        request = call.rest if named else f"{call.word} {call.rest}".strip()
        return Wish(fixed, f"The workflow asks for {fixed}, and a comment called for it.", request)
    if named:
        return Wish(named, f"A comment asks for {named}.", call.rest)
    words = ", ".join((*WORDS, *sorted(settings.modes)))
    return Skip(f"The word after {settings.trigger} in the comment is none of: {words}.")


def _issue(fixed: str | None, trigger: Trigger, settings: ModeSettings) -> Wish | Skip:
    mode = fixed or "plan"
    if trigger.action == "labeled":
        if trigger.label in settings.labels:
            return Wish(mode, f"A label that ai.agent.labels names was set: {mode}.")
        return Skip("The label that was set is not one that ai.agent.labels names.")
    if trigger.action != "opened":
        return Skip("Nothing is to be done when an issue changes in this way.")
    call = find_call(trigger.text, settings.trigger)
    if call is None:
        return Skip(f"The issue has no line that begins with {settings.trigger}.")
    request = call.rest if call.word in WORDS else f"{call.word} {call.rest}".strip()
    return Wish(mode, f"The issue's text calls for it: {mode}.", request)


def _workflow_run(fixed: str | None, trigger: Trigger) -> Wish | Skip:
    upstream = trigger.upstream
    if upstream is None or trigger.action != "completed":
        return Skip("The upstream workflow run has not ended.")
    mode = fixed or "fix-ci"
    if mode != "fix-ci":
        return Wish(mode, f"The workflow asks for {mode} after an upstream run.")
    if upstream.conclusion != "failure":
        return Skip("The upstream workflow run did not fail, so there is nothing to fix.")
    if upstream.event == "pull_request_target":
        return Skip("The failed run was for pull_request_target, whose commit is the base's, not the change's.")
    return Wish("fix-ci", "An upstream workflow run failed.")
