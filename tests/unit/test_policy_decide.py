"""The decision on one request: order of checks, codes, the closed list, and what is never allowed."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.broker.policy.builtin import (
    RunParameters,
    check_examples,
    git_connection,
    github_connection,
    model_connection,
)
from agent.broker.policy.decide import Policy
from agent.broker.policy.path import split_path
from agent.broker.policy.route import Connection, Never, Route
from agent.broker.policy.template import compile_template
from agent.broker.policy.words import Attach, Authority, EgressRequest, RuleMatch, Verdict, WireRequest
from agent.contract.errors import UserError
from agent.contract.modes import MODES, Tier

RUN = RunParameters(
    "acme/widgets",
    1001,
    labels=("ci",),
    further_branches=("feature/x", "main"),
    never_branches=("main", "airlock/base"),
)
ROOT = "/repos/acme/widgets"
SHA = "a" * 40
GITHUB = github_connection(RUN)
MODEL = model_connection(
    name="model", origin="https://api.anthropic.com", path="/v1/messages", header="X-Api-Key", scheme=""
)
POLICY = Policy([GITHUB, git_connection(RUN), MODEL], {"publisher": "Use git_push."})
ALL = frozenset(Tier)
HARNESS = Authority.harness(ALL)
PUBLISHER = Authority.publisher(ALL)


def check(
    method: str,
    path: str,
    body: object = None,
    authority: Authority = HARNESS,
    query: dict[str, Any] | None = None,
    connection: str = "github",
    headers: dict[str, str] | None = None,
) -> Verdict:
    data = b"" if body is None else json.dumps(body).encode()
    return POLICY.check(EgressRequest(connection, method, path, query or {}, headers or {}, data), authority)


def test_every_route_holds_to_its_own_examples_and_reaches_nothing_forbidden() -> None:
    """The data file is checked as a whole, schemas included."""
    github_connection(RUN, check=True)
    check_examples(git_connection(RUN), RUN)


def test_every_route_has_examples_of_both_kinds_and_its_own_id() -> None:
    """A route without a counter-example has not been thought about."""
    routes = [*GITHUB.routes, *git_connection(RUN).routes]

    assert len({route.id for route in routes}) == len(routes)
    # A label's path matches only the configured labels, so its example depends on the run (tested below).
    assert [r.id for r in routes if not r.match] == ["label.remove"]
    assert [r.id for r in routes if not r.not_match] == []


@pytest.mark.parametrize(
    ("route", "never", "match"),
    [
        ({"match": ("~/hooks",)}, (), "must match"),
        ({"not_match": ("~/x",)}, (), "must not match"),
        ({"match": ("~/x",)}, (Never("GET", compile_template(f"{ROOT}/x", {}), "no"),), "never allowed"),
        ({"body": {"tpye": 1}}, (), "keyword"),
    ],
)
def test_a_route_that_breaks_its_examples_does_not_load(
    route: dict[str, Any], never: tuple[Never, ...], match: str
) -> None:
    """Loading with checks refuses a rule that is not what its author thought."""
    bad = Route("r", "GET", (compile_template(f"{ROOT}/x", {}),), Tier.READ, **route)

    with pytest.raises(UserError, match=match):
        check_examples(replace(GITHUB, routes=(bad,), never=never), RUN)


def test_an_allowed_request_becomes_exactly_this_on_the_wire() -> None:
    """The whole verdict: url and query from what was checked, wishes dropped, secret by name alone."""
    found = check(
        "GET",
        f"{ROOT}/pulls/7/files",
        query={"per_page": 5, "page": "2"},
        headers={"Accept": "application/vnd.github.diff", "Authorization": "Bearer x", "Host": "evil.invalid"},
    )

    assert found == Verdict(
        None,
        "allowed by pull.files",
        (RuleMatch("pull.files", True, "path, method and query fit"),),
        WireRequest(
            method="GET",
            url="https://api.github.com/repos/acme/widgets/pulls/7/files",
            query=(("per_page", "5"), ("page", "2")),
            headers=(
                ("x-github-api-version", "2022-11-28"),
                ("user-agent", "airlock-agent"),
                ("accept-encoding", "gzip"),
                ("accept", "application/vnd.github.diff"),
            ),
            body=b"",
            attach=(Attach("authorization", "github-token", prefix="Bearer "),),
            redirect=None,
            tier=Tier.READ,
            response_cap=64 << 20,
            timeout_s=30.0,
            repeatable=True,
        ),
    )


FIRST_FAILURE = [
    # Each row fails at its step and at every later one; the earlier step must answer.
    ("egress_connection_unknown", {"connection": "payments", "path": "//x", "method": "TRACE"}),
    ("egress_path_blocked", {"path": "/repos/acme/payments/pulls/7/reviews", "method": "TRACE"}),
    ("egress_method_blocked", {"path": f"{ROOT}/pulls/7/reviews", "method": "TRACE", "query": {"x": 1}}),
    ("egress_query_blocked", {"path": f"{ROOT}/pulls/7/reviews", "query": {"x": 1}, "body": {"event": "APPROVE"}}),
    ("egress_body_blocked", {"path": f"{ROOT}/pulls/7/reviews", "body": {"event": "APPROVE"}}),
    ("egress_tier_blocked", {"path": f"{ROOT}/pulls/7/reviews", "body": {"event": "COMMENT"}}),
]


@pytest.mark.parametrize(("code", "request_"), FIRST_FAILURE)
def test_the_first_failing_step_answers(code: str, request_: dict[str, Any]) -> None:
    """DESIGN section 6: connection, path, method, query, body, tier, in this order."""
    found = check(request_.pop("method", "POST"), authority=Authority.harness(frozenset({Tier.READ})), **request_)

    assert (found.code, found.allowed, found.rules[-1].permits) == (code, False, False)


def test_the_gate_is_asked_after_the_tier() -> None:
    """A closed gate answers only where the tier is open, and says what to do instead."""
    body = {"ref": "refs/heads/airlock/x", "sha": SHA}
    no_tier = check("POST", f"{ROOT}/git/refs", body, Authority.harness(frozenset({Tier.READ})))
    closed = check("POST", f"{ROOT}/git/refs", body)

    assert no_tier.code == "egress_tier_blocked"
    assert (closed.code, closed.reason) == ("egress_gate_closed", "The gate publisher is closed. Use git_push.")
    assert check("POST", f"{ROOT}/git/refs", body, PUBLISHER).allowed


NEVER = [
    ("PUT", "/pulls/7/merge"),
    ("PUT", "/pulls/7/merge-async"),
    ("PUT", "/pulls/7/update-branch"),
    ("PUT", "/pulls/7/reviews/3/dismissals"),
    ("DELETE", "/git/refs/heads/feature/x"),
    ("DELETE", "/git/refs/heads/airlock/x"),
    ("POST", "/git/tags"),
    ("POST", "/merges"),
    ("POST", "/merge-upstream"),
    ("PUT", "/contents/README.md"),
    ("DELETE", "/contents/README.md"),
    ("DELETE", "/labels/ci"),
    ("POST", "/labels"),
    ("DELETE", "/issues/comments/1"),
    ("DELETE", "/pulls/comments/1"),
    ("POST", "/hooks"),
    ("POST", "/keys"),
    ("POST", "/releases"),
    ("POST", "/dispatches"),
    ("POST", "/actions/workflows/ci.yml/dispatches"),
    ("POST", "/actions/runs/500/rerun"),
    ("POST", "/actions/runs/500/rerun-failed-jobs"),
    ("POST", "/actions/jobs/501/rerun"),
    ("POST", "/actions/runs/500/approve"),
    ("POST", "/actions/runs/500/cancel"),
    ("DELETE", "/actions/runs/500"),
    ("DELETE", "/actions/caches"),
    ("GET", "/actions/secrets"),
    ("PUT", "/actions/secrets/TOKEN"),
    ("POST", "/actions/variables"),
    ("PATCH", "/actions/variables/X"),
    ("GET", "/environments"),
    ("PUT", "/environments/prod"),
    ("PUT", "/collaborators/outsider"),
    ("PATCH", ""),
    ("DELETE", ""),
    ("POST", "/forks"),
    ("POST", "/transfer"),
    ("PUT", "/branches/main/protection"),
    ("DELETE", "/branches/main/protection"),
    ("POST", "/rulesets"),
    ("POST", f"/statuses/{SHA}"),
    ("POST", "/deployments"),
    ("POST", "/check-runs"),
    ("PATCH", "/check-runs/501"),
    ("GET", "/zipball/main"),
    ("DELETE", "/pulls/7/reviews/3"),
    ("PUT", "/issues/7/lock"),
    ("DELETE", "/issues/7/labels"),
    ("PUT", "/issues/7/labels"),
    ("POST", "/issues/7/assignees"),
]
ELSEWHERE = [
    ("GET", "/orgs/acme/actions/secrets"),
    ("GET", "/user"),
    ("GET", "/user/repos"),
    ("PUT", "/user/starred/acme/widgets"),
    ("POST", "/gists"),
    ("GET", "/gists/1"),
    ("GET", "/notifications"),
    ("PUT", "/notifications"),
    ("POST", "/graphql"),
    ("GET", "/search/code"),
    ("GET", "/repos/acme/payments"),
    ("GET", "/repos/acme/widgets-other/issues"),
    ("GET", "/repos/acme/widgetsx"),
    ("GET", "/repos/ACME/widgets"),
    ("GET", "/Repos/acme/widgets"),
    ("GET", "/repos/acme/WIDGETS/pulls/7"),
    ("GET", "/repositories/1002/pulls/7"),
    ("GET", "/repositories/1001x/pulls/7"),
    ("POST", "/repositories/1001/issues"),
    ("GET", "/repos/acme"),
    ("GET", "/"),
    ("GET", "/installation/repositories"),
    ("POST", "/app/installations/1/access_tokens"),
]


@pytest.mark.parametrize("authority", [HARNESS, PUBLISHER, Authority.broker()], ids=lambda a: a.name)
@pytest.mark.parametrize(("method", "path"), [*((m, ROOT + p) for m, p in NEVER), *ELSEWHERE])
def test_what_no_mode_may_ever_reach_is_refused_to_everybody(method: str, path: str, authority: Authority) -> None:
    """github-contract's "Never", and other repositories: refused whatever the body, to our own publisher too."""
    for body in (None, {}, {"body": "x", "event": "COMMENT", "force": True, "title": "x"}):
        found = check(method, path, body, authority)

        assert found.code in {"egress_path_blocked", "egress_method_blocked"}
        assert found.wire is None


def test_every_never_has_a_request_above() -> None:
    """An entry of the data file that nothing tries would not be missed."""
    tried = [(m, split_path(path)) for m, path in [*((m, ROOT + p) for m, p in NEVER), *ELSEWHERE]]

    assert [
        never
        for never in GITHUB.never
        if not any(m == never.method and isinstance(s, tuple) and never.template.match(s) is not None for m, s in tried)
    ] == []


def test_the_reason_of_a_never_says_why() -> None:
    """A refusal tells the reader what the rule protects."""
    assert check("PUT", f"{ROOT}/pulls/7/merge").reason == (
        "The path is refused: it is never allowed, since a person merges."
    )


BODIES_REFUSED = [
    ("POST", "/pulls/7/reviews", {"event": "APPROVE", "body": "LGTM"}),
    ("POST", "/pulls/7/reviews", {"event": "approve"}),
    ("POST", "/pulls/7/reviews", {"event": "REQUEST_CHANGES", "body": "no"}),
    ("POST", "/pulls/7/reviews", {"body": "pending"}),
    ("POST", "/pulls/7/reviews/3/events", {"event": "APPROVE"}),
    ("PATCH", "/git/refs/heads/airlock/x", {"sha": SHA, "force": True}),
    ("PATCH", "/git/refs/heads/airlock/x", {"sha": SHA, "force": 0}),
    ("PATCH", "/git/refs/heads/airlock/x", {"sha": SHA, "force": "false"}),
    ("POST", "/git/refs", {"ref": "refs/heads/main", "sha": SHA}),
    ("POST", "/git/refs", {"ref": "refs/heads/airlock", "sha": SHA}),
    ("POST", "/git/refs", {"ref": "refs/heads/airlock/base", "sha": SHA}),
    ("POST", "/git/refs", {"ref": "refs/heads/airlock/../main", "sha": SHA}),
    ("POST", "/git/refs", {"ref": "refs/heads/airlock/x.lock", "sha": SHA}),
    ("POST", "/git/refs", {"ref": "refs/heads/feature/x", "sha": SHA}),
    ("POST", "/git/refs", {"ref": "refs/tags/v3", "sha": SHA}),
    ("POST", "/git/refs", {"ref": "refs/pull/7/head", "sha": SHA}),
    ("POST", "/git/refs", {"ref": "heads/airlock/x", "sha": SHA}),
    ("POST", "/git/refs", {"ref": "refs/heads/airlock/x", "sha": "main"}),
    ("POST", "/git/trees", {"tree": [{"path": "x", "mode": "100666", "type": "blob", "sha": SHA}]}),
    ("POST", "/git/commits", {"message": "x", "tree": SHA, "signature": "x"}),
    ("POST", "/pulls", {"title": "x", "head": "main", "base": "main"}),
    ("POST", "/pulls", {"title": "x", "head": "outsider:feature", "base": "main"}),
    ("POST", "/pulls", {"title": "x", "head": "airlock/x", "base": "main", "head_repo": "outsider/widgets"}),
    ("POST", "/pulls", {"issue": 9, "head": "airlock/x", "base": "main"}),
    ("PATCH", "/pulls/7", {"state": "closed"}),
    ("PATCH", "/pulls/7", {"base": "main"}),
    ("PATCH", "/issues/9", {"state": "closed"}),
    ("PATCH", "/issues/9", {"labels": ["ci"]}),
    ("POST", "/issues/7/labels", {"labels": ["bug"]}),
    ("POST", "/issues/7/labels", ["ci"]),
    ("POST", "/issues/7/labels", {"labels": []}),
    ("POST", "/issues", {"title": "x", "labels": ["bug"]}),
    ("POST", "/issues", {"title": "x", "assignees": ["outsider"]}),
    ("POST", "/issues/7/comments", {"body": ""}),
    ("POST", "/issues/7/comments", {"body": "a" * 65537}),
    ("POST", "/issues/7/comments", {"body": "x", "_method": "DELETE"}),
    ("POST", "/issues/7/comments", {"body": ["x"]}),
    ("POST", "/issues/7/comments", {}),
    ("POST", "/issues/7/comments", None),
    ("POST", "/issues/7/comments", "x"),
    ("GET", "/issues/7/comments", {"body": "x"}),
]


@pytest.mark.parametrize(("method", "path", "body"), BODIES_REFUSED)
def test_a_body_that_says_more_than_it_may_is_refused_to_everybody(method: str, path: str, body: object) -> None:
    """Approving, forcing, foreign refs, other labels, hidden fields: refused to our own publisher too."""
    assert check(method, ROOT + path, body, PUBLISHER).code == "egress_body_blocked"


BODIES_ALLOWED = [
    ("POST", "/pulls/7/reviews", {"event": "COMMENT", "body": "x", "comments": [{"path": "a", "body": "b"}]}),
    ("PATCH", "/git/refs/heads/airlock/x", {"sha": SHA}),
    ("PATCH", "/git/refs/heads/airlock/fix%2342", {"sha": SHA, "force": False}),
    ("PATCH", "/git/refs/heads/feature/x", {"sha": SHA}),
    ("POST", "/git/refs", {"ref": "refs/heads/airlock/fix-500", "sha": SHA}),
    ("POST", "/git/blobs", {"content": "", "encoding": "base64"}),
    ("POST", "/git/trees", {"base_tree": SHA, "tree": [{"path": "a", "mode": "100755", "type": "blob", "sha": None}]}),
    ("POST", "/git/commits", {"message": "x", "tree": SHA, "parents": [SHA], "author": {"name": "a", "email": "b@c"}}),
    ("POST", "/pulls", {"title": "x", "head": "airlock/x", "base": "release", "body": "b", "draft": True}),
    ("PATCH", "/pulls/7", {"title": "x", "body": ""}),
    ("POST", "/issues", {"title": "x", "body": "y", "labels": ["ci"]}),
    ("POST", "/issues/7/labels", {"labels": ["ci"]}),
    ("DELETE", "/issues/7/labels/ci", None),
    ("POST", "/issues/7/comments", {"body": "a" * 65536}),
    ("POST", "/issues/comments/71/reactions", {"content": "eyes"}),
]


@pytest.mark.parametrize(("method", "path", "body"), BODIES_ALLOWED)
def test_the_writes_of_the_product_pass(method: str, path: str, body: object) -> None:
    """The positive control of the refusals."""
    assert check(method, ROOT + path, body, PUBLISHER).reason.startswith("allowed by")


@pytest.mark.parametrize(
    "path",
    [
        *["/git/refs/heads/main", "/git/refs/heads/airlock/base", "/git/refs/heads/release", "/git/refs/tags/v1"],
        *["/git/refs/heads/airlock", "/git/refs/pull/7/head", "/git/refs/heads/MAIN", "/git/refs/notes/commits"],
        *["/issues/7/labels/bug", "/git/refs/heads/airlock/x.lock", "/git/refs/heads/airlock/a:b"],
    ],
)
@pytest.mark.parametrize("method", ["PATCH", "DELETE"])
def test_a_ref_or_label_that_is_not_ours_is_no_path(method: str, path: str) -> None:
    """S4: the default, base and foreign refs cannot be named, `further_branches` or not."""
    assert check(method, ROOT + path, {"sha": SHA}, PUBLISHER).code in {"egress_path_blocked", "egress_method_blocked"}


def test_changes_are_requested_only_where_configuration_lets_reviews_do_so() -> None:
    """REQUEST_CHANGES by configuration, APPROVE by none."""
    policy = Policy([github_connection(replace(RUN, request_changes=True))])

    def review(event: str) -> bool:
        body = json.dumps({"event": event, "body": "x"}).encode()
        return policy.check(EgressRequest("github", "POST", f"{ROOT}/pulls/7/reviews", body=body), HARNESS).allowed

    assert [review(event) for event in ("COMMENT", "REQUEST_CHANGES", "APPROVE")] == [True, True, False]


@pytest.mark.parametrize(
    ("path", "query"),
    [
        ("/issues/9/comments", {"_method": "DELETE"}),
        ("/issues/9/comments", {"per_page": 101}),
        ("/issues/9/comments", {"per_page": "5&path=/repos/acme/payments"}),
        ("/issues/9/comments", {"page": 0}),
        ("/issues/9/comments", {"page": -1}),
        ("/issues/9/comments", {"page": ["1", "2"]}),
        ("/issues/9/comments", {"page": None}),
        ("/issues/9/comments", {"page": 1.0}),
        ("/issues/9/comments", {"page": "9" * 30}),
        ("/issues/9/comments", {"since": "2026-01-01T00:00:00Z\r\nX: y"}),
        ("/issues/9", {"page": 1}),
        ("/contents/a", {"ref": "../x"}),
        ("/commits", {"path": "a" * 5000}),
        ("/actions/runs", {"created": "> 2020 OR x"}),
        ("/git/trees/" + SHA, {"recursive": "0"}),
    ],
)
def test_a_query_is_only_what_the_route_declares(path: str, query: dict[str, Any]) -> None:
    """No undeclared name, no second value, no value of another shape."""
    assert check("GET", ROOT + path, query=query).code == "egress_query_blocked"


def test_a_truth_value_in_a_query_is_sent_as_github_reads_it() -> None:
    """Python's True is GitHub's true."""
    found = check("GET", f"{ROOT}/actions/runs", query={"exclude_pull_requests": True, "branch": "main"})

    assert found.wire is not None
    assert found.wire.query == (("exclude_pull_requests", "true"), ("branch", "main"))


@pytest.mark.parametrize(
    "method",
    ["get", "TRACE", "HEAD", "OPTIONS", "CONNECT", "", "GET ", "GET /x HTTP/1.1\r\nX:", "POST", "ＧET"],
)
def test_a_method_is_exact(method: str) -> None:
    """No folding, no second request inside a method."""
    assert check(method, f"{ROOT}/pulls/7").code == "egress_method_blocked"


@pytest.mark.parametrize(
    "data",
    [
        b'{"event":"COMMENT","event":"APPROVE","body":"x"}',
        b'{"event":"APPROVE","event":"COMMENT","body":"x"}',
        b'{"event":"COMMENT","body":NaN}',
        b'\xff\xfe{"event"',
        b"{",
        b"[" * 100_000,
        b'{"event":"COMMENT","body":"\xff"}',
    ],
)
def test_bytes_that_two_readers_could_read_differently_are_no_body(data: bytes) -> None:
    """A key twice, a constant that is no JSON, broken text: refused."""
    request = EgressRequest("github", "POST", f"{ROOT}/pulls/7/reviews", body=data)

    assert POLICY.check(request, HARNESS).code == "egress_body_blocked"


def test_the_body_on_the_wire_is_encoded_from_what_was_checked() -> None:
    """Spelling tricks in the bytes do not survive: what is sent is plain ASCII JSON of the checked value."""
    data = b' {"\\u0062ody" : "caf\xc3\xa9 \\ud83d\\ude00"} '
    found = POLICY.check(EgressRequest("github", "POST", f"{ROOT}/issues/7/comments", body=data), HARNESS)

    assert found.wire is not None
    assert found.wire.body == b'{"body":"caf\\u00e9 \\ud83d\\ude00"}'
    assert ("content-type", "application/json") in found.wire.headers


@pytest.mark.parametrize(
    "headers",
    [
        {"X-HTTP-Method-Override": "DELETE"},
        {"host": "evil.invalid", "X-Forwarded-Host": "evil.invalid"},
        {"Authorization": "Bearer x", "Cookie": "a=b"},
        {"Accept": "application/json\r\nX-Evil: 1"},
        {"Accept": "text/html"},
        {"content-length": "0", "transfer-encoding": "chunked", "accept-encoding": "br"},
        {"Accept": 3},
        {3: "x"},
    ],
)
def test_headers_a_caller_may_not_set_are_dropped(headers: dict[str, str]) -> None:
    """R10: the request goes out, without the wish."""
    found = check("GET", f"{ROOT}/pulls/7", headers=headers)

    assert found.wire is not None
    assert dict(found.wire.headers) == {
        "x-github-api-version": "2022-11-28",
        "user-agent": "airlock-agent",
        "accept-encoding": "gzip",
    }


def test_git_tier_routes_name_the_push_token_and_others_the_github_token() -> None:
    """The App token of `push-token` is used for pushes and pulls alone."""
    secrets = {
        route.id: route.secret or GITHUB.attach[0].secret
        for route in GITHUB.routes
        if (route.secret or "") == "push-token" or route.tier is Tier.GIT
    }

    assert secrets == dict.fromkeys(
        [
            *["blob.create", "tree.create", "git.commit.create", "ref.create", "ref.update"],
            *["pull.create", "pull.update"],
        ],
        "push-token",
    )
    found = check("POST", f"{ROOT}/git/blobs", {"content": "x"}, PUBLISHER)
    assert found.wire is not None
    assert found.wire.attach == (Attach("authorization", "push-token", prefix="Bearer "),)


SAMPLES: dict[str, object] = {
    "issue.create": {"title": "x"},
    "issue.comment.create": {"body": "x"},
    "issue.comment.update": {"body": "x"},
    "pull.review.create": {"event": "COMMENT"},
    "pull.review.submit": {"event": "COMMENT"},
    "pull.comment.create": {"body": "x", "commit_id": SHA, "path": "a"},
    "pull.comment.reply": {"body": "x"},
    "pull.comment.update": {"body": "x"},
    "label.add": {"labels": ["ci"]},
    "issue.react": {"content": "eyes"},
    "issue.comment.react": {"content": "eyes"},
    "pull.comment.react": {"content": "eyes"},
    "issue.update": {"title": "x"},
    "blob.create": {"content": "x"},
    "tree.create": {"tree": [{"path": "a", "mode": "100644", "type": "blob", "sha": SHA}]},
    "git.commit.create": {"message": "x", "tree": SHA},
    "ref.create": {"ref": "refs/heads/airlock/x", "sha": SHA},
    "ref.update": {"sha": SHA},
    "pull.create": {"title": "x", "head": "airlock/x", "base": "main"},
    "pull.update": {"title": "x"},
}


@pytest.mark.parametrize("mode", MODES)
def test_a_mode_reaches_exactly_the_open_routes_of_its_tiers(mode: str) -> None:
    """S5 by the route table: for every route, the harness of a mode is let in by tier and gate alone."""
    tiers = MODES[mode].tiers
    assert {route.id for route in GITHUB.routes if route.body} == set(SAMPLES)
    reached, open_routes = set(), set()
    for route in GITHUB.routes:
        for example in route.match or ("~/issues/7/labels/ci",):
            path = example.replace("~", ROOT, 1).replace("$prefix", "airlock/")
            found = check(route.method, path, SAMPLES.get(route.id), Authority.harness(tiers))
            reached |= {route.id} if found.allowed else set()
        open_routes |= {route.id} if route.tier in tiers and route.gate is None else set()

    assert reached == open_routes


def test_nothing_of_git_and_no_publisher_route_is_open_to_the_harness() -> None:
    """Fetch, git data, refs, pulls and reactions are the broker's own."""
    gated = {route.id for route in GITHUB.routes if route.gate == "publisher"}

    assert {route.id for route in GITHUB.routes if route.tier is Tier.GIT} <= gated
    fetch = {"service": "git-upload-pack"}
    assert check("GET", "/acme/widgets.git/info/refs", query=fetch, connection="git").code == "egress_gate_closed"
    own = check("GET", "/acme/widgets.git/info/refs", None, Authority.broker(), fetch, "git")
    assert own.wire is not None
    assert own.wire.attach == (Attach("authorization", "github-token", basic_user="x-access-token"),)


@pytest.mark.parametrize("path", ["/issues/comments/71", "/pulls/comments/3"])
def test_a_comment_is_changed_only_by_who_has_looked_whose_it_is(path: str) -> None:
    """A token could change anybody's comment: the gate is opened by the broker, for one that is its own."""
    looked = replace(HARNESS, gates=frozenset({"own_text"}))

    assert check("PATCH", ROOT + path, {"body": "x"}).code == "egress_gate_closed"
    assert check("PATCH", ROOT + path, {"body": "x"}, looked).allowed
    assert check("PATCH", ROOT + path, {"body": "x"}, PUBLISHER).allowed


@pytest.mark.parametrize(
    ("method", "path", "query", "code"),
    [
        ("GET", "/acme/widgets.git/info/refs", {"service": "git-receive-pack"}, "egress_query_blocked"),
        ("GET", "/acme/widgets.git/info/refs", {}, "egress_query_blocked"),
        ("POST", "/acme/widgets.git/git-receive-pack", {}, "egress_path_blocked"),
        ("GET", "/acme/payments.git/info/refs", {"service": "git-upload-pack"}, "egress_path_blocked"),
    ],
)
def test_the_git_connection_only_fetches_this_repository(
    method: str, path: str, query: dict[str, str], code: str
) -> None:
    """receive-pack, which would push, is not there for anybody."""
    assert check(method, path, None, Authority.broker(), query, "git").code == code


def test_a_model_connection_takes_any_body_on_its_one_path() -> None:
    """The key is named, the body is opaque, nothing else of the provider is reachable."""
    found = check("POST", "/v1/messages", {"model": "x"}, connection="model")

    assert found.wire is not None
    assert (found.wire.body, found.wire.attach) == (b'{"model": "x"}', (Attach("x-api-key", "api-key"),))
    assert check("POST", "/v1/files", {}, connection="model").code == "egress_path_blocked"
    assert check("GET", "/v1/messages", connection="model").code == "egress_method_blocked"


def test_a_keyless_model_has_no_secret() -> None:
    """A local model server is sent no key."""
    local = model_connection(
        name="model", origin="http://127.0.0.1:11434", path="/v1/chat/completions", header="", scheme=""
    )

    assert (local.attach, local.insecure) == ((), True)


def test_enterprise_server_adds_its_base_path_and_its_own_archive_host() -> None:
    """GHES: everything goes below GITHUB_API_URL (F19)."""
    run = replace(
        RUN,
        repository_id=None,
        api_url="https://ghe.example/api/v3",
        server_url="https://ghe.example",
        log_hosts=("logs.example:8443",),
    )
    connection = github_connection(run)
    found = Policy([connection]).check(EgressRequest("github", "GET", f"{ROOT}/pulls/7"), HARNESS)

    assert found.wire is not None
    assert found.wire.url == "https://ghe.example/api/v3/repos/acme/widgets/pulls/7"
    assert connection.redirects["archive"][-2:] == (r"ghe\.example", r"codeload\.ghe\.example")
    assert connection.redirects["logs"][-1] == r"logs\.example\:8443"
    assert not Policy([connection]).check(EgressRequest("github", "GET", "/repositories/1001"), HARNESS).allowed


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"repository": "widgets"}, "owner/name"),
        ({"repository": "a/b/c"}, "owner/name"),
        ({"branch_prefix": ""}, "branchPrefix"),
        ({"branch_prefix": "m"}, "branchPrefix"),
        ({"api_url": "ftp://x"}, "GITHUB_API_URL"),
        ({"api_url": "https://user@x"}, "GITHUB_API_URL"),
        ({"api_url": "https://x?y"}, "GITHUB_API_URL"),
        ({"api_url": "https://[x"}, "GITHUB_API_URL"),
        ({"api_url": "https://x:99999"}, "GITHUB_API_URL"),
    ],
)
def test_parameters_that_would_widen_or_break_the_routes_are_refused(change: dict[str, Any], match: str) -> None:
    """A prefix such as `m` would make `main` our own."""
    with pytest.raises(UserError, match=match):
        github_connection(replace(RUN, **change))


def test_an_address_of_ip_version_six_keeps_its_brackets() -> None:
    """A host in brackets is one host."""
    assert github_connection(replace(RUN, api_url="http://[::1]:8080")).origin == "http://[::1]:8080"


def one(*routes: Route) -> Policy:
    return Policy([Connection("c", "https://c.example", "", routes)])


def test_where_several_routes_match_all_must_permit() -> None:
    """The strictest wins: a wide route does not open what a narrow one keeps closed."""
    wide = Route("wide", "POST", (compile_template("/a/**", {}),), Tier.READ, opaque_body=True)
    narrow = Route("narrow", "POST", (compile_template("/a/b", {}),), Tier.GIT, opaque_body=True, gate="publisher")
    policy = one(wide, narrow)
    readers = Authority.harness(frozenset({Tier.READ}))

    assert policy.check(EgressRequest("c", "POST", "/a/b"), readers).code == "egress_tier_blocked"
    assert policy.check(EgressRequest("c", "POST", "/a/b"), HARNESS).code == "egress_gate_closed"
    assert policy.check(EgressRequest("c", "POST", "/a/c"), readers).allowed
    assert policy.check(EgressRequest("c", "POST", "/a/b"), PUBLISHER).reason == "allowed by wide, narrow"


def test_a_policy_of_nothing_and_a_name_twice_are_mistakes() -> None:
    """An empty policy would refuse everything, which nobody means."""
    with pytest.raises(UserError, match="without a connection"):
        Policy([])
    with pytest.raises(UserError, match="declared twice"):
        Policy([MODEL, MODEL])
    assert POLICY.connection("model") is MODEL
    assert POLICY.connections == (GITHUB, git_connection(RUN), MODEL)


@given(
    st.sampled_from(["github", "git", "model", "x"]),
    st.sampled_from(["GET", "POST", "PATCH", "DELETE", "PUT", "get", ""]) | st.text(max_size=5),
    st.text(max_size=20) | st.text(alphabet="/pulsrefgithd.%0123", max_size=30).map(lambda t: ROOT + t),
    st.dictionaries(
        st.text(max_size=8), st.none() | st.text(max_size=8) | st.integers() | st.lists(st.none()), max_size=2
    ),
    st.dictionaries(st.text(max_size=8), st.text(max_size=8), max_size=2),
    st.binary(max_size=30),
)
@settings(max_examples=400, deadline=None)
def test_any_request_gets_a_verdict_and_stays_on_its_connection(
    connection: str, method: str, path: str, query: dict[str, Any], headers: dict[str, str], body: bytes
) -> None:
    """A hostile harness gets codes, never an exception; what is allowed lies under the repository."""
    found = POLICY.check(EgressRequest(connection, method, path, query, headers, body), HARNESS)

    if found.wire is None:
        assert (found.code or "").startswith("egress_")
        assert found.rules
    elif connection == "github":
        below = found.wire.url.removeprefix("https://api.github.com")
        assert below.startswith((f"{ROOT}/", "/repositories/1001", "/users/", "/rate_limit")) or below == ROOT
