"""Pushing to the pull request's own branch: a maintainer's own words ask for it, and nothing else does (S4)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.broker.event import Account, Head, Trigger
from agent.broker.gate import Ceiling, Fact, Gate
from agent.broker.mode import Wish
from agent.broker.own_branch import asked_branch, asks

REQUEST = "on this branch: rename the flag"
TRIGGER = Trigger(
    event="issue_comment",
    action="created",
    repository="acme/widgets",
    repository_id=1,
    default_branch="main",
    actor="maintainer",
    triggering_actor="maintainer",
    attempt=1,
    sender=Account("maintainer", "User"),
    text=f"/airlock implement {REQUEST}",
    text_kind="comment",
    text_author=Account("maintainer", "User"),
    number=7,
    is_pull_request=True,
    head=Head(ref="feature/x", sha="a" * 40, repository="acme/widgets", known=True),
    base_ref="release",
)
TOP = Gate(
    Ceiling.IMPLEMENT,
    "implement",
    "",
    (Fact("author of the comment", Ceiling.IMPLEMENT, ""), Fact("comment", Ceiling.IMPLEMENT, "")),
)
WISH = Wish("implement", "", REQUEST)
NEVER = frozenset({"main", "release"})


@pytest.mark.parametrize(
    "request_",
    [
        "on this branch: rename the flag",
        "On this branch",
        "please on this pull request's branch, fix the test",
        "fix the test\n\nPush to this branch.",
        "fix it\n- push to this PR",
        "fix it\nplease commit to this pull request",
        "push it to this PR's branch!",
    ],
)
def test_a_line_that_asks_is_recognised(request_: str) -> None:
    """By how the line begins."""
    assert asks(request_)


@pytest.mark.parametrize(
    "request_",
    [
        "",
        "fix the test",
        "do not push to this branch",
        "never on this branch",
        "push to this branch fails, find out why",
        "push to main",
        "on main: fix it",
        "> on this branch: fix it",
        "quoted:\n> push to this branch.",
        "```\non this branch\n```",
        "on the branch main, fix it",
        "on thisbranch",
    ],
)
def test_a_line_that_does_not_ask_is_not(request_: str) -> None:
    """Quotes, code, negations, other branches and remarks about pushing ask for nothing."""
    assert not asks(request_)


def test_a_maintainers_request_opens_the_branch() -> None:
    """Positive control of all refusals below."""
    assert asked_branch(TRIGGER, TOP, WISH, NEVER) == "feature/x"


@pytest.mark.parametrize(
    ("trigger", "gate", "wish"),
    [
        (TRIGGER, TOP, replace(WISH, request="fix the test")),
        (TRIGGER, TOP, replace(WISH, request="")),
        (TRIGGER, replace(TOP, facts=(replace(TOP.facts[0], ceiling=Ceiling.RESTRICTED), TOP.facts[1])), WISH),
        (TRIGGER, replace(TOP, facts=(TOP.facts[0], replace(TOP.facts[1], ceiling=Ceiling.RESTRICTED))), WISH),
        (TRIGGER, replace(TOP, facts=()), WISH),
        (replace(TRIGGER, text_kind="pull_request"), TOP, WISH),
        (replace(TRIGGER, is_pull_request=False), TOP, WISH),
        (replace(TRIGGER, head=replace(TRIGGER.head, repository="fork/widgets", is_fork=True)), TOP, WISH),
        (replace(TRIGGER, head=replace(TRIGGER.head, known=False)), TOP, WISH),
        (replace(TRIGGER, head=replace(TRIGGER.head, ref=None)), TOP, WISH),
        (replace(TRIGGER, head=replace(TRIGGER.head, ref="main")), TOP, WISH),
        (replace(TRIGGER, head=replace(TRIGGER.head, ref="Release")), TOP, WISH),
    ],
    ids=[
        "not asked for", "no request", "author cannot write", "comment was edited", "nothing established",
        "the pull request's own text", "an issue", "a fork's branch", "origin unknown", "no name", "the default branch",
        "the base branch in another case",
    ],
)  # fmt: skip
def test_without_one_condition_the_branch_stays_closed(trigger: Trigger, gate: Gate, wish: Wish) -> None:
    """Each condition alone closes it."""
    assert asked_branch(trigger, gate, wish, NEVER) is None
