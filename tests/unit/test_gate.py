"""Who may start what: a table of cases, each with the ceiling, the mode in force, and the fact that set it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.broker.event import Account, Head, Trigger, Upstream
from agent.broker.gate import Answer, Ceiling, Fact, Gate, TextNow, decide, logins_to_ask, people
from agent.contract.modes import MODES, Mode, Tier, get_mode

MAINTAINER = Account("maintainer", "User", 2)
OUTSIDER = Account("outsider", "User", 3)
BOT = Account("renovate[bot]", "Bot", 4)
OWN = Head("acme/widgets", 1001, "feature/x", "a" * 40, is_fork=False, known=True)
FORK = Head("outsider/widgets", 5, "main", "a" * 40, is_fork=True, known=True)
GONE = Head(None, None, "fix", "a" * 40, is_fork=True, known=True)
ANSWERS = {
    "maintainer": Answer("admin"),
    "writer": Answer("write"),
    "outsider": Answer("read"),
    "stranger": Answer("none"),
    "broken": Answer(None, "GitHub answered 500"),
}
NOW = TextNow("/airlock implement", "2026-01-01T00:00:00Z", "maintainer")


def comment(who: Account = MAINTAINER, head: Head = OWN, **fields: object) -> Trigger:
    base = Trigger(
        event="issue_comment",
        action="created",
        repository="acme/widgets",
        repository_id=1001,
        default_branch="main",
        actor=who.login,
        triggering_actor=who.login,
        sender=who,
        number=7,
        is_pull_request=True,
        text_kind="comment",
        text="/airlock implement",
        text_id=71,
        text_updated_at="2026-01-01T00:00:00Z",
        text_author=who,
        head=head,
    )
    return replace(base, **fields)  # type: ignore[arg-type]


def pull(who: Account = MAINTAINER, head: Head = OWN, **fields: object) -> Trigger:
    started = comment(who, head, event="pull_request", action="opened", text_kind="pull_request", text="Please.")
    return replace(started, **fields)  # type: ignore[arg-type]


def failed_run(actor: Account = MAINTAINER, rerun: Account = MAINTAINER, head: Head = OWN, **fields: object) -> Trigger:
    started = replace(
        comment(head=head),
        event="workflow_run",
        action="completed",
        number=None,
        is_pull_request=False,
        text_kind="",
        text_author=None,
        upstream=Upstream(500, "push", "failure", actor, rerun),
    )
    return replace(started, **fields)  # type: ignore[arg-type]


def gate(trigger: Trigger, wished: str = "implement", **options: object) -> Gate:
    return decide(
        trigger,
        get_mode(wished),
        ANSWERS,
        **{"text_now": NOW, **options},  # type: ignore[arg-type]
    )


RESTRICTED = {
    "outsider with read on a public repository": (pull(OUTSIDER), {}, "author of the pull request"),
    "commenter without write": (comment(OUTSIDER), {}, "actor"),
    "member without write": (comment(Account("stranger", "User")), {}, "actor"),
    "ghost": (comment(Account(None)), {}, "actor"),
    "ghost author alone": (comment(text_author=Account(None)), {}, "author of the comment"),
    "permission look-up failed": (comment(Account("broken", "User")), {}, "actor"),
    "login nobody asked about": (comment(Account("unasked", "User")), {}, "actor"),
    "bot that is not named": (comment(BOT), {}, "actor"),
    "bot by suffix whose type is User": (
        comment(Account("renovate[bot]", "User")),
        {"allow_bots": frozenset({"renovate[bot]"})},
        "actor",
    ),
    "bot whose type the event does not say": (
        comment(actor="renovate[bot]"),
        {"allow_bots": frozenset({"renovate[bot]"})},
        "actor",
    ),
    "bot named in another case": (comment(BOT), {"allow_bots": frozenset({"Renovate[bot]"})}, "actor"),
    "bot named without its suffix": (comment(BOT), {"allow_bots": frozenset({"renovate"})}, "actor"),
    "bot by type with an ordinary login": (
        comment(Account("maintainer", "Bot")),
        {"allow_bots": frozenset()},
        "actor",
    ),
    "organization as sender": (comment(sender=Account("maintainer", "Organization")), {}, "actor"),
    "dependabot made to act for an outsider": (
        pull(BOT, text_author=OUTSIDER),
        {"allow_bots": frozenset({"renovate[bot]"})},
        "author of the pull request",
    ),
    "maintainer re-runs an outsider's event": (
        comment(OUTSIDER, triggering_actor="maintainer", attempt=2),
        {},
        "actor",
    ),
    "outsider re-runs a maintainer's event": (comment(triggering_actor="outsider", attempt=2), {}, "triggering actor"),
    "re-run by nobody knows whom": (comment(triggering_actor=None, attempt=2), {}, "triggering actor"),
    "sender is not the actor": (comment(sender=OUTSIDER), {}, "sender"),
    "comment edited since": (comment(), {"text_now": replace(NOW, body="/airlock implement more")}, "comment"),
    "comment edited and put back": (
        comment(),
        {"text_now": replace(NOW, updated_at="2026-01-01T00:05:00Z")},
        "comment",
    ),
    "comment deleted since": (comment(), {"text_now": TextNow(None, detail="GitHub answered 404")}, "comment"),
    "comment not read again": (comment(), {"text_now": None}, "comment"),
    "comment with another author now": (comment(), {"text_now": replace(NOW, author="outsider")}, "comment"),
    "upstream run by an outsider": (failed_run(actor=OUTSIDER), {}, "upstream actor"),
    "upstream run re-run by an outsider": (failed_run(rerun=OUTSIDER), {}, "upstream triggering actor"),
    "upstream actor missing in an old payload": (failed_run(actor=Account(None)), {}, "upstream actor"),
    "upstream run of a fork": (failed_run(head=FORK), {}, "head repository"),
    "upstream run of a deleted fork": (failed_run(head=GONE), {}, "head repository"),
    "dispatch by an outsider": (comment(OUTSIDER, event="workflow_dispatch"), {}, "actor"),
    "no actor at all": (comment(actor=None), {}, "actor"),
}


@pytest.mark.parametrize("case", RESTRICTED)
def test_every_doubt_about_who_started_it_means_restricted(case: str) -> None:
    """S6: the named fact sets the ceiling to restricted, whatever was asked for."""
    trigger, options, about = RESTRICTED[case]

    verdict = gate(trigger, **options)

    assert (verdict.ceiling, verdict.mode, verdict.ignored) == (Ceiling.RESTRICTED, "restricted", False)
    restricting = [fact.about for fact in verdict.facts if fact.ceiling is Ceiling.RESTRICTED]
    assert about in restricting
    assert verdict.reason == next(f.reason for f in verdict.facts if f.ceiling is Ceiling.RESTRICTED)


@pytest.mark.parametrize("case", RESTRICTED)
def test_outsiders_ignore_turns_restricted_into_nothing(case: str) -> None:
    """With `outsiders: ignore`, and with any other word, a restricted run does not happen."""
    trigger, options, _ = RESTRICTED[case]

    assert gate(trigger, outsiders="ignore", **options).ignored
    assert gate(trigger, outsiders="Restricted", **options).ignored


OPEN = {
    "maintainer's comment": (comment(), {}),
    "writer's comment": (
        comment(Account("writer", "User")),
        {"text_now": replace(NOW, author="writer")},
    ),
    "maintainer's pull request": (pull(), {}),
    "maintainer's own re-run": (comment(attempt=3), {}),
    "triggering actor not told on the first attempt": (comment(triggering_actor=None), {}),
    "comment on an issue": (comment(head=Head(), is_pull_request=False), {}),
    "named bot": (
        comment(BOT),
        {"allow_bots": frozenset({"renovate[bot]"}), "text_now": replace(NOW, author="renovate[bot]")},
    ),
    "issue whose labels moved its date": (
        comment(text_kind="issue", event="issues", is_pull_request=False),
        {"text_now": replace(NOW, updated_at="2026-02-02T00:00:00Z")},
    ),
    "old payload without a date": (comment(text_updated_at=None), {}),
    "maintainer's label on an outsider's issue": (
        comment(event="issues", text_kind="", text_author=None, is_pull_request=False),
        {"text_now": None},
    ),
    "failed run of a push": (failed_run(), {}),
    "failed run of a named bot": (
        failed_run(actor=BOT, rerun=BOT),
        {"allow_bots": frozenset({"renovate[bot]"})},
    ),
    "dispatch by a maintainer": (comment(event="workflow_dispatch", is_pull_request=False), {}),
    "schedule": (
        comment(event="schedule", actor="gone", text_kind="", text_author=None, is_pull_request=False),
        {"text_now": None},
    ),
}


@pytest.mark.parametrize("case", OPEN)
def test_whoever_holds_write_access_gets_what_was_asked_for(case: str) -> None:
    """The positive control of the table above."""
    trigger, options = OPEN[case]

    verdict = gate(trigger, **options)

    assert (verdict.ceiling, verdict.mode, verdict.ignored) == (Ceiling.IMPLEMENT, "implement", False)


@pytest.mark.parametrize("head", [FORK, GONE, Head()])
@pytest.mark.parametrize("wished", ["implement", "fix-ci", "review", "plan"])
def test_a_forks_code_never_meets_a_git_tier(head: Head, wished: str) -> None:
    """Not even a maintainer's word lets a fork's code, or code of unknown origin, run with git."""
    verdict = gate(comment(head=head), wished)

    assert verdict.ceiling is Ceiling.REVIEW
    assert verdict.mode == ("plan" if wished == "plan" else "review")
    assert Tier.GIT not in get_mode(verdict.mode).tiers


def test_an_outsiders_own_pull_request_from_a_fork_is_restricted_not_reviewed() -> None:
    """The lowest fact wins over the fork's own ceiling."""
    assert gate(pull(OUTSIDER, FORK, event="pull_request_target")).ceiling is Ceiling.RESTRICTED


def test_a_mode_of_configuration_is_held_by_its_tiers() -> None:
    """A configured mode passes a ceiling only by what it may draw from, whatever its name."""
    reads = Mode("triage", frozenset({Tier.READ}), 20, "x")
    writes = Mode("review2", frozenset({Tier.READ, Tier.SHELL}), 20, "x")

    assert decide(comment(OUTSIDER), reads, ANSWERS, text_now=NOW).mode == "triage"
    assert decide(comment(OUTSIDER), writes, ANSWERS, text_now=NOW).mode == "restricted"
    assert decide(comment(head=FORK), reads, ANSWERS, text_now=NOW).mode == "triage"
    assert decide(comment(head=FORK), writes, ANSWERS, text_now=NOW).mode == "review"


def test_the_verdict_lists_every_fact_with_its_reason() -> None:
    """A reader sees who was asked about and what each answer meant."""
    assert gate(comment(triggering_actor="outsider", attempt=2)) == Gate(
        ceiling=Ceiling.RESTRICTED,
        mode="restricted",
        reason="The triggering actor, outsider, has no write access.",
        facts=(
            Fact("actor", Ceiling.IMPLEMENT, "The actor, maintainer, has admin access."),
            Fact("triggering actor", Ceiling.RESTRICTED, "The triggering actor, outsider, has no write access."),
            Fact("sender", Ceiling.IMPLEMENT, "The sender, maintainer, has admin access."),
            Fact(
                "author of the comment", Ceiling.IMPLEMENT, "The author of the comment, maintainer, has admin access."
            ),
            Fact("comment", Ceiling.IMPLEMENT, "The comment is as it was when it started the run."),
            Fact("head repository", Ceiling.IMPLEMENT, "The code is this repository's own."),
        ),
    )


def test_only_people_are_asked_about_and_each_once() -> None:
    """A bot's permission means nothing, and one login is one request."""
    assert logins_to_ask(comment(triggering_actor="outsider", text_author=BOT)) == ("maintainer", "outsider")
    assert logins_to_ask(comment(event="schedule")) == ()
    assert [person.role for person in people(failed_run())] == [
        *["actor", "triggering actor", "sender", "upstream actor", "upstream triggering actor"]
    ]


LOGINS = st.sampled_from(["maintainer", "writer", "outsider", "stranger", "broken", "unasked", "renovate[bot]", None])
ACCOUNTS = st.builds(Account, LOGINS, st.sampled_from(["User", "Bot", "Organization", "Mannequin", None]))


@given(LOGINS, LOGINS, ACCOUNTS, ACCOUNTS, st.sampled_from([OWN, FORK, GONE, Head()]), st.sampled_from(sorted(MODES)))
def test_no_mixture_of_people_lifts_the_ceiling_above_its_lowest(
    actor: str | None, again: str | None, sender: Account, author: Account, head: Head, wished: str
) -> None:
    """Whoever else is involved, one person without write access or one fork keeps the strong tiers away."""
    started = comment(actor=actor, triggering_actor=again, attempt=2, sender=sender, text_author=author, head=head)
    verdict = decide(started, get_mode(wished), ANSWERS, text_now=replace(NOW, author=author.login))

    everybody = {actor, again, sender.login, author.login}
    if not everybody <= {"maintainer", "writer"}:
        assert get_mode(verdict.mode).tiers <= {Tier.READ}
    if head is not OWN:
        assert get_mode(verdict.mode).tiers <= {Tier.READ, Tier.COMMENT}
