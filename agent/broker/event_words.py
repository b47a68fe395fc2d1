"""The words for what started a run: frozen values that reading (`agent.broker.event`) fills in."""

from __future__ import annotations

from agent.contract.dataclass import dataclass

PULL_EVENTS = frozenset({"pull_request", "pull_request_target"})
COMMENT_EVENTS = frozenset({"issue_comment", "pull_request_review_comment"})
EVENTS = PULL_EVENTS | COMMENT_EVENTS | {"issues", "workflow_run", "workflow_dispatch", "schedule"}


@dataclass(frozen=True)
class Skip:
    """Nothing is to be done, and this sentence says why (exit 0)."""

    sentence: str


@dataclass(frozen=True)
class Account:
    """Who did something, as the payload says.

    Attributes:
        login: None for a ghost or a name that GitHub cannot have issued.
        type: `User`, `Bot`, `Organization`, `Mannequin` or None; the login's suffix is no proof of it.
        id: numeric id, or None.
    """

    login: str | None
    type: str | None = None
    id: int | None = None


@dataclass(frozen=True)
class Head:
    """Where the code under discussion lies.

    Attributes:
        repository: `owner/name`; None when the fork is gone.
        repository_id: numeric id, or None.
        ref: branch name, in no namespace.
        sha: full object id, or None.
        is_fork: the repository is not the run's own, or is gone.
        known: False until the pull request has been asked for (a comment's payload does not say).
    """

    repository: str | None = None
    repository_id: int | None = None
    ref: str | None = None
    sha: str | None = None
    is_fork: bool = False
    known: bool = False


@dataclass(frozen=True)
class Upstream:
    """The workflow run that ended (event workflow_run).

    Attributes:
        run_id: numeric id; the idempotency key of a fix.
        event: what started it, such as `push`.
        conclusion: such as `failure`, or None.
        actor, triggering_actor: who started and who re-ran it; ghosts where the payload is old.
        pull_requests: numbers of this repository's pull requests; empty for forks even when there is one.
    """

    run_id: int
    event: str | None
    conclusion: str | None
    actor: Account
    triggering_actor: Account
    pull_requests: tuple[int, ...] = ()


@dataclass(frozen=True)
class Trigger:
    """One event that Airlock knows.

    Attributes:
        event: event name.
        action: the payload's action, or None.
        repository: `owner/name`, as the runner says.
        repository_id: numeric id, or None where neither payload nor runner says.
        default_branch: or None (schedule).
        actor: GITHUB_ACTOR, or None.
        triggering_actor: GITHUB_TRIGGERING_ACTOR; who pressed re-run. None where absent (act).
        sender: the payload's sender.
        attempt: GITHUB_RUN_ATTEMPT.
        number: pull request or issue, or None.
        is_pull_request: the number is a pull request's.
        text_kind: `comment`, `review_comment`, `issue`, `pull_request` or "" where nobody's text started it.
        text, text_id, text_updated_at, text_author: that text.
        head, base_ref, base_sha: the code.
        upstream: for workflow_run.
        label: the label just set, for action labeled.
        labels: names of all labels.
    """

    event: str
    action: str | None
    repository: str
    repository_id: int | None
    default_branch: str | None
    actor: str | None
    triggering_actor: str | None
    sender: Account
    attempt: int = 1
    number: int | None = None
    is_pull_request: bool = False
    text_kind: str = ""
    text: str = ""
    text_id: int | None = None
    text_updated_at: str | None = None
    text_author: Account | None = None
    head: Head = Head()
    base_ref: str | None = None
    base_sha: str | None = None
    upstream: Upstream | None = None
    label: str | None = None
    labels: tuple[str, ...] = ()
