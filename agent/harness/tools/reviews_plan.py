"""What of a review is posted where. Pure: comments, hunks and earlier comments in, a plan out (F17)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from agent.contract.dataclass import dataclass, field
from agent.contract.diff import Anchor, Hunk, place
from agent.contract.fingerprint import Mark, code_key, same_finding

COMMENTS_CAP = 50
"""Line comments of one review: a storm is noise, and GitHub limits content creation (github-contract section 2)."""


@dataclass(frozen=True)
class Finding:
    """One comment as the model asked for it."""

    anchor: Anchor
    body: str


@dataclass(frozen=True)
class Placed:
    """One comment that stands on the diff.

    Attributes:
        anchor: where.
        body: as asked.
        mark: for finding it again.
        changed: what was changed about the anchor, or empty.
    """

    anchor: Anchor
    body: str
    mark: Mark
    changed: str = ""


@dataclass
class Plan:
    """What becomes of each comment; every one is in exactly one list.

    Attributes:
        placed: go onto the diff.
        folded: go into the review's body, with the reason.
        known: were posted by an earlier run.
    """

    placed: list[Placed] = field(default_factory=list)
    folded: list[tuple[Finding, str]] = field(default_factory=list)
    known: list[Finding] = field(default_factory=list)


def make_plan(
    findings: Iterable[Finding],
    files: Mapping[str, tuple[Hunk, ...]],
    earlier: Iterable[tuple[Mapping[str, Any], Mark]],
    own_bodies: Iterable[str] = (),
) -> Plan:
    """Place, fold or drop as known.

    Args:
        findings: in the model's order.
        files: hunks by path.
        earlier: own line comments with a finding's mark, resolved ones left out.
        own_bodies: bodies of own earlier reviews.
    """
    plan = Plan()
    posted: dict[str, list[str]] = {}
    for comment, mark in earlier:
        posted.setdefault(mark.key, []).append(str(comment.get("body") or ""))
    asked = dict.fromkeys(findings)  # a word-for-word repetition at one place is one finding
    folded = _Folded(own_bodies, (where(finding.anchor) for finding in asked))
    for finding in asked:
        verdict = place(finding.anchor, files)
        if folded.holds(finding, anywhere=verdict.anchor is None):
            plan.known.append(finding)
            continue
        if verdict.anchor is None:
            plan.folded.append((finding, verdict.reason))
            continue
        mark = _mark(verdict.anchor, files[verdict.anchor.path])
        said = posted.get(mark.key, [])
        same = next((body for body in said if same_finding(body, finding.body)), None)
        if same is not None:
            said.remove(same)  # one earlier comment stands for one finding: equal lines may both be wrong
            plan.known.append(finding)
        elif len(plan.placed) >= COMMENTS_CAP:
            plan.folded.append((finding, "there are too many line comments"))
        else:
            plan.placed.append(Placed(verdict.anchor, finding.body, mark, verdict.reason))
    return plan


def _mark(anchor: Anchor, hunks: tuple[Hunk, ...]) -> Mark:
    hunk = next(h for h in hunks if anchor.line in h.numbers(anchor.side))
    first = anchor.start_line or anchor.line
    texts = [hunk.text_at(anchor.side, n) or "" for n in range(first, anchor.line + 1)]
    kind = "finding" if anchor.side == "RIGHT" else "removed"
    return Mark(kind, code_key(anchor.path, anchor.side, [t.rstrip("\r") for t in texts]), len(texts))


def where(anchor: Anchor) -> str:
    """`path:line` or `path:first-last`, with the side where it is the old one."""
    span = f"{anchor.start_line}-{anchor.line}" if anchor.start_line else str(anchor.line)
    return f"{anchor.path}:{span}{' (before the change)' if anchor.side == 'LEFT' else ''}"


def folded_line(finding: Finding) -> str:
    """One folded finding as it stands in the review's body; a suggestion cannot be applied there."""
    text = finding.body.strip().replace("```suggestion", "```")
    head = f"- `{where(finding.anchor).replace('`', '')}`: "
    return head + text.replace("\n", "\n  ")


class _Folded:
    """What earlier reviews hold in their bodies; one entry stands for one finding, so that none is lost to another."""

    def __init__(self, bodies: Iterable[str], asked: Iterable[str]) -> None:
        parts = (part for body in bodies for part in ("\n" + body).split("\n- `")[1:])
        self._entries = [(place.replace("\n", " "), text) for place, _, text in (p.partition("`: ") for p in parts)]
        self._asked = {place.replace("`", "") for place in asked}

    def holds(self, finding: Finding, *, anywhere: bool) -> bool:
        """Whether an entry says this at this place; `anywhere`: or in this file, since a push moves lines."""
        own = where(finding.anchor).replace("`", "")
        start = finding.anchor.path.replace("`", "") + ":"
        for entry in self._entries:
            place_of_it, text = entry
            moved = anywhere and place_of_it.startswith(start) and place_of_it not in self._asked
            if (place_of_it == own or moved) and same_finding(text, finding.body):
                self._entries.remove(entry)
                return True
        return False


def review_body(body: str, folded: Iterable[tuple[Finding, str]]) -> str:
    """The review's text with what could not be placed on the diff."""
    lines = [folded_line(finding) for finding, _ in folded]
    if not lines:
        return body
    return f"{body.rstrip()}\n\n**On lines that the diff does not show:**\n\n" + "\n".join(lines)
