"""Playbooks: how to work in each mode, in our own words. No third-party text is ever part of one (S1)."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from agent.contract.errors import UserError
from agent.contract.facts import RunFacts
from agent.contract.framing import DATA_SENTENCE

NAMES = ("review", "fix-ci", "plan", "implement", "restricted")


@cache
def playbook(name: str) -> str:
    """Text of a built-in playbook.

    Raises:
        UserError: there is none of exactly this name.
    """
    if name not in NAMES:
        raise UserError(f"There is no playbook {name!r}. Playbooks: {', '.join(NAMES)}.")
    return (Path(__file__).parent / f"{name}.md").read_text(encoding="utf-8")


def system_prompt(facts: RunFacts) -> str:
    """Playbook plus the run's numbers.

    Only numbers, shas and names from trusted settings go in: no title, branch name, label or login, all of
    which a third party can choose.
    """
    text = facts.playbook if facts.playbook_is_text else playbook(facts.playbook)
    if DATA_SENTENCE not in text:  # a mode of the user's own: the rule holds there as well
        text = f"{text.rstrip()}\n\n{DATA_SENTENCE}\n"
    return f"{text.rstrip()}\n\n{_facts(facts)}\n"


def _labels(facts: RunFacts) -> str:
    """Labels that trusted configuration lists; the broker's route takes no others."""
    labels = facts.options.get("labels") or ()
    if not labels or "comment" not in facts.options.get("tiers", ()) or "github_request" not in facts.tools:
        return ""
    route = f"POST /repos/{facts.repository}/issues/{{number}}/labels"
    return f'- labels you may set, by github_request {route} with {{"labels": [..]}}: {", ".join(labels)}'


def _facts(facts: RunFacts) -> str:
    about = "pull request" if facts.is_pull_request else "issue"
    lines = [
        f"- mode: {facts.mode}",
        f"- repository: {facts.repository}",
        f"- {about}: #{facts.number}" if facts.number is not None else "",
        f"- failed workflow run: {facts.run_id}" if facts.run_id is not None else "",
        f"- commit at start: {facts.head_sha}" if facts.head_sha else "",
        f"- base commit: {facts.base_sha}" if facts.base_sha else "",
        f"- branches you may push begin with: {facts.branch_prefix}" if "git_push" in facts.tools else "",
        _labels(facts),
        f"- tool calls at most: {facts.max_tool_calls}" if facts.max_tool_calls else "",
        f"- minutes at most: {facts.timeout_s / 60:g}" if facts.timeout_s else "",
    ]
    return "# This run\n" + "\n".join(line for line in lines if line)
