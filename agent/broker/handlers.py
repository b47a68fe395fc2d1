"""Which message of the harness is answered by what; anything else is refused by the server."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from agent.broker.closing import publishing
from agent.broker.egress import Egress
from agent.broker.github import GitHubApi
from agent.broker.guidance import Guidance, read_guidance, with_guidance
from agent.broker.opening import Opening
from agent.broker.operations import Operations
from agent.broker.operations_egress import EgressOperation
from agent.broker.policy.words import Authority
from agent.broker.redact import Redactor
from agent.broker.request import request_reply
from agent.broker.server import Handler
from agent.broker.state import RunState
from agent.broker.trusted_files import TrustedFiles, branch_tip, trusted_branch


def handlers(run: RunState, egress: Egress, opening: Opening, redactor: Redactor, folder: Path) -> dict[str, Handler]:
    """Handlers by operation name.

    Args:
        folder: of the results, where the full output of commands lies.
    """
    api = GitHubApi(egress, opening.trigger.repository, Authority.broker())
    operations = Operations(run, redactor, folder)

    @cache
    def guidance() -> Guidance:
        prefix = opening.config.agent.branch_prefix
        branch = trusted_branch(opening.trigger, opening.base_branch, opening.default_branch, prefix)
        known = opening.config_sha if branch == opening.default_branch else None
        return read_guidance(lambda: known or branch_tip(api, branch), lambda commit: TrustedFiles(api, commit))

    offered = operations.handlers()
    return {
        **offered,
        **{name: publishing(run, offered[name]) for name in ("push", "pull_request")},
        "egress": EgressOperation(run, egress, api).handle,
        "request": lambda _: with_guidance(
            request_reply(opening.trigger, opening.gate, opening.wish, own_head=opening.own_head), guidance()
        ),
    }
