"""GitHub acted and its answer was lost: the next try finds what is there and makes nothing twice (D4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from agent.broker.git.publish import Publisher
from agent.broker.git.rules import BranchRules, TreeRules
from agent.contract.errors import UpstreamError
from tests.support.checkouts import SimApi
from tests.unit.test_publish import Bench, bench  # noqa: F401  the fixture

BRANCH = "agent/fix"


class Losing(SimApi):
    """Loses the answer to the first write of one path, after GitHub has acted on it."""

    path = ""

    def _send(self, method: str, path: str, body: Mapping[str, Any] | None, step: str) -> Any:
        answer = super()._send(method, path, body, step)
        if method != "GET" and self.path and path.endswith(self.path):
            self.path = ""
            raise UpstreamError(step, "the connection was cut off")
        return answer


def losing(world: Bench, path: str) -> Publisher:
    api = Losing(world.sim.api_url, "acme/widgets", "t0ken")
    api.path = path
    return Publisher(
        api,
        world.worktree.shadow,
        owner="acme",
        start=world.start,
        branches=BranchRules("agent/", "main", "release"),
        trees=TreeRules(),
        holds_secret=lambda _: False,
        run_key="500",
    )


@pytest.mark.parametrize("path", ["git/blobs", "git/trees", "git/commits", "git/refs"])
def test_a_push_whose_answer_was_lost_is_made_good_by_the_next(bench: Bench, path: str) -> None:  # noqa: F811
    """Once by the same run, and once by a new attempt that knows nothing of the first."""
    bench.write("src/app.py", "print(2)\n")
    commit = bench.worktree.commit("Fix").sha
    first = losing(bench, path)
    with pytest.raises(UpstreamError, match="cut off"):
        first.push(commit, BRANCH)

    again = first.push(commit, BRANCH)
    fresh = losing(bench, "").push(commit, BRANCH)

    assert again.sha == fresh.sha == bench.repository.branch(BRANCH)
    new = bench.repository.git.run("rev-list", f"feature/x..{BRANCH}").decode().split()
    assert new == [again.sha]


def test_a_pull_request_whose_answer_was_lost_is_found_again(bench: Bench) -> None:  # noqa: F811
    """The next try updates the one that is there."""
    bench.write("src/app.py", "print(2)\n")
    commit = bench.worktree.commit("Fix").sha
    publisher = losing(bench, "pulls")
    publisher.push(commit, BRANCH)
    with pytest.raises(UpstreamError, match="cut off"):
        publisher.create_pull_request("Fix", "b", BRANCH, "release")

    pull = publisher.create_pull_request("Fix", "b", BRANCH, "release")

    assert pull.updated
    assert [p.number for p in bench.repository.pulls()] == [pull.number]
