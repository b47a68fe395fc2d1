"""`python -m agent doctor`: whether a run would work here, line by line, each with what mends it.

Everything is tried or asked, nothing guessed: backends are started and probed, tokens are asked for by reads, hosts
are reached. Nothing is written anywhere but to a temporary folder.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path

from agent import doctor_machine as machine
from agent.broker.config import FILE, Config, read_config
from agent.broker.declared_tools import DeclaredTools
from agent.broker.egress import reach_of
from agent.broker.git.gitdir import Shape, locate, read_head, read_refs, read_shallow
from agent.broker.models import FIRST_KEY, KEYLESS, parse_models
from agent.broker.opening import DEFAULT_MODEL
from agent.broker.policy.declared import declared_connections
from agent.contract.errors import AirlockError, UserError
from agent.doctor_finding import FAIL, OK, WARNING, Finding
from agent.doctor_github import Asker, reachable, token
from agent.named_secrets import take, without_mark

_FACTS = ("GITHUB_API_URL", "GITHUB_REPOSITORY", "GITHUB_WORKSPACE", "RUNNER_ENVIRONMENT", "RUNNER_NAME")
_SIGNS = {OK: "ok", WARNING: "warning", FAIL: "FAIL"}


def main(argv: list[str], environment: Mapping[str, str]) -> int:
    """Print what was found; 0 where nothing failed, 1 where something did, 2 for bad use."""
    parser = _parser(environment)
    options = parser.parse_args(without_mark(argv))
    try:
        if options.repository and not re.fullmatch(r"[^/\s]+/[^/\s]+", options.repository):
            raise UserError(f"--repository {options.repository!r} is not OWNER/NAME.")
        values = take("doctor", argv, dict.fromkeys(options.token_env, "--token-env"), environment)
    except UserError as exc:
        print(f"airlock doctor: {exc}", file=sys.stderr)
        return 2
    found = []
    for finding in examine(options, values):
        found.append(finding)
        if not options.json:
            print(line(finding), flush=True)
    failed = sum(finding.state == FAIL for finding in found)
    if options.json:
        print(json.dumps({"ok": not failed, "findings": [asdict(finding) for finding in found]}, indent=1))
    else:
        warned = sum(finding.state == WARNING for finding in found)
        print(f"\n{len(found)} looked at: {failed} failed, {warned} with a warning.")
    return 1 if failed else 0


def line(finding: Finding) -> str:
    """One finding for a person; what came from elsewhere is shown with its control characters escaped."""
    text = finding.text.encode("unicode_escape").decode() if not finding.text.isprintable() else finding.text
    fix = f"\n{'':10}{'':28}-> {finding.fix}" if finding.fix else ""
    return f"{_SIGNS[finding.state]:10}{finding.topic:28}{text}{fix}"


def examine(
    options: argparse.Namespace, values: Mapping[str, str], *, now: Callable[[], float] = time.time
) -> Iterator[Finding]:
    """Look at everything, in the order in which a run needs it.

    Args:
        values: tokens by variable, and proxies.
    """
    yield from machine.system(options.facts)
    yield from machine.kernel()
    yield from machine.docker(options.image)
    yield from machine.sandboxes(options.sandbox, options.image)
    yield from _workspace(options.workspace)
    config = Config()
    for item in _config(options):
        if isinstance(item, Finding):
            yield item
        else:
            config = item
    if options.offline:
        return
    asker = Asker(options.api_url, reach_of(values, options.ca_certificates), now)
    yield from reachable(asker, "github api", options.api_url)
    yield from _hosts(asker, options, config)
    for name in options.token_env:
        yield from token(asker, name, values[name].strip(), options.repository)  # as a run takes it


def _workspace(folder: Path) -> Iterator[Finding]:
    if not folder.is_dir():
        yield Finding("workspace", FAIL, f"{folder} is no folder", "Name a checkout with --workspace.")
        return
    git = locate(folder)
    if git.shape is Shape.ABSENT or git.path is None or git.common is None:
        text = f"{folder} is no git checkout: only reviews and plans run"
        yield Finding("workspace", WARNING, text, "Add a step uses: actions/checkout before.")
        return
    head = read_head(git.path, read_refs(git.common))[1]
    if head is None:
        yield Finding("workspace", FAIL, f"{folder} has no commit yet", "Make a first commit.")
        return
    shallow = bool(read_shallow(git.common))
    yield Finding(
        "workspace",
        WARNING if shallow else OK,
        f"{folder} at {head[:12]}" + (", without its history; a run fetches the commits it needs" if shallow else ""),
        "Check out with fetch-depth: 0." if shallow else "",
    )


def _config(options: argparse.Namespace) -> Iterator[Finding | Config]:
    """The findings, and the configuration itself where it can be read."""
    path: Path = options.config or options.workspace / FILE
    if not path.is_file():
        if options.config:
            yield Finding("configuration", FAIL, f"{path} is not there", "Name the file with --config.")
        else:
            yield Finding("configuration", OK, f"no {FILE} here: defaults apply")
        return
    try:
        config = read_config(path.read_bytes(), str(path))
        connections = declared_connections(config.connections, reserved_origins=frozenset())
        DeclaredTools(config.tools, connections, [tool.name for tool in config.tools])
        models = parse_models([config.model or DEFAULT_MODEL, *config.fallback_models], config.base_url or "")
    except (AirlockError, OSError) as exc:
        yield Finding("configuration", FAIL, str(exc), "See docs/configuration.md for each key.")
        return
    yield Finding("configuration", OK, f"{path} is valid")
    needed = {attach.secret for connection in connections for attach in connection.attach}
    needed |= {model.secret for model in models if model.secret != FIRST_KEY and model.provider not in KEYLESS}
    if needed:
        yield Finding("secrets", OK, f"the input `secrets` must hold {', '.join(sorted(needed))}")
    yield config


def _hosts(asker: Asker, options: argparse.Namespace, config: Config) -> Iterator[Finding]:
    """The model's hosts and those of declared connections."""
    names = [options.model or config.model or DEFAULT_MODEL, *config.fallback_models]
    try:
        models = parse_models(names, options.base_url or config.base_url or "")
    except UserError as exc:
        yield Finding("model", FAIL, str(exc), "Name it as provider/model, with --base-url where it has none.")
        return
    for origin in dict.fromkeys(model.origin for model in models):
        yield from reachable(asker, "model host", origin)
    for name, connection in config.connections.items():
        yield from reachable(asker, f"connection {name}", connection["origin"])


def _parser(environment: Mapping[str, str]) -> argparse.ArgumentParser:
    facts = {name: environment[name] for name in _FACTS if environment.get(name)}
    parser = argparse.ArgumentParser(
        prog="python -m agent doctor",
        description="Say whether a run would work here: machine, kernel, Docker, sandbox, workspace, configuration, "
        "network, clock, tokens. Exit status 0 where nothing failed. Reads alone; no secret is printed.",
    )
    add = parser.add_argument
    add("--workspace", type=Path, default=Path(facts.get("GITHUB_WORKSPACE", ".")), metavar="PATH", help="git checkout")
    add("--config", type=Path, metavar="FILE", help=f"in place of the workspace's {FILE}")
    add(
        "--token-env",
        action="append",
        default=[],
        metavar="NAME",
        help="environment variable that holds a GitHub token to ask about; may be given again",
    )
    add("--repository", default=facts.get("GITHUB_REPOSITORY", ""), metavar="OWNER/NAME", help="what tokens are for")
    add("--api-url", default=facts.get("GITHUB_API_URL", "https://api.github.com"), help="GITHUB_API_URL")
    add("--model", default="", metavar="PROVIDER/MODEL", help="else the configuration's")
    add("--base-url", default="", metavar="URL", help="input `base-url`")
    add("--ca-certificates", default=None, metavar="FILE", help="input `ca-certificates`")
    add("--sandbox", choices=("auto", "process", "container"), default="auto", help="backends to probe")
    add("--image", default="", metavar="IMAGE", help="input `sandbox-image`, for the container backend")
    add("--offline", action="store_true", help="ask nothing of the network")
    add("--json", action="store_true", help="the findings as JSON")
    parser.set_defaults(facts=facts)
    return parser
