"""Where a redirect may lead: pure cases that need no socket."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.broker.egress.redirects import Blocked, Elsewhere, follow
from agent.broker.policy.builtin import RunParameters, github_connection
from agent.broker.policy.decide import Policy
from agent.broker.policy.words import Authority, EgressRequest

CONNECTION = github_connection(RunParameters("acme/widgets", 1001, log_hosts=("logs.example",)))
API = "https://api.github.com/repos/acme/widgets/actions/jobs/55/logs"
LOGS = Policy([CONNECTION]).check(
    EgressRequest("github", "GET", "/repos/acme/widgets/actions/jobs/55/logs"), Authority.broker()
)
ARCHIVE = Policy([CONNECTION]).check(
    EgressRequest("github", "GET", "/repos/acme/widgets/tarball/main"), Authority.broker()
)


@pytest.mark.parametrize(
    "location",
    [
        "https://productionresultssa12.blob.core.windows.net/actions-results/x?sig=1",
        "https://pipelines.actions.githubusercontent.com/x?sig=1",
        "https://LOGS.example/x",
    ],
)
def test_githubs_own_log_hosts_and_declared_ones_are_followed(location: str) -> None:
    """The built-in list and `ai.github.logHosts`."""
    assert LOGS.wire is not None
    assert isinstance(follow(LOGS.wire, CONNECTION, API, location, 0), Elsewhere)


def test_a_fragment_is_not_sent() -> None:
    """What is sent is the address without it."""
    assert LOGS.wire is not None
    assert follow(LOGS.wire, CONNECTION, API, "https://logs.example/x?sig=1#y", 0) == Elsewhere(
        "https://logs.example/x?sig=1"
    )


@pytest.mark.parametrize(
    "location",
    [
        "http://logs.example/x",
        "https://logs.example:8443/x",
        "https://evil.invalid/x",
        "https://logs.example.evil.invalid/x",
        "https://evil-logs.example/x",
        "https://logsXexample/x",
        "https://user@logs.example/x",
        "https://logs.example@evil.invalid/x",
        "https://x.blob.core.windows.net/x",
        "https://productionresultssa1.blob.core.windows.net.evil.invalid/x",
        "https://a.b.actions.githubusercontent.com/x",
        "https://codeload.github.com/acme/widgets",
        "ftp://logs.example/x",
        "//evil.invalid/x",
        "https://[::1/x",
        "https://logs.example:99999/x",
        "https://logs.example/\r\nx: y",
        "https://lögs.example/x",
        "https://169.254.169.254/latest/meta-data",
        "https://api.github.com.evil.invalid/repos/acme/widgets",
        "https://api.github.com:8443/repos/acme/widgets",
        "http://api.github.com/repos/acme/widgets",
    ],
)
def test_any_other_place_is_blocked_and_the_reason_holds_no_signature(location: str) -> None:
    """Look-alikes, other schemes, other ports, user information, the cloud's metadata address."""
    assert LOGS.wire is not None
    found = follow(LOGS.wire, CONNECTION, API, location + "?sig=SIGNATURE", 0)

    assert isinstance(found, Blocked)
    assert "SIGNATURE" not in found.reason


def test_each_route_has_its_own_list() -> None:
    """A tarball comes from codeload and a log does not; a route without a list goes nowhere."""
    assert ARCHIVE.wire is not None
    to = "https://codeload.github.com/acme/widgets/legacy.tar.gz/refs/heads/main"

    assert follow(ARCHIVE.wire, CONNECTION, API, to, 0) == Elsewhere(to)
    assert isinstance(follow(replace(ARCHIVE.wire, redirect=None), CONNECTION, API, to, 0), Blocked)
    assert isinstance(follow(replace(ARCHIVE.wire, method="POST"), CONNECTION, API, to, 0), Blocked)
    assert isinstance(follow(ARCHIVE.wire, CONNECTION, API, to, 3), Blocked)


def test_a_relative_redirect_stays_on_the_host_that_answered() -> None:
    """From the API it is the API's path; from the storage host it is the storage's."""
    assert LOGS.wire is not None
    renamed = follow(LOGS.wire, CONNECTION, API, "/repositories/1001/actions/jobs/55/logs", 0)

    assert renamed == EgressRequest("github", "GET", "/repositories/1001/actions/jobs/55/logs", {})
    assert follow(LOGS.wire, CONNECTION, "https://logs.example/a", "/b", 1) == Elsewhere("https://logs.example/b")
