"""Sending over real sockets: the secret's path, redirects, waits, caps, and what the record shows."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from agent.broker.egress import Egress, make_transport
from agent.broker.policy.builtin import RunParameters, git_connection, github_connection, model_connection
from agent.broker.policy.decide import Policy
from agent.broker.policy.words import Authority, EgressRequest
from agent.broker.redact.redactor import Redactor
from agent.broker.secrets import SecretStore
from agent.contract.errors import UpstreamError
from agent.contract.modes import Tier
from tests.support.stub_http import Seen, Stub, reply, serving

TOKEN, PUSH, KEY = (
    "ghs_CANARYgithub0123456789abcdefghij",
    "ghs_CANARYpush00123456789abcdefghij",
    "sk-CANARY-model-key-0123456789",
)
ROOT = "/repos/acme/widgets"
SHA = "a" * 40
HARNESS = Authority.harness(frozenset(Tier))
PUBLISHER = Authority.publisher(frozenset(Tier))


class Clock:
    """Time that passes by sleeping alone."""

    def __init__(self) -> None:
        self.time = 1000.0
        self.slept: list[float] = []

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.slept.append(round(seconds, 3))
        self.time += seconds


class World:
    """One run's egress with everything it touched."""

    def __init__(self, hub: Stub, storage: Stub, secrets: dict[str, str], **options: Any) -> None:
        self.hub, self.storage = hub, storage
        self.run = RunParameters(
            "acme/widgets",
            1001,
            api_url=f"{hub.url}/api/v3",
            server_url=hub.url,
            log_hosts=(f"127.0.0.1:{storage.port}",),
        )
        model = model_connection(
            name="model", origin=hub.url, path="/v1/messages", header="x-api-key", scheme="", secret="api-key"
        )
        self.store = SecretStore(secrets)
        self.records: list[tuple[str, dict[str, Any]]] = []
        self.clock = Clock()
        self.egress = Egress(
            Policy([github_connection(self.run), git_connection(self.run), model]),
            self.store,
            make_transport(),
            record=lambda type_, **data: self.records.append((type_, data)),
            redactor=Redactor(secrets),
            clock=self.clock,
            **options,
        )

    def ask(
        self, method: str, path: str, body: object = None, authority: Authority = HARNESS, connection: str = "github"
    ) -> Any:
        data = b"" if body is None else json.dumps(body).encode()
        return self.egress.send(EgressRequest(connection, method, path, {}, {}, data), authority)

    @property
    def types(self) -> list[str]:
        return [type_ for type_, _ in self.records]


SECRETS = {"github-token": TOKEN, "push-token": PUSH, "api-key": KEY}


@pytest.fixture
def worlds() -> Iterator[Callable[..., World]]:
    with serving() as hub, serving() as storage:
        yield lambda secrets=SECRETS, **options: World(hub, storage, secrets, **options)


@pytest.fixture
def world(worlds: Callable[..., World]) -> World:
    return worlds()


def test_an_allowed_request_carries_its_secret_and_is_recorded_without_it(world: World) -> None:
    """The whole way: wire form, header attached, answer passed on without cookies, record clean."""
    world.hub.answer = lambda seen: [
        reply(b'{"ok":1}', link='<x>; rel="next"', set_cookie="a=b", x_github_request_id="1")
    ]
    answer = world.ask("GET", f"{ROOT}/pulls/7")

    assert (answer.status, answer.body, answer.refused) == (200, b'{"ok":1}', False)
    assert answer.headers == {"content-length": "8", "link": '<x>; rel="next"', "x-github-request-id": "1"}
    assert world.hub.seen == [
        Seen(
            "GET",
            "/api/v3/repos/acme/widgets/pulls/7",
            {
                "host": f"127.0.0.1:{world.hub.port}",
                "x-github-api-version": "2022-11-28",
                "user-agent": "airlock-agent",
                "accept-encoding": "gzip",
                "authorization": f"Bearer {TOKEN}",
            },
            b"",
        )
    ]
    assert world.types == ["egress.request", "egress.response"]
    assert world.records[0][1] == {
        "n": 1,
        "connection": "github",
        "method": "GET",
        "path": f"{ROOT}/pulls/7",
        "query": {},
        "authority": "harness",
        "rules": ["pull.get"],
        "bytes": 0,
    }
    assert TOKEN not in repr(world.records)


@pytest.mark.parametrize(
    ("connection", "method", "path", "body", "code"),
    [
        ("payments", "GET", f"{ROOT}/pulls/7", None, "egress_connection_unknown"),
        ("github", "GET", "/repos/acme/payments", None, "egress_path_blocked"),
        ("github", "DELETE", f"{ROOT}/pulls/7", None, "egress_method_blocked"),
        ("github", "POST", f"{ROOT}/pulls/7/reviews", {"event": "APPROVE"}, "egress_body_blocked"),
        ("github", "POST", f"{ROOT}/git/refs", {"ref": "refs/heads/airlock/x", "sha": SHA}, "egress_gate_closed"),
    ],
)
def test_a_refused_request_never_reads_its_secret_and_never_leaves(
    world: World, connection: str, method: str, path: str, body: object, code: str
) -> None:
    """Decided before the secret is read: no read, no connection, a record; then an allowed one works."""
    answer = world.ask(method, path, body, connection=connection)

    assert (answer.status, answer.refused, answer.code) == (403, True, code)
    assert json.loads(answer.body) == {"status": 403, "error": {"code": code, "message": answer.message}}
    assert (world.store.reads, world.hub.seen, world.hub.connections) == ((), [], 0)
    assert world.types == ["egress.denied"]
    assert world.records[0][1]["code"] == code
    assert world.ask("GET", f"{ROOT}/pulls/7").status == 200
    assert world.store.reads == ("github-token",)


def test_without_the_push_token_the_first_write_stops_and_the_rest_goes_on(worlds: Callable[..., World]) -> None:
    """D9: 409 secret_unavailable for git-tier routes; comments and reads still work."""
    world = worlds({"github-token": TOKEN})
    blob = world.ask("POST", f"{ROOT}/git/blobs", {"content": "x"}, PUBLISHER)

    assert (blob.status, blob.code, blob.refused) == (409, "secret_unavailable", True)
    assert blob.message == "The secret 'push-token' is not set, so the request was not sent."
    assert (world.hub.seen, world.types) == ([], ["egress.denied"])
    assert world.ask("POST", f"{ROOT}/issues/7/comments", {"body": "x"}).status == 200
    assert [seen.headers["authorization"] for seen in world.hub.seen] == [f"Bearer {TOKEN}"]


def test_git_routes_are_sent_with_the_push_token(world: World) -> None:
    """The App token is used for pushes, and only there."""
    world.ask("POST", f"{ROOT}/git/blobs", {"content": "x"}, PUBLISHER)

    assert world.hub.seen[0].headers["authorization"] == f"Bearer {PUSH}"


def test_git_fetch_uses_basic_authentication(world: World) -> None:
    """Smart HTTP takes the token as a password."""
    request = EgressRequest(
        "git", "GET", "/acme/widgets.git/info/refs", {"service": "git-upload-pack"}, {"git-protocol": "version=2"}
    )
    world.egress.send(request, Authority.broker())
    seen = world.hub.seen[0]

    assert seen.target == "/acme/widgets.git/info/refs?service=git-upload-pack"
    assert seen.headers["authorization"].startswith("Basic eC1hY2Nlc3MtdG9rZW46")
    assert seen.headers["git-protocol"] == "version=2"


def test_a_secret_with_a_line_break_is_not_sent(worlds: Callable[..., World]) -> None:
    """A second line would be a header of its own."""
    world = worlds({"github-token": "ghs_x\r\nX-Evil: 1"})

    assert world.ask("GET", f"{ROOT}/pulls/7").code == "secret_unavailable"
    assert world.hub.seen == []


# -- redirects


def test_a_log_is_read_from_the_declared_host_without_the_token(world: World) -> None:
    """F14: 302 to storage, no Authorization there, the signature in no record."""
    location = f"{world.storage.url}/blob?sig=abcSIGNATURE"
    world.hub.answer = lambda seen: [reply(b"", 302, location=location)]
    world.storage.answer = lambda seen: [
        reply(b"", 403) if "authorization" in seen.headers else reply(b"log text", content_type="text/plain")
    ]
    answer = world.ask("GET", f"{ROOT}/actions/jobs/55/logs")

    assert (answer.status, answer.body) == (200, b"log text")
    assert world.storage.seen == [
        Seen(
            "GET",
            "/blob?sig=abcSIGNATURE",
            {"host": f"127.0.0.1:{world.storage.port}", "user-agent": "airlock-agent", "accept-encoding": "identity"},
            b"",
        )
    ]
    assert "SIGNATURE" not in repr(world.records)
    assert world.types == ["egress.request", "egress.redirect", "egress.response"]


@pytest.mark.parametrize("path", ["/issues/11", "/pulls/7", "/contents/a", "/tarball/main"])
def test_a_redirect_to_a_host_that_the_route_does_not_declare_is_not_followed(world: World, path: str) -> None:
    """R10: storage is declared for logs alone; other routes may not go there, with or without the token."""
    world.hub.answer = lambda seen: [reply(b"", 302, location=f"{world.storage.url}/steal?sig=abcSIGNATURE")]
    answer = world.ask("GET", ROOT + path)

    assert (answer.status, answer.code) == (403, "egress_redirect_blocked")
    assert world.storage.connections == 0
    assert "SIGNATURE" not in repr(world.records) + answer.message
    place = world.storage.url.partition("//")[2]
    assert place in repr(world.records), "people read which host to declare"
    assert place not in answer.message + answer.body.decode(), "to the model it is a third party's words (S1)"


def test_a_log_redirect_to_another_port_of_a_declared_host_is_not_followed(world: World) -> None:
    """`host:port` is the declaration; the same host elsewhere is another place."""
    with serving() as sink:
        world.hub.answer = lambda seen: [reply(b"", 302, location=f"{sink.url}/log.txt")]
        answer = world.ask("GET", f"{ROOT}/actions/jobs/502/logs")

        assert (answer.code, sink.connections) == ("egress_redirect_blocked", 0)


def test_a_renamed_repository_is_followed_by_its_own_number_with_the_token(world: World) -> None:
    """The numeric form is accepted for this repository alone."""
    own = f"{world.hub.url}/api/v3/repositories/1001/pulls/7?page=2"
    world.hub.answer = lambda seen: [reply(b"[]")] if "repositories" in seen.target else [reply(b"", 301, location=own)]
    answer = world.ask("GET", f"{ROOT}/pulls/7")

    assert (answer.code, answer.refused) == ("egress_redirect_blocked", True)  # page is no query of pull.get
    world.hub.answer = lambda seen: (
        [reply(b"[]")] if "repositories" in seen.target else [reply(b"", 301, location=own.partition("?")[0])]
    )
    assert world.ask("GET", f"{ROOT}/pulls/7").body == b"[]"
    assert world.hub.seen[-1].headers["authorization"] == f"Bearer {TOKEN}"


@pytest.mark.parametrize(
    "target",
    [
        "/api/v3/repositories/1002/pulls/7",
        "/api/v3/repos/acme/payments/pulls/7",
        "/repos/acme/widgets/pulls/7",
        "/api/v3/repos/acme/widgets/../payments",
        "/api/v3/user",
        "/api/v3/repos/acme/widgets/pulls/7?a=1&a=2",
    ],
)
def test_a_redirect_inside_the_api_is_decided_on_like_any_request(world: World, target: str) -> None:
    """Another repository is not reached by way of an answer."""
    world.hub.answer = lambda seen: [reply(b"", 302, location=world.hub.url + target)]
    answer = world.ask("GET", f"{ROOT}/pulls/7")

    assert answer.code == "egress_redirect_blocked"
    assert len(world.hub.seen) == 1


def test_a_redirected_write_is_not_sent_again(world: World) -> None:
    """A body never follows a redirect."""
    world.hub.answer = lambda seen: [reply(b"", 307, location=f"{world.hub.url}/api/v3/repositories/1001/issues")]
    answer = world.ask("POST", f"{ROOT}/issues", {"title": "x"})

    assert (answer.code, len(world.hub.seen)) == ("egress_redirect_blocked", 1)


def test_a_circle_of_redirects_ends(world: World) -> None:
    """At most three are followed."""
    world.hub.answer = lambda seen: [reply(b"", 302, location=f"{world.hub.url}/api/v3{ROOT}/pulls/7")]
    answer = world.ask("GET", f"{ROOT}/pulls/7")

    assert (answer.code, len(world.hub.seen)) == ("egress_redirect_blocked", 4)


# -- waiting


def then(*answers: bytes) -> Callable[[Seen], list[bytes | Callable[[], None]]]:
    rest = list(answers)
    return lambda seen: [rest.pop(0)]


SECONDARY = b'{"message":"You have exceeded a secondary rate limit. Please wait a few minutes."}'


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    ("limited", "waits"),
    [
        (reply(SECONDARY, 403, retry_after="2"), [2.0]),
        (reply(b"{}", 429, retry_after="7"), [7.0]),
        (reply(b"{}", 403, x_ratelimit_remaining="0", x_ratelimit_reset="1003"), [4.0]),
        (reply(b"{}", 403, x_ratelimit_remaining="0"), [60.0]),
        (reply(SECONDARY, 403), [60.0]),
        (reply(b"{}", 429), [60.0]),
    ],
)
def test_a_rate_limit_is_waited_for(world: World, method: str, limited: bytes, waits: list[float]) -> None:
    """F18: 403 that means later, in GitHub's own order of questions."""
    world.hub.answer = then(limited, reply(b'{"ok":1}'))
    path, body = (f"{ROOT}/pulls/7", None) if method == "GET" else (f"{ROOT}/issues", {"title": "x"})
    answer = world.ask(method, path, body)

    assert (answer.status, world.clock.slept) == (200, waits)
    assert world.types == ["egress.request", "egress.wait", "egress.response"]


def test_a_missing_permission_is_not_tried_again(world: World) -> None:
    """A 403 that waiting does not mend is passed on at once, with the permission's name."""
    body = b'{"message":"Resource not accessible by integration"}'
    world.hub.answer = lambda seen: [reply(body, 403, x_accepted_github_permissions="issues=write")]
    answer = world.ask("GET", f"{ROOT}/pulls/7")

    assert (answer.status, answer.body, world.clock.slept, len(world.hub.seen)) == (403, body, [], 1)
    assert answer.headers["x-accepted-github-permissions"] == "issues=write"


def test_no_wait_goes_beyond_the_runs_clock(worlds: Callable[..., World]) -> None:
    """With 30 seconds left a wait of 60 is not begun."""
    world = worlds(remaining_s=lambda: 30.0)
    world.hub.answer = lambda seen: [reply(SECONDARY, 403)]

    assert (world.ask("GET", f"{ROOT}/pulls/7").status, world.clock.slept) == (403, [])


def test_waits_end_after_a_few(world: World) -> None:
    """A server that always says later gets its last word."""
    world.hub.answer = lambda seen: [reply(SECONDARY, 403, retry_after="1")]

    assert world.ask("GET", f"{ROOT}/pulls/7").status == 403
    assert world.clock.slept == [1.0, 1.0, 1.0]


BLOB, TREE = {"content": "eA==", "encoding": "base64"}, {"tree": [{"path": "a", "mode": "100644", "type": "blob"}]}
COMMIT, REF = {"message": "m", "tree": SHA, "parents": [SHA]}, {"ref": "refs/heads/airlock/x", "sha": SHA}
REPEATABLE: list[tuple[str, str, object]] = [
    ("GET", "/pulls/7", None),
    ("POST", "/git/blobs", BLOB),
    ("POST", "/git/trees", TREE),
    ("POST", "/git/commits", COMMIT),
]
ONCE: list[tuple[str, str, object]] = [
    ("POST", "/git/refs", REF),
    ("PATCH", "/git/refs/heads/airlock/x", {"sha": SHA}),
    ("POST", "/pulls", {"title": "x", "head": "airlock/x", "base": "main"}),
    ("PATCH", "/pulls/7", {"title": "x"}),
    ("POST", "/issues", {"title": "x"}),
    ("POST", "/issues/7/comments", {"body": "x"}),
    ("POST", "/pulls/7/reviews", {"event": "COMMENT", "body": "x"}),
]
FAULTS: list[list[bytes | Callable[[], None]]] = [[reply(b"<html>", 502)], []]  # an empty list hangs up


@pytest.mark.parametrize("fault", FAULTS, ids=["502", "drop"])
@pytest.mark.parametrize(("method", "path", "body"), REPEATABLE)
def test_a_fault_is_waited_out_where_twice_is_as_good_as_once(
    worlds: Callable[..., World], method: str, path: str, body: object, fault: list[bytes | Callable[[], None]]
) -> None:
    """Reads, and Git objects that nothing refers to yet; the very first request of a run is no exception."""
    world = worlds(write_pause_s=0)
    answers = [fault, fault, [reply(b'{"ok":1}')]]
    world.hub.answer = lambda seen: answers.pop(0)

    assert world.ask(method, ROOT + path, body, PUBLISHER).body == b'{"ok":1}'
    assert world.clock.slept == [1.0, 3.0]
    assert world.types == ["egress.request", "egress.wait", "egress.wait", "egress.response"]
    assert len({(seen.method, seen.target, seen.body) for seen in world.hub.seen}) == 1


@pytest.mark.parametrize("fault", FAULTS, ids=["502", "drop"])
@pytest.mark.parametrize(("method", "path", "body"), ONCE)
def test_a_write_that_somebody_sees_is_never_sent_twice(
    world: World, method: str, path: str, body: object, fault: list[bytes | Callable[[], None]]
) -> None:
    """It may have been done: whether to do it again is for whoever can look it up."""
    world.hub.answer = lambda seen: fault
    try:
        status = world.ask(method, ROOT + path, body, PUBLISHER).status
    except UpstreamError:
        status = None

    assert (status, len(world.hub.seen), world.clock.slept) == (502 if fault else None, 1, [])


def test_a_server_that_stays_faulty_gets_its_last_word(world: World) -> None:
    """Three tries, whichever the fault; then the caller is told."""
    world.hub.answer = lambda seen: [reply(b"", 503)]
    assert world.ask("GET", f"{ROOT}/pulls/7").status == 503
    world.hub.answer = lambda seen: []
    with pytest.raises(UpstreamError, match="cut off"):
        world.ask("GET", f"{ROOT}/issues/7")
    assert world.clock.slept == [1.0, 3.0] * 2


def test_no_fault_is_waited_out_beyond_the_runs_clock(worlds: Callable[..., World]) -> None:
    """With five seconds left for the report none is spent on waiting."""
    world = worlds(remaining_s=lambda: 5.5)
    world.hub.answer = lambda seen: []

    with pytest.raises(UpstreamError, match="cut off"):
        world.ask("GET", f"{ROOT}/pulls/7")
    assert (len(world.hub.seen), world.clock.slept) == (1, [])


def test_a_git_fetch_outlives_a_dropped_connection(world: World) -> None:
    """Upload-pack only reads."""
    answers: list[list[bytes | Callable[[], None]]] = [[], [reply(b"pack")]]
    world.hub.answer = lambda seen: answers.pop(0)
    request = EgressRequest("git", "POST", "/acme/widgets.git/git-upload-pack", body=b"0000")

    assert world.egress.send(request, Authority.broker()).body == b"pack"


def test_writes_are_a_second_apart_and_reads_are_not(world: World) -> None:
    """GitHub asks for a second between requests that change something."""
    for _ in range(3):
        world.ask("POST", f"{ROOT}/issues", {"title": "x"})
        world.ask("GET", f"{ROOT}/pulls/7")

    assert world.clock.slept == [1.0, 1.0]


def test_a_models_answers_are_never_retried_here(world: World) -> None:
    """What may be repeated at a model is its client's to say."""
    world.hub.answer = lambda seen: [reply(b"", 529, retry_after="1")]
    answer = world.ask("POST", "/v1/messages", {"a": 1}, connection="model")

    assert (answer.status, answer.headers["retry-after"], world.clock.slept) == (529, "1", [])
    assert world.hub.seen[0].headers["x-api-key"] == KEY


# -- answers that are too much, or not enough


def test_an_answer_over_the_cap_is_an_error(worlds: Callable[..., World]) -> None:
    """Bounded memory, whatever the server sends; a gzip bomb counts by what it becomes."""
    world = worlds()
    bomb = gzip.compress(b"\0" * (80 << 20), 1)
    world.hub.answer = lambda seen: [reply(bomb, content_encoding="gzip")]

    with pytest.raises(UpstreamError, match="larger than"):
        world.ask("GET", f"{ROOT}/pulls/7")


def test_gzip_is_undone(world: World) -> None:
    """The positive control of the bomb."""
    world.hub.answer = lambda seen: [reply(gzip.compress(b'{"a":1}'), content_encoding="gzip")]

    assert world.ask("GET", f"{ROOT}/pulls/7").body == b'{"a":1}'


@pytest.mark.parametrize(
    "raw",
    [
        b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\nconnection: close\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\n5\r\nhel",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\nzz\r\nhello\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 5\r\n\r\nhello",
        reply(gzip.compress(b"x" * 1000, mtime=0)[:-10], content_encoding="gzip"),
        b"HTTP/1.1 200 OK\r\n" + b"".join(b"x-%d: 1\r\n" % i for i in range(200)) + b"\r\n",
        b"SSH-2.0-OpenSSH\r\n",
        b"",
    ],
)
def test_an_answer_that_is_cut_off_or_none_is_an_error_not_a_part(world: World, raw: bytes) -> None:
    """Half an answer is never taken for a whole one, and the record says that it failed."""
    world.hub.answer = lambda seen: [raw] if raw.startswith(b"HTTP") else [raw + b"\r\nconnection: close"]

    with pytest.raises(UpstreamError) as error:
        world.ask("GET", f"{ROOT}/pulls/7")
    assert TOKEN not in str(error.value)
    assert ROOT not in str(error.value)


def test_no_answer_in_time_is_an_error(world: World) -> None:
    """A server that says nothing is given up on after the time that was asked for."""
    stop = threading.Event()
    world.hub.answer = lambda seen: [lambda: bool(stop.wait(30)) or None]  # type: ignore[func-returns-value]
    request = EgressRequest("github", "GET", f"{ROOT}/pulls/7")

    with pytest.raises(UpstreamError, match="no answer in time"):
        world.egress.send(request, HARNESS, timeout_s=0.2)
    stop.set()
    assert world.types == ["egress.request", "egress.response"]
    assert world.records[-1][1]["error"].endswith("no answer in time")


def test_a_trickle_does_not_outlive_the_run(worlds: Callable[..., World]) -> None:
    """Each byte in time and the whole never: the run's clock ends it."""
    world = worlds(remaining_s=lambda: 2.5)

    def tick() -> None:
        world.clock.time += 1.0

    pieces: list[bytes | Callable[[], None]] = [b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"]
    for _ in range(20):
        pieces += [tick, b"1\r\nx\r\n"]
    world.hub.answer = lambda seen: pieces

    with pytest.raises(UpstreamError, match="time is over"):
        world.ask("POST", "/v1/messages", {"a": 1}, connection="model")


def test_the_report_is_still_posted_when_the_runs_time_is_over(worlds: Callable[..., World]) -> None:
    """B8: a run that was stopped by its clock says so; nobody else gets more time."""
    world = worlds(remaining_s=lambda: -1.0)

    with pytest.raises(UpstreamError, match="time is over"):
        world.ask("GET", f"{ROOT}/pulls/7")
    assert world.ask("POST", f"{ROOT}/issues/7/comments", {"body": "x"}, PUBLISHER).status == 200


def test_a_streamed_answer_arrives_piece_by_piece(world: World) -> None:
    """The first event of a model's answer is seen while the server still writes."""
    seen_first = threading.Event()
    world.hub.answer = lambda seen: [
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n",
        b"6\r\nfirst \r\n",
        lambda: bool(seen_first.wait(10)) or None,  # type: ignore[func-returns-value]
        b"6\r\nsecond\r\n0\r\n\r\n",
    ]
    stream = world.egress.stream(EgressRequest("model", "POST", "/v1/messages", body=b"{}"), HARNESS)
    chunks = iter(stream.chunks)
    first = next(chunks)
    assert not seen_first.is_set()
    seen_first.set()

    assert (stream.status, first, b"".join(chunks)) == (200, b"first ", b"second")


# -- connections


def test_connections_are_kept_and_a_dead_one_is_noticed(world: World) -> None:
    """One connection serves many requests; one that the server closed meanwhile is not written to."""
    for _ in range(3):
        world.ask("GET", f"{ROOT}/pulls/7")
    assert world.hub.connections == 1

    world.hub.answer = lambda seen: [reply(b"{}", connection="close")]
    world.ask("GET", f"{ROOT}/pulls/7")
    world.hub.answer = lambda seen: [reply(b"{}")]
    assert world.ask("POST", f"{ROOT}/issues", {"title": "x"}).status == 200
    assert world.hub.connections == 2


def test_a_write_whose_answer_was_lost_is_not_sent_twice(world: World) -> None:
    """The server may have acted on it; a read in the same place is simply asked again."""
    world.ask("GET", f"{ROOT}/pulls/7")
    world.hub.answer = lambda seen: []
    with pytest.raises(UpstreamError, match="cut off"):
        world.ask("POST", f"{ROOT}/issues", {"title": "x"})
    assert [seen.method for seen in world.hub.seen] == ["GET", "POST"]


def test_a_read_on_a_connection_that_breaks_is_asked_again(world: World) -> None:
    """The positive control: a GET changes nothing, so a fresh connection is tried once."""
    world.ask("GET", f"{ROOT}/pulls/7")
    answers: list[list[bytes]] = [[], [reply(b'{"again":1}')]]
    world.hub.answer = lambda seen: list(answers.pop(0))

    assert world.ask("GET", f"{ROOT}/pulls/7").body == b'{"again":1}'
    assert (len(world.hub.seen), world.hub.connections) == (3, 2)


def test_many_threads_share_it(world: World) -> None:
    """Read-tier calls of one batch run side by side."""
    answers: list[int] = []
    threads = [
        threading.Thread(target=lambda: answers.append(world.ask("GET", f"{ROOT}/pulls/7").status)) for _ in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert answers == [200] * 12
    assert sorted(data["n"] for type_, data in world.records if type_ == "egress.request") == list(range(1, 13))


# -- redaction


def test_a_comment_that_holds_a_secret_is_redacted_on_its_way_out(world: World) -> None:
    """S3: known values and the shapes of credentials never reach GitHub in a text."""
    world.ask("POST", f"{ROOT}/issues/7/comments", {"body": f"token {KEY}, and AKIAIOSFODNN7EXAMPLE, fine"})
    sent = json.loads(world.hub.seen[0].body)["body"]

    assert KEY not in sent
    assert sent.startswith("token ")
    assert sent.endswith("fine")


def test_a_git_object_that_holds_a_secret_is_refused_not_altered(world: World) -> None:
    """A changed byte would be another tree than the one that was checked."""
    answer = world.ask("POST", f"{ROOT}/git/blobs", {"content": f"x={TOKEN}"}, PUBLISHER)

    assert (answer.code, world.hub.seen, world.store.reads) == ("egress_body_blocked", [], ())
    assert TOKEN not in answer.message + repr(world.records)
    assert world.ask("POST", f"{ROOT}/git/blobs", {"content": "x=1"}, PUBLISHER).status == 200


def test_an_address_that_holds_a_secret_is_refused(world: World) -> None:
    """A path or query is a way out like a body."""
    answer = world.ask("GET", f"{ROOT}/contents/{TOKEN}")

    assert (answer.code, world.hub.seen) == ("egress_path_blocked", [])


def test_a_model_never_sees_a_known_value_in_any_turn(world: World) -> None:
    """History grows turn by turn; the value is caught in the new part, in the old part, and across the seam."""
    history = "a" * 5000
    for text in (history, f"{history} {TOKEN} b", f"{history} {TOKEN} b {KEY}", history + TOKEN[:20]):
        world.ask("POST", "/v1/messages", {"m": text}, connection="model")
    world.ask("POST", "/v1/messages", {"m": history + TOKEN}, connection="model")
    sent = b"".join(seen.body for seen in world.hub.seen)

    assert TOKEN.encode() not in sent
    assert KEY.encode() not in sent
    assert sent.count(b"[redacted:github-token]") == 3
    assert sent.count(b"[redacted:api-key]") == 1


@pytest.mark.parametrize("streamed", [False, True])
def test_an_answer_that_echoes_a_secret_is_redacted_for_the_harness(world: World, streamed: bool) -> None:
    """The harness holds no secret, also none that a server sends back; the broker's own reads are whole."""
    text = f'{{"body":"echo {TOKEN} end"}}'.encode()
    world.hub.answer = lambda seen: [reply(text, content_type="application/json")]
    request = EgressRequest("github", "GET", f"{ROOT}/pulls/7")

    def read(authority: Authority) -> bytes:
        if not streamed:
            return world.egress.send(request, authority).body
        return b"".join(world.egress.stream(request, authority).chunks)

    assert read(HARNESS) == b'{"body":"echo [redacted:github-token] end"}'
    assert read(Authority.broker()) == text


def test_bytes_that_are_no_text_pass_unchanged(world: World) -> None:
    """An archive is not a text; decoding it would break it."""
    data = bytes(range(256)) * 4
    world.hub.answer = lambda seen: [reply(data, content_type="application/zip")]
    request = EgressRequest("github", "GET", f"{ROOT}/pulls/7")

    assert world.egress.send(request, HARNESS).body == data
    assert b"".join(world.egress.stream(request, HARNESS).chunks) == data


def test_a_sending_in_a_traceback_shows_no_header(world: World) -> None:
    """The one object that holds the secret has no representation of it."""
    from agent.broker.egress.attempts import Sending

    request = EgressRequest("github", "GET", f"{ROOT}/pulls/7")
    wire = Policy([github_connection(world.run)]).check(request, HARNESS).wire
    assert wire is not None
    sending = Sending(1, "github", HARNESS, replace(wire, body=b""), {"authorization": TOKEN}, None, 600.0)

    assert repr(sending) == "Sending(1, 'github', 'GET')"
