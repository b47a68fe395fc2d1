"""Opening a pull request, or bringing our own open one up to date."""

from __future__ import annotations

from agent.broker.git.api import Api
from agent.contract.dataclass import dataclass
from agent.contract.errors import UpstreamError

_SETTING = (
    "GitHub Actions is not permitted to create pull requests in this repository. A maintainer can allow it in "
    "Settings, Actions, General, Workflow permissions: Allow GitHub Actions to create and approve pull "
    "requests; or the input push-token can hold an App's token. The branch is pushed."
)


@dataclass(frozen=True)
class Pull:
    """A pull request of ours."""

    number: int
    url: str
    updated: bool


def open_pull(api: Api, owner: str, *, title: str, body: str, head: str, base: str) -> Pull:
    """Open a pull request, or bring our own open one of this branch up to date.

    Args:
        owner: login that owns the repository.
        title, body: neutralised text.
        head: own branch, short name.
        base: the base branch, the default branch, or one of `BranchRules.targets`.

    Raises:
        Refusal: a rule said no.
        UpstreamError: GitHub failed; names the step and, where it is one, the repository's setting.
    """
    query = {"head": f"{owner}:{head}", "state": "open"}
    found = api.get("pulls", query=query, step="find pull request")
    for pull in found if isinstance(found, list) else []:
        if pull.get("head", {}).get("ref") == head and pull.get("base", {}).get("ref") == base:
            changed = {"title": title, "body": body}
            answer = api.patch(f"pulls/{pull['number']}", changed, step="update pull request")
            return Pull(int(answer["number"]), str(answer["html_url"]), True)
    fields = {"title": title, "body": body, "head": head, "base": base}
    try:
        answer = api.post("pulls", fields, step="create pull request")
    except UpstreamError as exc:
        if exc.status == 403 and "not permitted to create" in str(exc):
            raise UpstreamError(exc.step, _SETTING, 403) from exc
        raise
    return Pull(int(answer["number"]), str(answer["html_url"]), False)
