"""What started the run: event name, payload bytes and identity settings, read into one `Trigger`.

Pure: no files, no environment, no network. Whatever the bytes are, the answer is a `Trigger`, a `Skip`
with a sentence, or a `UserError`; never another exception. A value of the wrong shape reads as absent, and
absence is what the gate fails closed on (S6).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent.broker import payload as read
from agent.broker.event_words import (
    COMMENT_EVENTS,
    EVENTS,
    PULL_EVENTS,
    Account,
    Head,
    Skip,
    Trigger,
    Upstream,
)
from agent.contract.dataclass import replace
from agent.contract.errors import UserError

__all__ = [
    "COMMENT_EVENTS",
    "EVENTS",
    "PULL_EVENTS",
    "Account",
    "Head",
    "Skip",
    "Trigger",
    "Upstream",
    "read_event",
    "upstream_pull",
    "with_pull",
]


def read_event(name: str, payload: bytes, identity: Mapping[str, str]) -> Trigger | Skip:
    """Read one event.

    Args:
        name: GITHUB_EVENT_NAME.
        payload: content of GITHUB_EVENT_PATH.
        identity: GITHUB_REPOSITORY (needed), GITHUB_REPOSITORY_ID, GITHUB_ACTOR, GITHUB_TRIGGERING_ACTOR,
            GITHUB_RUN_ATTEMPT; further keys are not looked at.

    Raises:
        UserError: the bytes are no event of this name, or runner and payload name different repositories.
    """
    if name not in EVENTS:
        shown = name if name.isascii() and name.isprintable() and 0 < len(name) <= 60 else "of an unknown name"
        return Skip(f"Airlock does nothing on the event {shown}. It knows: {', '.join(sorted(EVENTS))}.")
    data = read.parse(payload)
    base = _base(name, data, identity)
    if name in PULL_EVENTS:
        return _pull(base, data)
    if name in COMMENT_EVENTS:
        return _comment(base, data)
    if name == "issues":
        return _issue(base, data)
    if name == "workflow_run":
        return _workflow_run(base, data)
    return base


def with_pull(trigger: Trigger, pull: Mapping[str, Any]) -> Trigger:
    """The trigger completed by the API's object of its pull request (comments, workflow_run, dispatch).

    Raises:
        UserError: the object is not that pull request, or lacks its number or head.
    """
    number = read.number(pull, "number")
    if number is None or (trigger.number is not None and trigger.number != number):
        raise UserError(f"GitHub answered with another pull request than {trigger.number}.")
    base = read.obj(pull, "base")
    head = _head(read.obj(pull, "head"), trigger)
    if head.sha is None:
        raise UserError(f"GitHub's answer about pull request {number} names no head commit.")
    return replace(
        trigger,
        number=number,
        is_pull_request=True,
        head=head,
        base_ref=read.text(base, "ref"),
        base_sha=read.sha(base, "sha"),
    )


def upstream_pull(trigger: Trigger, pulls: list[Any]) -> Mapping[str, Any] | Skip:
    """The open pull request that a failed upstream run was for, by head repository and commit.

    The payload's own list is empty for forks, so the caller lists the open pull requests of that head
    (F19). None or several: no guess.
    """
    head = trigger.head
    found = [
        pull
        for pull in pulls
        if isinstance(pull, dict)
        and head.sha is not None
        and read.sha(read.obj(pull, "head"), "sha") == head.sha
        and _same(read.full_name(read.obj(pull, "head", "repo").get("full_name")), head.repository)
    ]
    if len(found) == 1:
        return found[0]
    how_many = "No open pull request has" if not found else f"{len(found)} open pull requests have"
    return Skip(f"{how_many} the failed run's head commit, so there is none to answer on.")


def _base(name: str, data: Mapping[str, Any], identity: Mapping[str, str]) -> Trigger:
    repository = read.full_name(identity.get("GITHUB_REPOSITORY"))
    if repository is None:
        raise UserError("GITHUB_REPOSITORY is not set to owner/name, so there is no repository to act on.")
    told = read.obj(data, "repository")
    named = told.get("full_name")
    if "repository" in data and not _same(read.full_name(named), repository):
        raise UserError(
            f"The event's payload is not about {repository}, which GITHUB_REPOSITORY names. Nothing was done."
        )
    ids = {read.number(told, "id"), _digits(identity.get("GITHUB_REPOSITORY_ID"))} - {None}
    if len(ids) > 1:
        raise UserError("GITHUB_REPOSITORY_ID and the event's payload name different repositories.")
    return Trigger(
        event=name,
        action=read.text(data, "action"),
        repository=repository,
        repository_id=ids.pop() if ids else None,
        default_branch=read.text(told, "default_branch"),
        actor=read.login(identity.get("GITHUB_ACTOR")),
        triggering_actor=read.login(identity.get("GITHUB_TRIGGERING_ACTOR")),
        sender=_account(data, "sender"),
        attempt=_digits(identity.get("GITHUB_RUN_ATTEMPT")) or 1,
    )


def _pull(base: Trigger, data: Mapping[str, Any]) -> Trigger:
    pull = _needed(data, "pull_request", base.event)
    trigger = _labelled(base, data, pull)
    trigger = with_pull(trigger, pull)
    if base.action == "labeled":
        return trigger  # the label started it, not the author's text
    return replace(
        trigger,
        text_kind="pull_request",
        text=read.text(pull, "body") or "",
        text_id=read.number(pull, "id"),
        text_updated_at=read.text(pull, "updated_at"),
        text_author=_account(pull, "user"),
    )


def _comment(base: Trigger, data: Mapping[str, Any]) -> Trigger:
    comment = _needed(data, "comment", base.event)
    trigger = replace(
        base,
        text_kind="comment" if base.event == "issue_comment" else "review_comment",
        text=read.text(comment, "body") or "",
        text_id=read.number(comment, "id"),
        text_updated_at=read.text(comment, "updated_at"),
        text_author=_account(comment, "user"),
    )
    if base.event == "pull_request_review_comment":
        return with_pull(trigger, _needed(data, "pull_request", base.event))
    issue = _needed(data, "issue", base.event)
    trigger = _labelled(trigger, {}, issue)
    return replace(trigger, number=_number(issue, base.event), is_pull_request=bool(read.obj(issue, "pull_request")))


def _issue(base: Trigger, data: Mapping[str, Any]) -> Trigger:
    issue = _needed(data, "issue", base.event)
    trigger = replace(_labelled(base, data, issue), number=_number(issue, base.event))
    if base.action == "labeled":
        return trigger
    return replace(
        trigger,
        text_kind="issue",
        text=read.text(issue, "body") or "",
        text_id=read.number(issue, "id"),
        text_updated_at=read.text(issue, "updated_at"),
        text_author=_account(issue, "user"),
    )


def _workflow_run(base: Trigger, data: Mapping[str, Any]) -> Trigger:
    run = _needed(data, "workflow_run", base.event)
    run_id = read.number(run, "id")
    if run_id is None:
        raise UserError("The event workflow_run names no run.")
    repo = read.obj(run, "head_repository")
    name = read.full_name(repo.get("full_name"))
    pulls = [read.number(pull, "number") for pull in read.items(run, "pull_requests") if isinstance(pull, dict)]
    return replace(
        base,
        head=Head(
            repository=name,
            repository_id=read.number(repo, "id"),
            ref=read.text(run, "head_branch"),
            sha=read.sha(run, "head_sha"),
            is_fork=not _own(name, read.number(repo, "id"), base),
            known=True,
        ),
        upstream=Upstream(
            run_id=run_id,
            event=read.text(run, "event"),
            conclusion=read.text(run, "conclusion"),
            actor=_account(run, "actor"),
            triggering_actor=_account(run, "triggering_actor"),
            pull_requests=tuple(number for number in pulls if number is not None),
        ),
    )


def _labelled(trigger: Trigger, data: Mapping[str, Any], thing: Mapping[str, Any]) -> Trigger:
    names = [read.text(label, "name") for label in read.items(thing, "labels") if isinstance(label, dict)]
    return replace(
        trigger,
        label=read.text(read.obj(data, "label"), "name") if trigger.action == "labeled" else None,
        labels=tuple(name for name in names if name),
    )


def _head(head: Mapping[str, Any], trigger: Trigger) -> Head:
    repo = read.obj(head, "repo")
    name, number = read.full_name(repo.get("full_name")), read.number(repo, "id")
    return Head(
        repository=name,
        repository_id=number,
        ref=read.text(head, "ref"),
        sha=read.sha(head, "sha"),
        is_fork=not _own(name, number, trigger),
        known=True,
    )


def _own(name: str | None, number: int | None, trigger: Trigger) -> bool:
    """The run's own repository: by name, and by id where both are known (a renamed fork keeps its id)."""
    if not _same(name, trigger.repository):
        return False
    return number is None or trigger.repository_id is None or number == trigger.repository_id


def _same(one: str | None, other: str | None) -> bool:
    return one is not None and other is not None and one.casefold() == other.casefold()


def _account(data: Mapping[str, Any], key: str) -> Account:
    user = read.obj(data, key)
    return Account(read.login(user.get("login")), read.text(user, "type"), read.number(user, "id"))


def _needed(data: Mapping[str, Any], key: str, event: str) -> Mapping[str, Any]:
    found = read.obj(data, key)
    if not found:
        raise UserError(f"The event {event} has no object {key!r} in its payload.")
    return found


def _number(thing: Mapping[str, Any], event: str) -> int:
    number = read.number(thing, "number")
    if number is None:
        raise UserError(f"The event {event} names no issue or pull request number.")
    return number


def _digits(value: str | None) -> int | None:
    return int(value) if value and value.isascii() and value.isdigit() and len(value) < 19 else None
