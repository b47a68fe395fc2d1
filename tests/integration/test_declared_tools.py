"""The user's own connections and tools, end to end: a second real server, a secret by name, a command (C6, D2)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from tests.support.leaks import hits, in_files
from tests.support.model_server import ModelServer
from tests.support.model_turns import Call, Turn
from tests.support.scenario import World
from tests.support.stub_http import Seen, Stub, reply, serving

SECRET = "osv-" + "Secret0Value" * 3
CONFIG = """\
ai:
  agent:
    denyTools: [DENIED]
  connections:
    advisories:
      origin: ORIGIN
      headers:
        Authorization: {secret: OSV_TOKEN, prefix: "Bearer "}
        X-Team: widgets
      routes:
        - {method: GET, path: "/v1/vulns/{id}", tier: read, query: {lang: {enum: [en, de]}}}
        - method: POST
          path: /v1/notes/{id}
          tier: comment
          query: {notify: {type: boolean}}
          body: {type: object, additionalProperties: false, properties: {text: {type: string, maxLength: 100}}}
  tools:
    - name: look_up_advisory
      tier: read
      description: Look up one advisory.
      schema:
        type: object
        properties: {id: {type: string}, lang: {type: string}}
        required: [id]
      connection: advisories
      route: {method: GET, path: "/v1/vulns/{id}"}
    - name: leave_note
      tier: comment
      description: Leave a note on an advisory.
      schema:
        type: object
        properties: {id: {type: integer}, text: {type: string}, notify: {type: boolean}}
        required: [id, text]
      connection: advisories
      route: {method: POST, path: "/v1/notes/{id}", query: [notify]}
    - name: measure
      tier: shell
      description: Count the lines of a file.
      schema:
        type: object
        properties: {path: {type: string, maxLength: 200}}
        required: [path]
        additionalProperties: false
      command: python3 -c 'import json,sys; print(len(open(json.load(sys.stdin)["path"]).readlines()))'
"""


@pytest.fixture
def service() -> Iterator[Stub]:
    """A second server that echoes what it was sent, headers included, as careless ones do."""
    with serving() as stub:
        stub.answer = lambda seen: [reply(json.dumps({"you_sent": seen.headers, "body": seen.body.decode()}).encode())]
        yield stub


@pytest.fixture
def build(make: Callable[..., World], service: Stub) -> Callable[..., World]:
    """A world whose configuration declares the service."""

    def build(denied: str = "file_issue") -> World:
        return make(config=CONFIG.replace("ORIGIN", service.url).replace("DENIED", denied))

    return build


def run(world: World, calls: list[Call], *, secrets: str = f"OSV_TOKEN={SECRET}\n"):
    """A run that makes each call in a turn of its own; gives result and what the model was sent."""
    event = world.github.event("workflow_dispatch", world.repository)
    turns = [*(Turn(calls=[call]) for call in calls), Turn(text="Done.")]
    with ModelServer(turns) as model:
        inputs = {"mode": "implement", "task": "Look around.", "secrets": secrets}
        result = world.run("workflow_dispatch", event, model, inputs=inputs)
        return result, b"\n".join(request.raw for request in model.requests)


def texts(result) -> list[str]:
    return [str(e["text"]) for e in result.events("tool.result")]


def test_a_declared_tool_sends_its_request_with_the_secret_and_nobody_sees_it(
    build: Callable[..., World], service: Stub
) -> None:
    """Header attached by the broker; the service's echo is redacted before harness, model and transcript."""
    result, sent = run(
        build(),
        [
            Call("look_up_advisory", {"id": "GHSA-1 2", "lang": "de"}),
            Call("leave_note", {"id": 7, "text": "hi", "notify": True}),
        ],
    )

    assert result.exit_status == 0, result.log
    get, post = service.seen
    assert (get.method, get.target, get.body) == ("GET", "/v1/vulns/GHSA-1%202?lang=de", b"")
    assert (post.method, post.target, post.body) == ("POST", "/v1/notes/7?notify=true", b'{"text":"hi"}')
    assert [s.headers["authorization"] for s in service.seen] == [f"Bearer {SECRET}"] * 2
    assert [s.headers["x-team"] for s in service.seen] == ["widgets"] * 2
    assert all("you_sent" in text for text in texts(result)), "the answers did come back"
    assert hits(result.log.encode() + sent, {"secret": SECRET}) == []
    assert in_files(result.results, {"secret": SECRET}) == []


def test_a_value_is_one_segment_and_the_body_is_held_to_the_routes_schema(
    build: Callable[..., World], service: Stub
) -> None:
    """Neither `..` nor a slash leaves its place; then the same tools with honest arguments, as control."""
    result, _ = run(
        build(),
        [
            Call("look_up_advisory", {"id": ".."}),
            Call("look_up_advisory", {"id": "a/../../admin"}),
            Call("look_up_advisory", {"id": "1", "lang": "xx"}),
            Call("leave_note", {"id": 7, "text": "x" * 200}),
            Call("look_up_advisory", {"id": "1"}),
        ],
    )

    codes = [str(e["code"]) for e in result.events("egress.denied")]
    assert codes == ["egress_path_blocked", "egress_path_blocked", "egress_query_blocked", "egress_body_blocked"]
    assert [s.target for s in service.seen] == ["/v1/vulns/1"]


def test_without_the_secret_the_request_is_not_sent(build: Callable[..., World], service: Stub) -> None:
    """409 secret_unavailable, by name."""
    result, _ = run(build(), [Call("look_up_advisory", {"id": "1"})], secrets="")

    assert [e["code"] for e in result.events("egress.denied")] == ["secret_unavailable"]
    assert "'OSV_TOKEN' is not set" in texts(result)[0]
    assert service.seen == []


def test_a_denied_tools_route_is_not_in_the_manifest(build: Callable[..., World], service: Stub) -> None:
    """denyTools closes the route as well, and calling the tool ends the run as blocked."""
    result, _ = run(build("leave_note"), [Call("leave_note", {"id": 7, "text": "hi"})])

    document = result.events("manifest")[0]["document"]
    (connection,) = [c for c in document["connections"] if c["name"] == "advisories"]
    assert [(r["method"], r["paths"]) for r in connection["routes"]] == [("GET", ["/v1/vulns/{id}"])]
    assert (result.outputs["stop-reason"], service.seen) == ("blocked", [])


def test_a_declared_command_runs_in_the_sandbox_though_run_command_is_denied(build: Callable[..., World]) -> None:
    """Its own text with the arguments as data; what is no argument of it is refused."""
    result, _ = run(
        build("run_command"),
        [
            Call("measure", {"path": "README.md"}),
            Call("measure", {"path": "x'; touch /tmp/airlock-declared; '"}),
            Call("measure", {"path": "README.md", "command": "id"}),
        ],
    )

    first, second, third = texts(result)
    assert "\n3\n" in first
    assert "No such file" in second
    assert "command" in third
    commands = result.events("command")
    assert len(commands) == 2
    assert all(c["command"].endswith("\n)") for c in commands)
    assert result.events("manifest")[0]["document"]["commands"].keys() == {"measure"}


def test_seen_is_what_the_stub_saw(service: Stub) -> None:
    """The stub really echoes headers, or the first test would prove nothing."""
    answer = b"".join(
        part for part in service.answer(Seen("GET", "/", {"authorization": SECRET}, b"")) if isinstance(part, bytes)
    )

    assert SECRET.encode() in answer
