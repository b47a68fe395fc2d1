"""The built-in connections github, git and model, compiled from `routes.json` for one repository.

In the data file `~` stands for the run's own repository (`/repos/{owner}/{name}`, and for reads the numeric
form of it), and a text `$name` for a value of `RunParameters`. Everything else is literal. `tools` names who may use
a route: any of its entries, and of an entry such as `github_request get_issue` all tools together, since the first
would read what only the second is offered for; `media` says the same of single forms of a route's answer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from agent.broker.policy.route import RESPONSE_CAP, Connection, Never, Route
from agent.broker.policy.template import Template, compile_template
from agent.broker.policy.words import OFFER_GATE, PUBLISHER_GATE, Attach
from agent.contract.dataclass import dataclass
from agent.contract.errors import UserError
from agent.contract.modes import Tier
from agent.contract.schema import check_schema

GITHUB, GIT, MODEL = "github", "git", "model"
API_VERSION = "2022-11-28"  # the version that the routes' bodies are written for
USER_AGENT = "airlock-agent"
MODEL_TIMEOUT_S = 600.0  # a long answer may be silent while the model thinks; the run's clock is the real cap


@dataclass(frozen=True)
class RunParameters:
    """What makes the built-in routes this run's.

    Attributes:
        repository: `owner/name`.
        repository_id: for the numeric form; None leaves that form out.
        api_url, server_url: GITHUB_API_URL and GITHUB_SERVER_URL.
        branch_prefix: own branches begin with it, and it ends in `/`, `-`, `_` or `.`.
        further_branches: exact names that may be pushed as well (the pull request's own head, S4).
        never_branches: default, base and protected branches; they beat `further_branches` and the prefix.
        labels: labels that may be set and taken off.
        request_changes: configuration lets reviews request changes; approving is never possible.
        log_hosts: further hosts (`host` or `host:port`) that logs may come from.
        tools: names of the offered tools; routes that none of them uses are closed to the harness. None, before
            they are known, closes none.
    """

    repository: str
    repository_id: int | None
    api_url: str = "https://api.github.com"
    server_url: str = "https://github.com"
    branch_prefix: str = "airlock/"
    further_branches: tuple[str, ...] = ()
    never_branches: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    request_changes: bool = False
    log_hosts: tuple[str, ...] = ()
    tools: tuple[str, ...] | None = None


def github_connection(run: RunParameters, *, check: bool = False) -> Connection:
    """The REST API for this repository alone.

    Args:
        check: also check schemas, examples and the never list; a test does, a run need not.

    Raises:
        UserError: the repository or an address is malformed; with check, an example fails.
    """
    data = _data()
    origin, base, insecure = split_address("GITHUB_API_URL", run.api_url)
    values = _values(run)
    routes = tuple(_route(entry, data, values, run) for entry in data["github"])
    never = tuple(
        Never(method, _template(path.replace("~", f"/repos/{run.repository}")), why)
        for method, path, why in data["never"]
    )
    redirects = {kind: tuple(hosts) for kind, hosts in data["redirects"].items()}
    own = urlsplit(run.api_url).hostname or ""
    redirects["logs"] += tuple(_literal(host) for host in run.log_hosts)
    if own != "api.github.com":  # GHES serves archives from its own host
        redirects["archive"] += (_literal(urlsplit(run.server_url).netloc), _literal(f"codeload.{own}"))
    connection = Connection(
        name=GITHUB,
        origin=origin,
        base=base,
        routes=routes,
        attach=(Attach("authorization", "github-token", prefix="Bearer "),),
        fixed=(("x-github-api-version", API_VERSION), ("user-agent", USER_AGENT), ("accept-encoding", "gzip")),
        caller_headers={"accept": frozenset(data["accept"])},
        never=never,
        redirects=redirects,
        insecure=insecure,
    )
    if check:
        check_examples(connection, run)
    return connection


def git_connection(run: RunParameters) -> Connection:
    """Smart HTTP fetch of this repository, upload-pack alone: nothing can be pushed this way."""
    data = _data()
    origin, base, insecure = split_address("GITHUB_SERVER_URL", run.server_url)
    return Connection(
        name=GIT,
        origin=origin,
        base=base,
        routes=tuple(_route(entry, data, _values(run), run) for entry in data["git"]),
        attach=(Attach("authorization", "github-token", basic_user="x-access-token"),),
        fixed=(("user-agent", f"git/{USER_AGENT}"),),
        caller_headers={"accept": None, "content-type": None, "git-protocol": None},
        insecure=insecure,
    )


def model_connection(
    *,
    name: str,
    origin: str,
    path: str,
    header: str,
    scheme: str,
    secret: str = "api-key",  # noqa: S107  the secret's name
    fixed: Sequence[tuple[str, str]] = (),
    query: Sequence[tuple[str, str]] = (),
) -> Connection:
    """One model server: one route, any body, streamed answer.

    Args:
        name: `model`, or `model-1` and so on for a fallback.
        header, scheme: where the key goes; an empty header sends no key.
        query: exactly this, and nothing else.
    """
    return Connection(
        name=name,
        origin=origin,
        base="",
        routes=(
            Route(
                id=f"{name}.call",
                method="POST",
                templates=(compile_template(path, {}),),
                tier=Tier.READ,
                query={key: {"const": value} for key, value in query},
                required_query=tuple(key for key, _ in query),
                opaque_body=True,
                match=(path,),
            ),
        ),
        attach=(Attach(header.lower(), secret, prefix=scheme),) if header else (),
        fixed=(("content-type", "application/json"), ("user-agent", USER_AGENT), *fixed),
        caller_headers={"accept": None},
        insecure=origin.startswith("http:"),
        timeout_s=MODEL_TIMEOUT_S,
    )


def split_address(name: str, url: str) -> tuple[str, str, bool]:
    """Origin, base path and whether it is plain http.

    Raises:
        UserError: not an http(s) address without user, query and fragment.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port, parts = None, None, urlsplit("")
    if parts.scheme not in {"http", "https"} or not host or "@" in parts.netloc or parts.query or parts.fragment:
        raise UserError(f"{name} must be an address of the form https://host[:port][/path], without user or query.")
    shown = f"[{host}]" if ":" in host else host
    origin = f"{parts.scheme}://{shown}" + (f":{port}" if port else "")
    return origin, parts.path.rstrip("/"), parts.scheme == "http"


def check_examples(connection: Connection, run: RunParameters) -> None:
    """Hold every rule to its own examples, and no rule to what is never allowed.

    Raises:
        UserError: an example that must match does not, one that must not does, or a route reaches a never.
    """
    from agent.broker.policy.path import BadPath, split_path

    for route in connection.routes:
        for schema in [*route.query.values(), *route.params.values(), *([route.body] if route.body else [])]:
            check_schema(schema)
        for text, wanted in [*((m, True) for m in route.match), *((n, False) for n in route.not_match)]:
            segments = split_path(_fill(text, _values(run), run))
            found = None if isinstance(segments, BadPath) else route.path_parameters(segments)
            matched = found is not None and route.parameter_problem(found) is None
            if matched != wanted:
                raise UserError(f"Route {route.id}: the path {text} {'must' if wanted else 'must not'} match.")
            if matched and not isinstance(segments, BadPath):
                for never in connection.never:
                    if never.method == route.method and never.template.match(segments) is not None:
                        raise UserError(f"Route {route.id} reaches {text}, which is never allowed: {never.why}.")


@lru_cache(maxsize=1)
def _data() -> dict[str, Any]:
    data = json.loads(Path(__file__).with_name("routes.json").read_bytes())
    assert isinstance(data, dict)
    return data


def _values(run: RunParameters) -> dict[str, Any]:
    owner, separator, name = run.repository.partition("/")
    if not separator or not owner or not name or "/" in name:
        raise UserError("The repository must be named owner/name.")
    prefix = run.branch_prefix
    if not prefix or prefix[-1] not in "/-_.":
        # With `m`, every branch that begins with m would be our own, `main` among them.
        raise UserError("ai.agent.branchPrefix must end in /, -, _ or a dot.")
    # A pull request may be based on a branch of our prefix: then that one is not ours to push.
    never = {branch.casefold() for branch in run.never_branches}
    further = [branch for branch in run.further_branches if branch.casefold() not in never]
    return {
        "owner": owner,
        "repo": name,
        "prefix": prefix,
        "own_branch": prefix,
        "own_ref": f"heads/{prefix}",
        "own_full_ref": f"refs/heads/{prefix}",
        "further_branches": further,
        "further_refs": [f"heads/{branch}" for branch in further],
        "never_refs": [f"heads/{branch}" for branch in run.never_branches],
        "never_full_refs": [f"refs/heads/{branch}" for branch in run.never_branches],
        "labels": list(run.labels),
        "review_events": ["COMMENT", "REQUEST_CHANGES"] if run.request_changes else ["COMMENT"],
    }


def _route(entry: Mapping[str, Any], data: Mapping[str, Any], values: Mapping[str, Any], run: RunParameters) -> Route:
    path = entry["path"]
    paths = [_fill(path, values, run)]
    if path.startswith("~") and entry["method"] == "GET" and run.repository_id is not None:
        paths.append(path.replace("~", f"/repositories/{run.repository_id}", 1))
    body = entry.get("body")
    return Route(
        id=entry["id"],
        method=entry["method"],
        templates=tuple(map(_template, paths)),
        tier=Tier(entry["tier"]),
        query={name: data["query"][name] for name in entry.get("query", ())},
        required_query=tuple(entry.get("required_query", ())),
        body=substitute(data["bodies"][body], values) if body not in (None, "opaque") else None,
        opaque_body=body == "opaque",
        params={name: substitute(schema, values) for name, schema in entry.get("params", {}).items()},
        gate=_gate(entry, run),
        secret=entry.get("secret"),
        redirect=entry.get("redirect"),
        response_cap=entry.get("response_cap", RESPONSE_CAP),
        closed_media=frozenset(m for m, tools in entry.get("media", {}).items() if not _used(tools, run)),
        repeatable=entry.get("repeatable", entry["method"] == "GET"),
        match=tuple(entry["match"]),
        not_match=tuple(entry["not_match"]),
    )


@lru_cache(maxsize=512)  # a run makes the connection twice, before and after its configuration is known
def _template(path: str) -> Template:
    return compile_template(path, _data()["params"])


def _gate(entry: Mapping[str, Any], run: RunParameters) -> str | None:
    """The route's own gate, or the one that stays closed because no offered tool uses the route."""
    gate: str | None = entry.get("gate")
    kept = gate == PUBLISHER_GATE or entry["tier"] == Tier.GIT or _used(entry["tools"], run)
    return gate if kept else OFFER_GATE


def _used(tools: Sequence[str], run: RunParameters) -> bool:
    """Whether an entry of `tools` is offered; everything is before the offer is known."""
    return run.tools is None or any(set(together.split()) <= set(run.tools) for together in tools)


def substitute(schema: Any, values: Mapping[str, Any]) -> Any:
    """A copy of the schema with each text `$name` replaced by the run's value of that name."""
    if isinstance(schema, dict):
        return {key: substitute(value, values) for key, value in schema.items()}
    if isinstance(schema, list):
        return [substitute(value, values) for value in schema]
    if isinstance(schema, str) and schema.startswith("$") and schema[1:] in values:
        return values[schema[1:]]
    return schema


def _fill(text: str, values: Mapping[str, Any], run: RunParameters) -> str:
    if text.startswith("~"):
        text = f"/repos/{run.repository}" + text[1:]
    for name in ("owner", "repo", "prefix"):
        text = text.replace(f"${name}", values[name])
    return text


def _literal(host: str) -> str:
    return "".join(char if char.isalnum() or char == "-" else f"\\{char}" for char in host)
