"""`python -m agent run`: a run on this machine, on a clone of a repository, by the stages of the action itself.

The user's own repository is read once, by `git clone`, and never changed. Secrets go from the variables that options
name to `entrypoint.py` on its standard input, as the composite action sends them.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from agent.contract.errors import AirlockError, UserError
from agent.contract.inputs import SETTING_INPUTS
from agent.explain import guessed_name
from agent.explain_options import pair
from agent.local_clone import BRANCH, Work, clone, take_work
from agent.local_github import OfflineGitHub, serving
from agent.named_secrets import take, without_mark

ENTRYPOINT = Path(__file__).resolve().parent.parent / "entrypoint.py"
SHOWN_DIFF = 120  # lines of the diff that are printed
_OPTION_INPUTS = ("mode", "task", "model", "base-url")


def main(argv: list[str], environment: Mapping[str, str]) -> int:
    """Run once; returns the run's exit status, 2 for what cannot be started."""
    options = _parser().parse_args(without_mark(argv))
    try:
        wanted = {name: option for option, name in _named(options)}
        values = take("run", argv, wanted, environment)
        return _Local(options, values).run()
    except AirlockError as exc:
        print(f"airlock run: {exc}", file=sys.stderr)
        return 2


class _Local:
    """One run and its folder."""

    def __init__(self, options: argparse.Namespace, values: Mapping[str, str]) -> None:
        self._options = options
        self._values = values
        self._data = options.event.read_bytes()
        self._event = _payload(self._data, options.event)
        if not options.token_env and not options.dry_run:
            raise UserError(
                "A run writes to GitHub and needs a token: --token-env NAME, or --dry-run to write nothing."
            )
        if options.folder is not None and options.folder.exists():
            raise UserError(f"{options.folder} exists. Name a new folder with --folder.")
        self._folder = (options.folder or Path(tempfile.mkdtemp(prefix="airlock-run-"))).resolve()
        self._folder.mkdir(parents=True, exist_ok=True)
        # started by root, commands run as another user, who must get through to the clone and see nothing else
        self._folder.chmod(0o711 if os.geteuid() == 0 else 0o700)
        self._results = self._folder / "results"
        self._clone = self._folder / "work" / (options.repo.resolve().name or "repository")

    def run(self) -> int:
        """Clone, run, tell."""
        repository = self._options.repo.resolve()
        (self._folder / "temp").mkdir()
        self._clone.parent.mkdir(mode=0o711)
        head = clone(repository, self._clone)
        print(f"Clone of {repository} at {head[:12]}: {self._clone}")
        print("What is not committed there is not in it.\n", flush=True)
        with ExitStack() as stack:
            offline = "" if self._options.token_env else stack.enter_context(self._offline())
            status = self._start(self._facts(offline), self._secrets())
        self._tell(status)
        return status

    @contextmanager
    def _offline(self) -> Iterator[str]:
        print("No token: GitHub is not asked. Files of trusted branches are the clone's.")
        known = dict(pair(text, "--actor-permission") for text in self._options.actor_permission)
        github = OfflineGitHub(self._clone, self._folder / "offline", self._repository(), self._event, known)
        with serving(github) as address:
            yield address

    def _repository(self) -> str:
        inside = self._event.get("repository")
        named = inside.get("full_name") if isinstance(inside, dict) else None
        if not self._options.repository and not named:
            raise UserError("The event names no repository. Give --repository OWNER/NAME.")
        return str(self._options.repository or named)

    def _facts(self, offline: str) -> dict[str, str]:
        options = self._options
        sender = self._event.get("sender")
        actor = options.actor or (sender.get("login") if isinstance(sender, dict) else "") or ""
        inputs = dict(pair(text, "--input") for text in options.input)
        unknown = sorted(set(inputs) - SETTING_INPUTS)
        if unknown:
            raise UserError(f"--input {unknown[0]} is no input of a run. See docs/configuration.md for their names.")
        inputs |= {name: value for name in _OPTION_INPUTS if (value := getattr(options, name.replace("-", "_")))}
        inputs["dry-run"] = str(options.dry_run).lower()
        return {
            "GITHUB_EVENT_NAME": options.event_name or guessed_name(self._event),
            "GITHUB_REPOSITORY": self._repository(),
            "GITHUB_ACTOR": actor,
            "GITHUB_TRIGGERING_ACTOR": actor,
            "GITHUB_API_URL": offline or options.api_url,
            "GITHUB_SERVER_URL": offline or options.server_url,
            "GITHUB_WORKSPACE": str(self._clone),
            "RUNNER_TEMP": str(self._folder / "temp"),
            "HOME": str(self._folder / "temp"),  # not the user's: a run looks there for what earlier steps left
            "AIRLOCK_RESULTS": str(self._results),
            **{f"INPUT_{name.upper()}": value for name, value in inputs.items()},
        }

    def _secrets(self) -> dict[str, str]:
        options, values = self._options, self._values
        given = {
            "github-token": options.token_env,
            "push-token": options.push_token_env,
            "api-key": options.api_key_env,
        }
        found = {f"INPUT_{name.upper()}": values[variable] for name, variable in given.items() if variable}
        found.setdefault("INPUT_GITHUB-TOKEN", f"none-{os.urandom(12).hex()}")  # offline: it never leaves
        lines = [f"{name}={values[name]}" for name in options.secret_env]
        named = {option for _, option in _named(options)}
        proxies = {name: value for name, value in values.items() if name not in named}
        return {**found, **proxies, **({"INPUT_SECRETS": "\n".join(lines)} if lines else {})}

    def _start(self, facts: Mapping[str, str], secrets: Mapping[str, str]) -> int:
        """The action's own stages, told everything on standard input."""
        told = "".join(f"{name}={value}\0" for name, value in {**facts, **secrets}.items())
        process = subprocess.Popen(
            [sys.executable, "-I", "-B", str(ENTRYPOINT), "--stdin"],
            env={"PATH": os.defpath, "LANG": "C.UTF-8"},
            cwd=self._folder / "temp",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        # a terminal sends its interrupt to both; the run reports and cleans up, and we wait for that
        signal.signal(signal.SIGINT, lambda *_: None)
        signal.signal(signal.SIGTERM, lambda number, _: process.send_signal(number))
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(told.encode("utf-8", "surrogateescape") + b"\0" + self._data)
        process.stdin.close()
        for line in process.stdout:
            print(readable(line.decode("utf-8", "replace").rstrip("\n")), flush=True)
        return process.wait()

    def _tell(self, status: int) -> None:
        events = _events(self._results / "transcript.jsonl")
        kept = [event for event in events if event["type"] == "egress.dry_run"]
        if self._options.dry_run:
            print(f"\nDry run: {len(kept)} writes would have been made, and none was.")
            if not self._options.api_key_env and not any(event["type"] == "run.start" for event in events):
                print("Without --api-key-env NAME no provider has a key, and only a model that needs none is asked.")
            for event in kept:
                print(f"  {event['method']} {event['path']} ({event['connection']}, {event['bytes']} bytes)")
                print(f"      {json.dumps(event.get('body'), ensure_ascii=True)[:600]}")
        starts = [event for event in events if event["type"] == "run.start"]
        if starts:
            messages = [str(event["message"]) for event in events if event["type"] == "git.commit"]
            self._tell_work(starts[0].get("head_sha"), "\n\n".join(messages) or "Work of a local run of Airlock")
        print(f"\nexit status  {status}\ntranscript   {self._results / 'transcript.jsonl'}")
        print(f"as a page    {self._results / 'transcript.html'}\nfolder       {self._folder} (yours to remove)")

    def _tell_work(self, start: str | None, message: str) -> None:
        try:
            work = take_work(self._clone, self._folder / "after", start, self._results, message)
        except AirlockError as exc:
            print(f"\nThe work is in {self._clone} and could not be made a branch: {exc}")
            return
        if work is None:
            print("\nNo file was changed.")
            return
        _show(work)
        print(f"\nto fetch it  git -C {self._options.repo} fetch {self._clone} {BRANCH}:{BRANCH}")


def _show(work: Work) -> None:
    lines = work.diff.read_text(encoding="utf-8", errors="replace").splitlines()
    print(f"\nThe work ({len(work.files)} files, {work.diff}):")
    for line in lines[:SHOWN_DIFF]:
        print("  " + line.encode("unicode_escape").decode() if not line.isprintable() else "  " + line)
    if len(lines) > SHOWN_DIFF:
        print(f"  … {len(lines) - SHOWN_DIFF} lines more")
    for problem in work.problems:
        print(f"  {problem}")


def readable(line: str) -> str:
    """A line of the job's log as the runner's page shows it."""
    if line == "::endgroup::":
        return ""
    if line.startswith("::group::"):
        return f"-- {line.removeprefix('::group::')}"
    if line.startswith("::"):
        return line.partition("::")[2].partition("::")[2].replace("%0A", " ").replace("%25", "%")
    return line


def _payload(data: bytes, path: Path) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as exc:
        raise UserError(f"{path} is not JSON. Give the payload as GITHUB_EVENT_PATH has it.") from exc
    if not isinstance(value, dict):
        raise UserError(f"{path} holds no event. Give the payload as GITHUB_EVENT_PATH has it.")
    return value


def _events(transcript: Path) -> list[dict[str, Any]]:
    if not transcript.exists():
        return []
    return [json.loads(line) for line in transcript.read_text(encoding="utf-8").splitlines()]


def _named(options: argparse.Namespace) -> list[tuple[str, str]]:
    """Each option that names a variable, and the variable."""
    single = (("--token-env", options.token_env), ("--push-token-env", options.push_token_env))
    rows = [*single, ("--api-key-env", options.api_key_env), *(("--secret-env", name) for name in options.secret_env)]
    return [(option, name) for option, name in rows if name]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m agent run",
        description="Run on this machine, on a clone of a repository; with --dry-run print every write instead of "
        "making it. Without a token a dry run asks GitHub nothing and takes event and clone for what is there.",
    )
    add = parser.add_argument
    add("--event", type=Path, required=True, metavar="FILE", help="payload, as GITHUB_EVENT_PATH has it")
    add("--event-name", default="", metavar="NAME", help="GITHUB_EVENT_NAME; else guessed from the payload")
    add("--repo", type=Path, default=Path("."), metavar="PATH", help="git checkout to clone (default: this folder)")
    add("--dry-run", action="store_true", help="send nothing that changes anything, and print what was kept back")
    add("--mode", default="auto", help="input `mode`")
    add("--task", default="", help="input `task`")
    add("--model", default="", metavar="PROVIDER/MODEL", help="input `model`")
    add("--base-url", default="", metavar="URL", help="input `base-url`")
    add("--api-key-env", default="", metavar="NAME", help="environment variable that holds the provider's key")
    add("--token-env", default="", metavar="NAME", help="environment variable that holds the GitHub token")
    add("--push-token-env", default="", metavar="NAME", help="the same for the input `push-token`")
    add("--secret-env", action="append", default=[], metavar="NAME", help="a secret of a declared connection")
    add("--input", action="append", default=[], metavar="NAME=VALUE", help="another input of the action")
    add("--repository", default="", metavar="OWNER/NAME", help="else the payload's")
    add("--actor", default="", metavar="LOGIN", help="GITHUB_ACTOR; else the payload's sender")
    add(
        "--actor-permission",
        action="append",
        default=[],
        metavar="LOGIN=LEVEL",
        help="without a token: admin, write, read or none; who is not named counts as an outsider",
    )
    add("--api-url", default="https://api.github.com", help="GITHUB_API_URL")
    add("--server-url", default="https://github.com", help="GITHUB_SERVER_URL")
    add("--folder", type=Path, metavar="DIR", help="a new folder for clone and results (default: a temporary one)")
    return parser


__all__ = ["main", "readable"]
