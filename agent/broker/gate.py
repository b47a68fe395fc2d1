"""Who may start what (S6, B3). Pure: facts in, a ceiling and its reason out.

House rules:
* The ceiling is the lowest over everybody who had a hand in starting the run, and over the code's origin.
* Only the answers `admin` and `write` lift a person above `restricted`. Every doubt is restricted: a ghost,
  a name that is no user, a status other than 200, a time-out, a body of another shape.
* A bot is an outsider unless configuration names its exact login *and* the payload says `type: Bot`.
  An association (MEMBER, CONTRIBUTOR) says nothing about write access and is never looked at.
* A fork's code never meets a git tier, whoever asks.
* A text that was edited or deleted after it started the run has lost its author, and with it its right.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from agent.broker.event import Account, Trigger
from agent.contract.dataclass import dataclass
from agent.contract.modes import Mode, Tier, get_mode

WRITERS = frozenset({"admin", "write"})


class Ceiling(IntEnum):
    """Strongest mode that may run; a lower number is stricter, and the lowest fact wins."""

    RESTRICTED = 0
    REVIEW = 1
    IMPLEMENT = 2


@dataclass(frozen=True)
class Person:
    """Somebody who had a hand in starting the run.

    Attributes:
        role: such as `actor` or `author of the comment`.
        account: login and type; the type may be unknown.
    """

    role: str
    account: Account


@dataclass(frozen=True)
class Answer:
    """What the collaborators endpoint said about one login.

    Attributes:
        permission: the word of its body, only where the status was 200; else None.
        detail: what went wrong, for the reason.
    """

    permission: str | None
    detail: str = ""


@dataclass(frozen=True)
class TextNow:
    """The triggering text as GitHub has it now.

    Attributes:
        body: None where it is gone or could not be read.
        updated_at: or None.
        author: login, or None.
        detail: what went wrong, for the reason.
    """

    body: str | None
    updated_at: str | None = None
    author: str | None = None
    detail: str = ""


@dataclass(frozen=True)
class Fact:
    """One fact and the ceiling it sets."""

    about: str
    ceiling: Ceiling
    reason: str


@dataclass(frozen=True)
class Gate:
    """The verdict.

    Attributes:
        ceiling: lowest over all facts.
        mode: name of the mode in force.
        reason: the sentence of the fact that set the ceiling.
        facts: every fact considered, in order.
        ignored: `outsiders: ignore` applies: nothing is to be done.
    """

    ceiling: Ceiling
    mode: str
    reason: str
    facts: tuple[Fact, ...]
    ignored: bool = False


def people(trigger: Trigger) -> tuple[Person, ...]:
    """Everybody whose permission counts, each with the reason for asking."""
    if trigger.event == "schedule":
        return ()  # only who can write the default branch can set a schedule and its mode
    found = [Person("actor", _typed(trigger.actor, trigger))]
    if trigger.triggering_actor is not None or trigger.attempt > 1:
        found.append(Person("triggering actor", _typed(trigger.triggering_actor, trigger)))
    if trigger.event == "workflow_dispatch":
        return tuple(found)
    found.append(Person("sender", trigger.sender))
    if trigger.text_author is not None:
        found.append(Person(f"author of the {trigger.text_kind.replace('_', ' ')}", trigger.text_author))
    if trigger.upstream is not None:
        found.append(Person("upstream actor", trigger.upstream.actor))
        found.append(Person("upstream triggering actor", trigger.upstream.triggering_actor))
    return tuple(found)


def logins_to_ask(trigger: Trigger) -> tuple[str, ...]:
    """Logins whose permission decides; bots are decided by configuration alone."""
    asked = [p.account.login for p in people(trigger) if p.account.login and not _is_bot(p.account)]
    return tuple(dict.fromkeys(asked))


def text_matters(trigger: Trigger) -> bool:
    """True where the text itself started the run, so that it must still be what it was."""
    return trigger.text_kind in {"comment", "review_comment", "issue"}


def decide(
    trigger: Trigger,
    wished: Mode,
    answers: Mapping[str, Answer],
    *,
    text_now: TextNow | None = None,
    allow_bots: frozenset[str] = frozenset(),
    outsiders: str = "restricted",
) -> Gate:
    """Decide the ceiling and the mode in force.

    Args:
        trigger: the event, completed by its pull request where it is about one.
        wished: the mode asked for.
        answers: by login; a login without an answer counts as not answered.
        text_now: the triggering text as it is now; needed where `text_matters`.
        allow_bots: exact logins of bots that configuration trusts like writers.
        outsiders: `restricted` or `ignore`; another word counts as `ignore`, the stricter.
    """
    facts = [_person(person, answers, allow_bots) for person in people(trigger)]
    facts += _text(trigger, text_now)
    facts += _code(trigger)
    if not facts:
        facts = [Fact("schedule", Ceiling.IMPLEMENT, "Only writers of the default branch can set a schedule.")]
    lowest = min(facts, key=lambda fact: fact.ceiling)
    restricted = lowest.ceiling is Ceiling.RESTRICTED
    return Gate(
        ceiling=lowest.ceiling,
        mode=_mode(wished, lowest.ceiling),
        reason=lowest.reason,
        facts=tuple(facts),
        ignored=restricted and outsiders != "restricted",
    )


def _mode(wished: Mode, ceiling: Ceiling) -> str:
    if ceiling is Ceiling.RESTRICTED:
        # A mode of configuration's own that reads alone is as weak; its playbook is a writer's words.
        return wished.name if wished.tiers <= get_mode("restricted").tiers else "restricted"
    if ceiling is Ceiling.REVIEW and not wished.tiers <= {Tier.READ, Tier.COMMENT}:
        return "review"  # only a pull request's code sets this ceiling
    return wished.name


def _person(person: Person, answers: Mapping[str, Answer], allow_bots: frozenset[str]) -> Fact:
    login = person.account.login
    if login is None:
        return _outsider(person.role, f"The {person.role} is unknown or a deleted account.")
    if _is_bot(person.account):
        if login not in allow_bots:
            return _outsider(
                person.role, f"The {person.role}, {login}, is a bot that ai.agent.allowBots does not name."
            )
        if person.account.type != "Bot":
            return _outsider(
                person.role, f"The {person.role} is named {login}, but the event does not say that it is a bot."
            )
        return Fact(person.role, Ceiling.IMPLEMENT, f"The {person.role}, {login}, is a bot that is named.")
    answer = answers.get(login, Answer(None, "not answered"))
    if answer.permission in WRITERS:
        return Fact(person.role, Ceiling.IMPLEMENT, f"The {person.role}, {login}, has {answer.permission} access.")
    if answer.permission is None:
        return _outsider(person.role, f"The permission of the {person.role}, {login}, is not known: {answer.detail}.")
    return _outsider(person.role, f"The {person.role}, {login}, has no write access.")


def _outsider(about: str, reason: str) -> Fact:
    return Fact(about, Ceiling.RESTRICTED, reason)


def _text(trigger: Trigger, now: TextNow | None) -> list[Fact]:
    if not text_matters(trigger):
        return []
    about = trigger.text_kind.replace("_", " ")
    if now is None or now.body is None:
        detail = now.detail if now and now.detail else "it was not read again"
        return [_outsider(about, f"The {about} that started the run cannot be confirmed: {detail}.")]
    # An issue's updated_at moves with every label and comment, so only its text says whether it was edited.
    moved = trigger.text_kind != "issue" and trigger.text_updated_at not in (None, now.updated_at)
    if now.body != trigger.text or moved:
        return [_outsider(about, f"The {about} was edited after it started the run; write a new one.")]
    author = trigger.text_author.login if trigger.text_author else None
    if now.author != author:
        return [_outsider(about, f"The {about} has another author now than when it started the run.")]
    return [Fact(about, Ceiling.IMPLEMENT, f"The {about} is as it was when it started the run.")]


def _code(trigger: Trigger) -> list[Fact]:
    head = trigger.head
    if trigger.upstream is not None:
        if head.is_fork:
            return [_outsider("head repository", "The failed run was for a fork's code: a summary is all it gets.")]
        return [Fact("head repository", Ceiling.IMPLEMENT, "The code is this repository's own.")]
    if not trigger.is_pull_request:
        return []
    if not head.known:
        return [Fact("head repository", Ceiling.REVIEW, "It is not known where the pull request's code is from.")]
    if head.repository is None:
        return [Fact("head repository", Ceiling.REVIEW, "The pull request's fork is gone.")]
    if head.is_fork:
        return [Fact("head repository", Ceiling.REVIEW, "The pull request's code is a fork's.")]
    return [Fact("head repository", Ceiling.IMPLEMENT, "The code is this repository's own.")]


def _is_bot(account: Account) -> bool:
    """A person's login can hold no bracket; a bot's type may be missing where only its login is known."""
    return account.type not in (None, "User") or (account.login or "").endswith("[bot]")


def _typed(login: str | None, trigger: Trigger) -> Account:
    """The account of a login that the runner names without a type, from the payload where it is there."""
    known = [trigger.sender, trigger.text_author]
    if trigger.upstream is not None:
        known += [trigger.upstream.actor, trigger.upstream.triggering_actor]
    for account in known:
        if account is not None and login is not None and account.login == login:
            return account
    return Account(login)
