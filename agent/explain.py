"""`python -m agent explain` and `manifest`: what a run may do, without running anything and without a network (D8).

The same code decides as in a run (`agent.broker.opening`). What a run asks GitHub comes here from options, from the
checkout at hand, or is assumed and said to be; so the digest is the run's own where every fact is the run's own.
"""

from __future__ import annotations

import argparse
import base64
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from agent.broker.event import Skip
from agent.broker.github import GitHubApi
from agent.broker.manifest import render
from agent.broker.opening import Opening, decide_run, event_of
from agent.broker.settings import Settings, read_settings
from agent.contract.errors import AirlockError, UpstreamError, UserError
from agent.contract.inputs import SETTING_INPUTS
from agent.explain_options import check, pair, parser_of, pull_of

NO_COMMIT = "0" * 40


def main(argv: list[str], *, command: str = "explain") -> int:
    """Print what a run on this event could do; returns the exit status."""
    options = parser_of(command).parse_args(argv)
    try:
        print(explained(options), end="")
    except AirlockError as exc:
        print(f"airlock {command}: {exc}", file=sys.stderr)
        return 2
    return 0


def explained(options: argparse.Namespace) -> str:
    """The text for these options.

    Raises:
        UserError, UpstreamError: event, configuration or options are wrong.
        OSError: a named file cannot be read.
    """
    check(options)
    event = options.event.read_bytes() if options.event else json.dumps(_dispatch(options)).encode()
    settings = _settings(options, event)
    trigger = event_of(settings, event)
    if isinstance(trigger, Skip):
        return _nothing(trigger)
    api = AssumedGitHub(options, event, settings.config_path)
    opening = decide_run(api, settings, trigger, api.has_secret)
    if isinstance(opening, Skip):
        return _nothing(opening)
    if options.json:
        return opening.manifest.text + "\n"
    return _facts(opening) + render(opening.manifest) + _assumed(api)


class AssumedGitHub(GitHubApi):
    """GitHub as the options, the checkout and the event make it out to be; what is a guess is kept in `assumed`."""

    def __init__(self, options: argparse.Namespace, event: bytes, config_path: str) -> None:
        self._options = options
        try:
            payload = json.loads(event)
        except ValueError:
            payload = {}
        self._payload: dict[str, Any] = payload if isinstance(payload, dict) else {}
        self._given = dict(pair(text, "--actor-permission") for text in options.actor_permission)
        self._pull_given = pull_of(options.pull)
        self._commit: str = options.commit or NO_COMMIT
        self._folder: Path = options.root
        self._overlay = {config_path: options.config.read_bytes()} if options.config else {}
        self.assumed: dict[str, None] = {}

    def get(
        self,
        path: str,
        *,
        step: str,
        query: Mapping[str, Any] | None = None,
        accept: str = "",
        timeout_s: float | None = None,
    ) -> Any:
        """What GitHub would answer.

        Raises:
            UpstreamError: nobody said.
        """
        del query, accept, timeout_s
        kind, _, rest = path.partition("/")
        if path == "":
            return {"default_branch": self._guess("the default branch is main", "main")}
        if path.startswith("git/ref/heads/"):
            if self._commit == NO_COMMIT:
                self._guess(f"branch {path[14:]} stands at {NO_COMMIT[:7]}… (--commit)", None)
            return {"object": {"sha": self._commit}}
        if path.startswith("git/trees/"):
            return {"tree": self._tree(path[len("git/trees/") :])}
        if path.startswith("git/blobs/"):
            return {"content": base64.b64encode(self._file(path[len("git/blobs/at:") :]) or b"").decode()}
        if kind == "collaborators":
            return self._permission(rest.partition("/")[0], step)
        if kind == "pulls" and not rest.startswith("comments/"):
            pull = self._pull(rest, step)
            return pull if rest else [pull]
        return self._text(path, step)

    def paged(
        self, path: str, *, step: str, key: str | None = None, query: Mapping[str, Any] | None = None, pages: int = 1
    ) -> Iterator[Any]:
        """Jobs and checks: one that failed, unless told otherwise."""
        del step, key, query, pages
        if path.startswith(("actions/runs/", "commits/")) and not self._options.no_failing_check:
            self._guess("a check has failed (--no-failing-check)", None)
            yield {"conclusion": "failure"}

    def request(self, method: str, path: str, **_: Any) -> Any:
        """Nothing leaves."""
        raise UpstreamError(f"{method} {path}", "explain asks nobody")

    def has_secret(self, name: str) -> bool:
        """No value is needed to say what a run could do."""
        return bool(self._guess(f"the input {name} is given", True))

    def _guess(self, sentence: str, value: Any) -> Any:
        self.assumed[sentence] = None
        return value

    def _permission(self, login: str, step: str) -> dict[str, Any]:
        if login not in self._given:
            self._guess(f"{login} is nobody who may write (--actor-permission {login}=write)", None)
            raise UpstreamError(step, f"not given; say --actor-permission {login}=write")
        return {"permission": self._given[login], "user": {"login": login}}

    def _pull(self, number: str, step: str) -> Mapping[str, Any]:
        if self._pull_given is not None:
            return self._pull_given
        inside = self._payload.get("pull_request")
        if isinstance(inside, dict):
            return inside
        raise UpstreamError(step, f"pull request {number} is not in the event; give it with --pull FILE")

    def _text(self, path: str, step: str) -> Mapping[str, Any]:
        for name in ("comment", "issue"):
            found = self._payload.get(name)
            if isinstance(found, dict) and path.startswith(("issues/", "pulls/comments/")):
                return self._guess(f"the {name} is unedited since the event", found)  # type: ignore[no-any-return]
        raise UpstreamError(step, "explain asks nobody")

    def _tree(self, sha: str) -> list[dict[str, str]]:
        """Entries of a folder of the checkout, which stands for the trusted commits' tree."""
        self._guess(f"the files of {self._folder} are those of the default and the base branch (--root)", None)
        folder = sha.removeprefix("at:") if sha.startswith("at:") else ""
        prefix = f"{folder}/" if folder else ""
        names = {path[len(prefix) :].partition("/")[0] for path in self._overlay if path.startswith(prefix)}
        place = self._folder / folder
        names |= {entry.name for entry in place.iterdir() if not entry.is_symlink()} if place.is_dir() else set()
        return [self._entry(prefix + name, name) for name in sorted(names)]

    def _entry(self, path: str, name: str) -> dict[str, str]:
        blob = path in self._overlay or (self._folder / path).is_file()
        kind, mode = ("blob", "100644") if blob else ("tree", "040000")
        return {"path": name, "type": kind, "mode": mode, "sha": f"at:{path}"}

    def _file(self, path: str) -> bytes | None:
        return self._overlay[path] if path in self._overlay else (self._folder / path).read_bytes()


def _dispatch(options: argparse.Namespace) -> dict[str, Any]:
    """A manual start, where no event is given."""
    return {"repository": {"full_name": options.repository or "owner/name", "default_branch": "main"}}


def _settings(options: argparse.Namespace, event: bytes) -> Settings:
    try:
        payload = json.loads(event)
    except ValueError as exc:
        raise UserError(f"{options.event} is not JSON.") from exc
    payload = payload if isinstance(payload, dict) else {}
    repository, sender = payload.get("repository"), payload.get("sender")
    named = repository.get("full_name") if isinstance(repository, dict) else None
    login = sender.get("login") if isinstance(sender, dict) else None
    inputs = dict(pair(text, "--input") for text in options.input)
    unknown = sorted(set(inputs) - SETTING_INPUTS)
    if unknown:
        raise UserError(f"--input {unknown[0]} decides nothing. Those that do: {', '.join(sorted(SETTING_INPUTS))}.")
    actor = options.actor or login or ""
    plan: dict[str, Any] = {
        "mode": options.mode,
        **inputs,
        "GITHUB_EVENT_NAME": options.event_name or guessed_name(payload),
        "GITHUB_REPOSITORY": options.repository or named or "owner/name",
        "GITHUB_ACTOR": actor,
        "GITHUB_TRIGGERING_ACTOR": actor,
        "GITHUB_API_URL": options.api_url,
        "GITHUB_SERVER_URL": options.server_url,
        "GITHUB_WORKSPACE": str(options.root),
        "airlock.state": "",
        "airlock.results": "",
        "airlock.uid": 0,
        "airlock.gid": 0,
    }
    return read_settings(plan)


def guessed_name(payload: Mapping[str, Any]) -> str:
    """The event's name by what its payload holds; a pull_request_target looks like a pull_request."""
    if "workflow_run" in payload:
        return "workflow_run"
    if "comment" in payload:
        return "pull_request_review_comment" if "pull_request" in payload else "issue_comment"
    if "pull_request" in payload:
        return "pull_request"
    return "issues" if "issue" in payload else "schedule" if "schedule" in payload else "workflow_dispatch"


def _nothing(skip: Skip) -> str:
    return f"nothing is done: {skip.sentence}\n"


def _facts(opening: Opening) -> str:
    """Who and what was looked at; the fact that set the ceiling is marked."""
    rows = []
    for fact in opening.gate.facts:
        sets = "<- sets the ceiling" if fact.reason == opening.gate.reason else ""
        rows.append(f"fact        {fact.about}: {fact.ceiling.name.lower()}. {fact.reason} {sets}".rstrip())
    return "\n".join([f"event       {opening.trigger.event} on {opening.trigger.repository}", *rows, ""])


def _assumed(api: AssumedGitHub) -> str:
    return "".join(f"assumed     {sentence}\n" for sentence in api.assumed)
